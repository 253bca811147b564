"""A scikit-learn transformer: fit a privacy funnel, then release rows through it inside a pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel.data import tables
from privfunnel.data.engines import bins as binning
from privfunnel.data.engines.texts import first_line
from privfunnel.errors import GuaranteeWarning, InvalidInputError, need
from privfunnel.infra.checks import is_whole
from privfunnel.infra.storage import Document
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.options import DrawOptions
from privfunnel.release.output import Output
from privfunnel.release.randomness import Uniforms, secure, seeded
from privfunnel.release.records import released_names
from privfunnel.release.sampler import Sampler, Tally
from privfunnel.solving.point import solve

need("sklearn", "sklearn")  # told before the imports below would fail without advice

from sklearn.base import BaseEstimator, TransformerMixin  # noqa: E402
from sklearn.utils import validation as _validation  # noqa: E402

OUTPUTS = ("symbols", "onehot", "records")
#: What a private attribute that is no column of X is called in the mechanism.
PRIVATE = "private"
#: What the target is called where it has no name.
TASK = "task"


class PrivacyFunnel(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Release X so that it says as little as possible about private attributes.

    What is private is always named: columns of X (``private``), which ``transform`` then leaves out, or attributes that
    are given to ``fit`` as ``sensitive_features``, in a pipeline by metadata routing
    (``set_fit_request(sensitive_features=True)``). The target ``y`` of a task is never private; it is looked at only
    where ``utility`` says how much of it to keep. Every column of X that is not private is public. ``transform`` draws:
    two calls give different releases of the same rows, and drawing the same rows twice tells more than drawing them
    once.

    Args:
        private: Names or positions of the private columns of X; ``None`` if ``sensitive_features`` are.
        public: Names or positions of the public columns; all others by default.
        disclosure: What to keep: nats, or a share of H(X) such as ``"60%"``.
        leakage: Or what may leak: nats, or a share of I(S;X), or a budget for each of several private columns,
            ``{"sex": 0.01, "income": "5%"}``. Neither means ``"60%"`` of H(X), with guarantees the most disclosure that
            they allow.
        utility: Or what to keep of the task ``y``, which ``fit`` then needs: nats, or a share of I(U;X) such as
            ``"90%"``.
        known: Attackers to guard against who know public columns of their target, such as ``["age", ["sex", "town"]]``:
            names or positions, an entry for each attacker; see :func:`privfunnel.solve`.
        published: Names or positions of public columns that are released as they are.
        guarantees: What holds for every released symbol, such as ``["lip=0.2", "k=5"]``.
        measure: What leakage is measured by, such as ``"maximal-leakage"``; mutual information by default.
        bins: A rule for every number with more than ``max_levels`` values, or column to rule; see
            :func:`privfunnel.data.tables.count`.
        max_levels: Most different values of a number that is not binned.
        solver: A solver's name.
        solver_options: Options of the solver; see :func:`privfunnel.solve`.
        output: ``"symbols"``, one column with the number of the released symbol; ``"onehot"``, one column a symbol; or
            ``"records"``, the public columns with values drawn from p(x|y).
        unseen: What to do with values not seen in ``fit``: ``"error"``, ``"nearest"``, ``"marginal"``, or, with
            classes, ``"class"``.
        classes: ``"score:16"`` for 16 score classes, where X is too wide for its rows; see
            :mod:`privfunnel.data.score_classes`.
        random_state: For experiments only: a whole number that makes the draws reproducible. Secure randomness of the
            operating system by default.

    Attributes:
        mechanism_: The mechanism that ``transform`` applies.
        solution_: The solution it comes from, with its bound and gap.
        n_features_in_: Number of columns seen in ``fit``; ``feature_names_in_`` their names, if they have any.
    """

    def __init__(
        self,
        private: Sequence[str | int] | str | int | None = None,
        *,
        public: Sequence[str | int] | str | int | None = None,
        disclosure: float | str | None = None,
        leakage: float | str | Mapping[str, float | str] | None = None,
        utility: float | str | None = None,
        known: Sequence[Any] | str | int | None = None,
        published: Sequence[str | int] | str | int | None = None,
        guarantees: Sequence[Any] | str | None = None,
        measure: str | None = None,
        bins: object = "quantiles:4",
        max_levels: int = tables.MAX_LEVELS,
        solver: str = "auto",
        solver_options: dict[str, Any] | None = None,
        output: str = "symbols",
        unseen: str = "error",
        classes: str | None = None,
        random_state: int | None = None,
    ) -> None:
        """Keep the parameters; everything is checked in ``fit``."""
        self.private = private
        self.public = public
        self.disclosure = disclosure
        self.leakage = leakage
        self.utility = utility
        self.known = known
        self.published = published
        self.guarantees = guarantees
        self.measure = measure
        self.bins = bins
        self.max_levels = max_levels
        self.solver = solver
        self.solver_options = solver_options
        self.output = output
        self.unseen = unseen
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike | None = None, *, sensitive_features: Any = None) -> PrivacyFunnel:
        """Count X and what is private, solve the funnel, and keep the mechanism.

        Args:
            X: Table of shape (rows, columns): an array or a frame; numbers, texts, booleans; NaN is a category.
            y: The task, where ``utility`` is given; ignored otherwise. It is not private unless it is named so.
            sensitive_features: The private attributes of each row, where ``private`` is None: an array or a frame of
                shape (rows,) or (rows, attributes).

        Raises:
            InvalidInputError: Nothing is named private, or two ways at once; or a parameter is wrong.
        """
        if self.output not in OUTPUTS:
            raise InvalidInputError(f"output={self.output!r} is unknown: use one of {', '.join(OUTPUTS)}")
        if self.unseen == "drop":
            raise InvalidInputError(
                "unseen='drop' would change the number of rows: use 'nearest' or 'marginal'"
            )
        if (self.private is None) == (sensitive_features is None):
            raise InvalidInputError(
                "nothing is named private: name columns of X (private=), or pass sensitive_features= to fit; y never is"
                if self.private is None
                else "private= and sensitive_features= both name what is private: give one of them"
            )
        if not is_whole(self.max_levels):
            raise InvalidInputError(
                f"max_levels={self.max_levels!r} is not a whole number: give the most values of a number not binned"
            )
        given = sensitive_features
        X = _validation.validate_data(self, X, dtype=None, ensure_all_finite="allow-nan")
        columns = self._columns(X)
        private = self._positions(self.private, "private")
        public = self._positions(self.public, "public")
        if self.public is None:
            public = [j for j in range(self.n_features_in_) if j not in private]
        names = list(columns)
        private_names = [names[j] for j in private]
        if given is not None:
            _validation.check_consistent_length(X, given)
            beside = _named_columns(given, names)
            columns |= beside
            private_names = list(beside)
        task = self._task(y, columns) if self.utility is not None else {}
        columns |= task
        if not public:
            raise InvalidInputError(
                f"every column of X is private (n_features = {self.n_features_in_}): leave one to release"
            )
        table = need("pyarrow", "tables").table(columns)
        public_names = [names[j] for j in public]
        counts = tables.count(
            table,
            private=private_names,
            public=public_names,
            bins=self._bins(columns, {*private_names, *public_names}),
            max_levels=max(int(self.max_levels), 1),
            task=list(task),
            classes=self.classes,
        )
        problem = counts.problem()
        asked = self._asked() | self._guards(names)
        self.solution_ = solve(problem, solver=self.solver, **asked, **(self.solver_options or {}))
        self.mechanism_ = Mechanism.from_solution(counts, self.solution_)
        return self

    def transform(self, X: Any) -> Any:
        """Draw a release of the rows of X.

        Args:
            X: Table with the columns of ``fit``; private ones are not looked at.

        Returns:
            Array of shape (rows, outputs); see ``output``.
        """
        _validation.check_is_fitted(self)
        X = _validation.validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=False)
        table = need("pyarrow", "tables").table(self._columns(X))
        uniforms = self._uniforms()
        y, _ = Sampler(self.mechanism_, self.unseen).draw(table, uniforms, Tally())
        if self.output == "symbols":
            return y[:, None]
        if self.output == "onehot":
            return np.eye(self.mechanism_.n_y)[y]
        output = Output(self.mechanism_, "records", DrawOptions())
        arrays = output.arrays(y, output.records(y, uniforms), uniforms)
        parts = [array.to_numpy(zero_copy_only=False) for array in arrays]
        numeric = all(part.dtype.kind in "iuf" for part in parts)
        return np.stack([part if numeric else part.astype(object) for part in parts], axis=1)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the columns that ``transform`` gives.

        Args:
            input_features: Checked against the names of ``fit``; the result does not depend on them.
        """
        _validation.check_is_fitted(self)
        if input_features is not None:
            given = np.asarray(input_features, dtype=object)
            known = getattr(self, "feature_names_in_", None)
            if known is not None and not np.array_equal(known, given):
                raise InvalidInputError("input_features is not equal to feature_names_in_")
            if len(given) != self.n_features_in_:
                raise InvalidInputError(
                    f"input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(given)}"
                )
        if self.output == "symbols":
            return np.array(["released"], dtype=object)
        if self.output == "onehot":
            return np.array([f"released_{label}" for label in self.mechanism_.y_labels], dtype=object)
        return np.array(released_names(self.mechanism_), dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what to expect: categories, NaN, and draws that depend on the place of a row."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = False
        tags.transformer_tags.preserves_dtype = []  # what comes out is categories, whatever went in
        tags.non_deterministic = True
        return tags

    def _uniforms(self) -> Uniforms:
        if self.random_state is None:
            return secure
        warnings.warn(
            f"random_state={self.random_state!r} makes the draws predictable: for experiments only",
            GuaranteeWarning,
            stacklevel=3,
        )
        whole = isinstance(self.random_state, np.integer)
        return seeded(int(self.random_state) if whole else self.random_state)

    def _columns(self, X: NDArray[Any]) -> Document:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(X.shape[1])]
        return {str(name): _as_column(X[:, j]) for j, name in enumerate(names)}

    def _positions(self, chosen: object, role: str) -> list[int]:
        if chosen is None:
            return []
        if not isinstance(chosen, str | int | np.integer | Iterable):
            raise InvalidInputError(f"{role}={chosen!r} names no columns: give names or positions")
        listed = [chosen] if isinstance(chosen, str | int | np.integer) else list(chosen)
        known = [str(name) for name in getattr(self, "feature_names_in_", ())]
        found = []
        for each in listed:
            if isinstance(each, str) and each in known:
                found.append(known.index(each))
            elif isinstance(each, int | np.integer) and -self.n_features_in_ <= each < self.n_features_in_:
                found.append(int(each) % self.n_features_in_)
            else:
                have = ", ".join(known) or f"positions 0 to {self.n_features_in_ - 1}"
                raise InvalidInputError(f"the {role} column {each!r} is not in X: it has {have}")
        return found

    def _bins(self, columns: dict[str, Any], used: set[str]) -> Document:
        if isinstance(self.bins, dict):
            return dict(self.bins)
        pa = need("pyarrow", "tables")
        numbers = {
            name
            for name in used
            if pa.types.is_floating(columns[name].type) or pa.types.is_integer(columns[name].type)
        }
        many = sorted(name for name in numbers if len(columns[name].unique()) > self.max_levels)
        return {name: binning.parse(name, self.bins) for name in many} if self.bins is not None else {}

    def _guards(self, names: Sequence[str]) -> Document:
        """Attackers, published columns, guarantees and measure, as :func:`privfunnel.solve` takes them."""

        def named(chosen: object, role: str) -> list[str]:
            return [names[j] for j in self._positions(chosen, role)]

        known = self.known
        several = [known] if isinstance(known, str | int | np.integer) else list(known or ())
        given = {
            "known": [named(each, "known") for each in several],
            "published": named(self.published, "published"),
            "guarantees": [self.guarantees]
            if isinstance(self.guarantees, str)
            else list(self.guarantees or ()),
            "measure": self.measure,
        }
        return {name: value for name, value in given.items() if value}

    def _task(self, y: object, taken: Mapping[str, Any]) -> Document:
        """The target as a column."""
        if y is None:
            raise InvalidInputError(f"utility={self.utility!r} is of a task: pass y to fit")
        _validation.check_consistent_length(next(iter(taken.values())), y)
        name = getattr(y, "name", None)
        name = name if isinstance(name, str) and name else TASK
        while name in taken:
            name += "_"
        return {name: _as_column(np.asarray(y).reshape(-1))}

    def _asked(self) -> Document:
        """What was asked for, by name, as :func:`privfunnel.solve` takes it; 60 % of H(X) where nothing was."""
        written = {name: getattr(self, name) for name in ("utility", "disclosure", "leakage")}
        asked = {name: value for name, value in written.items() if value is not None}
        if "leakage" in asked and len(asked) > 1:
            raise InvalidInputError(f"give {next(iter(asked))} or leakage, not both")
        return asked or ({} if self.guarantees else {"disclosure": "60%"})


def _named_columns(given: object, taken: Sequence[str]) -> Document:
    """Sensitive features as columns, with their own names where they have any that X does not have."""
    table = np.asarray(given)
    if table.ndim not in (1, 2) or 0 in table.shape:
        raise InvalidInputError(
            f"sensitive_features has shape {table.shape}: give (rows,) or (rows, attributes)"
        )
    table = table.reshape(len(table), -1)
    known = getattr(given, "columns", [getattr(given, "name", None)])
    labels = [each if isinstance(each, str) else "" for each in known]
    found: Document = {}
    for j in range(table.shape[1]):
        name = (
            labels[j] if j < len(labels) and labels[j] else f"{PRIVATE}{j}" if table.shape[1] > 1 else PRIVATE
        )
        while name in taken or name in found:
            name += "_"
        found[name] = _as_column(table[:, j])
    return found


def _as_column(values: NDArray[Any]) -> Any:
    """One column as an Arrow array; a column of mixed types is refused."""
    pa = need("pyarrow", "tables")
    if values.dtype.kind not in "OUS":
        return pa.array(values, from_pandas=True)
    try:
        return pa.array([_plain(value) for value in values.tolist()], from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInputError(
            f"a column of X mixes types ({first_line(error)}): give each column one type"
        ) from error


def _plain(value: object) -> Any:
    if value is None or value != value:  # None, NaN, NaT
        return None
    return value
