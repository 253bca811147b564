"""What makes an answer optimal: claims about the question, bounds on the safe side, and the gap to the letter."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from lies import GAP, believed, cases, lying
from privfunnel.certificate.answer import UNFINISHED, Status
from privfunnel.certificate.claim import Claim
from privfunnel.solving.judging import applies, final_status

#: Of each claim, by the question that it was proved for: the other questions that it is about, too.
ALSO = {
    "plain": {"plain, budget", "plain, zero", "known", "known, budget", "known, zero", "guarantee",
              "guarantee, disclosure", "maximal leakage", "maximal leakage, budget"},
    "plain, zero": {"known, zero"},
    "known": {"known, budget", "known, zero"},
    "known, zero": set(),
    "published": set(),
    "guarantee, disclosure": set(),
    "maximal leakage": set(),
    "distortion": {"distortion, budget", "distortion, invariant", "distortion, budget, invariant"},
    "distortion, invariant": {"distortion, budget, invariant"},
}  # fmt: skip
QUESTIONS = sorted(set().union(ALSO, *ALSO.values()))


@pytest.mark.parametrize("proved", ALSO)
def test_a_claim_is_about_the_releases_of_its_scope_and_no_others(proved: str) -> None:
    claim = cases()[proved].proof.claim
    about = {name for name in QUESTIONS if applies(cases()[name].question, claim)}
    assert about == {proved, *ALSO[proved]}


@pytest.mark.parametrize(
    "name", ["plain", "plain, budget", "known, budget", "distortion", "task", "task, budget"]
)
def test_optimal_is_what_is_within_the_gap_and_nothing_beyond(name: str) -> None:
    case = cases()[name]
    question, proof = case.question, case.proof
    allowed = GAP * question.scale
    slope = {"utility": proof.claim.utility, "disclosure": proof.claim.disclosure}.get(
        question.goal.value, 1.0
    )
    total = float(proof.claim.weights.sum())
    with believed():
        open_ = case.judge(proof).gap
        for share, status in ((0.999, Status.OPTIMAL), (1.001, Status.CONVERGED)):
            further = (share * allowed - open_) * (slope if question.goal.sought_most else total)
            judged = case.judge(lying(proof, -further))
            assert judged.status is status, (share, judged.gap / allowed)
            assert judged.gap == pytest.approx(share * allowed, rel=1e-5)


def test_a_status_is_no_better_than_its_proof() -> None:
    for claimed, met, proved in itertools.product(Status, (False, True), (False, True)):
        found = final_status(claimed, met=met, proved=proved)
        if claimed is Status.FAILED:
            assert found is Status.FAILED
        elif not met:
            assert found is Status.INFEASIBLE
        elif proved and claimed is not Status.INFEASIBLE:
            assert found is Status.OPTIMAL
        else:
            assert found is (Status.CONVERGED if claimed is Status.OPTIMAL else claimed)
    assert len(UNFINISHED) == 3


def exactly(*numbers: float) -> list[Fraction]:
    return [Fraction(number) for number in numbers]


@pytest.mark.parametrize("seed", range(40))
def test_bounds_are_read_off_a_claim_on_the_safe_side_of_the_exact_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = float(rng.uniform(0.1, 3.0))
    constant, disclosure, utility, distortion = rng.uniform(0.05, 2.0, 4).tolist()
    r, u, d, budget = rng.uniform(0.01, 1.0, 4).tolist()
    claim = Claim(constant=-constant, disclosure=disclosure, utility=utility, distortion=distortion,
                  weights=np.array([weight]))  # fmt: skip
    w, c, a, b, e = exactly(weight, -constant, disclosure, utility, distortion)
    fr, fu, fd, fb = exactly(r, u, d, budget)
    least = (c + a * fr + b * fu - e * fd) / w
    read = Fraction(claim.least_leakage(r, u, d))
    assert read <= least
    assert float(least - read) <= 1e-13
    most = (w * fb - c - b * fu) / a
    assert Fraction(claim.most_disclosure(budget, u)) >= most
    assert float(Fraction(claim.most_disclosure(budget, u)) - most) <= 1e-12 / disclosure
    kept = (w * fb - c - a * fr) / b
    assert Fraction(claim.most_utility(budget, r)) >= kept
    changed = max((c - w * fb) / e, Fraction(0))
    assert Fraction(claim.least_distortion(budget)) <= changed
    turned = Claim(constant=-constant, disclosure=-disclosure, weights=np.array([-weight]))
    assert Fraction(turned.most_leakage(r)) >= (c - a * fr) / -w
    assert math.isinf(claim.most_leakage(r))
