"""A mechanism: everything a release needs and a reviewer may ask for, in one file that never holds rows.

It keeps the channel p(y|x), p(x) and what each released symbol says about the private attributes, p(s|y). The joint
table p(s, x) of the design data, whose rare cells are single persons, is not written out, but these exact numbers
determine it up to rounding wherever the channel tells the public symbols apart: a mechanism is the steward's own file,
as confidential as the data. What goes with a release is its codebook, whose numbers are coarse.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from privfunnel._version import __version__
from privfunnel.data.engines import Alphabet, Bins, Column, ReadOptions
from privfunnel.data.engines.alphabet import TwoAlphabets
from privfunnel.data.engines.categories import Codes, people
from privfunnel.data.score_classes import ScoreClasses
from privfunnel.data.tables import Counts
from privfunnel.data.task_tables import described
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document, Stored
from privfunnel.measures import INFORMATION, Array, Channel
from privfunnel.model import channels
from privfunnel.model.channels import is_sparse, joint
from privfunnel.model.equal_symbols import held_by_classes
from privfunnel.release import checked_claims as claims
from privfunnel.release.channel_files import Classes, codes, read_channel, stored_channel
from privfunnel.release.guesses import Guess, best_guesses
from privfunnel.release.provenance import Provenance
from privfunnel.solving.solution import Solution

#: What a promise says: the achieved point, what is proved, what was asked for, and the ceilings that shares refer to.
PROMISES = (
    "disclosure", "leakage", "lower_bound", "bound_source", "requested", "budget", "status", "disclosure_ceiling",
    "leakage_ceiling",
)  # fmt: skip
#: A guess as it is written to a file.
GUESSES = ("attribute", "before", "after", "original")


@dataclass(frozen=True, eq=False)
class Mechanism(TwoAlphabets, Provenance, Stored):
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
        outputs: The public symbol that each released symbol is, shape (N,), where records are released for records (a
            distortion funnel); None where records are drawn from p(x|y).
        scores: The score classes that p(s|x) was taken from, where it was, and how a new public symbol is classed.
    """

    schema: ClassVar[str] = "privfunnel/mechanism"

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
    outputs: Codes | None = None
    scores: ScoreClasses | None = None

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
        summary = solution.summary()
        guarded, plain = guarded_promise(solution)
        summary |= plain
        classes, told = None, None
        held = held_by_classes(solution.mapping)
        if held is not None and is_sparse(held.table):
            outputs = held.coupled.outputs
            classes = Classes(held.lumping.classes, held.channel, held.share, outputs)
            told = held.p_s_given_y[:, outputs]
        channel, released = solution.channel, None
        if solution.outputs is not None:  # records that are never released are no symbols
            used = np.flatnonzero(solution.p_y > 0.0)
            channel, told = channel[:, used], solution.p_s_given_y[:, used]
            released = solution.outputs[used].astype(np.int64)
            names = ("distortion", "limit", "invariant")
            guarded["distortion"] = {name: summary[name] for name in names}
        tasks = problem.tasks
        if tasks is not None and "utility" in summary:
            kept = {"utility": summary["utility"], "utility_ceiling": tasks.ceiling}
            guarded["task"] = {"columns": list(tasks.names), **kept, **described(counts.tasks)}
        ceilings = {
            "disclosure_ceiling": problem.disclosure_ceiling,
            "leakage_ceiling": problem.leakage_ceiling,
        }
        return cls(
            s_alphabet=counts.s_alphabet,
            x_alphabet=counts.x_alphabet,
            channel=channel,
            p_x=problem.p_x,
            p_s_given_y=solution.p_s_given_y if told is None else told,
            promise={name: value for name, value in (summary | ceilings).items() if name in PROMISES},
            guesses=best_guesses(counts.s_alphabet, problem.p_sx, channel),
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
            outputs=released,
            scores=counts.scores,
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
            **self._stored_outputs,
            **self._stored_scores,
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
    def bins(self) -> dict[str, Bins]:
        """Recorded bins by column name, for :func:`privfunnel.data.tables.count`."""
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
    def record_given_y(self) -> Channel:
        """p(x'|y), what is written as a record for a symbol, shape (M, N): p(x|y), or the record that the symbol is."""
        if self.outputs is None:
            return self.p_x_given_y
        table = np.zeros(self.channel.shape)
        table[self.outputs, np.arange(self.n_y)] = 1.0
        return table

    @cached_property
    def class_given_y(self) -> Channel:
        """p(t|y) of the score classes, shape (C, N), as dense as the channel.

        Raises:
            InvalidInputError: The mechanism has none.
        """
        if self.scores is None:
            raise InvalidInputError("the mechanism was designed without score classes")
        members = (np.ones(len(self.p_x)), (self.scores.of_x, np.arange(len(self.p_x))))
        return sparse.csr_array(members, shape=(self.scores.n_classes, len(self.p_x))) @ self.p_x_given_y

    @cached_property
    def class_channel(self) -> Channel:
        """p(y|t) of the score classes, Σ p(x|t) p(y|x), shape (C, N), as dense as the channel."""
        shares = self.p_y * self.class_given_y if not self.sparse else self.class_given_y.multiply(self.p_y)
        total = np.asarray(shares.sum(axis=1))
        return (
            shares / total[:, None]
            if not self.sparse
            else sparse.csr_array(shares.multiply(1.0 / total[:, None]))
        )

    @cached_property
    def class_symbols(self) -> Codes:
        """The class symbol of each released one, shape (N,), from 0 on: symbols with the same p(t|y) share one.

        All that a symbol says about the class. What it says about the private columns beyond that, because members of a
        class differ, no count of the classes shows.
        """
        given_y = self.class_given_y
        dense = given_y if not self.sparse else given_y.toarray()
        return np.unique(np.round(dense, 6), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)

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

    def to_dict(self) -> Document:
        """JSON-ready; the channel as its nonzero entries, or by its classes.

        Raises:
            InvalidInputError: A column has an infinite value, which JSON cannot hold.
        """
        claims.check_values((*self.private, *self.public))
        return {
            **self.heading(),
            "units": "nats",
            "promise": dict(self.promise),
            "guesses": [{name: getattr(guess, name) for name in GUESSES} for guess in self.guesses],
            "provenance": dict(self.provenance),
            **({} if self.read.taken_for_granted else {"read": self.read.to_dict()}),
            "private": [column.to_dict() for column in self.private],
            "public": [column.to_dict() for column in self.public],
            "s_codes": self.s_codes.tolist(),
            "x_codes": self.x_codes.tolist(),
            **self._stored_people,
            "p_x": self.p_x.tolist(),
            "sparse": self.sparse,
            **stored_channel(self.channel, self.p_s_given_y, self.classes),
            **self._stored_outputs,
            **self._stored_scores,
        }

    @property
    def _stored_people(self) -> Document:
        people = {"s_persons": self.s_alphabet.persons, "x_persons": self.x_alphabet.persons}
        return {name: n.tolist() for name, n in people.items() if n is not None}

    @property
    def _stored_outputs(self) -> Document:
        return {} if self.outputs is None else {"records": self.outputs.tolist()}

    @property
    def _stored_scores(self) -> Document:
        return {} if self.scores is None else {"scores": self.scores.to_dict()}

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
            s_codes = codes(data["s_codes"])
            x_alphabet = Alphabet(public, x_codes, persons=_persons(data, "x_persons", len(x_codes)))
            p_x = np.asarray(data["p_x"], dtype=np.float64)
            channel, p_s_given_y, classes = read_channel(data, p_x, len(x_codes))
            found = cls(
                s_alphabet=Alphabet(private, s_codes, persons=_persons(data, "s_persons", len(s_codes))),
                x_alphabet=x_alphabet,
                channel=channel,
                p_x=p_x,
                p_s_given_y=p_s_given_y,
                promise={name: data["promise"][name] for name in PROMISES},
                guesses=tuple(_guess(**guess) for guess in data["guesses"]),
                provenance=dict(data["provenance"]),
                read=ReadOptions.from_dict(data.get("read", {})),
                classes=classes,
                outputs=codes(data["records"]) if "records" in data else None,
                scores=_scores(data, x_alphabet, len(s_codes)),
            )
            found._check()
            return found

    def _check(self) -> None:
        """Refuse a mechanism whose parts do not fit, or whose claims its channel does not bear out.

        A release is only as good as this file, which travels through mail and folders: a number that someone changed
        must not be believed. The checks stop at the first thing that is wrong, since later ones rely on earlier ones.
        """
        claims.check_values((*self.private, *self.public))
        for wrong in claims.wrong(self):
            raise InvalidInputError(f"{wrong}: the file was changed")


def symbol_names(number: int) -> tuple[str, ...]:
    """``y0``, ``y1``, and so on: names of released symbols, with as many digits as needed to sort."""
    return tuple(symbol_name(j, number) for j in range(number))


def symbol_name(j: int, number: int) -> str:
    """The name of released symbol ``j`` of ``number``."""
    return f"y{j:0{len(str(number - 1))}d}"


def _persons(data: Mapping[str, Any], name: str, size: int) -> Codes | None:
    """How many people have each symbol, where a file says it."""
    found = people(data.get(name), size, "the symbols")
    return None if found is None else np.array(found, dtype=np.int64)


def _scores(data: Mapping[str, Any], x_alphabet: Alphabet, n_s: int) -> ScoreClasses | None:
    """The score classes of a file, if it has any."""
    return ScoreClasses.from_dict(data["scores"], x_alphabet, n_s) if "scores" in data else None


def _guess(attribute: str, before: float, after: float, original: float) -> Guess:
    """A guess from a file; the parameters are its keys, so that a key too many is told."""
    return Guess(attribute, before, after, original)


def guarded_promise(solution: Solution) -> tuple[Document, Document]:
    """What a mechanism of a guarded solution was designed for, and what its promise says instead of the solution's.

    The promise is about who knows nothing, and can be recomputed from the mechanism's file; what else was designed for
    needs the table. Both are empty where nothing was guarded.
    """
    guards = solution.guards
    if guards.plain:
        return {}, {}
    designed: Document = {
        "guarded": guards.words,
        "conditions": guards.conditions,
        "leakages": solution.leakages,
        "guaranteed": solution.guaranteed,
        "lower_bound": solution.lower_bound,
        **({} if guards.published is None else {"published": guards.published.name}),
    }
    plain = solution.problem.evaluate(solution.channel).leakage
    promised: Document = {"leakage": plain, "lower_bound": 0.0, "bound_source": "zero"}
    if not guards.measure.is_information or guards.attributes:
        # What is promised and audited is I(S;Y|A); what the design was about stands beside it.
        informed = replace(guards, measure=INFORMATION, attributes=())
        designed |= {
            "measured": solution.leakages,
            "leakages": informed.leakages(solution.problem, solution.channel),
            "lower_bound": 0.0,
        }
        promised |= {"budget": None}
    if not guards.measure.is_information:
        whole = guards.leakages(solution.problem, channels.identity(solution.problem.n_x))
        numbers = {"ceiling": max(whole.values()), "lower_bound": solution.lower_bound}
        designed["measure"] = {"name": guards.measure.name, **numbers}
    if guards.attributes:
        designed["budgets"] = {one.name: one.budget for one in guards.attributes}
    return designed, promised
