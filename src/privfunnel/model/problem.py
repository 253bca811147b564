"""The funnel problem: a joint distribution of private S and public X, validated once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfunnel import measures
from privfunnel.errors import InvalidInputError
from privfunnel.infra import cards
from privfunnel.infra.checks import (
    as_columns,
    as_joint,
    as_labels,
    as_table,
    frame_labels,
    refuse_margins,
    summed,
)
from privfunnel.infra.storage import Document, Stored
from privfunnel.measures import INFORMATION, Array, Channel, Measure, measure_of
from privfunnel.model import channels
from privfunnel.model.attackers import NOTHING, Attacker, attackers
from privfunnel.model.tasks import Utility, as_utility, read_tasks, stored_tasks

Mask = NDArray[np.bool_]
AnyArray = TypeVar("AnyArray", bound=np.ndarray[Any, Any])


class Point(NamedTuple):
    """A point of the information plane, in nats."""

    disclosure: float
    leakage: float

    @property
    def utility(self) -> float | None:
        """Σ ω I(U;Y), what is kept of the problem's tasks; None where it has none."""
        return None


class TaskPoint(Point):
    """A point of the information plane with the utility for the problem's tasks, in nats."""

    utility: float = 0.0

    @classmethod
    def of(cls, point: Point, utility: float) -> TaskPoint:
        """The point with its utility."""
        made = cls(*point)
        made.utility = utility
        return made


