"""What makes a solution of an answer to any question: numbers from its channel, proofs verified, the status corrected.

Whatever was asked, what is proved of it is the best of some lines: certificates, verified here, and closed forms. Every
line is an inequality about all releases, so that the channel in hand has to satisfy it as well: where it does not the
proof is wrong, whatever the checker says, and nothing is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from privfunnel.algorithms.perfect.too_large import most_free
from privfunnel.certificate import Certificate, Claim
from privfunnel.certificate import claim as claims
from privfunnel.certificate.answer import DEFAULT_GAP, UNFINISHED, Answer, Status
from privfunnel.errors import InfeasibleError, InvalidInputError, SolverError
from privfunnel.infra.storage import Document
from privfunnel.measures import TINY, Channel
from privfunnel.model.equal_symbols import ClassChannel, as_table, checked, evaluated, of_classes
from privfunnel.model.question import FEASIBILITY, ROUNDING, Quantity, Question, Values
from privfunnel.model.stationarity import stationarity
from privfunnel.model.threat import Threat
from privfunnel.solving.ends import Dominated, all_of_task, itself, whole_task
from privfunnel.solving.solution import Solution

#: Channels that tell nothing, or keep guarantees or budgets, do so up to rounding: they may be better by so many nats.
INEXACT = 1e-6


class Line(NamedTuple):
    """A certificate that has been verified, and what to call it."""

    certificate: Certificate
    source: str = "certificate"


class Run(NamedTuple):
    """Of which run an answer is.

    Attributes:
        solver: Name of the solver.
        seed: Its seed.
        seconds: Time spent, where it is not the answer's.
    """

    solver: str
    seed: int = 0
    seconds: float | None = None


class Proved(NamedTuple):
    """What is proved of all releases that a question is about.

    Attributes:
        leakage: They leak at least this where they are as good on the axis.
        source: What proves it.
        goal: What is proved of the goal.
        certificate: The proof of it, where it is one.
    """

    leakage: float
    source: str
    goal: float
    certificate: Certificate | None


def judge(
    question: Question,
    answer: Answer,
    run: Run,
    *,
    gap: float = DEFAULT_GAP,
    lines: Iterable[Line] = (),
) -> Solution:
    """Make a solution of an answer: evaluate its channel, verify its proof, and correct its status.

    ``Status.OPTIMAL`` survives only where a proof stands behind it: a closed form that meets the value of the goal, or
    a certificate that verifies, within ``gap``.

    Args:
        question: What was asked.
        answer: What the solver found.
        run: Of which run it is.
        gap: The gap at which an answer is proved optimal, in the goal's unit, nats of a task of weight 1.
        lines: Further proofs of the same problem, verified before: those of a curve hold at each of its points.

    Raises:
        CertificateError: The certificate does not prove what it claims.
        SolverError: A bound is refuted by the channel.
    """
    mapping, held = checked(question.problem, answer.channel), list(lines)
    values = question.values(mapping)
    if answer.certificate is not None:
        answer.certificate.verify(question.problem)
        held.append(Line(answer.certificate, answer.bound_source))
    met = question.met(values, mapping)
    applying = [line for line in held if applies(question, line.certificate.claim)]
    has = Reached(question, mapping, values)
    applying = [line for line in applying if _stands(line, has, met=met)]
    proved = _proved(question, values, applying, met=met, answer=answer)
    reached, goal = values.of(question.goal), question.goal
    missing = proved.goal - reached if goal.sought_most else reached - proved.goal
    status = final_status(answer.status, met=met, proved=missing <= gap * question.scale + ROUNDING)
    return Solution(
        question=question,
        mapping=mapping,
        values=values,
        lower_bound=proved.leakage,
        bound_source=proved.source,
        bound=proved.goal,
        slope=_slope(question, answer, mapping, status, values),
        status=status,
        certificate=proved.certificate,
        solver=run.solver,
        seed=run.seed,
        steps=answer.steps,
        seconds=answer.seconds if run.seconds is None else run.seconds,
        message=answer.message,
        record=answer.record,
    )


def failed(question: Question, channel: Channel, error: Exception, run: Run) -> Solution:
    """What is left of an answer that cannot be believed: its channel and what that has, and no bound on anything.

    Args:
        question: What was asked.
        channel: The answer's channel; where it is none, the one that releases nothing, or the published columns alone.
        error: What is wrong with the answer.
        run: Of which run it is.
    """
    try:
        mapping = checked(question.problem, channel)
        values = question.values(mapping)
    except (InvalidInputError, IndexError):  # no channel, or none of the outputs that costs are of
        mapping = question.nothing
        values = question.values(mapping)
    nothing_known = {Quantity.LEAKAGE: 0.0, Quantity.DISTORTION: 0.0}
    goal = question.goal
    return Solution(
        question=question,
        mapping=mapping,
        values=values,
        lower_bound=0.0,
        bound_source="zero",
        bound=nothing_known.get(goal, question.whole),
        slope=None,
        status=Status.INFEASIBLE if isinstance(error, InfeasibleError) else Status.FAILED,
        solver=run.solver,
        seed=run.seed,
        seconds=run.seconds or 0.0,
        message=str(error) or type(error).__name__,
    )


# --- what certificates say of a question ----------------------------------------------------------------------


def applies(question: Question, claim: Claim) -> bool:
    """Whether what is claimed holds for the releases that a question is about.

    A claim about who knows nothing holds for guarded releases, too, unless columns are published or budgets are of
    single columns; one for attackers or guarantees holds for the same ones, and one of releases that tell nothing
    where nothing may leak.
    """
    scope, guards = claim.scope, question.guards
    if scope.zero and not (scope.guards is not None and scope.guards.attributes) and question.budget > 0.0:
        return False
    if (scope.costs is not None) is not (question.costs is not None) or scope.invariant > question.invariant:
        return False
    if scope.guards is not None:
        return alike(scope.guards, guards)
    told = Dominated.of(question.problem, guards)
    # By a measure that is 0 for more than independence, what is proved of releases that tell nothing is not of these.
    return guards.plain or (
        told is not None and not (scope.zero and float(told.information(question.budget)) > 0.0)
    )


def alike(one: Threat, other: Threat) -> bool:
    """Whether two threats are the same: attackers, what is published, guarantees, measure and budgets."""
    return one is other or one.to_dict() == other.to_dict()


def least_leakage(question: Question, claim: Claim, values: Values) -> float:
    """What is claimed that releases with these values leak at least, to who learns most; −∞ for nothing."""
    line = claim.least_leakage(values.disclosure, values.utility, values.distortion)
    if claim.scope.guards is not None or question.guards.plain:
        return line
    told = Dominated.of(question.problem, question.guards)
    return -math.inf if told is None or math.isinf(line) else float(told.leakage(line))


def best_goal(question: Question, claim: Claim) -> float:
    """What is claimed of the goal within what may leak: the most disclosure or utility, the least distortion.

    Where nothing limits the leakage, a claim says nothing of the goal unless its averages have no weight.
    """
    spent = question.budget
    if claim.scope.guards is None:
        told = Dominated.of(question.problem, question.guards)
        spent = math.inf if told is None else float(told.information(spent))
    if question.goal is Quantity.UTILITY:
        return claim.most_utility(spent, question.disclosure)
    if question.goal is Quantity.DISTORTION:
        return claim.least_distortion(spent)
    return claim.most_disclosure(spent, question.utility)


def source_of(question: Question, line: Line) -> str:
    """What a bound by a line is called: a proof about I(S;Y) stands for another measure by a closed form."""
    usual = question.guards.measure.is_information or line.certificate.claim.scope.guards is not None
    return line.source if usual else f"{line.source} of I(S;Y)"


def slack_of(question: Question) -> float:
    """By how much a real channel may be better than what is proved, in nats: guarantees are kept up to rounding."""
    exact = not question.guards.guarantees and not question.guards.attributes and question.budget > 0.0
    return FEASIBILITY if exact else INEXACT


def _slack(question: Question, slope: float | None) -> tuple[float, float]:
    """What rounding may let a bound on the leakage, and one on the goal, miss a real channel by, in their units.

    A little more distortion than was asked for may leak less, by the slope.
    """
    slack = slack_of(question)
    if question.costs is None:
        return slack, slack * question.scale
    steep = abs(slope or 0.0)
    return slack * (1.0 + steep * question.costs.scale), slack * (
        question.costs.scale + 1.0 / max(steep, TINY)
    )


class Reached:
    """What a channel has of the averages that claims are about, worked out once for each kind of scope."""

    def __init__(self, question: Question, mapping: Channel | ClassChannel, values: Values) -> None:
        self.question, self.mapping, self.values = question, mapping, values
        self._known: dict[tuple[bool, ...], claims.Values] = {}

    def of(self, scope: claims.Scope) -> claims.Values:
        """The values of a scope that applies to the question."""
        key = (scope.guards is None, scope.tasks is None, scope.costs is None)
        if key not in self._known:
            self._known[key] = self._values(scope)
        return self._known[key]

    def _values(self, scope: claims.Scope) -> claims.Values:
        question, own = self.question, self.values
        needs_utility = scope.tasks is not None and question.axis is not Quantity.UTILITY
        if scope.guards is not None or scope.costs is not None or needs_utility:
            return scope.values(question.problem, as_table(self.mapping))
        # Who knows nothing is seen by classes, where the channel is held by them.
        told = own.leakage if question.guards.plain else evaluated(question.problem, self.mapping).leakage
        return claims.Values(np.array([told]), own.disclosure, own.utility)


def _stands(line: Line, reached: Reached, *, met: bool) -> bool:
    """Whether a claim stands beside a channel, by the inequality itself; False where the channel is not of its scope.

    One that leaks as little as rounding may be better than all that tell nothing: what is proved of these is not of it.

    Raises:
        SolverError: A channel of the scope refutes the claim.
    """
    claim, question = line.certificate.claim, reached.question
    scope = claim.scope
    limited = scope.zero or scope.invariant or (scope.guards is not None and scope.guards.guarantees)
    if limited and not met:
        return True  # it is no release of the scope, and may be as good as it likes
    left, slack = claim.left_of(reached.of(scope)), slack_of(question)
    allowed = slack * max(1.0, claim.total, claim.disclosure, claim.utility)
    if left >= -allowed:
        return True
    # A release that leaks more than this share of I(S;X) tells something, though no more than rounding lets pass.
    if scope.zero and reached.values.leakage > 1e-10 * question.problem.leakage_ceiling:
        return False
    raise SolverError(
        f"a real channel misses what is proved ({line.source}: {line.certificate.words}) by {-left:.3g} nats: "
        "please report this"
    )


def meet(lower: float, leakage: float, source: str, slack: float = FEASIBILITY) -> float:
    """The bound, no higher than the value by rounding: both carry a few ulps. More than that is a wrong proof.

    Args:
        lower: A lower bound on the leakage, in nats.
        leakage: What a channel leaks, in nats.
        source: What proves the bound.
        slack: By how much rounding may let the bound exceed the leakage, in nats.

    Raises:
        SolverError: The bound exceeds the leakage by more.
    """
    if lower > leakage + slack:
        raise SolverError(
            f"the bound {lower!r} ({source}) exceeds the leakage {leakage!r} of a real channel: please report this"
        )
    return min(lower, leakage)


# --- the best of them -----------------------------------------------------------------------------------------


def _proved(question: Question, values: Values, lines: list[Line], *, met: bool, answer: Answer) -> Proved:
    """The best bounds that closed forms and certificates give at the places asked for, or at the channel's own."""
    asked, own = _places(question, values), answer.certificate
    slack, slack_of_goal = _slack(question, answer.slope)
    leakage, source = _closed_leakage(question, asked, values)
    proof: Certificate | None = None
    for line in lines:
        bound = least_leakage(question, line.certificate.claim, asked)
        if bound > leakage:
            leakage, source, proof = bound, source_of(question, line), line.certificate
    if met:  # a channel that falls short may well leak less than the bound
        leakage = meet(leakage, values.leakage, source, slack)
    leakage = min(leakage, values.leakage)
    if question.goal is Quantity.LEAKAGE:
        return Proved(leakage, source, leakage, proof if own is None else own)
    reached, better = values.of(question.goal), min if question.goal.sought_most else max
    goal = _closed_goal(question, reached)
    for line in lines:
        bound = best_goal(question, line.certificate.claim)
        if better(bound, goal) != goal:
            goal, proof = bound, line.certificate
    beyond = reached - goal if question.goal.sought_most else goal - reached
    if met and beyond > slack_of_goal:
        raise SolverError(
            f"the {question.goal} {reached!r} of a real channel is beyond the bound {goal!r}: please report this"
        )
    goal = max(goal, reached) if question.goal.sought_most else min(goal, reached)
    return Proved(leakage, source, goal, proof if own is None else own)


