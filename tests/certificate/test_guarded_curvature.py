"""Boxes that set the attackers' curvature against that of −w log w: what they bound, and attacks on what they store."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

import privfunnel as pf
from forging import changed
from funnels import toy
from privfunnel import certificate
from privfunnel.algorithms.columns.general import box_centres as centring
from privfunnel.algorithms.columns.general import box_relaxation as interior
from privfunnel.algorithms.columns.general import curvature_bounds as absorbing
from privfunnel.algorithms.columns.general import curvature_shares as balancing
from privfunnel.algorithms.columns.general import images
from privfunnel.algorithms.posteriors.boxes import Box
from privfunnel.certificate import Certificate, GuardedBody
from privfunnel.certificate.attacker_images import Stack, stack
from privfunnel.certificate.checker import check
from privfunnel.certificate.curvature import (
    KAPPA,
    SLACK,
    Curved,
    Curves,
    curvature_of,
    curves_of,
    cut_down,
    least_values,
)
from privfunnel.certificate.curvature import Case as Boxes
from privfunnel.certificate.tree import Case, Proof
from privfunnel.errors import CertificateError
from privfunnel.measures import Array, xlogx
from privfunnel.model.threat import Threat


@pytest.fixture(scope="module")
def proved() -> tuple[pf.Problem, Certificate]:
    problem = toy(6)
    solution = pf.solve(problem, disclosure="70%", known=["a", "b"], gap=1e-4)
    assert isinstance(solution.certificate.body, GuardedBody)
    return problem, solution.certificate


def curved_of(proof: Certificate) -> Curved:
    curved = proof.body.proofs[0].curved
    assert curved is not None
    return curved


def with_curved(proof: Certificate, curved: Curved | None) -> Certificate:
    return changed(proof, proofs=(changed(proof.body.proofs[0], curved=curved),))


def with_multipliers(problem: pf.Problem, proof: Certificate) -> Certificate:
    """The same proof as it was stored before, with all its multipliers."""
    (tree,) = proof.body.proofs
    assert isinstance(tree, Proof)
    if tree.touching is None:
        return proof
    q = images_of(problem, proof).touching(tree.touching)
    return changed(proof, proofs=(changed(tree, q=q, touching=None),))


def images_of(problem: pf.Problem, proof: Certificate) -> Stack:
    return stack(
        proof.claim.scope.guards.strata(problem)[0],
        proof.claim.scope.guards,
        proof.claim.weights.tolist(),
        zero=False,
    )


def bracket(images: Stack, proof: Certificate, w: Array) -> Array:
    """F(w) of posteriors (n, M), in nats."""
    t = w @ images.columns
    leaks = sum(xlogx(t[:, b.places]).sum(axis=1) - xlogx(t[:, b.places].sum(axis=1)) for b in images.blocks)
    return np.asarray(leaks - proof.slope * xlogx(w).sum(axis=1) - w @ proof.body.prices)


def boxes_around(images: Stack, proof: Certificate, centre: Array, width: float, share: float) -> Boxes:
    """Boxes around some posteriors (n, M), with the multipliers of these."""
    t = centre @ images.columns
    q = np.zeros_like(t)
    for block in images.blocks:
        q[:, block.places] = np.log(t[:, block.places] / t[:, block.places].sum(axis=1, keepdims=True))
    safe, shift = images.normalised(q)
    lower, upper = centre * (1.0 - share * width), np.minimum(centre * (1.0 + width), 1.0)
    return Boxes(lower, upper, safe, shift, proof.body.prices, proof.slope, 0.0)


@pytest.mark.parametrize(("width", "share"), [(0.05, 1.0), (0.5, 1.0), (2.0, 0.5)])
def test_no_posterior_of_a_box_is_below_its_bound(
    proved: tuple[pf.Problem, Certificate], width: float, share: float
) -> None:
    problem, proof = proved
    images, rng = images_of(problem, proof), np.random.default_rng(3)
    centre = rng.dirichlet(np.ones(problem.n_x), 40)
    case = boxes_around(images, proof, centre, width, share)
    matrix = curvature_of(images, case.q, case.lower, case.upper)
    scales = np.sqrt(centre)[:, :, None] * (matrix + 10.0) * np.sqrt(centre)[:, None, :]
    bend = 0.9 * np.linalg.eigvalsh(scales)[:, :1] / centre
    nu = (case.q @ images.columns.T - proof.body.prices - proof.slope * np.log(centre)).mean(axis=1)
    rows = Curved(np.arange(40, dtype=np.int32), nu, bend, centre, case.lower, case.upper)
    curves = curves_of(images, case, rows)
    assert np.all(np.isfinite(curves.excess))
    for number in range(40):
        w = rng.uniform(case.lower[number], case.upper[number], (400, problem.n_x))
        w = centre[number] + (w - w.mean(axis=0)) * 0.5 * min(width, 1.0)
        w = w / w.sum(axis=1, keepdims=True)
        inside = np.all((w >= case.lower[number]) & (w <= case.upper[number]), axis=1)
        assert inside.sum() > 10
        assert bracket(images, proof, w[inside]).min() >= -curves.excess[number]
    # More curvature than there is proves nothing at all.
    greedy = curves_of(images, case, rows._replace(curvature=bend * 1.2))
    assert np.all(np.isinf(greedy.excess))


def test_a_cut_counts_only_where_it_is_safe(proved: tuple[pf.Problem, Certificate]) -> None:
    problem, proof = proved
    images, centre = images_of(problem, proof), np.random.default_rng(4).dirichlet(np.ones(problem.n_x), 5)
    case = boxes_around(images, proof, centre, 0.5, 1.0)._replace(claim=0.5)
    nu = np.zeros(5)
    rows = Curved(np.arange(5, dtype=np.int32), nu, np.zeros_like(centre) - 1e-3, centre, centre, centre)
    curves = curves_of(images, case, rows)
    lower, upper = cut_down(curves, rows, case.lower, case.upper)
    assert np.array_equal(lower, case.lower)  # nothing is half a nat above the least
    assert np.array_equal(upper, case.upper)
    lower, upper = cut_down(curves._replace(excess=np.full(5, -9.0)), rows, case.lower, case.upper)
    assert np.array_equal(lower, centre)
    assert np.array_equal(upper, centre)


def test_curvature_survives_its_file_and_other_trees_have_none(
    proved: tuple[pf.Problem, Certificate], tmp_path: Path
) -> None:
    problem, proof = proved
    plain = pf.solve(problem, guarantees=["lip=0.1"], gap=1e-3).certificate
    assert isinstance(plain.body, GuardedBody)
    few = pf.solve(problem, disclosure="70%", known=["b"], gap=1e-3).certificate
    assert isinstance(few.body, GuardedBody)
    few = with_multipliers(problem, few)
    for made in (proof, few, plain):
        made.save(tmp_path / "proof.npz")
        (read,) = certificate.load_bundle(tmp_path / "proof.npz")
        assert isinstance(read.body, GuardedBody)
        read.verify(problem)
    assert plain.body.proofs[0].curved is None


@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (lambda points: points[:, :-1], "do not fit"),
        (lambda points: -points, "no posterior"),
        (lambda points: points * np.nan, "too large or none"),
        (lambda points: points.astype(np.float32), "right type"),
        (lambda points: np.full_like(points, 1.0 / points.shape[1]), "does not prove"),
        (lambda points: points[::-1].copy(), "does not prove"),
    ],
)
def test_posteriors_where_multipliers_touch_are_what_the_proof_rests_on(
    proved: tuple[pf.Problem, Certificate], forge: Callable[[Array], Array], says: str
) -> None:
    problem, proof = proved
    (tree,) = proof.body.proofs
    assert isinstance(tree, Proof)
    assert tree.touching is not None
    assert tree.q.shape == (tree.n_nodes, 0)
    forged = changed(proof, proofs=(changed(tree, touching=forge(tree.touching)),))
    with pytest.raises(CertificateError, match=says):
        forged.verify(problem)
    both = changed(proof, proofs=(changed(tree, q=np.zeros((tree.n_nodes, 3))),))
    with pytest.raises(CertificateError, match="no posterior"):
        both.verify(problem)


@pytest.mark.parametrize(
    "forge",
    [
        lambda rows: rows._replace(curvature=rows.curvature * 3.0 + 1.0),
        lambda rows: rows._replace(nu=rows.nu - 1.0),
        lambda rows: rows._replace(centre=rows.centre * 0.5),
        lambda rows: rows._replace(lower=np.zeros_like(rows.lower), upper=np.ones_like(rows.upper)),
        lambda rows: None,
    ],
)
def test_a_proof_without_its_curvature_proves_too_little(
    proved: tuple[pf.Problem, Certificate], forge: Callable[[Curved], Curved | None]
) -> None:
    problem, proof = proved
    with pytest.raises(CertificateError, match=r"short of it|leaves out too much"):
        with_curved(proof, forge(curved_of(proof))).verify(problem)


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda rows: rows._replace(nodes=rows.nodes[::-1].copy()), "do not exist"),
        (lambda rows: rows._replace(nodes=rows.nodes + np.int32(1 << 20)), "do not exist"),
        (lambda rows: rows._replace(nodes=rows.nodes.astype(np.int64)), "do not fit"),
        (lambda rows: rows._replace(centre=rows.centre[:, 1:]), "do not fit"),
        (lambda rows: rows._replace(nu=np.full_like(rows.nu, np.nan)), "too large or none"),
        (lambda rows: rows._replace(curvature=np.full_like(rows.curvature, 1e9)), "too large or none"),
    ],
)
def test_damaged_curvature_is_refused(
    proved: tuple[pf.Problem, Certificate], forge: Callable[[Curved], Curved], message: str
) -> None:
    problem, proof = proved
    with pytest.raises(CertificateError, match=message):
        with_curved(proof, forge(curved_of(proof))).verify(problem)


def test_cuts_down_to_nothing_are_not_believed(proved: tuple[pf.Problem, Certificate]) -> None:
    problem, proof = proved
    rows = curved_of(proof)
    higher = changed(proof.body.proofs[0], claim=0.01, curved=rows._replace(lower=np.ones_like(rows.lower)))
    with pytest.raises(CertificateError, match=r"short of it|leaves out too much"):
        changed(proof, proofs=(higher,)).verify(problem)


def test_a_plain_certificate_has_no_curvature(proved: tuple[pf.Problem, Certificate]) -> None:
    problem, proof = proved
    case = Case(prices=proof.body.prices, slope=proof.slope, proof=proof.body.proofs[0])
    columns = images_of(problem, proof).columns
    with pytest.raises(CertificateError, match="no curvature"):
        check(columns, [case])


def test_a_proof_with_large_curvature_leaves_the_checker_its_rounding() -> None:
    # Within a budget the attackers' weights are the slope of the disclosure, 30 here, and boxes get narrow.
    solution = pf.solve(pf.instances.load("heart-failure"), leakage=0.01, known=["anaemia"])
    assert solution.status is pf.Status.OPTIMAL
    assert solution.gap <= 1e-6


def test_a_narrow_interval_next_to_0_wants_no_more_curvature_than_a_proof_may_hold() -> None:
    # One of the boxes wanted 2e6 nats, and the certificate was taken for a damaged one.
    problem = pf.instances.load("heart-failure")
    solution = pf.solve(problem, leakage=0.01, published=["smoking"], known=["anaemia"])
    assert solution.status == "optimal"


def test_the_least_values_of_curves_are_those_of_a_grid() -> None:
    """Bent up and down, with their least value at either end or between: below the grid, and hardly below it."""
    rng, n, slope = np.random.default_rng(0), 400, 0.3
    lower = np.where(rng.random((n, 1)) < 0.2, 0.0, rng.random((n, 1)) / 2)
    upper = lower + (1.0 - lower) * rng.random((n, 1)) * rng.choice([1.0, 0.1, 0.01], (n, 1))
    curvature, rates = rng.choice([0.0, 0.2, 2.0, 50.0, 1000.0], (n, 1)), rng.normal(0.0, 3.0, (n, 1))
    centre = lower + rng.random((n, 1)) * (upper - lower)
    none = np.zeros((n, 1))
    curves = Curves(rates, curvature, centre, slope, none, none, none[:, 0])
    w = lower + np.linspace(0.0, 1.0, 4001) * (upper - lower)
    on_grid = (rates * w - slope * xlogx(w) + 0.5 * curvature * (w - centre) ** 2).min(axis=1)
    short = on_grid - least_values(curves, lower, upper)[:, 0]
    assert short.min() >= -1e-12
    assert (
        short.max() <= 1000.0 / 2 / 8000**2 + 1e-12
    )  # a curve rises by D d²/2 within half a step d of the grid


@pytest.mark.parametrize(
    ("curvature", "low", "high"), [(0.1, 0.0, 0.9), (0.7, 0.02, 0.3), (4.0, 0.0, 0.6), (9.0, 0.1, 0.5)]
)
def test_envelopes_are_convex_and_touch_their_functions_from_below(
    curvature: float, low: float, high: float
) -> None:
    slope, w = 0.05, np.linspace(low, high, 400)
    touch, rate = centring.envelope(slope, curvature, low, high)
    value = 0.5 * curvature * w**2 - slope * xlogx(w)
    made = np.where(w < touch, value[0] + rate * (w - low), value)
    assert np.all(made <= value + 1e-7)
    assert np.all(np.diff(made, 2) >= -1e-9)
    assert low <= touch <= high
    assert made[[0, -1]] == pytest.approx(value[[0, -1]], abs=1e-7)


@pytest.mark.parametrize("low", [0.0, 0.04])
@pytest.mark.parametrize("weight", [1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("w", [0.05, 0.11, 0.29])
def test_a_symbol_takes_the_curvature_that_is_worth_most_at_its_point(
    low: float, weight: float, w: float
) -> None:
    """Of a grid: what the envelope and τ log det gain together. No interval's own width counts here."""
    slope, high, limit = 0.02, 0.3, 1.5
    grid = np.linspace(0.0, limit, 3001)[:-1]

    def gain(curvature: float) -> float:
        touch, rate = centring.envelope(slope, curvature, low, high)
        value = 0.5 * curvature * w**2 - slope * w * np.log(w)
        start = centring.bent(slope, curvature, low) + rate * (w - low)
        return min(start, value) - value if w < touch else 0.0

    gains = np.array([gain(d) for d in grid]) + weight * np.log(limit - grid)
    found = balancing.best_bend(slope, low, high, w, limit, weight)
    widest = limit - 2.0 * weight / (balancing.LEAST_SPREAD * (high - low) ** 2)
    assert found == pytest.approx(max(grid[gains.argmax()], widest), abs=2e-3)


