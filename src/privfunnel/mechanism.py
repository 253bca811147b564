"""A mechanism: everything a release needs and a reviewer may ask for, in one file that never holds rows.

It keeps the channel p(y|x), p(x) and what each released symbol says about the private attributes, p(s|y). The joint
table p(s, x) of the design data, whose rare cells are single persons, is not written out, but these exact numbers
determine it up to rounding wherever the channel tells the public symbols apart: a mechanism is the steward's own file,
as confidential as the data. What goes with a release is its codebook, whose numbers are coarse.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from privfunnel import measures
from privfunnel._version import __version__
from privfunnel.channelfiles import Classes, codes, is_number, read_channel, stored_channel
from privfunnel.channels import entries_of, is_sparse, joint
from privfunnel.engines import Alphabet, Bins, Column, ReadOptions
from privfunnel.engines.categories import Codes
from privfunnel.errors import InvalidInputError
from privfunnel.guessing import Guess, best_guesses
from privfunnel.lumping import ClassChannel
from privfunnel.measures import Array
from privfunnel.problem import Channel
from privfunnel.provenance import Provenance
from privfunnel.solution import Solution
from privfunnel.storage import Stored
from privfunnel.tables import Counts

AGREEMENT = 1e-9  # nats within which a file's claims must agree with its channel

#: What a promise says: the achieved point, what is proved, what was asked for, and the ceilings that shares refer to.
PROMISES = (
    "disclosure", "leakage", "lower_bound", "bound_source", "requested", "budget", "status", "disclosure_ceiling",
    "leakage_ceiling",
)  # fmt: skip
#: A guess as it is written to a file.
GUESSES = ("attribute", "before", "after", "original")


@dataclass(frozen=True, eq=False)
class Mechanism(Provenance, Stored):
    """A channel with its labels, its promise and its provenance; nats.

    Attributes:
        s_alphabet: The K private symbols, ``x_alphabet`` the M public ones: columns, categories and bins.
        channel: p(y|x), shape (M, N): an array, or a SciPy sparse array where M·N exceeds ten million.
        p_x: p(x), shape (M,).
        p_s_given_y: p(s|y), shape (K, N).
        promise: Disclosure, leakage, proved lower bound, what was asked, ceilings; see ``PROMISES``.
        guesses: Guessing accuracy a private attribute, and for all together, at design.
        provenance: Version, fingerprints of the design data, rows, persons where they were named, ε where the design is
            private, solver and seed.
        read: How the design data was read, so that a release or an audit of the same file need not be told again.
        classes: The classes that a sparse channel was made of, where it was.
    """

    schema: ClassVar[str] = "privfunnel/mechanism"
    #: Version 1 holds the entries of an array, version 2 those of a sparse channel or its classes.
    schema_version: ClassVar[int] = 2
    oldest_version: ClassVar[int | None] = 1

    s_alphabet: Alphabet
    x_alphabet: Alphabet
    channel: Channel
    p_x: Array
    p_s_given_y: Array
    promise: Mapping[str, Any]
    guesses: tuple[Guess, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    read: ReadOptions = field(default_factory=ReadOptions)
    classes: Classes | None = None

    @classmethod
    def from_solution(cls, counts: Counts, solution: Solution) -> Mechanism:
        """The mechanism of a solution found for these counts.

        Raises:
            InvalidInputError: The solution belongs to another table.
        """
        problem = solution.problem
        table = counts.table()
        # Compared bit by bit: labels alone may be equal in tables whose counts are not.
        if problem.p_sx.shape != table.shape or not np.array_equal(problem.p_sx, table / table.sum()):
            raise InvalidInputError("the solution belongs to another table: solve counts.problem() first")
        summary, mapping = solution.summary(), solution.mapping
        from privfunnel.guarding import guarded_promise  # loads solvers, which a release does not need

        guarded, plain = guarded_promise(solution)
        summary |= plain
        classes, told = None, None
        if isinstance(mapping, ClassChannel) and is_sparse(mapping.table):
            outputs = mapping.coupled.outputs
            classes = Classes(mapping.lumping.classes, mapping.channel, mapping.share, outputs)
            told = mapping.p_s_given_y[:, outputs]
        ceilings = {
            "disclosure_ceiling": problem.disclosure_ceiling,
            "leakage_ceiling": problem.leakage_ceiling,
        }
        return cls(
            s_alphabet=counts.s_alphabet,
            x_alphabet=counts.x_alphabet,
            channel=solution.channel,
            p_x=problem.p_x,
            p_s_given_y=solution.p_s_given_y if told is None else told,
            promise={name: value for name, value in (summary | ceilings).items() if name in PROMISES},
            guesses=best_guesses(counts.s_alphabet, problem.p_sx, solution.channel),
            provenance={
                "privfunnel": __version__,
                "data": counts.fingerprint,
                "problem": problem.fingerprint,
                **counts.described,
                "solver": solution.solver,
                "seed": solution.seed,
                **guarded,
            },
            read=counts.read or ReadOptions(),
            classes=classes,
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what rows are drawn by, as hex: public columns and symbols, p(x) and the channel.

        Taken of them as the file holds them, so that a mechanism has the same before and after it was saved.
        """
        drawn = {
            "public": [column.to_dict() for column in self.public],
            "x_codes": self.x_codes.tolist(),
            "p_x": self.p_x.tolist(),
            **stored_channel(self.channel, self.p_s_given_y, self.classes),
        }
        del drawn["p_s_given_y"]
        return hashlib.sha256(json.dumps(drawn, sort_keys=True).encode()).hexdigest()

    @property
    def n_y(self) -> int:
        """N, the number of released symbols."""
        return int(self.channel.shape[1])

    @property
    def published(self) -> tuple[str, ...]:
        """Public columns that are released as they are, where the design was told any."""
        told = str(self.provenance.get("published", ""))
        names = (told,) if told in self.public_names else tuple(told.split(", "))
        return names if all(name in self.public_names for name in names) else ()

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
        return symbol_names(self.n_y)

    @property
    def private(self) -> tuple[Column, ...]:
        """The private columns."""
        return self.s_alphabet.columns

    @property
    def public(self) -> tuple[Column, ...]:
        """The public columns."""
        return self.x_alphabet.columns

    @property
    def private_names(self) -> tuple[str, ...]:
        """Names of the private columns."""
        return self.s_alphabet.names

    @property
    def public_names(self) -> tuple[str, ...]:
        """Names of the public columns."""
        return self.x_alphabet.names

    @property
    def s_codes(self) -> Codes:
        """Categories of each private symbol, shape (K, private columns)."""
        return self.s_alphabet.codes

    @property
    def x_codes(self) -> Codes:
        """Categories of each public symbol, shape (M, public columns)."""
        return self.x_alphabet.codes

    @property
    def s_labels(self) -> tuple[str, ...]:
        """One text a private symbol."""
        return self.s_alphabet.labels

    @property
    def x_labels(self) -> tuple[str, ...]:
        """One text a public symbol."""
        return self.x_alphabet.labels

    @property
    def bins(self) -> dict[str, Bins]:
        """Recorded bins by column name, for :func:`privfunnel.tables.count`."""
        return self.s_alphabet.bins | self.x_alphabet.bins

    @cached_property
    def p_y(self) -> Array:
        """p(y), shape (N,)."""
        return np.asarray(self.p_x @ self.channel)

    @property
    def sparse(self) -> bool:
        """Whether the channel is held by its entries above 0 alone."""
        return is_sparse(self.channel)

    @property
    def large(self) -> bool:
        """Whether the file is too large to be read by people."""
        return self.sparse

    @property
    def p_xy(self) -> Channel:
        """p(x, y), shape (M, N), as dense as the channel."""
        return joint(self.p_x, self.channel)

    @cached_property
    def p_x_given_y(self) -> Channel:
        """p(x|y), shape (M, N), as dense as the channel; the column of a symbol that never occurs is 0."""
        p_xy = self.p_xy
        if self.sparse:
            return sparse.csc_array(p_xy.multiply(1.0 / np.where(self.p_y > 0.0, self.p_y, 1.0)))
        return np.divide(p_xy, self.p_y, out=np.zeros_like(p_xy), where=self.p_y > 0.0)

    @property
    def p_sy(self) -> Array:
        """p(s, y), shape (K, N)."""
        return np.asarray(self.p_s_given_y * self.p_y)

    def read_options(self, given: ReadOptions | None, *, public_only: bool = False) -> ReadOptions:
        """How to read a table for this mechanism: as the design data, but for what is ``given``.

        Args:
            given: What is known about the table.
            public_only: Whether the table may lack the private columns.
        """
        names = {*self.public_names} if public_only else {*self.public_names, *self.private_names}
        types = {name: kind for name, kind in self.read.types.items() if name in names}
        return (given or ReadOptions()).over(replace(self.read, types=types))

    def __repr__(self) -> str:
        """One line."""
        return (
            f"Mechanism({', '.join(self.public_names)} → {self.n_y} symbols, protecting "
            f"{', '.join(self.private_names)}: disclosure {self.disclosure:.6g}, leakage {self.leakage:.6g} nats)"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the channel as its nonzero entries, or by its classes.

        Raises:
            InvalidInputError: A column has an infinite value, which JSON cannot hold.
        """
        _check_values((*self.private, *self.public))
        return {
            **self.heading(),
            "version": self.schema_version if self.sparse else 1,
            "units": "nats",
            "promise": dict(self.promise),
            "guesses": [{name: getattr(guess, name) for name in GUESSES} for guess in self.guesses],
            "provenance": dict(self.provenance),
            **({} if self.read.taken_for_granted else {"read": self.read.to_dict()}),
            "private": [column.to_dict() for column in self.private],
            "public": [column.to_dict() for column in self.public],
            "s_codes": self.s_codes.tolist(),
            "x_codes": self.x_codes.tolist(),
            "p_x": self.p_x.tolist(),
            **stored_channel(self.channel, self.p_s_given_y, self.classes),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Mechanism:
        """Read back what :meth:`to_dict` wrote, exactly; claims that its channel does not bear out are refused.

        Raises:
            InvalidInputError: It is no mechanism, of a version this release cannot read, incomplete or altered.
        """
        with cls.reading(data):
            private, public = (
                tuple(Column.from_dict(column) for column in data[role]) for role in ("private", "public")
            )
            x_codes = codes(data["x_codes"])
            p_x = np.asarray(data["p_x"], dtype=np.float64)
            channel, p_s_given_y, classes = read_channel(data, p_x, len(x_codes))
            found = cls(
                s_alphabet=Alphabet(private, codes(data["s_codes"])),
                x_alphabet=Alphabet(public, x_codes),
                channel=channel,
                p_x=p_x,
                p_s_given_y=p_s_given_y,
                promise={name: data["promise"][name] for name in PROMISES},
                guesses=tuple(_guess(**guess) for guess in data["guesses"]),
                provenance=dict(data["provenance"]),
                read=ReadOptions.from_dict(data.get("read", {})),
                classes=classes,
            )
            found._check()
            return found

    def _check(self) -> None:
        """Refuse a mechanism whose parts do not fit, or whose claims its channel does not bear out.

        A release is only as good as this file, which travels through mail and folders: a number that someone changed
        must not be believed. The checks stop at the first thing that is wrong, since later ones rely on earlier ones.
        """
        _check_values((*self.private, *self.public))
        checks = (
            self._wrong_columns,
            self._wrong_numbers,
            self._wrong_shapes,
            self._wrong_probabilities,
            self._wrong_claims,
        )
        for wrong in chain.from_iterable(check() for check in checks):
            raise InvalidInputError(f"{wrong}: the file was changed")

    def _wrong_columns(self) -> Iterator[str]:
        roles = (self.private_names, self.public_names)
        # One column may have both roles, but no role has it twice.
        if any(len(set(names)) < len(names) or not names for names in roles):
            listed = " and ".join(", ".join(names) or "none" for names in roles)
            yield f"the private and public columns of the mechanism ({listed}) are missing or named twice"

    def _wrong_numbers(self) -> Iterator[str]:
        """Promises, guesses and rows that are not the numbers they must be."""
        finite = {
            f"promised {name}": self.promise[name]
            for name in ("lower_bound", "disclosure_ceiling", "leakage_ceiling")
        }
        # What was asked for: one of the two, so that the other is null.
        finite |= {
            f"promised {name}": self.promise[name]
            for name in ("requested", "budget")
            if self.promise[name] is not None
        }
        finite |= {
            f"guess {name} of {guess.name!r}": getattr(guess, name)
            for guess in self.guesses
            for name in ("before", "after", "original")
        }
        for name, value in finite.items():
            if not is_number(value) or not math.isfinite(value):
                yield f"the {name} of the mechanism is {value!r}, no finite number"
        for name in ("disclosure", "leakage"):  # their values are recomputed later
            if not is_number(self.promise[name]):
                yield f"the mechanism claims {name} {self.promise[name]!r}, no number"
        rows = self.provenance.get("rows", 1)
        if not is_number(rows) or not 0 < rows < math.inf:
            yield f"the mechanism's number of rows is {rows!r}"

    def _wrong_shapes(self) -> Iterator[str]:
        for name, alphabet in (("s_codes", self.s_alphabet), ("x_codes", self.x_alphabet)):
            if not alphabet.fits:
                yield f"{name} of the mechanism do not fit its columns"
            if alphabet.repeats:  # a row of such a symbol would have two channels
                yield f"{name} of the mechanism hold a symbol twice"
        n_x, n_y = self.channel.shape
        fits = {
            "x_codes": len(self.x_alphabet) == n_x,
            "p_x": self.p_x.shape == (n_x,),
            "p_s_given_y": self.p_s_given_y.shape == (len(self.s_alphabet), n_y),
        }
        yield from (
            f"{name} of the mechanism does not fit its channel" for name, fit in fits.items() if not fit
        )

    def _wrong_probabilities(self) -> Iterator[str]:
        sums = {
            "channel": self.channel.sum(axis=1),
            "p_x": self.p_x.sum(),
            # A symbol that never occurs says nothing, and its column is 0.
            "p_s_given_y": self.p_s_given_y[:, self.p_y > 0.0].sum(axis=0),
        }
        for name, total in sums.items():
            array = getattr(self, name)
            array = entries_of(array)
            if not np.isfinite(array).all() or (array < 0.0).any() or np.abs(total - 1.0).max() > AGREEMENT:
                yield f"{name} of the mechanism holds no probabilities"

    def _wrong_claims(self) -> Iterator[str]:
        """The promise is recomputed from the channel; only the lower bound cannot be, without its certificate."""
        found = {
            "disclosure": float(measures.mutual_information(self.p_xy)),
            "leakage": float(measures.mutual_information(self.p_sy)),
        }
        for name, value in found.items():
            # Written so that a NaN, which is within no distance of anything, is refused too.
            if not abs(float(self.promise[name]) - value) <= AGREEMENT:
                yield f"the mechanism claims {name} {self.promise[name]!r}, its channel gives {value!r}"
        if self.promise["lower_bound"] > self.leakage + AGREEMENT:
            yield (
                f"the mechanism claims the lower bound {self.promise['lower_bound']!r} above its own leakage "
                f"{self.leakage!r}"
            )


def symbol_names(number: int) -> tuple[str, ...]:
    """``y0``, ``y1``, and so on: names of released symbols, with as many digits as needed to sort."""
    width = len(str(number - 1))
    return tuple(f"y{j:0{width}d}" for j in range(number))


def _guess(attribute: str, before: float, after: float, original: float) -> Guess:
    """A guess from a file; the parameters are its keys, so that a key too many is told."""
    return Guess(attribute, before, after, original)


def _check_values(columns: Iterable[Column]) -> None:
    """Refuse infinite values, before the file is written and after it was read: JSON has no word for them."""
    for column in columns:
        for value in column.values:
            if isinstance(value, float) and not math.isfinite(value):
                raise InvalidInputError(
                    f"column {column.name!r} has the value {value!r}, which a mechanism cannot keep: bin it, e.g. "
                    f"--bin '{column.name}=edges:0,18,65,inf'"
                )
