r"""The next release of rows that were released before: the least that all of them tell together, with a proof.

Everyone has the earlier releases Y_0, and the steward knows what was released for a row: the next one is drawn from
p(y|x, y_0), one funnel with p(x|y_0) in place of p(x) for each y_0, allocated by equal slopes
(:mod:`privfunnel.reductions.earlier_releases`). Its certified optimum is that of all releases together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfunnel._version import __version__
from privfunnel.certificate.answer import Status
from privfunnel.data.engines import Alphabet, Column, ReadOptions
from privfunnel.data.tables import Counts, problem_of
from privfunnel.errors import InvalidInputError
from privfunnel.infra.storage import Document
from privfunnel.measures import Channel
from privfunnel.model import channels
from privfunnel.model.problem import Point, Problem
from privfunnel.model.question import Quantity
from privfunnel.reductions.earlier_releases import EARLIER, Following
from privfunnel.release.guesses import best_guesses
from privfunnel.release.mechanism import PROMISES, Mechanism, guarded_promise, symbol_names
from privfunnel.release.repeated import joint_channel
from privfunnel.solving.point import solve
from privfunnel.solving.request import Request
from privfunnel.solving.solution import Solution

#: What :func:`privfunnel.solve` may guard against and a sequel may not: who knows A learns I(S;Y_0|A) already, which
#: differs from one attacker to the next and is no part of the funnel over pairs.
OTHERWISE = ("known", "published", "guarantees", "measure")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sequel:
    """The design of a release that follows others; nats.

    Attributes:
        reduction: From all releases together to the pairs (x, y_0).
        solution: The funnel over the pairs, with y_0 published; its problem names them, and its certificate belongs to
            it.
    """

    reduction: Following
    solution: Solution

    def __repr__(self) -> str:
        """One line with the numbers of all releases together."""
        return (
            f"Sequel({self.status.value}: together disclosure {self.disclosure:.6g}, leakage {self.leakage:.6g} ≥ "
            f"{self.lower_bound:.6g} nats; before {self.before.disclosure:.6g} and {self.before.leakage:.6g})"
        )

    @property
    def problem(self) -> Problem:
        """The problem of the table."""
        return self.reduction.problem

    @property
    def before(self) -> Point:
        """I(X;Y_0) and I(S;Y_0) of the earlier releases together."""
        return self.reduction.before

    @property
    def pairs(self) -> NDArray[np.intp]:
        """X and y_0 of each public symbol of the solution's problem, shape (pairs, 2)."""
        return self.reduction.pairs

    @cached_property
    def _h_earlier(self) -> float:
        """H(Y_0), which the pairs disclose by themselves."""
        return self.solution.problem.evaluate(self.solution.guards.nothing(self.solution.problem)).disclosure

    @property
    def status(self) -> Status:
        """How the run ended."""
        return self.solution.status

    @property
    def disclosure(self) -> float:
        """I(X;Y_0,Y)."""
        return self.before.disclosure + self.solution.disclosure - self._h_earlier

    @property
    def leakage(self) -> float:
        """I(S;Y_0,Y), what all releases tell together."""
        return self.before.leakage + self.solution.leakage

    @property
    def lower_bound(self) -> float:
        """What all releases tell at least together where so much is disclosed as was asked for, proved."""
        return self.before.leakage + self.solution.lower_bound

    @property
    def disclosure_upper_bound(self) -> float | None:
        """For a budget: what all releases disclose at most together within it, proved."""
        most = self.solution.disclosure_upper_bound
        return None if most is None else self.before.disclosure + most - self._h_earlier

    @property
    def gap(self) -> float:
        """What is missing to the proof, in nats: of leakage for a disclosure, of disclosure for a budget."""
        return self.solution.gap

    def joint_channel(self) -> Channel:
        """p(y_0, y|x) of all releases together, shape (M, N): an output of the next one belongs to one y_0."""
        return self.reduction.together(self.solution.channel)

    def mechanism(self, counts: Counts, draw: str) -> Mechanism:
        """The mechanism p(y|x, y_0): its last public column is :data:`EARLIER`, a row's earlier symbol, published.

        It promises I(S;Y_0,Y), since a released symbol belongs to one y_0; its disclosure is of x and y_0.

        Args:
            counts: The counts of the table that the design is for.
            draw: The draw that it follows, by the name that a ledger has for it.

        Raises:
            InvalidInputError: The design is for another table.
        """
        if counts.problem().fingerprint != self.problem.fingerprint:
            raise InvalidInputError(
                "the design belongs to another table: give the counts that it was made of"
            )
        solution, over = self.solution, self.solution.problem
        x, y = self.pairs.T
        earlier = Column(EARLIER, "text", self.reduction.names)
        alphabet = Alphabet(
            (*counts.x_alphabet.columns, earlier), np.column_stack([counts.x_alphabet.codes[x], y])
        )
        designed, plain = guarded_promise(solution)
        promise = solution.summary() | plain
        if promise["budget"] is not None:
            promise["budget"] += self.before.leakage
        promise |= {
            "disclosure_ceiling": over.disclosure_ceiling,
            "leakage_ceiling": self.problem.leakage_ceiling,
        }
        together = {name: getattr(self, name) for name in ("disclosure", "leakage", "lower_bound")}
        return Mechanism(
            s_alphabet=counts.s_alphabet,
            x_alphabet=alphabet,
            channel=solution.channel,
            p_x=over.p_x,
            p_s_given_y=solution.p_s_given_y,
            promise={name: promise[name] for name in PROMISES},
            guesses=best_guesses(counts.s_alphabet, over.p_sx, solution.channel),
            provenance={
                "privfunnel": __version__,
                "data": counts.fingerprint,
                "problem": over.fingerprint,
                **counts.described,
                "solver": solution.solver,
                "seed": solution.seed,
                **designed,
                "follows": {"draw": draw, **together},
            },
            read=counts.read or ReadOptions(),
        )


