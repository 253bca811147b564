"""A score of the private symbols: boosted trees on categories, held as arrays, so that a file of numbers is the model.

The trees are fitted by scikit-learn (:func:`fitted`, extra ``audit``); they are evaluated, stored and read here without
it. A score is the vector of log p̂(s|x) up to a constant, shape (K,): a prior, and what every tree adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfunnel.data.engines.categories import ABOVE, BELOW, Codes, Column
from privfunnel.errors import InvalidInputError, need
from privfunnel.infra.storage import Document
from privfunnel.measures import Array

#: Levels of questions in a tree, and what a tree adds of its fit.
DEPTH, RATE = 4, 0.15
#: Trees for each private symbol, for two of them; more symbols get fewer each.
STAGES = 100
#: Rows by which the share of a private symbol in a category is pulled towards that in all rows.
PRIOR_ROWS = 10.0
#: Decimals of what a tree adds: the model is used as its file holds it.
DECIMALS = 6
LEAF = -1
#: No tree of a file adds more than this to a score, so that sums are numbers.
LARGEST = 1e6


class Cells(NamedTuple):
    """Cells of a table: categories of the public columns, shape (cells, A), private symbol, and weight in rows."""

    codes: Codes
    s: NDArray[np.int64]
    weight: Array


class Nodes(NamedTuple):
    """Nodes of trees, arrays of one length.

    Attributes:
        feature: The column that a node asks about, ``LEAF`` for none.
        threshold: The rank up to which it goes on to the node ``left``, and to ``right`` beyond.
        left: Places among the nodes, as ``right``.
        right: As ``left``.
        value: What a leaf adds to the score.
    """

    feature: Codes
    threshold: Array
    left: Codes
    right: Codes
    value: Array


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees of one fit.

    Attributes:
        ranks: For each of the A columns, the rank by which trees see each category, and last that of an unknown one.
        prior: log p(s) of the rows it was fitted on, shape (K,).
        of: The private symbol that each tree speaks for, shape (trees,); they come stage by stage.
        root: The first node of each tree, shape (trees,).
        nodes: The nodes of all trees, one tree after the other.
    """

    ranks: tuple[Codes, ...]
    prior: Array
    of: Codes
    root: Codes
    nodes: Nodes

    def seen(self, codes: Codes, columns: Sequence[Column]) -> Codes:
        """The ranks of rows of categories, shape (rows, A); numbers outside a column's bins are in its end bins."""
        found = np.empty(codes.shape, dtype=np.int64)
        for j, (column, ranks) in enumerate(zip(columns, self.ranks, strict=True)):
            code = codes[:, j]
            last = column.n_values - 1 - (column.null_code >= 0)
            code = np.where(code == BELOW, 0, np.where(code == ABOVE, last, code))
            found[:, j] = ranks[np.where(code < 0, column.n_values, code)]
        return found

    def staged(self, seen: Codes) -> Iterator[Array]:
        """The scores of rows of ranks after no stage, the first, and so on: arrays of shape (rows, K)."""
        score = np.tile(self.prior, (len(seen), 1))
        yield score
        rows, nodes = np.arange(len(seen)), self.nodes
        stage = max(len(set(self.of.tolist())), 1)
        for tree in range(len(self.root)):
            node = np.full(len(seen), self.root[tree])
            for _ in range(DEPTH):
                feature = nodes.feature[node]
                low = seen[rows, np.maximum(feature, 0)] <= nodes.threshold[node]
                node = np.where(feature == LEAF, node, np.where(low, nodes.left[node], nodes.right[node]))
            score[:, self.of[tree]] += nodes.value[node]
            if (tree + 1) % stage == 0:
                yield score

    def score(self, codes: Codes, columns: Sequence[Column]) -> Array:
        """The logarithms of p̂(s|x) of rows of categories, up to a constant, shape (rows, K)."""
        *_, last = self.staged(self.seen(codes, columns))
        return np.asarray(last)

    def first(self, stages: int) -> Trees:
        """The model after so many stages."""
        trees = stages * max(len(set(self.of.tolist())), 1)
        if trees >= len(self.root):
            return self
        cut: dict[str, Any] = {name: each[: self.root[trees]] for name, each in self.nodes._asdict().items()}
        return Trees(self.ranks, self.prior, self.of[:trees], self.root[:trees], Nodes(**cut))

    def to_dict(self) -> Document:
        """JSON-ready."""
        plain = {name: getattr(self, name).tolist() for name in ("prior", "of", "root")}
        nodes = {name: each.tolist() for name, each in self.nodes._asdict().items()}
        return {"ranks": [ranks.tolist() for ranks in self.ranks], **plain, **nodes}

    @classmethod
    def from_dict(cls, data: Document, columns: Sequence[Column], n_s: int) -> Trees:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            InvalidInputError: The numbers are not those of trees on these columns.
        """
        kinds = {"feature": int, "threshold": float, "left": int, "right": int, "value": float}
        nodes = Nodes(**{name: np.array(data[name], dtype=kind) for name, kind in kinds.items()})
        prior = np.array(data["prior"], dtype=np.float64)
        of, root = (np.array(data[name], dtype=np.int64) for name in ("of", "root"))
        found = cls(tuple(np.array(each, dtype=np.int64) for each in data["ranks"]), prior, of, root, nodes)
        if not found._fits(columns, n_s):
            raise InvalidInputError(
                "the score of the mechanism does not fit its columns: the file was changed"
            )
        return found

    def _fits(self, columns: Sequence[Column], n_s: int) -> bool:
        nodes, size = self.nodes, len(self.nodes.feature)
        inner = nodes.feature != LEAF
        arrays = (*self.ranks, self.of, self.root, *nodes)
        return (
            all(each.ndim == 1 for each in arrays)
            and [len(each) for each in self.ranks] == [column.n_values + 1 for column in columns]
            and self.prior.shape == (n_s,)
            and len(self.of) == len(self.root)
            and all(len(each) == size for each in nodes)
            and bool(np.isfinite(nodes.threshold).all())
            and all((np.abs(each) <= LARGEST).all() for each in (self.prior, nodes.value))
            and bool(((self.of >= 0) & (self.of < n_s)).all())
            and bool(((self.root >= 0) & (self.root < size)).all())
            and bool(((nodes.feature >= LEAF) & (nodes.feature < len(columns))).all())
            and all(
                bool(((each[inner] >= 0) & (each[inner] < size)).all()) for each in (nodes.left, nodes.right)
            )
        )


def fitted(cells: Cells, columns: Sequence[Column], n_s: int, seed: int) -> Trees:
    """Boosted trees that estimate p(s|x) from cells of a table.

    Args:
        cells: The cells.
        columns: The A public columns.
        n_s: K, the number of private symbols.
        seed: Fixes the cells that each tree is grown on.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    ensemble = need("sklearn.ensemble", "audit")
    total = np.bincount(cells.s, cells.weight, n_s)
    prior = np.log((total + 0.5) / (total.sum() + 0.5 * n_s))
    ranks = tuple(_ranks(cells, j, column, n_s) for j, column in enumerate(columns))
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
    bare = Trees(ranks, np.round(prior, DECIMALS), none, none, Nodes(none, nothing, none, none, nothing))
    present = np.unique(cells.s)
    if len(present) < 2 or len(cells.s) < 2 * DEPTH:
        return bare
    model = ensemble.GradientBoostingClassifier(
        n_estimators=max(2 * STAGES // len(present), 10),
        learning_rate=RATE,
        max_depth=DEPTH,
        # Cells that one tree is grown on, at most, where there are many: half of them otherwise.
        subsample=min(0.5, 20_000 / len(cells.s)),
        min_samples_leaf=5,
        max_features=0.7,
        random_state=seed,
    )
    model.fit(bare.seen(cells.codes, columns), cells.s, sample_weight=cells.weight)
    return _as_arrays(model, bare, present)


def _ranks(cells: Cells, j: int, column: Column, n_s: int) -> Codes:
    """Ranks of a column's categories: their own order, of texts that of what they say about S; last the unknown one's.

    Texts are ordered along the direction in which p(s|category) varies most.
    """
    table = np.zeros((column.n_values, n_s))
    np.add.at(table, (cells.codes[:, j], cells.s), cells.weight)
    weight = table.sum(axis=1)
    ranks = np.arange(column.n_values)
    if column.kind in {"text", "boolean"}:
        share = (table + PRIOR_ROWS * table.sum(axis=0) / table.sum()) / (weight + PRIOR_ROWS)[:, None]
        away = (share - table.sum(axis=0) / table.sum()) * np.sqrt(weight)[:, None]
        direction = np.linalg.svd(away, full_matrices=False)[2][0]
        direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
        ranks[np.argsort(share @ direction, kind="stable")] = np.arange(column.n_values)
    order = np.argsort(ranks)
    middle = int(np.searchsorted(np.cumsum(weight[order]), 0.5 * weight.sum()))
    return np.append(ranks, min(middle, column.n_values - 1)).astype(np.int64)


def _as_arrays(model: Any, bare: Trees, present: NDArray[np.int64]) -> Trees:
    """The trees of a fitted classifier, one after the other; of two symbols the second alone has trees."""
    speaks = present[1:] if len(present) == 2 else present
    found, roots, size = [], [], 0
    for tree in (each.tree_ for stage in model.estimators_ for each in stage):
        leaf = tree.children_left < 0
        roots.append(size)
        found.append(
            Nodes(
                feature=np.where(leaf, LEAF, tree.feature).astype(np.int64),
                threshold=np.where(leaf, 0.0, tree.threshold),
                left=np.where(leaf, 0, tree.children_left + size).astype(np.int64),
                right=np.where(leaf, 0, tree.children_right + size).astype(np.int64),
                value=np.where(leaf, np.round(RATE * tree.value.reshape(-1), DECIMALS), 0.0),
            )
        )
        size += len(leaf)
    nodes = Nodes(*(np.concatenate(each) for each in zip(*found, strict=True)))
    of = np.tile(speaks, len(model.estimators_)).astype(np.int64)
    return Trees(bare.ranks, bare.prior, of, np.array(roots, dtype=np.int64), nodes)
