"""A mechanism: everything a release needs and a reviewer may ask for, in one file that never holds rows.

It keeps the channel p(y|x), p(x) and what each released symbol says about the private attributes, p(s|y). The joint
table p(s, x) of the design data, whose rare cells are single persons, is not written out, but these exact numbers
determine it up to rounding wherever the channel tells the public symbols apart: a mechanism is the steward's own file,
as confidential as the data. What goes with a release is its codebook, whose numbers are coarse.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel._version import __version__
from privfunnel.engines import Column
from privfunnel.engines.categories import labels
from privfunnel.errors import InvalidInputError
from privfunnel.measures import Array
from privfunnel.solution import Solution
from privfunnel.storage import check_schema, read_json, write_json
from privfunnel.tables import Counts

SCHEMA = "privfunnel/mechanism"
SCHEMA_VERSION = 1
AGREEMENT = 1e-9  # nats within which a file's claims must agree with its channel

PROMISES = (
    "disclosure", "leakage", "lower_bound", "bound_source", "requested", "budget", "status", "disclosure_ceiling",
    "leakage_ceiling",
)  # fmt: skip


@dataclass(frozen=True)
class Guess:
    """How often the best guess of one private attribute is right, at design: blind, from Y, and from X itself."""

    attribute: str
    before: float
    after: float
    original: float


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A channel with its labels, its promise and its provenance; nats.

    Attributes:
        private: The private columns; symbol k of S is the combination ``s_codes[k]`` (K, private columns).
        public: The public columns; symbol i of X is ``x_codes[i]`` (M, public columns).
        channel: p(y|x), shape (M, N).
        p_x: p(x), shape (M,).
        p_s_given_y: p(s|y), shape (K, N).
        promise: Disclosure, leakage, proved lower bound, what was asked, ceilings; see ``PROMISES``.
        guesses: Guessing accuracy a private attribute.
        provenance: Version, fingerprints of the design data, rows, solver and seed.
    """

    private: tuple[Column, ...]
    public: tuple[Column, ...]
    s_codes: NDArray[np.int64]
    x_codes: NDArray[np.int64]
    channel: Array
    p_x: Array
    p_s_given_y: Array
    promise: Mapping[str, Any]
    guesses: tuple[Guess, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_solution(cls, counts: Counts, solution: Solution) -> Mechanism:
        """The mechanism of a solution found for these counts.

        Raises:
            InvalidInputError: The solution belongs to another table.
        """
        problem = solution.problem
        table = counts.table()
        if problem.p_sx.shape != table.shape or not np.array_equal(problem.p_sx, table / table.sum()):
            raise InvalidInputError("the solution belongs to another table: solve counts.problem() first")
        summary = solution.summary()
        ceilings = {
            "disclosure_ceiling": problem.disclosure_ceiling,
            "leakage_ceiling": problem.leakage_ceiling,
        }
        return cls(
            private=counts.private,
            public=counts.public,
            s_codes=counts.s_codes,
            x_codes=counts.x_codes,
            channel=solution.channel,
            p_x=problem.p_x,
            p_s_given_y=solution.p_s_given_y,
            promise={name: value for name, value in (summary | ceilings).items() if name in PROMISES},
            guesses=guesses(counts, problem.p_sx, solution.channel),
            provenance={
                "privfunnel": __version__,
                "data": counts.fingerprint,
                "problem": problem.fingerprint,
                "rows": counts.n,
                "solver": solution.solver,
                "seed": solution.seed,
            },
        )

    @property
    def n_y(self) -> int:
        """N, the number of released symbols."""
        return int(self.channel.shape[1])

    @property
    def disclosure(self) -> float:
        """I(X;Y) promised, in nats."""
        return float(self.promise["disclosure"])

    @property
    def leakage(self) -> float:
        """I(S;Y) promised, in nats."""
        return float(self.promise["leakage"])

    @cached_property
    def y_labels(self) -> tuple[str, ...]:
        """Names of the released symbols: ``y0``, ``y1``, … with as many digits as needed to sort."""
        width = len(str(self.n_y - 1))
        return tuple(f"y{j:0{width}d}" for j in range(self.n_y))

    @cached_property
    def s_labels(self) -> tuple[str, ...]:
        """One text a private symbol."""
        return labels(self.private, self.s_codes)

    @cached_property
    def x_labels(self) -> tuple[str, ...]:
        """One text a public symbol."""
        return labels(self.public, self.x_codes)

    @cached_property
    def p_y(self) -> Array:
        """p(y), shape (N,)."""
        return np.asarray(self.p_x @ self.channel)

    @cached_property
    def p_x_given_y(self) -> Array:
        """p(x|y), shape (M, N); the column of a symbol that never occurs is 0."""
        p_xy = self.channel * self.p_x[:, None]
        return np.divide(p_xy, self.p_y, out=np.zeros_like(p_xy), where=self.p_y > 0.0)

    @property
    def p_sy(self) -> Array:
        """p(s, y), shape (K, N)."""
        return np.asarray(self.p_s_given_y * self.p_y)

    @property
    def private_names(self) -> tuple[str, ...]:
        """Names of the private columns."""
        return tuple(column.name for column in self.private)

    @property
    def public_names(self) -> tuple[str, ...]:
        """Names of the public columns."""
        return tuple(column.name for column in self.public)

    @property
    def bins(self) -> dict[str, Any]:
        """Recorded bins by column name, for :func:`privfunnel.tables.count`."""
        columns = (*self.private, *self.public)
        return {column.name: column.bins for column in columns if column.bins is not None}

    def __repr__(self) -> str:
        """One line."""
        return (
            f"Mechanism({', '.join(self.public_names)} → {self.n_y} symbols, protecting "
            f"{', '.join(self.private_names)}: disclosure {self.disclosure:.6g}, leakage {self.leakage:.6g} nats)"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the channel as its nonzero entries.

        Raises:
            InvalidInputError: A column has an infinite value, which JSON cannot hold.
        """
        _check_values((*self.private, *self.public))
        rows, columns = np.nonzero(self.channel)
        return {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "units": "nats",
            "promise": dict(self.promise),
            "guesses": [vars(guess) for guess in self.guesses],
            "provenance": dict(self.provenance),
            "private": [column.to_dict() for column in self.private],
            "public": [column.to_dict() for column in self.public],
            "s_codes": self.s_codes.tolist(),
            "x_codes": self.x_codes.tolist(),
            "p_x": self.p_x.tolist(),
            "p_s_given_y": self.p_s_given_y.tolist(),
            "channel": {
                "shape": list(self.channel.shape),
                "x": rows.tolist(),
                "y": columns.tolist(),
                "p": self.channel[rows, columns].tolist(),
            },
        }

    @classmethod
    def from_dict(cls, data: Any) -> Mechanism:
        """Read back what :meth:`to_dict` wrote, exactly; claims that its channel does not bear out are refused.

        Raises:
            InvalidInputError: It is no mechanism, of a version this release cannot read, incomplete or altered.
        """
        check_schema(data, SCHEMA, SCHEMA_VERSION)
        try:
            s_codes, x_codes = _codes(data["s_codes"]), _codes(data["x_codes"])
            p_s_given_y = np.asarray(data["p_s_given_y"], dtype=np.float64)
            if p_s_given_y.ndim != 2:
                raise InvalidInputError("p_s_given_y of the mechanism is no table: the file was changed")
            found = cls(
                private=tuple(Column.from_dict(column) for column in data["private"]),
                public=tuple(Column.from_dict(column) for column in data["public"]),
                s_codes=s_codes,
                x_codes=x_codes,
                channel=_dense(data["channel"], (len(x_codes), p_s_given_y.shape[1])),
                p_x=np.asarray(data["p_x"], dtype=np.float64),
                p_s_given_y=p_s_given_y,
                promise={name: data["promise"][name] for name in PROMISES},
                guesses=tuple(Guess(**guess) for guess in data["guesses"]),
                provenance=dict(data["provenance"]),
            )
            found._check()
        except InvalidInputError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            raise InvalidInputError(
                f"the mechanism file is incomplete or malformed ({type(error).__name__}: {error}): design it again"
            ) from error
        return found

    def _check(self) -> None:
        """Shapes, ranges and claims; the errors say what was altered."""
        _check_values((*self.private, *self.public))
        roles = (self.private_names, self.public_names)
        if any(
            len(set(names)) < len(names) or not names for names in roles
        ):  # one column may have both roles
            listed = " and ".join(", ".join(names) or "none" for names in roles)
            raise InvalidInputError(
                f"the private and public columns of the mechanism ({listed}) are missing or named twice: "
                "the file was changed"
            )
        self._check_numbers()
        n_x, n_y = self.channel.shape
        for name, codes, columns in (
            ("s_codes", self.s_codes, self.private),
            ("x_codes", self.x_codes, self.public),
        ):
            limits = np.array([column.n_values for column in columns])
            if (
                codes.ndim != 2
                or codes.shape[1] != len(columns)
                or (codes < 0).any()
                or (codes >= limits).any()
            ):
                raise InvalidInputError(
                    f"{name} of the mechanism do not fit its columns: the file was changed"
                )
            if len(np.unique(codes, axis=0)) < len(codes):
                raise InvalidInputError(f"{name} of the mechanism hold a symbol twice: the file was changed")
        shapes = {"x_codes": len(self.x_codes) == n_x, "p_x": self.p_x.shape == (n_x,),
                  "p_s_given_y": self.p_s_given_y.shape == (len(self.s_codes), n_y)}  # fmt: skip
        for name, fits in shapes.items():
            if not fits:
                raise InvalidInputError(
                    f"{name} of the mechanism does not fit its channel: the file was changed"
                )
        sums = {"channel": self.channel.sum(axis=1), "p_x": self.p_x.sum(),
                "p_s_given_y": self.p_s_given_y[:, self.p_y > 0.0].sum(axis=0)}  # fmt: skip
        for name, total in sums.items():
            array = getattr(self, name)
            if not np.isfinite(array).all() or (array < 0.0).any() or np.abs(total - 1.0).max() > AGREEMENT:
                raise InvalidInputError(
                    f"{name} of the mechanism holds no probabilities: the file was changed"
                )
        found = {"disclosure": float(measures.mutual_information(self.channel * self.p_x[:, None])),
                 "leakage": float(measures.mutual_information(self.p_sy))}  # fmt: skip
        for name, value in found.items():
            if not abs(float(self.promise[name]) - value) <= AGREEMENT:
                raise InvalidInputError(
                    f"the mechanism claims {name} {self.promise[name]!r}, its channel gives {value!r}: "
                    "the file was changed"
                )
        if self.promise["lower_bound"] > self.leakage + AGREEMENT:
            raise InvalidInputError(
                f"the mechanism claims the lower bound {self.promise['lower_bound']!r} above its own leakage "
                f"{self.leakage!r}: the file was changed"
            )

    def _check_numbers(self) -> None:
        """Promises, guesses and rows are the numbers they must be."""
        for name in ("lower_bound", "disclosure_ceiling", "leakage_ceiling"):
            _check_number(f"promised {name}", self.promise[name])
        for name in ("requested", "budget"):
            if self.promise[name] is not None:
                _check_number(f"promised {name}", self.promise[name])
        for name in ("disclosure", "leakage"):  # their values are recomputed
            if not _is_number(self.promise[name]):
                raise InvalidInputError(
                    f"the mechanism claims {name} {self.promise[name]!r}, no number: the file was changed"
                )
        for guess in self.guesses:
            for name in ("before", "after", "original"):
                _check_number(f"guess {name} of {guess.attribute!r}", getattr(guess, name))
        rows = self.provenance.get("rows", 1)
        if not _is_number(rows) or not 0 < rows < math.inf:
            raise InvalidInputError(f"the mechanism's number of rows is {rows!r}: the file was changed")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mechanism as JSON, whole or not at all."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mechanism:
        """Read a mechanism written by :meth:`save`."""
        return cls.from_dict(read_json(path))


def _codes(values: Any) -> NDArray[np.int64]:
    codes = np.asarray(values)
    if codes.size and codes.dtype.kind != "i":
        raise InvalidInputError("the mechanism's symbols are not whole numbers: the file was changed")
    return codes.astype(np.int64)


def _dense(data: Mapping[str, Any], shape: tuple[int, int]) -> Array:
    """The channel from its nonzero entries; the shape is known from the labels, before memory is asked for."""
    if list(data["shape"]) != list(shape):
        raise InvalidInputError(
            f"channel of the mechanism has the shape {data['shape']!r}, its symbols need {list(shape)}: "
            "the file was changed"
        )
    x, y = _codes(data["x"]), _codes(data["y"])
    if (x < 0).any() or (y < 0).any():
        raise InvalidInputError("channel of the mechanism has negative positions: the file was changed")
    channel = np.zeros(shape)
    channel[x, y] = data["p"]
    return channel


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_number(name: str, value: Any) -> None:
    if not _is_number(value) or not math.isfinite(value):
        raise InvalidInputError(
            f"the {name} of the mechanism is {value!r}, no finite number: the file was changed"
        )


def _check_values(columns: Sequence[Column]) -> None:
    for column in columns:
        for value in column.values:
            if isinstance(value, float) and not math.isfinite(value):
                raise InvalidInputError(
                    f"column {column.name!r} has the value {value!r}, which a mechanism cannot keep: bin it, e.g. "
                    f"--bin '{column.name}=edges:0,18,65,inf'"
                )


def attribute_tables(columns: Sequence[Column], codes: NDArray[np.int64], joint: Array) -> dict[str, Array]:
    """Joint tables of each single attribute and another variable.

    Args:
        columns: The attributes.
        codes: Category of each attribute (symbols, attributes).
        joint: p(symbol, other), shape (symbols, others).

    Returns:
        Attribute name to p(category, other); with several attributes, their combination last, under all names.
    """
    tables = {}
    for j, column in enumerate(columns):
        table = np.zeros((column.n_values, joint.shape[1]))
        np.add.at(table, codes[:, j], joint)
        tables[column.name] = table
    if len(columns) > 1:
        tables[" and ".join(column.name for column in columns)] = joint
    return tables


def guesses(counts: Counts, p_sx: Array, channel: Array) -> tuple[Guess, ...]:
    """Guessing accuracy of each private attribute, and of all together: blind, from Y, from X."""
    accuracy = measures.guessing_accuracy
    from_x = attribute_tables(counts.private, counts.s_codes, p_sx)
    return tuple(
        Guess(name, float(table.sum(axis=1).max()), float(accuracy(table @ channel)), float(accuracy(table)))
        for name, table in from_x.items()
    )