def test_curvature_and_centre_that_are_balanced_bound_a_box_higher_than_others(
    proved: tuple[pf.Problem, Certificate],
) -> None:
    """Others: any D that A allows, at the balanced centre and at any other; and all are bounds."""
    problem, proof = proved
    stacked, rng = images_of(problem, proof), np.random.default_rng(8)
    n_x, free = problem.n_x, np.ones((problem.n_x, problem.n_x)) * KAPPA
    pricing = interior.Pricing(images.images_of(stacked), proof.body.prices, proof.slope)
    work = interior.new_work(n_x, stacked.columns.shape[1], len(stacked.blocks))
    room, curves, q = (
        absorbing.new_room(n_x),
        absorbing.new_curves(2, n_x),
        np.zeros(stacked.columns.shape[1]),
    )

    def bound(box: Box, point: Array, shares: Array | None) -> float:
        """With the D that is in ``curves``, or as much in these ``shares`` as A allows at the point."""
        balancing.fill_touching(pricing, box, point, q, work, room)
        if shares is not None:
            scaled = np.linalg.eigvalsh((room.matrix + free) / np.sqrt(np.outer(shares, shares)))
            curves.curvature[0] = 0.999 * scaled.min() * shares
        images.fill_costs(pricing.images, -pricing.prices, q, room.rates)
        curves.centre[0] = np.clip(point, box.lower, box.upper)
        return absorbing.curved_bound(pricing.slope, box, curves, 0, room)

    for centre in rng.dirichlet(np.ones(n_x), 12):
        box = Box(0.5 * centre, np.minimum(2.0 * centre, 1.0))
        point, inside = centre.copy(), rng.dirichlet(40.0 * centre, 300)
        inside = inside[np.all((inside >= box.lower) & (inside <= box.upper), axis=1)]
        least = bracket(stacked, proof, np.vstack([inside, centre])).min()
        curves.curvature[0] = 0.0
        for _ in range(6):
            interior.fill_linear(pricing, box, work)
            assert balancing.balance(pricing, box, point, curves.curvature[0], q, work, room)
        assert point.sum() == pytest.approx(1.0, abs=1e-12)
        balanced = bound(box, point, None)
        others = [
            bound(box, at, shares) for at in (point, centre) for shares in rng.dirichlet(np.ones(n_x), 20)
        ]
        assert max(others) < balanced + 1e-4 * proof.slope
        assert balanced <= least


