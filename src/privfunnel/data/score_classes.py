"""Score classes: public symbols grouped by an estimate of p(s|x), for tables too wide to count p(s|x) in.

Where most public symbols have one row or two, their own shares of private symbols are chance. Here a classifier of S is
*cross-fitted*: a hash of its categories deals every public symbol to one of several parts, and the score of a symbol
comes from a model that was fitted on the other parts, so that no row has a say in its own class. Symbols with similar
scores form a class T, and

    p(s|x) is taken to be p(s|t(x)), counted over all rows of the class,

which calibrates the score: whatever the models say, the shares are counted on rows that they did not see. Members of a
class then have equal p(s|x), so that the funnel of the classes is exact (:mod:`privfunnel.model.equal_symbols`) and
decoys come from the classes. A public symbol that is new has its part, its score and its class by the same rule: t(x)
is one function of x, so that new rows and the decoys beside them are alike, and shares counted on rows hold for new
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines import Alphabet, Column
from privfunnel.data.engines.categories import Codes
from privfunnel.data.score_model import Cells, Trees, fitted
from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.storage import Document
from privfunnel.measures import Array, entropy, mutual_information
from privfunnel.model.amounts import in_asked

#: Parts of the public symbols, each scored by a model of the others.
FOLDS = 5
PREFIX = "score:"


def parse_classes(text: str) -> int:
    """The number of classes of ``"score:16"``.

    Raises:
        InvalidInputError: It is no such text.
    """
    number = text.removeprefix(PREFIX) if isinstance(text, str) else ""
    if not isinstance(text, str) or not text.startswith(PREFIX) or not number.isdecimal() or int(number) < 2:
        raise InvalidInputError(
            f"classes {text!r} cannot be made: give score: and a number of 2 or more, e.g. score:16"
        )
    return int(number)


@dataclass(frozen=True, eq=False)
class ScoreClasses:
    """Classes of public symbols, and the score by which further ones are classed.

    Attributes:
        asked: How many classes were asked for.
        seed: Fixes parts and models.
        of_x: Class of each public symbol, shape (M,), numbered from 0 by score, none empty.
        table: n(s, t), rows of each private symbol in each class, shape (K, C).
        edges: Of two private symbols: the scores between classes, rising, shape (C − 1,).
        centres: Of more: the middle p̂(s|x) of each class, shape (C, K); of two it is empty.
        models: The models, one for each part.
        log_loss: Of the score on rows that it did not see, nats a row; ``h_s`` that of the shares alone, H(S).
    """

    asked: int
    seed: int
    of_x: Codes
    table: Array
    edges: Array
    centres: Array
    models: tuple[Trees, ...]
    log_loss: float
    h_s: float

    @property
    def n_classes(self) -> int:
        """C, the number of classes: as many as were asked for, unless scores are equal."""
        return int(self.table.shape[1])

    @property
    def rule(self) -> str:
        """What :func:`parse_classes` reads."""
        return f"{PREFIX}{self.asked}"

    @property
    def told(self) -> float:
        """I(S;T) of the rows, in nats: what the classes say about the private columns."""
        return float(mutual_information(self.table / self.table.sum()))

    @property
    def words(self) -> str:
        """What the classes are and how good the score is."""
        score, all_of, classes = (
            in_asked(nats, ".4f") for nats in (max(self.h_s - self.log_loss, 0.0), self.h_s, self.told)
        )
        return (
            f"{len(self.of_x):,} public symbols in {self.n_classes} score classes: on rows that it did not see the "
            f"score tells {score.split()[0]} of {all_of}, its classes {classes.split()[0]}"
        )

    def smoothed(self, n_x: Array) -> Array:
        """The table n(x) p(s|t(x)), shape (K, M), of public symbols with ``n_x`` rows each."""
        total = self.table.sum(axis=0)
        shares = self.table / np.where(total > 0.0, total, 1.0)
        return np.asarray(shares[:, self.of_x] * n_x)

    def classify(self, codes: Codes, columns: Sequence[Column]) -> Codes:
        """Classes of rows of categories, shape (rows, A); negative codes are unknown values."""
        return _placed(self._score(codes, columns), self.edges, self.centres)

    def estimate(self, codes: Codes, columns: Sequence[Column]) -> Array:
        """The score itself, p̂(s|x) of rows of categories, shape (rows, K): what who has the models believes."""
        return np.asarray(np.exp(_log_shares(self._score(codes, columns))))

    def _score(self, codes: Codes, columns: Sequence[Column]) -> Array:
        score = np.zeros((len(codes), len(self.table)))
        part = _parts(codes, len(self.models), self.seed)
        for fold, model in enumerate(self.models):
            score[part == fold] = model.score(codes[part == fold], columns)
        return score

    def of_alphabet(self, alphabet: Alphabet, known: Alphabet, places: Codes) -> Codes:
        """Classes of the symbols of another alphabet of the same columns.

        Args:
            alphabet: The other one.
            known: The alphabet that the classes are of.
            places: Where its symbols are in ``known``; −1 for one that is not there.
        """
        found = np.where(places >= 0, self.of_x[np.maximum(places, 0)], -1)
        new = np.flatnonzero(places < 0)
        if new.size:
            codes = np.stack(
                [_translated(alphabet.codes[new, j], a, b)
                 for j, (a, b) in enumerate(zip(alphabet.columns, known.columns, strict=True))], axis=1
            )  # fmt: skip
            found[new] = self.classify(codes, known.columns)
        return found

    def counted(self, alphabet: Alphabet, known: Alphabet, table: Array) -> ScoreClasses:
        """The same classes for the symbols of another table, with its rows (K, M) counted in them."""
        of_x = self.of_alphabet(alphabet, known, known.places(alphabet))
        return replace(self, of_x=of_x, table=_by_class(table, of_x, self.n_classes))

    def to_dict(self) -> Document:
        """JSON-ready."""
        arrays = {name: getattr(self, name).tolist() for name in ("of_x", "table", "edges", "centres")}
        plain = {name: getattr(self, name) for name in ("asked", "seed", "log_loss", "h_s")}
        return plain | arrays | {"models": [model.to_dict() for model in self.models]}

    @classmethod
    def from_dict(cls, data: Document, alphabet: Alphabet, n_s: int) -> ScoreClasses:
        """Read back what :meth:`to_dict` wrote for the symbols of this alphabet.

        Raises:
            InvalidInputError: The numbers do not fit each other or the alphabet.
        """
        of_x = np.array(data["of_x"], dtype=np.int64)
        table, edges, centres = (
            np.array(data[name], dtype=np.float64) for name in ("table", "edges", "centres")
        )
        models = tuple(Trees.from_dict(each, alphabet.columns, n_s) for each in data["models"])
        size = table.shape[-1]
        fits = (
            of_x.shape == (len(alphabet),)
            and table.shape == (n_s, size)
            and bool(((of_x >= 0) & (of_x < size)).all())
            and bool((np.isfinite(table) & (table >= 0.0)).all() and (table.sum(axis=0) > 0.0).all())
            and _are_borders(edges, centres, (size, n_s))
            and len(models) > 0
            and bool(np.isfinite([data["log_loss"], data["h_s"]]).all())
        )
        if not fits:
            raise InvalidInputError(
                "the score classes of the mechanism do not fit its symbols: the file was changed"
            )
        plain = int(data["asked"]), int(data["seed"])
        return cls(*plain, of_x, table, edges, centres, models, float(data["log_loss"]), float(data["h_s"]))


def score_classes(alphabet: Alphabet, table: Array, size: int, seed: int = 0) -> ScoreClasses:
    """Classes of the public symbols of a table by a cross-fitted score.

    Args:
        alphabet: The M public symbols.
        table: Rows by (s, x), shape (K, M).
        size: How many classes, 2 or more.
        seed: Fixes parts, models and classes.

    Raises:
        InvalidInputError: There are fewer symbols than classes.
        MissingExtraError: scikit-learn is not installed.
    """
    n_s, n_x = table.shape
    if n_x < max(size, FOLDS):
        raise InvalidInputError(
            f"{n_x} public symbols cannot be put into {size} classes: ask for fewer, or leave the classes out, since a "
            "table with so few symbols can be counted"
        )
    need("sklearn", "audit")
    rng = np.random.default_rng(seed)
    part = _parts(alphabet.codes, FOLDS, seed)
    s, x = np.nonzero(table)
    cells = Cells(alphabet.codes[x], s.astype(np.int64), table[s, x])
    models = []
    for fold in range(FOLDS):
        others = part[x] != fold
        models.append(fitted(Cells(*(each[others] for each in cells)), alphabet.columns, n_s, seed + fold))
    stages, score = _best(models, alphabet, part, table)
    weight = table.sum(axis=0)
    edges, centres = _borders(score, weight, size, rng)
    edges, centres, of_x = _without_empty(edges, centres, _placed(score, edges, centres))
    total = table.sum(axis=1) / table.sum()
    return ScoreClasses(
        asked=size,
        seed=seed,
        of_x=of_x,
        table=_by_class(table, of_x, int(of_x.max()) + 1),
        edges=edges,
        centres=centres,
        models=tuple(model.first(stages) for model in models),
        log_loss=_log_loss(score, table),
        h_s=float(entropy(total)),
    )


def _parts(codes: Codes, size: int, seed: int) -> Codes:
    """The part of each row of categories, a hash of them: the same for new rows as for those of the design."""
    mixed = np.full(len(codes), seed & 0xFFFFFFFF, dtype=np.uint64)
    for column in codes.T:
        mixed = mixed + np.maximum(column, -1).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    return np.asarray(mixed % np.uint64(size)).astype(np.int64)


def _best(models: Sequence[Trees], alphabet: Alphabet, part: Codes, table: Array) -> tuple[int, Array]:
    """The number of stages with the least log loss on symbols that a model did not see, and their scores (M, K)."""
    n_s = len(table)
    own = [np.flatnonzero(part == fold) for fold in range(len(models))]
    staged = [
        model.staged(model.seen(alphabet.codes[some], alphabet.columns))
        for model, some in zip(models, own, strict=True)
    ]
    best, stages, kept = np.inf, 0, np.zeros((part.size, n_s))
    score = np.zeros((part.size, n_s))
    # A model of a part without one of the private symbols has fewer trees: its last stage stands for later ones.
    for stage in range(1 + max(len(model.root) for model in models)):
        moved = False
        for each, some in zip(staged, own, strict=True):
            found = next(each, None)
            if found is not None:
                score[some], moved = found, True
        if not moved:
            break
        loss = _log_loss(score, table)
        if loss < best:
            best, stages, kept = loss, stage, score.copy()
    return stages, kept


def _log_loss(score: Array, table: Array) -> float:
    """Mean −log p̂(s|x) over the rows of a table (K, M), nats."""
    return float(-(table.T * _log_shares(score)).sum() / table.sum())


def _log_shares(score: Array) -> Array:
    top = score.max(axis=1, keepdims=True)
    return np.asarray(score - top - np.log(np.exp(score - top).sum(axis=1, keepdims=True)))


def _borders(score: Array, weight: Array, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Edges between classes of about equal weight on the line of two symbols' scores, or centres of more symbols'."""
    if score.shape[1] <= 2:
        line = _line(score)
        order = np.argsort(line, kind="stable")
        upto = np.cumsum(weight[order]) / weight.sum()
        cuts = np.searchsorted(upto, np.arange(1, size) / size - 1e-12)
        return np.unique(line[order][np.minimum(cuts, line.size - 1)]), np.zeros((0, score.shape[1]))
    cluster = need("sklearn.cluster", "audit")
    shares = np.exp(_log_shares(score))
    model = cluster.KMeans(n_clusters=min(size, len(np.unique(shares, axis=0))), n_init=3,
                           random_state=int(rng.integers(2**31)))  # fmt: skip
    model.fit(shares, sample_weight=weight)
    return np.zeros(0), np.round(np.asarray(model.cluster_centers_), 9)


