"""Searches of guarded funnels whose limits come first prove what they can finish."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from funnels import toy
from privfunnel.algorithms.columns.general import branching
from privfunnel.algorithms.columns.general import compiled_branching as exploring
from privfunnel.algorithms.columns.general import local_descents as descending
from privfunnel.algorithms.columns.general import reachable_cutoff as landing
from privfunnel.algorithms.columns.general import search as searching
from privfunnel.algorithms.columns.general.box_relaxation import Pricing
from privfunnel.algorithms.columns.general.images import images_of
from privfunnel.algorithms.deadline import NEVER, Deadline
from privfunnel.certificate import Certificate, GuardedBody
from privfunnel.certificate.attacker_images import Stack, stack
from privfunnel.certificate.checker import check
from privfunnel.certificate.tree import Case
from privfunnel.errors import CertificateError

KNOWN = ["a", ["b", "c"]]
Line = tuple[Certificate, Stack, Pricing]


@pytest.fixture(scope="module")
def line() -> Line:
    """A line below the leakage to three attackers, proved to 1e-3 nats, with its images and F."""
    problem = toy(3)
    proof = pf.solve(problem, disclosure="75%", known=KNOWN, gap=1e-3).certificate
    assert isinstance(proof.body, GuardedBody)
    stacked = stack(
        proof.claim.scope.guards.strata(problem)[0],
        proof.claim.scope.guards,
        proof.claim.weights.tolist(),
        zero=False,
    )
    return proof, stacked, Pricing(images_of(stacked), proof.body.prices.copy(), proof.slope)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every search gives up at its second look, however few boxes are left."""
    monkeypatch.setattr(exploring, "boxes_left", lambda *_: math.inf)
    monkeypatch.setattr(landing, "LOOKS", ((0.05, math.inf), (0.1, 0.0)))
    monkeypatch.setattr(landing, "FEW_BOXES", 0)
    monkeypatch.setattr(landing.Landing, "_power", lambda *_: 3.0)


def many() -> float:
    """So many boxes are left."""
    return math.inf


def rise(
    made: landing.Landing,
    power: float,
    shares: list[float],
    boxes: int = 100_000,
    left: Callable[[], float] = many,
) -> list[float]:
    """The cutoffs of a search whose height falls like boxes^(−1/power), from 0.1 nats on."""
    cutoffs = []
    for share in shares:
        made.look(share, round(share * boxes), -0.1 * (share * boxes) ** (-1.0 / power), left)
        cutoffs.append(made.cutoff)
    return cutoffs


@pytest.mark.parametrize("power", [0.4, 1.0, 1.4])
def test_a_search_that_converges_fast_keeps_its_cutoff(power: float) -> None:
    made = landing.Landing(-1e-9)
    assert set(rise(made, power, [0.05, 0.1, 0.25, 0.5, 0.75, 0.9])) == {-1e-9}
    assert not made.landed
    assert made.next_look == math.inf


def test_a_search_of_few_boxes_or_near_its_end_keeps_its_cutoff() -> None:
    assert set(rise(landing.Landing(-1e-9), 3.0, [0.05, 0.1, 0.25, 0.5], boxes=3000)) == {-1e-9}
    assert set(rise(landing.Landing(-1.5e-3), 3.0, [0.05, 0.1, 0.25, 0.5])) == {-1.5e-3}


def test_a_search_that_is_far_too_slow_lands_at_the_second_look_and_settles_for_less() -> None:
    made = landing.Landing(-1e-6)
    first, second, third = rise(made, 3.0, [0.05, 0.1, 0.6])
    assert first == -1e-6
    # What all boxes would prove, and what a cutoff within reach is worth besides.
    whole = -0.1 * 100_000 ** (-1.0 / 3.0)
    assert second == pytest.approx(whole * landing.WORTH ** (-1.0 / 3.0))
    assert third == pytest.approx(0.75 * -0.1 * 60_000 ** (-1.0 / 3.0))
    assert third < second
    assert made.next_look == 0.75


def test_a_search_whose_boxes_fit_into_its_time_keeps_its_cutoff() -> None:
    """At a tenth of the limits 10 000 are open, and there is time for 90 000 more."""
    made = landing.Landing(-1e-6)
    assert set(rise(made, 3.0, [0.05, 0.1], left=lambda: 0.69 * 90_000)) == {-1e-6}
    made = landing.Landing(-1e-6)
    assert rise(made, 3.0, [0.05, 0.1], left=lambda: 0.71 * 90_000)[-1] < -1e-6