def sequel(
    problem: Problem | Counts,
    earlier: Iterable[Any],
    *,
    disclosure: float | str | None = None,
    leakage: float | str | None = None,
    **options: Any,
) -> Sequel:
    """Design the next release of rows that were released before.

    Args:
        problem: The problem, or counts that make one.
        earlier: Channels of the earlier releases, drawn independently given x, or what has one: solutions, mechanisms.
        disclosure: What all releases together keep at least, I(X;Y_0,Y) in nats or as a text: minimise what they tell.
        leakage: Or what all of them may tell together, I(S;Y_0,Y) in nats or as a text: maximise what they keep.
        **options: Options of the solver: ``gap``, ``time_limit``, ``seed``, ``throw``, ``progress``. The design is
            against who knows the earlier releases and nothing else.

    Returns:
        The design, with the proved bound for all releases together.

    Raises:
        InvalidInputError: Not exactly one of the two was given, a channel does not fit, or there are too many pairs.
        InfeasibleError: The earlier releases tell more than the budget already.
    """
    problem = problem_of(problem)
    others = [name for name in OTHERWISE if options.get(name)]
    if others:
        raise InvalidInputError(
            f"{others[0]}= does not go with earlier releases, which told each attacker another amount already: leave "
            f"it out, and give it to solve(sequel.solution.problem, published=[{EARLIER!r}], …), which is about what "
            "the next release adds"
        )
    question = Request(disclosure=disclosure, leakage=leakage).of(problem, axis=Quantity.DISCLOSURE)
    joint = joint_channel(problem, earlier)
    told = np.asarray(joint.toarray() if channels.is_sparse(joint) else joint)
    reduction = Following(problem, told, tuple(symbol_names(told.shape[1])))
    inner = reduction.apply(question)
    asked: Document = {"disclosure": inner.disclosure} if inner.names_place else {"leakage": inner.budget}
    return Sequel(reduction=reduction, solution=solve(inner.problem, published=[EARLIER], **asked, **options))