class Problem(Stored):
    """A privacy-funnel problem: p(s, x), rows S, columns X.

    Immutable and hashable. Symbols of zero probability are dropped together with their labels; :meth:`restore` brings
    them back into a channel. The table may be

    * probabilities, summing to 1 within 1e-6 (normalised exactly),
    * counts, that is whole numbers summing to more than 1: normalised, and kept as :attr:`counts` and :attr:`n`,
    * other non-negative weights: normalised; their scale says nothing about a sample size, so ``n`` is None.

    Args:
        p_sx: Table of shape (K, M): probabilities, counts or weights.
        s_labels: K names of the private symbols; those of a frame's index, such as a pandas cross-tabulation has, or
            ``"s0", "s1", …`` by default.
        x_labels: M names of the public symbols; those of a frame's columns, or ``"x0", "x1", …`` by default.
        n: Sample size behind a table of probabilities, where one is known.
        public_columns: The columns that public symbols are made of: name to the value in each of the M symbols given.
        private_columns: The same of the K private symbols: attributes that may have budgets of their own.
        p_ux: What the release is for: a joint table of a task U and X, rows U, with the same p(x), or several by name.
        u_labels: Names of the symbols of each task, by the task's name; those of a frame's index by default.
        task_weights: What a nat of each task counts, by the task's name; 1 by default.

    Raises:
        InvalidInputError: The table is not a finite, non-negative matrix with a positive sum, it looks like
            probabilities but does not sum to 1, labels do not fit, or a task has another p(x).
    """

    schema: ClassVar[str] = "privfunnel/problem"

    _p_sx: Array
    _counts: Array | None
    _n: float | None
    _kept_s: Mask
    _kept_x: Mask
    _all_s_labels: tuple[str, ...]
    _all_x_labels: tuple[str, ...]
    _columns: dict[str, tuple[str, ...]]
    _private: dict[str, tuple[str, ...]]
    _tasks: Utility | None

    def __init__(
        self,
        p_sx: ArrayLike,
        s_labels: Sequence[str] | None = None,
        x_labels: Sequence[str] | None = None,
        *,
        n: float | None = None,
        public_columns: Mapping[str, Sequence[object]] | None = None,
        private_columns: Mapping[str, Sequence[object]] | None = None,
        p_ux: object = None,
        u_labels: Mapping[str, Sequence[str]] | None = None,
        task_weights: Mapping[str, float] | None = None,
    ) -> None:
        table = as_table(p_sx, "p_sx")
        refuse_margins(p_sx, table)
        all_s = as_labels(frame_labels(p_sx, "index") if s_labels is None else s_labels, table.shape[0], "s")
        all_x = as_labels(
            frame_labels(p_sx, "columns") if x_labels is None else x_labels, table.shape[1], "x"
        )
        total, is_count = summed(table, "p_sx")
        if n is not None and not (isinstance(n, (int, float, np.number)) and 0.0 < float(n) < math.inf):
            raise InvalidInputError(f"n = {n!r} is not a sample size: give a positive number or leave it out")
        share = table / total  # a weight so small that it vanishes beside the total counts as 0 from here on
        kept_s, kept_x = share.sum(axis=1) > 0.0, share.sum(axis=0) > 0.0
        kept = table[np.ix_(kept_s, kept_x)]
        self._set(
            _kept_s=_frozen(kept_s),
            _kept_x=_frozen(kept_x),
            _all_s_labels=all_s,
            _all_x_labels=all_x,
            _counts=_frozen(kept.copy()) if is_count else None,
            _n=float(total) if is_count else (None if n is None else float(n)),
            _p_sx=_frozen(share[np.ix_(kept_s, kept_x)]),
            _columns=as_columns({} if public_columns is None else public_columns, table.shape[1], "public"),
            _private=as_columns(
                {} if private_columns is None else private_columns, table.shape[0], "private"
            ),
            _tasks=None,
        )
        if p_ux is not None:
            self._set(_tasks=as_utility(p_ux, self.p_x, self._kept_x, labels=u_labels, weights=task_weights))

    def _set(self, **fields: Any) -> None:
        """Set fields during construction: afterwards :meth:`__setattr__` refuses."""
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a problem is immutable."""
        raise AttributeError(f"a Problem is immutable: build a new one instead of setting {name!r}")

    @classmethod
    def from_conditional(
        cls,
        p_s_given_x: ArrayLike,
        p_x: ArrayLike,
        s_labels: Sequence[str] | None = None,
        x_labels: Sequence[str] | None = None,
    ) -> Problem:
        """Build a problem from p(s|x), shape (K, M) with columns that sum to 1, and p(x), shape (M,)."""
        return cls(as_joint(p_s_given_x, p_x), s_labels, x_labels)

    # --- the distribution -------------------------------------------------------------------------------------

    @property
    def p_sx(self) -> Array:
        """p(s, x), shape (K, M), sums to 1, no empty row or column."""
        return self._p_sx

    @cached_property
    def p_x(self) -> Array:
        """p(x), shape (M,)."""
        return _frozen(self._p_sx.sum(axis=0))

    @cached_property
    def p_s(self) -> Array:
        """p(s), shape (K,)."""
        return _frozen(self._p_sx.sum(axis=1))

    @cached_property
    def p_s_given_x(self) -> Array:
        """p(s|x), shape (K, M), columns sum to 1."""
        conditional = self._p_sx / self.p_x
        return _frozen(conditional / conditional.sum(axis=0))

    @property
    def tasks(self) -> Utility | None:
        """What the release is for, or None."""
        return self._tasks

    @property
    def utility_ceiling(self) -> float:
        """I(U;X) in nats, of several tasks the weighted sum: the utility of releasing X itself.

        Raises:
            InvalidInputError: The problem has no task.
        """
        return self.required_tasks().ceiling

    def required_tasks(self) -> Utility:
        """The tasks.

        Raises:
            InvalidInputError: There are none.
        """
        if self._tasks is None:
            raise InvalidInputError(
                "the problem has no task: give p_ux= (or task= to pf.tables.count, --task on the command line)"
            )
        return self._tasks

    @property
    def counts(self) -> Array | None:
        """The counts the problem was built from, shape (K, M), or None."""
        return self._counts

    @property
    def n(self) -> float | None:
        """Number of rows behind the counts, or None where it is not known."""
        return self._n

    @property
    def n_s(self) -> int:
        """K, the number of private symbols with positive probability."""
        return int(self._p_sx.shape[0])

    @property
    def n_x(self) -> int:
        """M, the number of public symbols with positive probability."""
        return int(self._p_sx.shape[1])

    # --- labels -----------------------------------------------------------------------------------------------

    @cached_property
    def s_labels(self) -> tuple[str, ...]:
        """Names of the K private symbols."""
        return tuple(compress(self._all_s_labels, self._kept_s.tolist()))

    @cached_property
    def x_labels(self) -> tuple[str, ...]:
        """Names of the M public symbols."""
        return tuple(compress(self._all_x_labels, self._kept_x.tolist()))

    @property
    def all_s_labels(self) -> tuple[str, ...]:
        """Names of all private symbols given, those of zero probability included."""
        return self._all_s_labels

    @property
    def all_x_labels(self) -> tuple[str, ...]:
        """Names of all public symbols given, those of zero probability included."""
        return self._all_x_labels

    @property
    def kept_s(self) -> Mask:
        """Mask over :attr:`all_s_labels`: True where the symbol has positive probability."""
        return self._kept_s

    @property
    def kept_x(self) -> Mask:
        """Mask over :attr:`all_x_labels`: True where the symbol has positive probability."""
        return self._kept_x

    @cached_property
    def public_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns that public symbols are made of: name to the value in each of the M symbols; none by default."""
        return {name: tuple(compress(values, self._kept_x)) for name, values in self._columns.items()}

    @cached_property
    def private_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns that private symbols are made of: name to the value in each of the K symbols; none by default."""
        return {name: tuple(compress(values, self._kept_s)) for name, values in self._private.items()}

    # --- the plane --------------------------------------------------------------------------------------------

    @cached_property
    def disclosure_ceiling(self) -> float:
        """H(X) in nats: the most that can be disclosed."""
        return max(float(measures.entropy(self.p_x)), 0.0) if self.n_x > 1 else 0.0

    @cached_property
    def leakage_ceiling(self) -> float:
        """I(S;X) in nats: what releasing X itself leaks."""
        return min(float(measures.mutual_information(self._p_sx)), self.disclosure_ceiling, self.h_s)

    @cached_property
    def h_s(self) -> float:
        """H(S) in nats."""
        return max(float(measures.entropy(self.p_s)), 0.0) if self.n_s > 1 else 0.0

    @cached_property
    def h_x_given_s(self) -> float:
        """H(X|S) in nats."""
        return max(self.disclosure_ceiling - self.leakage_ceiling, 0.0)

    @property
    def rounding(self) -> float:
        """What H(X), H(S), I(S;X) and their differences may be off by, in nats: sums of terms that are rounded."""
        digits = math.log2(self.n_s * self.n_x) + 16.0
        return 4.0 * float(np.finfo(np.float64).eps) * digits * (1.0 + self.disclosure_ceiling)

    def lower_bound(self, disclosure: ArrayLike) -> Array:
        """Closed-form lower bound ``max(0, R − H(X|S)) ≤ L(R)``, vectorised, in nats; rounded down."""
        known = np.asarray(disclosure, dtype=np.float64) - self.h_x_given_s
        return np.maximum(known - self.rounding, 0.0)

    def upper_bound(self, disclosure: ArrayLike) -> Array:
        """Closed-form upper bound ``L(R) ≤ I(S;X) R / H(X)`` (time sharing X and nothing), in nats; rounded up."""
        if self.n_s < 2 or self.n_x < 2:  # there is nothing to tell, or nothing to tell it
            return np.zeros_like(disclosure, dtype=np.float64)
        leaked = self.leakage_ceiling + self.rounding
        return leaked / self.disclosure_ceiling * np.asarray(disclosure, dtype=np.float64)

    def evaluate(
        self, channel: ArrayLike | Channel, *, known: object = None, measure: Measure | str = INFORMATION
    ) -> Point:
        """Disclosure I(X;Y) and leakage of a channel, in nats: I(S;Y), or the largest I(S;Y|A) of several attackers.

        Where the problem has tasks the point's ``utility`` is I(U;Y).

        Args:
            channel: p(y|x), shape (M, N) or (number of :attr:`all_x_labels`, N), rows sum to 1; an array, or a SciPy
                sparse array.
            known: What attackers may know besides the release: a list with an entry for each of them, names of public
                columns or an array a(x). The one who knows nothing is always among them.
            measure: What leakage is measured by, one of :data:`privfunnel.measures.MEASURES`.
        """
        channel = self.check_channel(channel)
        p_xy = (
            channel * self.p_x[:, None]
            if isinstance(channel, np.ndarray)
            else channel.multiply(self.p_x[:, None])
        )
        disclosure = min(float(measures.mutual_information(p_xy)), self.disclosure_ceiling)
        if known is None and measure_of(measure).is_information:
            # S − X − Y is a Markov chain: what the rounding adds beyond the data-processing inequality is not real.
            p_sy = self._p_sx @ channel
            leakage = min(float(measures.mutual_information(p_sy)), self.leakage_ceiling, disclosure)
        else:
            leakage = max(self._told(channel, known, measure).values())
        point = Point(disclosure, leakage)
        return point if self._tasks is None else TaskPoint.of(point, self._tasks.of(channel))

    def leakages(
        self, channel: ArrayLike | Channel, *, known: object = None, measure: Measure | str = INFORMATION
    ) -> dict[str, float]:
        """What a channel tells each attacker about S, by the attacker's name; arguments as for :meth:`evaluate`."""
        return self._told(self.check_channel(channel), known, measure)

    def _told(self, channel: Channel, known: object, measure: Measure | str) -> dict[str, float]:
        """:meth:`leakages` of a channel that is checked already."""
        by = measure_of(measure)
        told = {each.name: each.leakage(self._p_sx, channel, by) for each in self.attackers(known)}
        if not by.is_information:
            return told
        return told | {NOTHING: min(told[NOTHING], self.leakage_ceiling)}

    def attackers(self, known: object) -> tuple[Attacker, ...]:
        """The attackers that ``known`` describes, as in :meth:`evaluate`, the one who knows nothing first."""
        return attackers(known, self.public_columns, self.n_x, kept=self._kept_x)

    def check_channel(self, channel: ArrayLike | Channel) -> Channel:
        """Validate a channel, drop the rows of dropped symbols, and normalise its rows exactly; shape (M, N)."""
        return channels.checked(channel, self._kept_x)

    def restore(self, channel: ArrayLike | Channel) -> Channel:
        """Give a channel its rows for dropped symbols back: they release Y drawn from p(y), which says nothing."""
        return channels.restored(self.check_channel(channel), self.p_x, self._kept_x)

    # --- identity and files -----------------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of shape and joint distribution, as hex: what a certificate is bound to."""
        digest = hashlib.sha256(repr(self._p_sx.shape).encode())
        digest.update(np.ascontiguousarray(self._p_sx, dtype="<f8").tobytes())
        return digest.hexdigest()

    def _key(self) -> tuple[Any, ...]:
        columns = tuple(self._columns.items()), tuple(self._private.items())
        tasks = None if self._tasks is None else (self._tasks.names, self._tasks.fingerprint)
        return (self.fingerprint, self._n, self._all_s_labels, self._all_x_labels, columns, tasks)

    def __eq__(self, other: object) -> bool:
        """Equal when distribution, sample size, labels, columns and tasks are."""
        return isinstance(other, Problem) and self._key() == other._key()

    def __hash__(self) -> int:
        """Hash of what equality compares."""
        return hash(self._key())

    def __repr__(self) -> str:
        """One line with the sizes and the two ceilings."""
        rows = "" if self._n is None else f", n={self._n:g}"
        return (
            f"Problem({self.n_s} private × {self.n_x} public symbols{rows}, "
            f"H(X)={self.disclosure_ceiling:.6g}, I(S;X)={self.leakage_ceiling:.6g}"
            + ("" if self._tasks is None else f", I(U;X)={self._tasks.ceiling:.6g}")
            + " nats)"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        facts = [
            ("private symbols", f"{self.n_s}: {_some(self.s_labels)}"),
            ("public symbols", f"{self.n_x}: {_some(self.x_labels)}"),
            ("rows", "not known" if self._n is None else f"{self._n:,.0f}"),
            ("H(X)", f"{self.disclosure_ceiling:.6g} nats"),
            ("I(S;X)", f"{self.leakage_ceiling:.6g} nats"),
        ]
        if self._tasks is not None:
            facts.append((f"I(U;X), U = {', '.join(self._tasks.names)}", f"{self._tasks.ceiling:.6g} nats"))
        return cards.card("Privacy-funnel problem", facts)

    def to_dict(self) -> Document:
        """A JSON-ready form that :meth:`from_dict` reads back exactly."""
        full = np.zeros((len(self._all_s_labels), len(self._all_x_labels)))
        full[np.ix_(self._kept_s, self._kept_x)] = self._p_sx if self._counts is None else self._counts
        columns = {name: list(values) for name, values in self._columns.items()}
        private = {name: list(values) for name, values in self._private.items()}
        return {
            **self.heading(),
            **({"public_columns": columns} if columns else {}),
            **({"private_columns": private} if private else {}),
            **({} if self._tasks is None else stored_tasks(self._tasks, self._kept_x)),
            "kind": "probabilities" if self._counts is None else "counts",
            "n": self._n,
            "s_labels": list(self._all_s_labels),
            "x_labels": list(self._all_x_labels),
            "table": full.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read back what :meth:`to_dict` wrote."""
        with cls.reading(data):
            table, kind, n = data["table"], data["kind"], data["n"]
            if kind not in ("counts", "probabilities"):
                raise InvalidInputError(f"unknown kind of table {kind!r}: the file was changed")
            problem = cls(
                table,
                data["s_labels"],
                data["x_labels"],
                n=None if kind == "counts" else n,
                public_columns=data.get("public_columns"),
                private_columns=data.get("private_columns"),
                **(read_tasks(data["tasks"]) if "tasks" in data else {}),
            )
        if (kind == "counts") != (problem.counts is not None):
            raise InvalidInputError(f"the table does not hold {kind}: the file was changed")
        if kind == "probabilities":
            # Saved probabilities are normalised already: dividing again could move their last bit.
            exact = as_table(table, "table")[np.ix_(problem._kept_s, problem._kept_x)]
            if abs(exact.sum() - 1.0) > 1e-12:
                raise InvalidInputError(
                    f"the stored probabilities sum to {exact.sum()!r}: the file was changed"
                )
            problem._set(_p_sx=_frozen(exact.copy()))
        return problem


def _frozen(array: AnyArray) -> AnyArray:
    array.setflags(write=False)
    return array


def _some(labels: Sequence[str]) -> str:
    """The first labels."""
    return "; ".join(labels[:4]) + ("; …" if len(labels) > 4 else "")
