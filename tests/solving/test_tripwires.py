"""No judge believes a proof that the channel in hand refutes, and what is optimal is so in what was asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import privfunnel as pf
from lies import believed, cases, lying
from privfunnel.certificate.answer import Answer, Status
from privfunnel.errors import InvalidInputError, SolverError
from privfunnel.model.question import FEASIBILITY, Quantity
from privfunnel.solving.free_disclosure import free_certificate
from privfunnel.solving.judging import INEXACT, Run, applies, best_goal, judge, meet
from privfunnel.solving.request import Request
from privfunnel.solving.solution import Solution
from reference import tables

REFUTED = r"of a real channel|a real channel misses"
NAMES = (
    "plain", "plain, budget", "plain, zero", "known", "known, budget", "known, zero", "published", "guarantee",
    "guarantee, disclosure", "maximal leakage", "maximal leakage, budget", "task", "task, budget", "task, zero",
    "guarded task", "guarded task, budget", "guarded task, zero", "distortion", "distortion, budget",
    "distortion, invariant", "distortion, budget, invariant", "floor", "floor, budget", "floor of a task",
)  # fmt: skip


def test_all_kinds_of_questions_are_here() -> None:
    assert tuple(cases()) == NAMES
    assert {case.proof.body.kind for case in cases().values()} == {
        "plain",
        "free",
        "guarded",
        "task",
        "distortion",
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_judge_raises_for_a_proof_that_its_channel_refutes(name: str) -> None:
    case = cases()[name]
    honest = case.judge(case.proof)
    assert honest.status in (Status.OPTIMAL, Status.CONVERGED, Status.MAX_STEPS)
    with believed():
        for lie in (0.01, 1.0, 100.0):
            with pytest.raises(SolverError, match=REFUTED):
                case.judge(lying(case.proof, lie))
    if (
        case.proof.slope > 0.0 and case.solution.disclosure > 1e-6
    ):  # a line is steeper where something is disclosed
        with believed(), pytest.raises(SolverError, match=REFUTED):
            case.judge(lying(case.proof, 1e3, "slope"))


@pytest.mark.parametrize("name", NAMES)
def test_a_proof_that_holds_leaves_something_at_its_own_channel(name: str) -> None:
    case = cases()[name]
    channel = case.problem.check_channel(case.solution.channel)
    left = case.proof.claim.left_over(case.problem, channel)
    assert left >= (-INEXACT if "guarantee" in name or "zero" in name else -FEASIBILITY)


@pytest.mark.parametrize("name", ["plain, budget", "known, budget", "task, budget", "guarded task"])
def test_a_proof_that_holds_leaves_something_at_every_channel(name: str) -> None:
    case = cases()[name]
    for seed in range(50):
        rng = np.random.default_rng(seed)
        spread = float(rng.choice([0.05, 0.3, 1.0, 50.0]))
        channel = rng.dirichlet(np.full(int(rng.integers(2, 9)), spread), size=case.problem.n_x)
        assert case.proof.claim.left_over(case.problem, channel) >= -FEASIBILITY


def test_what_is_proved_of_releases_that_tell_nothing_is_not_of_one_that_tells_a_little() -> None:
    apart = 1.0 + 1e-5 * np.array([[1.0, -2.0, 0.0, 0.5], [0.0, 1.0, -1.0, 2.0], [2.0, 0.0, 1.0, -1.0]])
    table = np.outer([0.2, 0.3, 0.5], [0.1, 0.2, 0.3, 0.4]) * apart
    problem = pf.Problem(table / table.sum())
    proof = free_certificate(problem)
    assert proof is not None
    assert 0.0 < problem.leakage_ceiling <= FEASIBILITY
    question, whole = Request(leakage=0.0).of(problem), np.eye(4)
    assert proof.claim.left_over(problem, whole) < -0.1
    answer: Answer = Answer(channel=whole, status=Status.OPTIMAL, certificate=proof)
    solution = judge(question, answer, Run("loose"))
    assert solution.disclosure_upper_bound == pytest.approx(problem.disclosure_ceiling, abs=1e-8)
    exact = pf.solve(problem, leakage=0)
    assert exact.status is Status.OPTIMAL
    assert exact.disclosure < problem.disclosure_ceiling - 0.1
    # By guessing, a release that tells something may leak nothing.
    guessed = Request(leakage=0.0, measure="guessing").of(problem)
    assert applies(question, proof.claim)
    assert not applies(guessed, proof.claim)


def test_bounds_of_a_curve_are_not_clipped_into_silence() -> None:
    problem, _ = tables()["small"]
    plain = pf.Problem(problem.counts)
    curve = pf.trace(plain, points=5)
    point = curve.solutions[3]
    assert point.certificate is not None
    wrong = replace(point, certificate=lying(point.certificate, 0.01))
    lied = replace(curve, solutions=(*curve.solutions[:3], wrong, *curve.solutions[4:]))
    with pytest.raises(SolverError, match=REFUTED):
        lied.proved(point.disclosure)
    task = pf.trace(problem, points=4, along="utility", gap=1e-5)
    spot = task.solutions[-2]
    wrong = replace(spot, certificate=lying(spot.certificate, 0.01))
    with pytest.raises(SolverError, match=REFUTED):
        replace(task, solutions=(*task.solutions[:-2], wrong, task.solutions[-1])).proved(spot.utility)


@pytest.mark.parametrize(("name", "what"), [("plain, budget", "disclosure"), ("task, budget", "utility")])
def test_a_file_that_claims_less_than_its_channel_has_is_refused(name: str, what: str) -> None:
    solution = cases()[name].solution
    data = solution.to_dict()
    assert Solution.from_dict(data).gap == pytest.approx(solution.gap, abs=1e-12)
    data[f"{what}_upper_bound"] -= 0.01
    with pytest.raises(InvalidInputError, match=f"no {what} exceeds"):
        Solution.from_dict(data)


def test_rounding_is_no_lie() -> None:
    assert meet(0.1 + 1e-14, 0.1, "certificate") == 0.1
    assert meet(0.1, 0.2, "zero") == 0.1


# --- the gap -----------------------------------------------------------------------------------------------------


def sought(solution: Solution) -> float:
    """What is left to the proof of what was to be least or largest, from the numbers themselves."""
    if solution.least_distortion is not None:
        return solution.distortion - solution.least_distortion
    if solution.utility_upper_bound is not None:
        return solution.utility_upper_bound - solution.utility
    if solution.disclosure_upper_bound is not None:
        return solution.disclosure_upper_bound - solution.disclosure
    return solution.leakage - solution.lower_bound


@pytest.mark.parametrize("name", NAMES)
def test_the_gap_is_of_what_was_asked_to_be_least_or_largest(name: str) -> None:
    found = cases()[name].solution
    assert found.gap == found.summary()["gap"] == pytest.approx(sought(found), abs=1e-15)
    assert found.status is Status.OPTIMAL


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [(2, 11), (3, 8)])
def test_a_small_budget_is_optimal_in_disclosure(size: tuple[int, int], seed: int) -> None:
    problem = pf.Problem(np.random.default_rng(seed).integers(1, 40, size))
    solution = pf.solve(problem, leakage=2e-5, throw=False)
    assert solution.disclosure_upper_bound is not None
    assert solution.gap == solution.disclosure_upper_bound - solution.disclosure
    assert (solution.status is Status.OPTIMAL) == (solution.gap <= 1e-6)
    assert solution.gap <= 5e-6


@pytest.mark.parametrize("name", ["heart", "small"])
@pytest.mark.parametrize("share", [0.001, 0.05])
def test_a_budget_of_a_task_is_optimal_in_utility(name: str, share: float) -> None:
    problem, _ = tables()[name]
    solution = pf.solve(problem, leakage=share * problem.leakage_ceiling)
    assert solution.utility_upper_bound is not None
    assert solution.utility_upper_bound - solution.utility <= 1e-5
    assert solution.status is Status.OPTIMAL


def test_a_line_says_nothing_of_the_most_that_guarantees_allow_where_leakage_is_not_limited() -> None:
    plain, known = cases()["plain"], cases()["known"]
    asked = Request(guarantees=["lip=3"]).of(plain.problem)
    assert applies(asked, plain.proof.claim)
    assert best_goal(asked, plain.proof.claim) == np.inf
    # The same line bounds what is disclosed within a budget.
    within = Request(leakage=0.02, guarantees=["lip=3"]).of(plain.problem)
    assert best_goal(within, plain.proof.claim) < plain.problem.disclosure_ceiling
    open_ = replace(known.question, goal=Quantity.DISCLOSURE, disclosure=0.0)
    assert best_goal(open_, known.proof.claim) == np.inf