def _places(question: Question, values: Values) -> Values:
    """The places that bounds on the leakage are about: those asked for, the channel's own where most was asked for."""
    changed = 0.0 if question.costs is None else question.distortion
    asked = values._replace(disclosure=question.disclosure, utility=question.utility, distortion=changed)
    if question.goal is Quantity.LEAKAGE:
        return asked
    own: Document = {question.axis.value: values.of(question.axis)}
    return asked._replace(**own)


def _closed_leakage(question: Question, asked: Values, values: Values) -> tuple[float, str]:
    """The closed-form lower bound on the leakage, and what it is called."""
    problem, guards = question.problem, question.guards
    if question.axis is Quantity.DISTORTION:
        return 0.0, "zero"
    only: Channel | None = None
    if question.axis is Quantity.UTILITY:
        if asked.disclosure >= problem.disclosure_ceiling - FEASIBILITY:
            only = itself(problem, guards)
        elif all_of_task(problem, asked.utility):
            # All of I(U;X) is kept only by a release that tells symbols with different p(u|x) apart.
            only = whole_task(problem, guards)
        if only is not None:
            return max(guards.leakages(problem, only).values()), "closed form"
        return 0.0, "zero"
    # X itself is the only release that keeps H(X), up to names: its leakage is its bound, without any rounding.
    if asked.disclosure >= problem.disclosure_ceiling and guards.plain:
        return problem.leakage_ceiling, "closed form" if problem.leakage_ceiling > 0.0 else "zero"
    if question.names_place and asked.disclosure >= problem.disclosure_ceiling - ROUNDING:
        return values.leakage, "closed form"
    told = Dominated.of(problem, guards)
    closed = 0.0 if told is None else max(float(told.leakage(problem.lower_bound(asked.disclosure))), 0.0)
    return closed, "closed form" if closed > 0.0 else "zero"


