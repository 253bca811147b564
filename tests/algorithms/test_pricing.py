"""What column generation stands on: knapsack, box shrinking, descents, exchanges, branch and bound, the program."""

from __future__ import annotations

import itertools
from typing import Any

import highspy
import numpy as np
import pytest
from scipy.optimize import linprog

import privfunnel as pf
from helpers_kernels import Table, plain, simplex_grid
from privfunnel.algorithms.columns.plain import box_relaxation as relaxation
from privfunnel.algorithms.columns.plain import branching, descents
from privfunnel.algorithms.columns.plain import open_boxes as frontier
from privfunnel.algorithms.columns.plain import search_trees as trees
from privfunnel.algorithms.columns.plain.descents import Pricing
from privfunnel.algorithms.deadline import Deadline
from privfunnel.algorithms.posteriors import boxes, lp, points
from privfunnel.certificate import Case, Proof, check, rivalry, rivals
from privfunnel.errors import CertificateError


def test_knapsack_is_the_linear_program() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(2, 8))
        middle = rng.dirichlet(np.ones(n))
        lower, upper = middle * rng.random(n), middle + (1.0 - middle) * rng.random(n)
        cost = rng.normal(size=n)
        expected = linprog(cost, A_eq=np.ones((1, n)), b_eq=[1.0], bounds=np.stack([lower, upper], axis=1))
        for kernel in (relaxation.knapsack, plain(relaxation.knapsack)):
            point = np.empty(n)
            value, price = kernel(cost, boxes.Box(lower, upper), point)
            assert value == pytest.approx(expected.fun, abs=1e-9)
            assert cost @ point == pytest.approx(value, abs=1e-12)
            reduced = cost - price
            dual = price + np.minimum(reduced * lower, reduced * upper).sum()
            assert dual == pytest.approx(value, abs=1e-9)


def test_shrink_keeps_every_point_below_the_cutoff() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        n = 5
        lower = rng.random(n) * 0.3
        upper = lower + rng.random(n) * 0.7
        rates, slope, excess = rng.normal(size=n), float(rng.random()), float(rng.random() * 0.3)

        def term(w: Table, rates: Table = rates, slope: float = slope) -> Table:
            return np.asarray(rates * w - slope * w * np.log(np.maximum(w, 1e-300)))

        least = np.minimum(term(lower), term(upper))
        new_lower, new_upper = lower.copy(), upper.copy()
        plain(boxes.shrink)(rates, slope, excess, boxes.Box(new_lower, new_upper))
        again_lower, again_upper = lower.copy(), upper.copy()
        boxes.shrink(rates, slope, excess, boxes.Box(again_lower, again_upper))
        assert new_lower == pytest.approx(again_lower, abs=1e-14)
        assert new_upper == pytest.approx(again_upper, abs=1e-14)
        w = lower + rng.random((2000, n)) * (upper - lower)
        cut = (w < new_lower - 1e-12) | (w > new_upper + 1e-12)
        assert (term(w)[cut] >= np.broadcast_to(least, w.shape)[cut] + excess - 1e-9).all()


def test_descent_never_rises() -> None:
    rng = np.random.default_rng(2)
    columns = rng.dirichlet(np.ones(3), size=6)
    prices = rng.normal(size=6)
    starts = points.sparse_starts(rng, 40, 6, 4)
    before = points.pricing_values(columns.T, prices, 0.3, starts)
    values = descents.descend_all(Pricing(columns, prices, 0.3), starts, 30)
    assert (values <= before + 1e-12).all()
    assert values == pytest.approx(points.pricing_values(columns.T, prices, 0.3, starts), abs=1e-6)


def test_exchanges_are_the_best_ones() -> None:
    rng = np.random.default_rng(8)
    columns, prices = rng.dirichlet(np.ones(3), size=6), rng.normal(size=6)
    active = points.sparse_starts(rng, 5, 6, 3)
    active[0] = np.eye(6)[2]
    for kernel in (descents.exchanges, plain(descents.exchange_rows)):
        for most in (1, 3):
            found = kernel(Pricing(columns, prices, 0.3), active, most)
            assert found.sum(axis=1) == pytest.approx(1.0)
            assert len(found) == 5 * most
            for j, w in enumerate(active):
                every = []
                for i, x in itertools.permutations(range(6), 2):
                    if w[i] > 0.0:
                        moved = w.copy()
                        moved[x] += moved[i]
                        moved[i] = 0.0
                        every.append(moved)
                best = np.sort(points.pricing_values(columns.T, prices, 0.3, np.array(every)))[:most]
                own = points.pricing_values(columns.T, prices, 0.3, found[j * most : (j + 1) * most])
                assert np.sort(own) == pytest.approx(best, abs=1e-12)


def make_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let branch and bound run its loop and the steps of a box as plain Python."""
    steps = ("bound_box", "width_of", "make_smaller", "split_box", "part_box", "open_children")
    for name in ("advance", *steps):
        monkeypatch.setattr(branching, name, plain(getattr(branching, name)))


@pytest.fixture(params=["compiled", "plain"])
def search(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Branch and bound, compiled or not."""
    if request.param == "plain":
        make_plain(monkeypatch)
    return branching.branch_and_bound