def _are_borders(edges: Array, centres: Array, shape: tuple[int, int]) -> bool:
    """Whether a file's numbers part the scores into C classes of K symbols, ``shape``: by edges, or by centres."""
    if centres.size:
        return edges.size == 0 and centres.shape == shape and bool(np.isfinite(centres).all())
    rising = bool(np.isfinite(edges).all() and (np.diff(edges) > 0.0).all())
    return shape[1] <= 2 and edges.shape == (shape[0] - 1,) and rising


def _line(score: Array) -> Array:
    """The score of the second symbol over the first; 0 where there is one symbol."""
    return np.asarray(score[:, -1] - score[:, 0])


def _placed(score: Array, edges: Array, centres: Array) -> Codes:
    """The class of each score; a score on an edge belongs to the class below."""
    if not len(centres):
        return np.asarray(np.searchsorted(edges, _line(score)), dtype=np.int64)
    shares = np.exp(_log_shares(score))
    away = (centres**2).sum(axis=1) - 2.0 * shares @ centres.T
    return np.asarray(np.argmin(away, axis=1), dtype=np.int64)


def _without_empty(edges: Array, centres: Array, of_x: Codes) -> tuple[Array, Array, Codes]:
    """Borders and classes without those that have no members."""
    used, numbered = np.unique(of_x, return_inverse=True)
    if len(centres):
        return edges, centres[used], numbered.reshape(-1).astype(np.int64)
    return edges[used[:-1]], centres, numbered.reshape(-1).astype(np.int64)


def _by_class(table: Array, of_x: NDArray[np.int64], size: int) -> Array:
    return np.stack([np.bincount(of_x, row, size) for row in table])


def _translated(codes: Codes, own: Column, known: Column) -> Codes:
    """Categories of one column as those of the same column in another table; −1 for a value that is new there."""
    places = {value: code for code, value in enumerate(known.values)}
    table = np.array([places.get(value, -1) for value in own.values], dtype=np.int64)
    return np.asarray(table[codes])