def test_ways_down_count_the_boxes_that_are_left(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of many is within four of its standard errors of what is then opened."""
    proof, stacked, pricing = line
    total, cutoff = float(proof.claim.weights.sum()), -2e-4
    state = exploring.begin(pricing, stacked.caps, 10**6)

    def open_boxes(state: exploring.State, boxes: int) -> exploring.State:
        tree, curves, frontier, *counts = exploring.advance(pricing, total, state, cutoff, boxes)
        made = (exploring.Tree(*tree), exploring.Curves(*curves), exploring.Frontier(*frontier))
        return exploring.State(*made, state.work, state.room, state.found, *counts)

    state = open_boxes(state, 40)
    assert state.height > 5
    before = state.frontier.order[: state.height].copy()
    ways = 600
    monkeypatch.setattr(exploring, "PLAN", exploring.PLAN._replace(ways=100.0))
    expected = exploring.boxes_left(pricing, total, state, cutoff)
    assert np.array_equal(before, state.frontier.order[: state.height])  # nothing of the search is touched
    rng = np.random.default_rng(0)
    each = [
        exploring._way_down(pricing, total, state, int(row), cutoff, rng)[0]
        for row in rng.choice(before, ways)
    ]
    error = state.height * float(np.std(each)) / math.sqrt(ways)
    ended = open_boxes(state, 10**6)
    assert ended.height == 0
    assert ended.n_found == 0
    assert abs(expected - (ended.opened - state.opened)) < 4.0 * error
    assert error < 0.2 * expected


def test_a_search_that_stands_still_lands_above_what_it_proves_already() -> None:
    made = landing.Landing(-1e-6)
    for share, boxes in ((0.05, 5000), (0.2, 20_000)):
        made.look(share, boxes, -0.01, many)
    assert made.landed
    assert -0.01 < made.cutoff < -1e-6


def test_cutoffs_only_fall_and_a_search_that_is_ahead_keeps_its_own() -> None:
    made = landing.Landing(-1e-6)
    rise(made, 3.0, [0.05, 0.1])
    landed = made.cutoff
    made.look(0.6, 60_000, 0.5 * landed, many)
    assert made.cutoff == landed
    made.look(0.8, 80_000, 1.1 * landed, many)
    assert made.cutoff == landed
    made.look(0.9, 90_000, 2.0 * landed, many)
    assert made.cutoff == pytest.approx(0.93 * 2.0 * landed)


def test_cutoffs_above_0_and_those_of_trials_are_never_given_up() -> None:
    assert set(rise(landing.Landing(0.05), 3.0, [0.05, 0.1, 0.5])) == {0.05}
    assert set(rise(landing.Landing(-1e-6, steady=True), 3.0, [0.05, 0.1, 0.5])) == {-1e-6}
    assert landing.Landing(-1e-6, steady=True).next_look == math.inf


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("nodes", [60, 150])
def test_a_search_that_landed_proves_what_it_claims_and_no_more(line: Line, nodes: int) -> None:
    proof, stacked, pricing = line
    landed = exploring.search(pricing, float(proof.claim.weights.sum()), stacked.caps, -1e-3, nodes, NEVER)
    assert not landed.complete
    assert not landed.hurried  # boxes were short, not time
    assert -1.0 < landed.least < -1e-3
    work = exploring.new_work(7, stacked.columns.shape[1], len(stacked.blocks))
    rng = np.random.default_rng(4)
    for w in (*rng.dirichlet(np.full(7, 0.3), size=200), *np.eye(7)):
        assert descending.value_of(pricing, w, work) >= landed.least
    for claim in (landed.least - branching.MARGIN, -1e-3):
        made = landed.tree.proof(claim, stacked, proof.claim.weights)
        cases = [Case(prices=proof.body.prices, slope=proof.slope, proof=made)]
        if claim == -1e-3:
            with pytest.raises(CertificateError, match="does not prove"):
                check(stacked.columns, cases, images=stacked)
        else:
            check(stacked.columns, cases, images=stacked)


class Ticking(Deadline):
    """A thousandth of the time passes with every reading of the clock."""

    readings = itertools.count()

    def elapsed(self) -> float:
        return 1e-3 * self.seconds * next(self.readings)


@pytest.mark.usefixtures("hasty")
def test_a_search_whose_time_is_short_lands_too(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    proof, stacked, pricing = line
    monkeypatch.setattr(exploring, "FIRST_WORK", 49)
    monkeypatch.setattr(exploring.Pace, "goes_on", lambda _, deadline: not deadline.passed())
    landed = exploring.search(
        pricing, float(proof.claim.weights.sum()), stacked.caps, -1e-3, 10**6, Ticking(1.0)
    )
    assert landed.hurried
    assert not landed.complete
    assert -1.0 < landed.least < -1e-3


def test_an_answer_whose_proof_was_given_up_for_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def hurried(*given: Any, **options: Any) -> branching.Explored:
        made = exploring.explore_compiled(*given, **options)
        less = made.least - 0.01
        return made._replace(least=less, complete=False, hurried=True) if made.complete else made

    monkeypatch.setattr(searching, "explore_compiled", hurried)
    monkeypatch.setattr(searching, "is_for", lambda *_: True)
    with pytest.warns(pf.PrivFunnelWarning, match="time"):
        solution = pf.solve(toy(3), disclosure="75%", known=KNOWN, gap=1e-2)
    assert solution.status is pf.Status.TIME_LIMIT
    assert isinstance(solution.certificate.body, GuardedBody)
    assert 0.0 < solution.lower_bound <= solution.leakage


def test_a_search_without_room_for_a_trial_lands_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial proves nothing by itself: where memory ends it, the search after it settles for what it can prove."""
    trials: list[bool] = []

    def recorded(*given: Any, **options: Any) -> branching.Explored:
        trials.append(options["trial"])
        return exploring.explore_compiled(*given, **options)

    monkeypatch.setattr(exploring, "MOST_NUMBERS", 4000)
    monkeypatch.setattr(searching, "explore_compiled", recorded)
    monkeypatch.setattr(searching, "is_for", lambda *_: True)
    solution = pf.solve(toy(3), disclosure="75%", known=KNOWN, gap=1e-7, throw=False)
    assert solution.status is pf.Status.NODE_LIMIT
    assert trials[0]
    assert not trials[-1]
    assert 0.0 < solution.lower_bound < solution.leakage