def test_branch_and_bound_collects_several_minima(search: Any) -> None:
    """A search that has found something goes on elsewhere, and no posterior comes twice."""
    columns = np.eye(4) * 0.7 + 0.075
    apart = rivals(rivalry(columns), 0.9)
    prices = np.zeros(4)
    # By symmetry the four corners are equally good, and with this slope nothing inside is.
    corner = float(points.pricing_values(columns.T, prices, 0.9, np.eye(4))[0])
    explored = search(Pricing(columns, prices, 0.9), apart, corner + 1e-3, 10_000, 50, 0.2)
    assert explored.outcome == branching.FOUND
    assert explored.best == pytest.approx(corner, abs=1e-6)
    assert sorted(explored.found.argmax(axis=1)) == [0, 1, 2, 3]
    assert explored.found.max(axis=1) == pytest.approx(1.0, abs=1e-3)


def test_the_lowest_box_comes_first() -> None:
    for least, exchange in (
        (frontier.least_index, frontier.bring_up),
        (plain(frontier.least_index), plain(frontier.bring_up)),
    ):
        assert least(np.array([3.0, 1.0, 2.0, 1.0, 5.0])) == 3  # the newest of equals
        assert least(np.array([7.0])) == 0
        ends = [np.arange(8.0).reshape(4, 2) + shift for shift in (0.0, 10.0, 20.0)]
        boxes = frontier.Frontier(np.arange(4), np.array([4.0, 3.0, 2.0, 1.0]), *ends)
        exchange(1, 3, boxes)
        assert boxes.node.tolist() == [0, 3, 2, 1]
        assert boxes.promise.tolist() == [4.0, 1.0, 2.0, 3.0]
        assert [box[[1, 3], 0].tolist() for box in ends] == [[6.0, 2.0], [16.0, 12.0], [26.0, 22.0]]
        exchange(2, 2, boxes)
        assert boxes.node.tolist() == [0, 3, 2, 1]