def test_blocks_that_are_worked_on_together_curve_as_each_does_alone() -> None:
    """A of every box, block after block, by the formula, with the greatest (t + 2 q̂T)/3 by a linear program."""
    problem, rng = pf.instances.load("heart-failure"), np.random.default_rng(4)
    threat = Threat.of(problem, known=["anaemia", ["diabetes", "smoking"]])
    images = stack(threat.strata(problem)[0], threat, [0.2, 0.3, 0.5], zero=False)
    centre = rng.dirichlet(np.ones(problem.n_x), 5)
    lower, upper = 0.5 * centre, np.minimum(1.5 * centre, 1.0)
    q = images.normalised(np.log(centre @ images.columns))[0]
    expected = np.zeros((5, problem.n_x, problem.n_x))
    for n, block in itertools.product(range(5), images.blocks):
        columns, q_hat = images.columns[:, block.places], np.exp(q[n, block.places])
        own = columns.sum(axis=1)
        for k in range(columns.shape[1]):
            scale = (columns[:, k] + 2.0 * q_hat[k] * own) / 3.0
            inside = own > 0.0
            space = 1.0 - lower[n].sum() + SLACK
            ends = list(zip(np.zeros(inside.sum()), (upper - lower)[n, inside], strict=True))
            filled = linprog(-scale[inside], A_ub=np.ones((1, inside.sum())), b_ub=[space], bounds=ends)
            most = scale @ lower[n] - filled.fun
            slopes = columns[:, k] - q_hat[k] * own
            expected[n] += np.outer(slopes, slopes) / (most * (1.0 + SLACK) + SLACK)
    assert [len(each.members) for each in images.alike] == [1, 2, 3, 1]  # one value lacks a private symbol
    assert curvature_of(images, q, lower, upper) == pytest.approx(expected, rel=1e-9, abs=1e-12)
