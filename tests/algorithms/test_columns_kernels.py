"""The compiled search of guarded funnels against NumPy, against linear programs, and against itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from funnels import toy
from privfunnel.algorithms.columns.general import box_relaxation as interior
from privfunnel.algorithms.columns.general import branching, images
from privfunnel.algorithms.columns.general import compiled_branching as exploring
from privfunnel.algorithms.columns.general import local_descents as descending
from privfunnel.algorithms.columns.general import open_boxes as frontier
from privfunnel.algorithms.columns.general import random_descents as scattering
from privfunnel.algorithms.columns.general import search as searching
from privfunnel.algorithms.columns.general.tangent_relaxation import Relaxation
from privfunnel.algorithms.deadline import NEVER
from privfunnel.algorithms.posteriors.boxes import Box, sum_of_ends
from privfunnel.certificate import Certificate, GuardedBody
from privfunnel.certificate.attacker_images import Stack, stack
from privfunnel.certificate.checker import check
from privfunnel.certificate.tree import Case
from privfunnel.measures import MEASURES, entropy
from privfunnel.model.threat import Threat

KNOWN = ["a", ["b", "c"]]


@pytest.fixture(scope="module")
def proved() -> Certificate:
    """The weights, prices and slope of a funnel with three attackers."""
    proof = pf.solve(toy(3), disclosure="75%", known=KNOWN, gap=1e-3).certificate
    assert isinstance(proof.body, GuardedBody)
    return proof


@pytest.fixture(scope="module")
def stacked(proved: Certificate) -> Stack:
    """The images of an attacker who knows nothing, one who knows a, and one who knows b and c."""
    return stack(
        proved.claim.scope.guards.strata(toy(3))[0],
        proved.claim.scope.guards,
        proved.claim.weights.tolist(),
        zero=False,
    )


@pytest.fixture(scope="module")
def pricing(proved: Certificate, stacked: Stack) -> interior.Pricing:
    return interior.Pricing(images.images_of(stacked), proved.body.prices.copy(), proved.slope)


def test_images_multipliers_costs_and_curvature_are_those_of_numpy(stacked: Stack) -> None:
    made = images.images_of(stacked)
    size, blocks, rng = stacked.columns.shape[1], len(stacked.blocks), np.random.default_rng(1)
    starts = np.array([block.start for block in stacked.blocks])
    convex, priors = MEASURES["mutual-information"], np.ones(size)
    for w in rng.dirichlet(np.ones(7), size=20):
        image, sums, q, cost = np.zeros(size), np.zeros(blocks), np.zeros(size), np.zeros(7)
        value = images.fill_image(made, w, image, sums)
        t = w @ stacked.columns
        np.testing.assert_allclose(image, t, atol=1e-15)
        assert value == pytest.approx(float(convex.value(t, starts, priors).sum()), abs=1e-13)
        images.fill_multipliers(made, image, sums, q)
        for block in stacked.blocks:
            np.testing.assert_allclose(
                q[block.places], convex.cut(t[block.places], t[block.places]), atol=1e-12
            )
        images.fill_costs(made, np.arange(7.0), q, cost)
        np.testing.assert_allclose(cost, stacked.columns @ q + np.arange(7.0), atol=1e-13)
        curvature = np.zeros((7, 7))
        images.fill_curvature(made, image, sums, curvature)
        # The derivative of the gradient columns·q, by a step in each direction.
        for i in range(7):
            near, nearby = np.zeros(size), np.zeros(blocks)
            images.fill_image(made, w + 1e-7 * np.eye(7)[i], near, nearby)
            images.fill_multipliers(made, near, nearby, near_q := np.zeros(size))
            changed = stacked.columns @ (near_q - q) / 1e-7
            np.testing.assert_allclose(
                curvature[i:, i], changed[i:], atol=1e-4 * max(1.0, np.abs(changed).max())
            )


def test_the_checker_finds_the_multipliers_where_they_touch(stacked: Stack) -> None:
    """Those of an empty block are all equal."""
    made = images.images_of(stacked)
    size, blocks = stacked.columns.shape[1], len(stacked.blocks)
    image, sums, q = np.zeros(size), np.zeros(blocks), np.full(size, 0.5)
    for w in (np.eye(7)[0], np.full(7, 1.0 / 7.0)):
        images.fill_image(made, w, image, sums)
        images.fill_multipliers(made, image, sums, q)
        for number, block in enumerate(stacked.blocks):
            assert np.exp(q[block.places]).sum() == pytest.approx(1.0)
            assert sums[number] > 0.0 or np.ptp(q[block.places]) == 0.0
        assert stacked.touching(w[None, :])[0] == pytest.approx(q, rel=1e-12, abs=1e-12)


def test_bounds_of_boxes_are_those_of_linear_programs(
    proved: Certificate, stacked: Stack, pricing: interior.Pricing
) -> None:
    problem = toy(3)
    threat = Threat.of(problem, known=KNOWN)
    relaxation = Relaxation(stack(threat.strata(problem)[0], threat, [1.0] * 3, zero=False), problem.p_x)
    bracket = branching.Bracket(proved.claim.weights, pricing.prices, pricing.slope)
    relaxation.weigh(bracket.weights)
    rng, size = np.random.default_rng(2), stacked.columns.shape[1]
    work = interior.new_work(7, size, len(stacked.blocks))
    for _ in range(25):
        centre, width = rng.dirichlet(np.ones(7)), rng.uniform(0.01, 0.6)
        box = Box(np.maximum(centre - width * rng.random(7), 0.0), np.minimum(centre + width, 1.0))
        q, point = np.full(size, -np.log(3.0)), np.full(7, 1.0 / 7.0)
        price = interior.relax(pricing, box, point, q, 100.0, 0.0, work)
        bound = sum_of_ends(pricing.slope, box, price, work.cost, work.beta)
        other = branching.bound_box(relaxation, bracket, box, bound + 1e-6)
        assert other is not None
        # Tangents are learnt to a tolerance, the interior point goes on until it is closed.
        assert bound >= other.bound - 1e-9
        assert point.sum() == pytest.approx(1.0)
        inside = np.clip(rng.dirichlet(np.ones(7), size=200), box.lower, box.upper)
        inside = inside[np.abs(inside.sum(axis=1) - 1.0) < 1e-9]
        for w in (*inside, point, centre):
            image, sums = np.zeros(size), np.zeros(len(stacked.blocks))
            value = images.fill_image(pricing.images, w, image, sums)
            value += pricing.slope * float(entropy(w)) - float(pricing.prices @ w)
            assert value >= bound - 1e-9


def test_boxes_that_are_points_have_bounds_too(stacked: Stack, pricing: interior.Pricing) -> None:
    work = interior.new_work(7, stacked.columns.shape[1], len(stacked.blocks))
    w = np.array([0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    for upper in (w, np.where(w > 0.0, w, 1e-3)):
        q, point = np.full(stacked.columns.shape[1], -np.log(3.0)), np.full(7, 1.0 / 7.0)
        box = Box(np.minimum(w, upper), upper)
        price = interior.relax(pricing, box, point, q, 100.0, 0.0, work)
        value = descending.value_of(pricing, w, work)
        interior.relax(pricing, box, point, q, 100.0, 0.0, work)
        assert sum_of_ends(pricing.slope, box, price, work.cost, work.beta) <= value + 1e-9


def test_open_boxes_come_in_the_order_of_their_bounds() -> None:
    rng = np.random.default_rng(3)
    made, box, point = frontier.new_frontier(2, 1), Box(np.zeros(1), np.ones(1)), np.zeros(1)
    waiting: list[float] = []
    for number in range(200):
        if len(waiting) > 1 and rng.random() < 0.4:
            node = frontier.pop(made, len(waiting), box, point)
            assert point[0] == min(waiting) == made.promise[made.order[len(waiting) - 1]]
            assert node == int(1000 * point[0])
            waiting.remove(point[0])
        else:
            bound = int(rng.random() * 1000) / 1000
            if len(waiting) == made.node.size:
                made = frontier.larger(made)
            row = frontier.push(made, len(waiting), int(1000 * bound), bound, box, np.array([bound]))
            assert made.promise[row] == bound
            waiting.append(bound)
        assert sorted(made.order.tolist()) == list(range(made.order.size)), number


def test_a_search_proves_what_it_claims_or_finds_what_is_below(
    proved: Certificate, stacked: Stack, pricing: interior.Pricing
) -> None:
    total = float(proved.claim.weights.sum())
    found = exploring.search(pricing, total, stacked.caps, 0.02, 10_000, NEVER)
    assert not found.complete
    work = interior.new_work(7, stacked.columns.shape[1], len(stacked.blocks))
    assert max(descending.value_of(pricing, w, work) for w in found.found) < 0.02
    # The proof says that there is nothing below −gap; one that was cut short proves less.
    whole = exploring.search(pricing, total, stacked.caps, -1e-3, 100_000, NEVER)
    cut = exploring.search(pricing, total, stacked.caps, -1e-3, whole.opened // 3, NEVER)
    assert whole.complete
    assert not cut.complete
    assert -1.0 < cut.least < whole.least == -1e-3
    for searched in (whole, cut):
        proof = searched.tree.proof(searched.least - 1e-9, stacked, proved.claim.weights)
        check(
            stacked.columns, [Case(prices=pricing.prices, slope=pricing.slope, proof=proof)], images=stacked
        )


@pytest.mark.parametrize(
    "asked", [{"known": ["a", "b"]}, {"published": ["a"]}, {"known": ["a"], "guarantees": ["k=9"]}]
)
def test_programs_and_compiled_boxes_agree(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    problem = toy(8)
    compiled = pf.solve(problem, disclosure="75%", gap=1e-3, **asked)
    used = []
    monkeypatch.setattr(searching, "is_for", lambda *given: bool(used.append(given)))
    programs = pf.solve(problem, disclosure="75%", gap=1e-3, **asked)
    assert used
    for solution in (compiled, programs):
        assert solution.status is pf.Status.OPTIMAL
    assert compiled.lower_bound <= programs.leakage
    assert programs.lower_bound <= compiled.leakage


def test_a_search_hands_its_state_over_without_running_python(
    proved: Certificate, stacked: Stack, pricing: interior.Pricing
) -> None:
    """A signal is heard where Python runs, and inside numba that crashes: named tuples are made outside."""
    state = exploring.begin(pricing, stacked.caps, 10)
    made = exploring.advance(pricing, float(proved.claim.weights.sum()), state, 0.02, 3)
    assert type(made) is type(made[0]) is type(made[1]) is type(made[2]) is tuple
    assert frontier.Frontier(*made[2]).promise.shape == state.frontier.promise.shape


def test_a_search_that_is_cut_short_claims_no_more_than_it_proves(
    proved: Certificate, stacked: Stack, pricing: interior.Pricing
) -> None:
    """Boxes that hold a posterior below the cutoff are left as they are: their bounds count, too."""
    for nodes in (90, 200, 1000):
        explored = exploring.search(
            pricing, float(proved.claim.weights.sum()), stacked.caps, 0.05, nodes, NEVER
        )
        assert len(explored.found)
        assert not explored.complete
        proof = explored.tree.proof(explored.least - branching.MARGIN, stacked, proved.claim.weights)
        case = Case(prices=proved.body.prices, slope=proved.slope, proof=proof)
        check(stacked.columns, [case], images=stacked)


def test_what_is_found_from_anywhere_lies_below_and_is_the_same_for_a_seed(
    proved: Certificate, stacked: Stack, pricing: interior.Pricing
) -> None:
    problem = toy(3)
    stratum = proved.claim.scope.guards.strata(problem)[0]
    bracket = branching.Bracket(proved.claim.weights, pricing.prices, pricing.slope)
    given = (stratum, proved.claim.scope.guards, bracket)
    found = scattering.scatter(*given, 0.02, 25, np.random.default_rng(5), NEVER)
    work = interior.new_work(7, stacked.columns.shape[1], len(stacked.blocks))
    assert max(descending.value_of(pricing, w, work) for w in found) < 0.02
    assert found.min() >= 0.0
    assert found.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert len({tuple(w > 1e-9) for w in found}) > 3  # local minima of different symbols
    again = scattering.scatter(*given, 0.02, 25, np.random.default_rng(5), NEVER)
    assert np.array_equal(found, again)
    # The proof says that nothing is below −gap.
    assert len(scattering.scatter(*given, -2e-3, 25, np.random.default_rng(5), NEVER)) == 0


def test_a_proof_that_is_no_matter_of_a_trial_waits_for_posteriors_from_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    scatter = searching.scatter
    monkeypatch.setattr(searching, "scatter", lambda *given: asked.append(1) or scatter(*given))
    quick = pf.solve(toy(8), disclosure="75%", known=["a", "b"], gap=1e-3)
    assert not asked
    monkeypatch.setattr(searching, "TRIAL_BOXES", 3)
    hard = pf.solve(toy(8), disclosure="75%", known=["a", "b"], gap=1e-3)
    assert bool(asked) is hasattr(exploring.advance, "py_func")
    for solution in (quick, hard):
        assert solution.status is pf.Status.OPTIMAL
    assert hard.lower_bound <= quick.leakage
    assert quick.lower_bound <= hard.leakage
