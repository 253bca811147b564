r"""A release that follows others as one of pairs (x, y_0), of which everybody has y_0.

Let Y_0 be all earlier releases together, drawn from p(y_0|x), and let the next one be drawn from p(y|x, y_0). Then

    I(S;Y_0,Y) = I(S;Y_0) + I(S;Y|Y_0),        I(X;Y_0,Y) = I(X;Y_0) + I(X;Y|Y_0),

and the second terms are those of a funnel over pairs (x, y_0) in which y_0 is published.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privfunnel import measures
from privfunnel.certificate.answer import Answer
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.measures import Array
from privfunnel.model.amounts import in_both
from privfunnel.model.problem import Point, Problem
from privfunnel.model.question import FEASIBILITY, Question
from privfunnel.model.threat import Threat
from privfunnel.reductions import Reduction

#: Name of the column that holds the earlier releases' symbol.
EARLIER = "earlier release"
#: Pairs (x, y_0) that a design may have.
MOST_PAIRS = 2000


@dataclass(frozen=True, eq=False)
class Following(Reduction):
    """A plain question about all releases together as one about pairs.

    Attributes:
        problem: The problem of the table.
        told: p(y_0|x) of the earlier releases together, shape (M, N).
        names: What each y_0 is called.
    """

    problem: Problem
    told: Array
    names: tuple[str, ...]

    @cached_property
    def before(self) -> Point:
        """I(X;Y_0) and I(S;Y_0)."""
        return self.problem.evaluate(self.told)

    @cached_property
    def pairs(self) -> NDArray[np.intp]:
        """X and y_0 of each pair that occurs, shape (pairs, 2).

        Raises:
            InvalidInputError: There are too many.
        """
        found = np.argwhere(self.told * self.problem.p_x[:, None] > 0.0)
        if len(found) > MOST_PAIRS:
            raise InvalidInputError(
                f"the earlier releases leave {len(found):,} pairs of public values and released symbols, more than "
                f"{MOST_PAIRS:,}: give fewer releases, or coarser columns"
            )
        return found

    @cached_property
    def over(self) -> Problem:
        """The problem of the pairs, with the public columns of x and one for y_0."""
        problem = self.problem
        if EARLIER in problem.public_columns:
            raise InvalidInputError(f"a public column is called {EARLIER!r}: rename it")
        x, y = self.pairs.T
        columns = {name: [values[i] for i in x] for name, values in problem.public_columns.items()}
        table = problem.p_sx[:, x] * self.told[x, y]
        labels = [f"{problem.x_labels[i]}, {EARLIER}={self.names[j]}" for i, j in self.pairs]
        return Problem(
            table / table.sum(), problem.s_labels, labels, n=problem.n,
            public_columns={**columns, EARLIER: [self.names[j] for j in y]},
        )  # fmt: skip

    def apply(self, question: Question) -> Question:
        """The question about the pairs, with what the earlier releases have taken off it.

        Raises:
            InfeasibleError: They tell more than the budget already.
            InvalidInputError: There are too many pairs, or a column has the name of the earlier releases.
        """
        over, before = self.over, self.before
        if question.budget < before.leakage - FEASIBILITY:
            raise InfeasibleError(
                f"leakage={in_both(question.budget)} is infeasible: the earlier releases tell "
                f"{in_both(before.leakage)} already; allow more"
            )
        shift = float(measures.entropy(self.problem.p_x @ self.told)) - before.disclosure
        more = float(np.clip(question.disclosure + shift, 0.0, over.disclosure_ceiling))
        return replace(
            question,
            problem=over,
            guards=Threat.of(over, published=[EARLIER]),
            disclosure=more if question.names_place else 0.0,
            budget=max(question.budget - before.leakage, 0.0),
        )

    def invert(self, answer: Answer, question: Question | None) -> Answer:
        """p(y_0, y|x) of all releases together, shape (M, N): an output of the next one belongs to one y_0."""
        return replace(answer, channel=self.together(answer.channel), certificate=None)

    def together(self, channel: object) -> Array:
        """p(y_0, y|x), shape (M, N), of a channel of the pairs."""
        inside = np.asarray(channel, dtype=np.float64)
        joint = np.zeros((self.problem.n_x, inside.shape[1]))
        np.add.at(joint, self.pairs[:, 0], inside * np.asarray(self.over.p_x)[:, None])
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))
