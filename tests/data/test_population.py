"""Population bounds: exact coverage where everything can be enumerated, theorems checked term by term, edges."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest
from scipy import special

import privfunnel as pf
from privfunnel import measures
from privfunnel.data.population import ball, confidence_limits, tilting
from privfunnel.data.population import bounds as population
from privfunnel.data.population.intervals import clopper_pearson, divergence_cap, divergence_radius
from privfunnel.errors import InvalidInputError

METHODS = ("intervals", "ball", "tilting", "best")


def tables(n: int, cells: int) -> np.ndarray:
    """All tables of ``n`` rows in ``cells`` cells, flattened."""
    bars = np.array(list(itertools.combinations(range(n + cells - 1), cells - 1)))
    edges = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), n + cells - 1)])
    return np.diff(edges, axis=1) - 1


def probabilities(outcomes: np.ndarray, laws: np.ndarray) -> np.ndarray:
    """Multinomial probability of each outcome (down) under each law (across)."""
    n = outcomes.sum(axis=1)
    coefficient = special.gammaln(n + 1) - special.gammaln(outcomes + 1).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(outcomes[:, :, None] > 0, outcomes[:, :, None] * np.log(laws.T[None]), 0.0).sum(
            axis=1
        )
    return np.exp(coefficient[:, None] + logs)


def laws_of_four_cells() -> np.ndarray:
    """Joint distributions of two coins: a lattice, and some with nearly empty cells."""
    rng = np.random.default_rng(5)
    return np.vstack([tables(10, 4) / 10.0, rng.dirichlet(np.full(4, 0.2), size=200)])


def canonical(table: np.ndarray) -> tuple[int, ...]:
    """One name for a 2 × 2 table and those with its rows or columns exchanged."""
    each = [table[::i, ::j].ravel() for i in (1, -1) for j in (1, -1)]
    return max(tuple(int(x) for x in flat) for flat in each)


def covered(n: int, bound: object, truth: np.ndarray, laws: np.ndarray, *, above: bool = True) -> np.ndarray:
    """Exact probability, under each law, that the bound holds."""
    outcomes = tables(n, 4)
    names = [canonical(flat.reshape(2, 2)) for flat in outcomes]
    values = {name: bound(np.array(name).reshape(2, 2)) for name in set(names)}  # type: ignore[operator]
    found = np.array([values[name] for name in names])[:, None]
    rounding = 1e-15  # of the truth itself, which may be log 2
    holds = found >= truth[None] - rounding if above else found <= truth[None] + rounding
    return np.asarray((probabilities(outcomes, laws) * holds).sum(axis=0))


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_covers_exactly_where_all_tables_can_be_listed(n: int, method: str) -> None:
    laws = laws_of_four_cells()
    truth = measures.mutual_information(laws.reshape(-1, 2, 2))
    share = covered(n, lambda c: pf.audit.population_bound(c, 0.8, method=method).upper, truth, laws)
    assert share.min() >= 0.8 - 1e-12


@pytest.mark.parametrize("n", [3, 9])
def test_lower_bound_lift_and_guesses_cover_exactly_where_all_tables_can_be_listed(n: int) -> None:
    laws = laws_of_four_cells()
    square = laws.reshape(-1, 2, 2)
    information = measures.mutual_information(square)
    lower = covered(
        n, lambda c: population.population_lower_bound(c, 0.8).lower, information, laws, above=False
    )
    assert lower.min() >= 0.8 - 1e-12
    lift = np.log(measures.lift(square).max(axis=(1, 2)))
    assert covered(n, lambda c: population.population_lift(c, 0.8), lift, laws).min() >= 0.8 - 1e-12
    gain = measures.guessing_accuracy(square) - square.sum(axis=2).max(axis=1)
    share = covered(n, lambda c: population.population_guessing(c, 0.8).gain, gain, laws)
    assert share.min() >= 0.8 - 1e-12


@pytest.mark.parametrize(("n_s", "n_y", "n"), [(2, 2, 9), (2, 3, 5), (3, 2, 5)])
@pytest.mark.parametrize("tilt", [0.05, 0.6, 1.5, 6.0])
def test_the_generating_function_of_the_upper_tail_is_below_its_bound(
    n_s: int, n_y: int, n: int, tilt: float
) -> None:
    rng = np.random.default_rng(n_s + 10 * n_y)
    laws = np.vstack([rng.dirichlet(np.full(n_s * n_y, a), size=20) for a in (0.3, 1.0, 10.0)])
    outcomes = tables(n, n_s * n_y)
    counted = outcomes.reshape(-1, n_s, n_y)
    chance = probabilities(outcomes, laws)
    plug_in = measures.mutual_information(counted / n)
    for index, law in enumerate(laws):
        p = law.reshape(n_s, n_y)
        p_s = p.sum(axis=1)
        z = n * (plug_in + measures.kl_divergence(counted.sum(axis=2) / n, p_s))
        b = tilting.least_ratio(tilt, float(p_s.min()))
        expected = float(chance[:, index] @ np.exp(-tilt * z))
        assert expected <= (1.0 - b * float(measures.mutual_information(p))) ** n * (1.0 + 1e-12)


@pytest.mark.parametrize("tilt", [0.05, 0.3, 0.8])
def test_the_generating_function_of_the_lower_tail_is_below_its_bound(tilt: float) -> None:
    rng = np.random.default_rng(3)
    laws = np.vstack([rng.dirichlet(np.full(6, a), size=20) for a in (0.3, 1.0, 10.0)])
    outcomes = tables(6, 6)
    plug_in = measures.mutual_information(outcomes.reshape(-1, 2, 3) / 6)
    expected = np.exp(tilt * 6 * plug_in) @ probabilities(outcomes, laws)
    for law, value in zip(laws, expected, strict=True):
        p = law.reshape(2, 3)
        grown = tilting.largest_ratio(tilt, 1.0 / float(p.sum(axis=1).min()))
        assert value <= (1.0 + grown * float(measures.mutual_information(p))) ** 6 * (1.0 - tilt) ** -3.0


@pytest.mark.parametrize("least", [0.5, 0.3, 0.05, 1e-3])
@pytest.mark.parametrize("tilt", [1e-6, 1e-2, 0.5, 2.0, 50.0])
def test_the_ratio_of_divergences_is_bounded_for_every_posterior(tilt: float, least: float) -> None:
    rng = np.random.default_rng(11)
    power = 1.0 / (1.0 + tilt)
    b = tilting.least_ratio(tilt, least)
    seen = math.inf
    for n_s in (2, 3, 5):
        if n_s * least > 1.0:
            continue
        q = least + (1.0 - n_s * least) * rng.dirichlet(np.full(n_s, 0.5), size=4000)
        w = np.vstack([rng.dirichlet(np.full(n_s, a), size=1000) for a in (0.1, 0.5, 1.0, 5.0)])
        w = np.where(rng.random((len(w), 1)) < 0.3, 0.9 * q + 0.1 * w, w)
        # 1 − E r^α = −Σ w (r^{α−1} − 1), accurate also for α close to 1
        lost = -np.sum(
            np.where(w > 0.0, w * np.expm1((power - 1.0) * np.log(np.maximum(w, 1e-300) / q)), 0.0), axis=1
        )
        ratio = -np.expm1(np.log1p(-lost) / power) / measures.kl_divergence(w, q)
        seen = min(seen, float(ratio.min()))
    assert b <= seen * (1.0 + 1e-6)
    assert b > 0.0


def test_agrawals_generating_function_holds_for_binomials() -> None:
    """The cited inequality, checked where it can be: E exp(θ m kl) ≤ 1/(1 − θ)."""
    shares = np.concatenate([np.linspace(0.01, 0.99, 99), [1e-4, 1e-3]])
    for m, theta in itertools.product((1, 2, 5, 30, 200), (0.05, 0.5, 0.95)):
        k = np.arange(m + 1)[:, None]
        log_chance = (
            special.gammaln(m + 1) - special.gammaln(k + 1) - special.gammaln(m - k + 1)
            + k * np.log(shares) + (m - k) * np.log1p(-shares)
        )  # fmt: skip
        divergence = measures.kl_divergence(
            np.broadcast_to(np.stack([k / m, 1 - k / m], axis=-1), (m + 1, len(shares), 2)),
            np.stack([shares, 1 - shares], axis=-1)[None],
        )
        assert np.exp(log_chance + theta * m * divergence).sum(axis=0).max() <= 1.0 / (1.0 - theta)


@pytest.mark.parametrize("shape", [(2, 2, 1), (2, 3, 1), (3, 4, 1), (2, 2, 3)])
def test_no_distribution_in_the_ball_beats_the_dual(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(sum(shape))
    for n in (20, 400):
        counts = (
            rng.multinomial(n, rng.dirichlet(np.full(math.prod(shape), 0.7))).reshape(shape).astype(float)
        )
        radius = divergence_radius(counts.size - 1, 0.05)
        upper = ball.largest_information(counts, radius)
        p_hat = counts.ravel() / n
        lower = ball.least_information(counts[:, :, 0], radius) if shape[2] == 1 else 0.0
        for _ in range(200):
            far = rng.dirichlet(np.full(counts.size, rng.choice([0.1, 0.5, 2.0])))
            low, high = 0.0, 1.0  # how far one may go from the frequencies towards it
            for _ in range(40):
                step = 0.5 * (low + high)
                inside = float(measures.kl_divergence(p_hat, (1 - step) * p_hat + step * far)) <= radius / n
                low, high = (step, high) if inside else (low, step)
            p = ((1 - low) * p_hat + low * far).reshape(shape)
            p_a = p.sum(axis=(0, 1))
            value = float(np.sum(p_a * measures.mutual_information(np.moveaxis(p / p_a, 2, 0))))
            assert lower <= value <= upper


def test_the_dual_meets_the_quadratic_theory_of_large_samples() -> None:
    """Where information is close to quadratic, the largest over the ball is (√Î + √ε)²."""
    counts = np.array([[25_300.0, 24_700.0], [24_700.0, 25_300.0]])[:, :, None]
    radius = divergence_radius(3, 0.05)
    plug_in = float(measures.mutual_information(counts[:, :, 0] / counts.sum()))
    theory = (math.sqrt(plug_in) + math.sqrt(radius / counts.sum())) ** 2
    assert theory * 0.98 <= ball.largest_information(counts, radius) <= theory * 1.02


def test_simulated_tables_are_covered() -> None:
    rng = np.random.default_rng(8)
    for law in (
        np.outer([0.24, 0.76], np.full(8, 0.125)),
        rng.dirichlet(np.full(12, 0.3)).reshape(3, 4),
        np.diag([0.5, 0.3, 0.2]) * 0.9 + 0.1 / 9.0,
    ):
        truth = float(measures.mutual_information(law))
        drawn = rng.multinomial(500, law.ravel(), size=20).reshape(-1, *law.shape)
        upper = np.array([pf.audit.population_bound(c, 0.9).upper for c in drawn])
        lower = np.array([population.population_lower_bound(c, 0.9).lower for c in drawn])
        # 20 draws at 10 % each: more than 7 misses have probability below 0.001
        assert (upper < truth).sum() <= 7
        assert (lower > truth).sum() <= 7


def test_a_known_column_is_bounded_by_the_same_machinery() -> None:
    rng = np.random.default_rng(2)
    law = rng.dirichlet(np.full(12, 2.0)).reshape(2, 3, 2)
    p_a = law.sum(axis=(0, 1))
    truth = float(np.sum(p_a * measures.mutual_information(np.moveaxis(law / p_a, 2, 0))))
    drawn = rng.multinomial(2_000, law.ravel(), size=12).reshape(-1, 2, 3, 2)
    for method in METHODS:
        upper = np.array([pf.audit.population_bound(c, 0.9, method=method).upper for c in drawn])
        assert (upper < truth).sum() <= 5  # 12 draws at 10 %: more have probability below 0.001
    found = pf.audit.population_bound(drawn[0])
    assert found.outputs == 3
    assert found.plug_in == pytest.approx(truth, abs=0.05)


def test_one_known_value_is_knowing_nothing() -> None:
    counts = np.array([[30, 10, 5], [12, 20, 40]])
    for method in METHODS:
        flat = pf.audit.population_bound(counts, method=method)
        assert pf.audit.population_bound(counts[:, :, None], method=method) == flat


@pytest.mark.parametrize("method", METHODS)
def test_more_confidence_costs_and_more_rows_gain(method: str) -> None:
    counts = np.array([[30, 10, 5], [12, 20, 40]])
    at = [pf.audit.population_bound(counts, c, method=method).upper for c in (0.5, 0.8, 0.95, 0.999)]
    assert at == sorted(at)
    growing = [pf.audit.population_bound(counts * f, method=method).upper for f in (1, 4, 30, 1000)]
    assert growing == sorted(growing, reverse=True)
    assert growing[-1] >= pf.audit.population_bound(counts).plug_in
    assert growing[-1] == pytest.approx(pf.audit.population_bound(counts).plug_in, rel=0.1)


def test_more_rows_raise_the_lower_bound_towards_the_truth() -> None:
    counts = np.array([[30, 10, 5], [12, 20, 40]])
    at = [population.population_lower_bound(counts * f).lower for f in (1, 4, 30, 1000)]
    plug_in = population.population_lower_bound(counts).plug_in
    assert at == sorted(at)
    assert 0.95 * plug_in <= at[-1] <= plug_in
    less = [population.population_lower_bound(counts * 30, c).lower for c in (0.5, 0.95, 0.999)]
    assert less == sorted(less, reverse=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "counts",
    [
        [[1]],
        [[3], [4]],
        [[3, 4]],
        [[1, 0], [0, 0]],
        [[5, 0, 0], [0, 5, 0]],
        [[0, 0], [7, 9]],
        [[10**9, 3 * 10**9], [2 * 10**9, 10**9]],
        [[10**12, 0], [0, 10**12]],
    ],
)
def test_edges_give_a_bound_between_the_plug_in_and_the_ceiling(counts: list[list[int]], method: str) -> None:
    table = np.array(counts)
    found = pf.audit.population_bound(table, method=method)
    assert found.plug_in * (1.0 - 1e-12) <= found.upper <= math.log(min(table.shape))
    assert found.n == table.sum()
    below = population.population_lower_bound(table)
    assert 0.0 <= below.lower <= below.plug_in
    at_least = float(np.log(measures.lift(table / table.sum()).max())) if min(table.shape) > 1 else 0.0
    assert population.population_lift(table) >= at_least
    guess = population.population_guessing(table)
    assert 0.0 <= guess.gain <= 1.0 - guess.before + 1e-12


def test_unseen_outputs_and_values_are_not_taken_as_impossible() -> None:
    counts = np.array([[50, 0, 40], [60, 0, 55]])
    assert population.population_lift(counts) > population.population_lift(counts[:, [0, 2]])
    assert population.population_lift([[50, 0], [0, 0]]) == math.inf
    for method in ("intervals", "ball"):
        fewer = pf.audit.population_bound(counts[:, [0, 2]], method=method).upper
        assert pf.audit.population_bound(counts, method=method).upper > fewer
    unseen = np.array([[500, 400], [600, 450], [0, 0]])
    for method in METHODS:
        fewer = pf.audit.population_bound(unseen[:2], method=method).upper
        assert pf.audit.population_bound(unseen, method=method).upper > fewer


def test_rare_values_do_not_void_the_lower_bound() -> None:
    counts = np.array([[3000, 200, 0], [150, 2500, 0], [0, 0, 1], [0, 0, 0]])
    found = population.population_lower_bound(counts)
    assert 0.5 * found.plug_in <= found.lower <= found.plug_in
    # Few of many outputs: a ball of so many dimensions says nothing, a tail of the plug-in does.
    rng = np.random.default_rng(4)
    many = rng.multinomial(20_000, (rng.dirichlet(np.full(40, 0.05), size=20) / 20.0).ravel()).reshape(20, 40)
    many[-1] = 0
    found = population.population_lower_bound(many)
    assert found.method == "tilting"
    assert 0.5 * found.plug_in <= found.lower <= found.plug_in


def test_a_large_table_takes_no_more_calls_than_a_small_one() -> None:
    """All loops are over arrays: what is called does not depend on how many cells there are."""
    counts = np.random.default_rng(0).multinomial(10**6, np.full(10**4, 1e-4)).reshape(50, 200)
    assert pf.audit.population_bound(counts).upper < 0.01  # and what has to be imported is
    calls = []
    for table in (counts[:5, :20], counts):
        events = itertools.count()
        before = sys.getprofile()
        sys.setprofile(lambda *_, events=events: next(events) and None)
        try:
            pf.audit.population_bound(table)
            population.population_lower_bound(table)
        finally:
            sys.setprofile(before)
        calls.append(next(events))
    assert calls[1] <= 2 * calls[0]


def test_tilting_beats_intervals_and_ball_on_a_release_that_says_nothing() -> None:
    """10 854 rows, 8, 16 and 32 outputs: below 0.0055 and 0.0125 nats where those are asked for."""
    rng = np.random.default_rng(7)
    for outputs, asked in ((8, 0.0055), (16, 0.0125), (32, 0.016)):
        counts = rng.multinomial(10_854, np.outer([0.24, 0.76], np.full(outputs, 1 / outputs)).ravel())
        found = pf.audit.population_bound(counts.reshape(2, outputs))
        assert found.method == "tilting"
        assert found.upper <= asked


def test_fewer_rows_guarantee_fewer_outputs() -> None:
    at = [population.guaranteed_outputs(n, 0.01, p_s=(0.3, 0.7)) for n in (1, 100, 2_000, 10_000, 100_000)]
    assert at == sorted(at)
    assert at[0] == 1
    assert at[-1] > 100
    assert population.guaranteed_outputs(2_000, 1.0) == 10_000  # one bit about a coin is no promise
    most = population.guaranteed_outputs(10_000, 0.01)
    uniform = np.full((2, most), 10_000 // (2 * most))
    assert pf.audit.population_bound(uniform).upper <= 0.01


def test_intervals_and_radii_are_exact_limits() -> None:
    low, high = clopper_pearson([0, 3, 10], 10, 0.025)
    assert low[0] == 0.0
    assert high[2] == 1.0
    assert high[0] == pytest.approx(1.0 - 0.025 ** (1 / 10), rel=1e-8)  # the rule for nothing seen
    assert special.bdtr(3, 10, high[1]) == pytest.approx(0.025, rel=1e-6)
    assert special.bdtrc(2, 10, low[1]) == pytest.approx(0.025, rel=1e-6)
    assert clopper_pearson(0, 0, 0.025) == (0.0, 1.0)
    x = divergence_radius(7, 0.05)
    assert math.exp(-x) * (math.e * x / 7) ** 7 == pytest.approx(0.05, rel=1e-6)
    assert divergence_radius(0, 0.05) == 0.0
    cap = divergence_cap(np.array([0.0, 0.2, 1.0]), 0.1)
    assert cap == pytest.approx([1.0 - math.exp(-0.1), cap[1], 1.0])
    assert measures.kl_divergence([0.2, 0.8], [cap[1], 1.0 - cap[1]]) == pytest.approx(0.1)


def test_the_limits_of_a_single_column_say_little_about_s() -> None:
    assert confidence_limits.largest_information(np.array([[40.0], [60.0]])[:, :, None], 0.05) < 0.05


@pytest.mark.parametrize(
    ("counts", "confidence", "method", "advice"),
    [
        ([[1, 2], [3, 4]], 1.0, "best", "confidence"),
        ([[1, 2], [3, 4]], 95, "best", "confidence"),
        ([[1, 2], [3, 4]], 0.95, "bootstrap", "choose best"),
        ([[0.5, 0.5], [0, 0]], 0.95, "best", "not shares"),
        ([[-1, 2], [3, 4]], 0.95, "best", "-1"),
        ([[0, 0], [0, 0]], 0.95, "best", "no rows"),
        ([1, 2, 3], 0.95, "best", "axes"),
    ],
)
def test_what_cannot_be_used_is_refused_with_advice(
    counts: list[object], confidence: float, method: str, advice: str
) -> None:
    with pytest.raises(InvalidInputError, match=advice):
        pf.audit.population_bound(counts, confidence, method=method)


def test_shares_that_are_no_distribution_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="sum to 1"):
        population.guaranteed_outputs(100, 0.1, p_s=(0.5, 0.6))
