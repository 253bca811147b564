"""The judge with answers to questions of every kind whose proof may be made to lie, for tests and for fuzzing."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import privfunnel as pf
from forging import changed
from privfunnel.certificate import Certificate
from privfunnel.certificate.answer import Answer, Status
from privfunnel.model.question import Question
from privfunnel.solving.judging import Line, Run, judge
from privfunnel.solving.request import Request
from privfunnel.solving.solution import Solution
from reference import tables

GAP = 1e-3


class Case(NamedTuple):
    """An answer to a question.

    Attributes:
        question: The question.
        solution: What was found, honestly; of a floor, for who knows nothing.
        floor: Whether the proof is the plain funnel's, for a question about attackers.
    """

    question: Question
    solution: Solution
    floor: bool = False

    @property
    def problem(self) -> pf.Problem:
        """The problem."""
        return self.question.problem

    @property
    def proof(self) -> Certificate:
        """The honest certificate."""
        assert self.solution.certificate is not None
        return self.solution.certificate

    def judge(self, proof: Certificate) -> Solution:
        """What the judge makes of the solution's channel with another certificate."""
        own, lines = (None, [Line(proof)]) if self.floor else (proof, [])
        answer: Answer = Answer(
            channel=self.solution.mapping, status=Status.CONVERGED, certificate=own, slope=self.solution.slope
        )
        return judge(self.question, answer, Run("lying"), gap=GAP, lines=lines)


@contextlib.contextmanager
def believed() -> Iterator[None]:
    """Let every certificate pass for verified."""
    with mock.patch.object(Certificate, "verify", return_value=None):
        yield


def lying(proof: Certificate, lie: float, about: str = "intercept") -> Certificate:
    """The certificate with a line that is higher by ``lie``, or steeper where it rises."""
    if about == "slope" and proof.claim.scope.costs is None:
        return changed(proof, slope=proof.slope + lie)
    return changed(proof, intercept=proof.intercept + lie)


@functools.cache
def cases() -> dict[str, Case]:
    """Every kind of question with its answer."""
    task, column = tables()["small"]
    plain = pf.Problem(task.counts, public_columns=task.public_columns, private_columns=task.private_columns)
    most, useful = 0.8 * plain.disclosure_ceiling, 0.95 * task.utility_ceiling
    known: dict[str, Any] = {"known": [column]}
    asked: dict[str, tuple[pf.Problem, dict[str, Any]]] = {
        "plain": (plain, {"disclosure": most}),
        "plain, budget": (plain, {"leakage": 0.02}),
        "plain, zero": (plain, {"leakage": 0.0}),
        "known": (plain, {"disclosure": most, **known}),
        "known, budget": (plain, {"leakage": 0.02, **known}),
        "known, zero": (plain, {"leakage": 0.0, **known}),
        "published": (plain, {"disclosure": most, "published": [column]}),
        "guarantee": (plain, {"guarantees": ["lip=0.2"]}),
        "guarantee, disclosure": (plain, {"disclosure": most, "guarantees": ["lift=1"]}),
        "maximal leakage": (plain, {"disclosure": most, "measure": "maximal-leakage"}),
        "maximal leakage, budget": (plain, {"leakage": 0.2, "measure": "maximal-leakage", **known}),
        "task": (task, {"utility": useful}),
        "task, budget": (task, {"leakage": 0.002}),
        "task, zero": (task, {"leakage": 0.0}),
        "guarded task": (task, {"utility": useful, **known}),
        "guarded task, budget": (task, {"leakage": 0.002, **known}),
        "guarded task, zero": (task, {"leakage": 0.0, **known}),
        "distortion": (plain, {"distortion": 0.2}),
        "distortion, budget": (plain, {"leakage": 0.02, "costs": "record"}),
        "distortion, invariant": (plain, {"distortion": 0.2, "invariant": True}),
        "distortion, budget, invariant": (plain, {"leakage": 0.02, "invariant": True}),
    }
    made = {}
    for name, (problem, options) in asked.items():
        exact = {} if name.startswith(("plain", "distortion")) else {"gap": GAP}
        limit = {"time_limit": 600.0} if "gap" in exact and not name.startswith("task") else {}
        found = pf.solve(problem, **options, **exact, **limit)
        made[name] = Case(found.question, found)
    floors = {
        "floor": ("plain", Request(disclosure=most, **known)),
        "floor, budget": ("plain, budget", Request(leakage=0.2, **known)),
        "floor of a task": ("task", Request(utility=useful, **known)),
    }
    for name, (of, request) in floors.items():
        made[name] = Case(request.of(made[of].problem), made[of].solution, floor=True)
    return made