def _closed_goal(question: Question, reached: float) -> float:
    """What closed forms say of the goal: rounded up where most is asked for, down where least."""
    problem, guards = question.problem, question.guards
    if question.goal is Quantity.DISTORTION:
        return 0.0 if question.costs is None else float(problem.p_x @ question.costs.least)
    if question.goal is Quantity.UTILITY:
        return problem.utility_ceiling
    upper, told = problem.disclosure_ceiling, Dominated.of(problem, guards)
    if told is None or math.isinf(question.budget):
        return upper
    # I(X;Y) ≤ H(X|S) + I(S;Y)
    upper = min(upper, problem.h_x_given_s + float(told.information(question.budget)) + problem.rounding)
    free = most_free(problem) if question.budget == 0.0 and guards.plain else upper
    # A channel that leaks as little as rounding may disclose more than any that tells nothing.
    return min(upper, free) if reached <= free else upper


def _slope(
    question: Question,
    answer: Answer,
    mapping: Channel | ClassChannel,
    status: Status,
    values: Values,
) -> float | None:
    """Leakage per unit of the axis: of the slope of the averages, of maximal leakage a share of it."""
    guards, slope = question.guards, answer.slope
    plain = guards.plain and question.axis is Quantity.DISCLOSURE
    if plain and values.leakage <= ROUNDING:
        return 0.0  # the curve begins flat, and is here
    if slope is None and plain and status is not Status.FAILED:
        return min(stationarity(*of_classes(mapping, question.problem))[1], 1.0)
    if slope is None or not math.isfinite(slope):
        return None
    return slope / guards.measure.average(values.leakage) if guards.measure.worst_value else slope


def final_status(claimed: Status, *, met: bool, proved: bool) -> Status:
    """What may be claimed, of what the solver claims: whether the request is met, and optimality is proved."""
    if claimed is Status.FAILED:
        return claimed
    if not met:
        return Status.INFEASIBLE
    if claimed is Status.OPTIMAL and not proved:
        return Status.CONVERGED
    if proved and claimed in (Status.CONVERGED, Status.FEASIBLE, *UNFINISHED):
        return Status.OPTIMAL
    return claimed
