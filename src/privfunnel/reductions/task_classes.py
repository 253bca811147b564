"""Guarded releases for a task on tables with many public symbols: symbols that are alike solved as one.

Public symbols with the same p(s|x) and p(u|x) that every attacker tells apart no better count as one class T: a channel
p(y|t) of the classes is one of their members with the same leakages, the same utility and the same p(s|y), and every
channel of the members has its mean over each class, with the same ones again. So nothing is lost. Where there are too
many classes, cells of symbols that are nearly alike take their place: what is found is as good as it says, and only the
plain funnel's bound is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privfunnel.certificate import Certificate, GuardedBody, Proof
from privfunnel.certificate.answer import Answer
from privfunnel.errors import CertificateError
from privfunnel.measures import Array
from privfunnel.model.attackers import Attacker
from privfunnel.model.problem import Problem
from privfunnel.model.question import Question
from privfunnel.model.threat import Threat
from privfunnel.reductions import Reduction
from privfunnel.reductions.task_cells import cells_of, classes

#: Classes up to which a search comes to an end; beyond, about so many cells are solved.
MOST_CLASSES, MOST_CELLS = 300, 200
#: Cells are no fewer than this for each thing that attackers tell apart.
LEAST_CELLS = 10


@dataclass(frozen=True, eq=False)
class TaskAlike(Reduction):
    """A question about classes of a problem's public symbols, as a problem of their own.

    Attributes:
        of: The class of each public symbol, numbered from 0, shape (M,).
        problem: The problem of the classes.
        threat: What their releases are guarded against.
        exact: Whether members are alike, and not nearly so.
    """

    of: NDArray[np.intp]
    problem: Problem
    threat: Threat
    exact: bool

    def summed(self, posteriors: Array) -> Array:
        """Posteriors of the public symbols, (n, M), as posteriors of the classes, (n, classes)."""
        made = [np.bincount(self.of, each, self.problem.n_x) for each in posteriors]
        return np.stack(made) if made else np.zeros((0, self.problem.n_x))

    def apply(self, question: Question) -> Question:
        """The question about the classes: a utility of theirs is one of their members."""
        return replace(question, problem=self.problem, guards=self.threat)

    def invert(self, answer: Answer, question: Question | None) -> Answer:
        """An answer for the classes as one for their members; its proof holds for these where they are alike."""
        known = None if question is None or not self.exact else self._proof(answer.certificate, question)
        return replace(answer, channel=np.asarray(answer.channel)[self.of], certificate=known)

    def _proof(self, line: Certificate | None, question: Question) -> Certificate | None:
        """A proof of the classes as one of their members, verified; None where that fails."""
        if line is None:
            return None
        problem, threat = question.problem, question.guards
        claim, body = line.claim, line.body_of(GuardedBody)
        inner, outer = self.threat.strata(self.problem), threat.strata(problem)
        sizes = [(one.x.size, other.x.size) for one, other in zip(inner, outer, strict=True)]
        proofs = [
            _wider(tree, *size) if isinstance(tree, Proof) else None
            for tree, size in zip(body.proofs, sizes, strict=True)
        ]
        trees = [tree for tree in proofs if tree is not None]
        if len(trees) < len(proofs):
            return None
        made = GuardedBody.build(
            problem, threat, body.prices[self.of], (np.array(claim.weights), claim.disclosure), trees,
            zero=claim.scope.zero, task_slope=claim.utility,
        )  # fmt: skip
        try:
            made.verify(problem)
        except CertificateError:  # a cap of single symbols, or rounding: the plain funnel's bound is left
            return None
        return made


def classes_of(problem: Problem, threat: Threat) -> TaskAlike:
    """The classes that are alike to the task, to S and to every attacker, or cells that nearly are."""
    told = [attacker.values for attacker in (*threat.attackers, threat.published) if attacker is not None]
    known = _numbered(np.stack(told))
    of = _numbered(np.stack([classes(problem).of, known]))
    exact = int(of.max()) < MOST_CLASSES
    if not exact:
        most = max(MOST_CELLS // (int(known.max()) + 1), LEAST_CELLS)
        of = _numbered(np.stack([cells_of(problem, most).of, known]))
    first = np.unique(of, return_index=True)[1]
    shown = threat.published
    merged = replace(
        threat,
        attackers=tuple(Attacker(each.name, each.values[first]) for each in threat.attackers),
        published=None if shown is None else Attacker(shown.name, shown.values[first]),
    )
    return TaskAlike(of, _merged(problem, of), merged, exact)


def _numbered(keys: NDArray[np.intp]) -> NDArray[np.intp]:
    """The number of each column among the different ones."""
    return np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1).astype(np.intp)


def _merged(problem: Problem, of: NDArray[np.intp]) -> Problem:
    """The problem of the classes."""

    def sums(table: Array) -> Array:
        return np.stack([np.bincount(of, row) for row in table])

    tasks = problem.required_tasks()
    counts = problem.counts
    return Problem(
        sums(problem.p_sx) if counts is None else sums(counts).astype(np.int64),
        p_ux={task.name: sums(task.p_u_given_x * problem.p_x) for task in tasks.tasks},
        task_weights={task.name: task.weight for task in tasks.tasks},
        n=problem.n if counts is None else None,
    )


def _wider(tree: Proof, n_classes: int, n_x: int) -> Proof | None:
    """The tree with p(u|y) behind the entries of members; None where it cuts the entry of a class."""
    variable = tree.variable
    if np.any((variable >= 0) & (variable < n_classes)):
        return None
    moved = np.where(variable >= n_classes, variable - n_classes + n_x, variable).astype(np.int32)
    return replace(tree, variable=moved)