@pytest.mark.parametrize("most", [0, 3, 1000])
def test_a_tree_proves_its_claim_in_any_order(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(branching, "FRONTIER", most)  # the compiled function keeps its own
    rng = np.random.default_rng(6)
    columns, prices, slope = rng.dirichlet(np.ones(4), size=8), 0.1 * rng.normal(size=8), 0.1
    starts = np.concatenate([points.sparse_starts(rng, 200, 8, support) for support in range(1, 8)])
    descents.descend_all(Pricing(columns, prices, slope), starts, 200)
    cutoff = float(points.pricing_values(columns.T, prices, slope, starts).min()) - 1e-3
    apart = rivals(rivalry(columns), slope)
    monkeypatch.setattr(branching, "begin", plain(branching.begin))
    make_plain(monkeypatch)
    explored = branching.branch_and_bound(Pricing(columns, prices, slope), apart, cutoff, 10_000, 10, 0.2)
    assert explored.outcome == branching.PROVED
    assert explored.opened > 10
    tree = explored.tree._asdict()
    check(columns, [Case(prices=prices, slope=slope, proof=Proof(claim=cutoff - 1e-10, **tree))])
    bold = Case(prices=prices, slope=slope, proof=Proof(claim=cutoff + 1e-2, **tree))
    with pytest.raises(CertificateError, match="does not prove its claim"):
        check(columns, [bold])


def test_branch_and_bound_finds_the_grid_minimum(search: Any) -> None:
    rng = np.random.default_rng(4)
    for _ in range(3):
        columns = rng.dirichlet(np.ones(3), size=3)
        prices, slope = rng.normal(size=3) * 0.3, float(rng.random())
        apart = rivals(rivalry(columns), slope)
        grid = simplex_grid(300)
        least = float(points.pricing_values(columns.T, prices, slope, grid).min())
        pricing = Pricing(columns, prices, slope)
        assert search(pricing, apart, least - 1e-3, 10_000, 10, 0.2).outcome == branching.PROVED
        below = search(pricing, apart, least + 1e-3, 10_000, 10, 0.2)
        assert below.outcome == branching.FOUND
        assert below.best < least + 1e-3
        assert points.pricing_values(columns.T, prices, slope, below.found).min() < least + 1e-3
        once = search(pricing, apart, least - 1e-3, 1, 10, 0.2)
        assert once.opened == 1
        assert once.outcome in (branching.PROVED, branching.LIMIT)


@pytest.mark.parametrize("boxes", [1, 7])
def test_when_the_clock_is_looked_at_changes_nothing(monkeypatch: pytest.MonkeyPatch, boxes: int) -> None:
    """Pauses are for signals and deadlines; the tree is the same, bit by bit."""
    rng = np.random.default_rng(6)
    columns, prices, slope = rng.dirichlet(np.ones(4), size=8), 0.1 * rng.normal(size=8), 0.1
    starts = np.concatenate([points.sparse_starts(rng, 200, 8, support) for support in range(1, 8)])
    descents.descend_all(Pricing(columns, prices, slope), starts, 200)
    cutoff = float(points.pricing_values(columns.T, prices, slope, starts).min()) - 1e-3
    apart = rivals(rivalry(columns), slope)
    asked = (Pricing(columns, prices, slope), apart, cutoff, 5000, 10, 0.2)
    whole = branching.branch_and_bound(*asked)
    monkeypatch.setattr(branching, "Pace", lambda _: Steady(boxes))
    parted = branching.branch_and_bound(*asked)
    assert whole.opened > 10
    assert (whole.outcome, whole.opened, whole.best) == (parted.outcome, parted.opened, parted.best)
    for one, other in zip((*whole.tree, whole.found), (*parted.tree, parted.found), strict=True):
        assert np.array_equal(one, other)


class Steady:
    """A pace that never changes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def goes_on(self, deadline: object) -> bool:
        return True


def test_a_deadline_that_has_passed_leaves_the_proof_open() -> None:
    rng = np.random.default_rng(6)
    columns, prices = rng.dirichlet(np.ones(4), size=8), 0.1 * rng.normal(size=8)
    nobody = np.zeros((8, 8), dtype=np.uint8)
    asked = (Pricing(columns, prices, 0.1), nobody, -1.6, 5000, 10, 0.2)
    explored = branching.branch_and_bound(*asked, Deadline(0.0))
    assert (explored.outcome, explored.opened) == (branching.LIMIT, 0)


def test_what_a_root_alone_proves_is_confirmed_by_the_checker() -> None:
    rng = np.random.default_rng(8)
    columns, prices = rng.dirichlet(np.ones(3), size=6), 0.1 * rng.normal(size=6)
    pricing, nobody = Pricing(columns, prices, 0.4), np.zeros((6, 6), dtype=np.uint8)
    root = trees.root_alone(branching.branch_and_bound(pricing, nobody, 0.0, 1, 50, 0.2).tree)
    bound = branching.root_bound(pricing, root)
    check(columns, [Case(prices=prices, slope=0.4, proof=Proof(claim=bound - 1e-12, **root._asdict()))])
    assert bound <= points.pricing_values(columns.T, prices, 0.4, simplex_corners(6)).min()


def simplex_corners(n: int) -> np.ndarray:
    return np.concatenate([np.eye(n), np.full((1, n), 1.0 / n)])


class Stalling:
    """A model that reaches its optimum in the n-th way only."""

    def __init__(self, works_at: int) -> None:
        self.works_at, self.runs, self.cleared = works_at, 0, 0
        self.options: dict[str, float] = {
            "simplex_strategy": 4,
            "primal_feasibility_tolerance": 1e-10,
            "dual_feasibility_tolerance": 1e-10,
            "time_limit": float("inf"),
        }
        self.seen: list[dict[str, float]] = []

    def getOptionValue(self, name: str) -> tuple[int, float]:  # noqa: N802 (HiGHS's name)
        return 0, self.options[name]

    def setOptionValue(self, name: str, value: float) -> None:  # noqa: N802
        self.options[name] = value

    def clearSolver(self) -> None:  # noqa: N802
        self.cleared += 1

    def run(self) -> None:
        self.runs += 1
        self.seen.append(dict(self.options))

    def getRunTime(self) -> float:  # noqa: N802
        return float(self.runs)

    def getModelStatus(self) -> highspy.HighsModelStatus:  # noqa: N802
        status = highspy.HighsModelStatus
        return status.kOptimal if self.runs == self.works_at else status.kUnknown


@pytest.mark.parametrize("works_at", [1, 2, 3, 4, 5])
def test_a_stalled_program_is_tried_in_other_ways(works_at: int) -> None:
    model = Stalling(works_at)
    before = dict(model.options)
    assert lp.run_robustly(model) == (works_at <= 4)
    assert model.runs == min(works_at, 4)
    assert model.cleared == model.runs - 1
    assert model.options == before
    assert len({tuple(options.values()) for options in model.seen}) == max(1, model.runs - 1)


@pytest.mark.parametrize("seed", [137, 142])
def test_symbols_as_rare_as_the_tolerances_stall_no_curve(seed: int) -> None:
    """HiGHS stalled on these, warm and cold, and one point took the whole curve with it."""
    rng = np.random.default_rng(seed)
    p = rng.random((3, 8))
    p[rng.random((3, 8)) < 0.4] *= 10 ** rng.uniform(-12, -6)
    p[:, 0] *= 1e-9
    problem = pf.Problem(p / p.sum())
    curve = pf.trace(problem, points=6, solver="global", gap=1e-4)
    assert np.all(curve.gap <= 1e-4)
    assert np.all(curve.disclosure >= np.linspace(0.0, problem.disclosure_ceiling, 6) - 1e-9)
