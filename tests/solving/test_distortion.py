"""The distortion funnel: closed forms, brute force, proofs that hold and forgeries that do not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from forging import changed
from privfunnel.certificate import Certificate, DistortionBody, load_bundle, save_bundle
from privfunnel.data.value_orders import banded
from privfunnel.errors import CertificateError, InfeasibleError, InvalidInputError
from privfunnel.measures import entropy
from privfunnel.model.costs import Costs
from privfunnel.release import distortion

GAP = 1e-9


@pytest.fixture(scope="module")
def heart() -> pf.Problem:
    return pf.instances.load("heart-failure")


@pytest.fixture(scope="module")
def point(heart: pf.Problem) -> pf.Solution:
    return distortion.solve(heart, distortion=0.2)


def random_problem(seed: int, n_s: int = 3, n_x: int = 6) -> pf.Problem:
    rng = np.random.default_rng(seed)
    return pf.Problem(rng.dirichlet(np.full(n_s * n_x, 0.7)).reshape(n_s, n_x))


# --- closed forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.5, 0.3, 0.05])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.7, 1.0])
def test_a_binary_source_has_shannons_rate(p: float, share: float) -> None:
    problem = pf.Problem(np.diag([p, 1.0 - p]))
    d = share * min(p, 1.0 - p)
    found = distortion.solve(problem, distortion=d)
    expected = float(entropy([p, 1.0 - p]) - entropy([d, 1.0 - d]))
    assert found.leakage == pytest.approx(expected, abs=GAP)
    assert found.gap <= GAP
    assert found.status is pf.Status.OPTIMAL


@pytest.mark.parametrize("seed", range(3))
def test_records_that_tell_nothing_are_left_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = pf.Problem(np.outer(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(5))))
    found = distortion.solve(problem, leakage=0.0)
    assert found.distortion == 0.0
    assert found.status is pf.Status.OPTIMAL


@pytest.mark.parametrize("m", [3, 8])
@pytest.mark.parametrize("d", [0.0, 0.1, 0.5])
def test_a_uniform_source_has_shannons_rate(m: int, d: float) -> None:
    problem = pf.Problem(np.eye(m) / m)
    found = distortion.solve(problem, distortion=d)
    expected = math.log(m) - float(entropy([d, 1.0 - d])) - d * math.log(m - 1)
    assert found.leakage == pytest.approx(expected, abs=GAP)
    assert found.disclosure == pytest.approx(found.leakage, abs=GAP)


# --- optimality -------------------------------------------------------------------------------------------------------


def test_every_point_of_heart_failure_is_proved(heart: pf.Problem) -> None:
    curve = distortion.trace(heart, points=8)
    assert curve.gap.max() <= GAP
    assert {status.value for status in curve.status} == {"optimal"}
    assert curve.leakage[0] == pytest.approx(heart.leakage_ceiling, abs=GAP)
    assert curve.leakage[-1] == pytest.approx(0.0, abs=GAP)
    slopes = np.diff(curve.leakage) / np.diff(curve.distortion)
    assert (np.diff(slopes) > -1e-6).all()  # convex
    assert (slopes < 0.0).all()
    for solution in curve.solutions:
        assert solution.limit is not None
        assert solution.distortion <= solution.limit + 1e-12
        assert curve.proved(solution.limit) <= solution.leakage + GAP


def steps_of_aem(problem: pf.Problem, d: np.ndarray, multiplier: float, steps: int) -> tuple[float, float]:
    """I(S;Y) + λ E d before the last and after the last of some steps w ∝ w exp(−g − λd)."""
    w = np.full(d.shape, 1.0 / d.shape[1])
    values = []
    for _ in range(steps):
        v = problem.p_sx @ w
        g = problem.p_s_given_x.T @ np.log(v / v.sum(axis=0) / problem.p_s[:, None])
        w = w * np.exp(-g - multiplier * d)
        w /= w.sum(axis=1, keepdims=True)
        point = problem.evaluate(w)
        values.append(point.leakage + multiplier * float(problem.p_x @ (w * d).sum(axis=1)))
    assert (np.diff(values) <= 1e-12).all()  # each step lowers it
    return values[-2], values[-1]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_step_of_aem_comes_down_to_the_same_value(seed: int) -> None:
    problem = random_problem(seed)
    d = np.random.default_rng(seed).uniform(size=(6, 6))
    np.fill_diagonal(d, 0.0)
    found = distortion.solve(problem, distortion=0.05, costs=d)
    best = found.leakage + found.multiplier * found.distortion
    _, value = steps_of_aem(problem, d, found.multiplier, 3000)
    assert best <= value + GAP
    assert value == pytest.approx(best, abs=2e-4)


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_no_random_channel_beats_the_bound(seed: int, invariant: bool) -> None:
    problem = random_problem(seed, n_s=2, n_x=4)
    rng = np.random.default_rng(seed)
    d = rng.uniform(size=(4, 4))
    np.fill_diagonal(d, 0.0)
    limit = 0.3 * distortion.free_distortion(problem, costs=d, invariant=invariant)
    found = distortion.solve(problem, distortion=limit, costs=d, invariant=invariant)
    assert found.gap <= GAP
    assert isinstance(found.certificate.body, DistortionBody)
    for _ in range(200):
        w = rng.dirichlet(np.full(4, 0.3), size=4) * 0.5 + 0.5 * np.eye(4)
        if invariant:  # p(x) w is made symmetric, so that p(y) = p(x)
            u = problem.p_x[:, None] * w
            u = np.minimum(u, u.T)
            np.fill_diagonal(u, 0.0)
            w = (u + np.diag(problem.p_x - u.sum(axis=1))) / problem.p_x[:, None]
        spent = float(problem.p_x @ (w * d).sum(axis=1))
        assert problem.evaluate(w).leakage >= found.certificate.lower_bound(spent) - 1e-12


def test_an_invariant_release_has_the_tables_distribution(heart: pf.Problem) -> None:
    found = distortion.solve(heart, distortion=0.2, invariant=True)
    assert found.p_y == pytest.approx(heart.p_x, abs=1e-12)
    assert found.gap <= GAP
    assert found.leakage > distortion.solve(heart, distortion=0.2).leakage + 1e-4


def test_less_leaks_the_more_is_changed(heart: pf.Problem) -> None:
    curve = distortion.trace(heart, points=6)
    assert (curve.slope <= 0.0).all()
    assert curve.slope[0] == curve.slope.min() < 0.0
    between = curve.at(0.5 * float(curve.distortion[0] + curve.distortion[1]))
    change = (curve.leakage[0] - curve.leakage[1]) / (curve.distortion[1] - curve.distortion[0])
    assert between.multiplier == pytest.approx(change)


def test_a_leakage_budget_gets_the_least_distortion(heart: pf.Problem, point: Any) -> None:
    found = distortion.solve(heart, leakage=point.leakage)
    assert found.leakage <= point.leakage + GAP
    assert found.distortion == pytest.approx(point.distortion, abs=1e-6)
    assert found.least_distortion is not None
    assert found.distortion - found.least_distortion <= 1e-6
    assert distortion.solve(heart, leakage="100%").distortion == 0.0
    nothing = distortion.solve(heart, leakage=0.0)
    assert nothing.leakage <= GAP
    assert nothing.distortion == pytest.approx(distortion.free_distortion(heart), abs=1e-9)


@pytest.mark.parametrize("limit", [0.0, 1e-14, 1e-11, 1e-8, 1e-5])
@pytest.mark.parametrize("invariant", [False, True])
def test_the_steep_end_is_proved(heart: pf.Problem, limit: float, invariant: bool) -> None:
    found = distortion.solve(heart, distortion=limit, invariant=invariant)
    assert found.gap <= GAP
    assert found.distortion <= limit


def test_free_changes_are_made_at_no_distortion() -> None:
    problem = random_problem(5)
    found = distortion.solve(problem, distortion=0.0, costs=np.zeros((6, 6)))
    assert found.leakage <= GAP
    # The first three symbols may be exchanged at no cost, and so may the others.
    block = np.kron(1.0 - np.eye(2), np.ones((3, 3)))
    for invariant in (False, True):
        found = distortion.solve(problem, distortion=0.0, costs=block, invariant=invariant)
        grouped = problem.p_sx.reshape(3, 2, 3).sum(axis=2)
        expected = pf.Problem(grouped).leakage_ceiling
        assert found.leakage == pytest.approx(expected, abs=GAP)
        assert found.gap <= GAP


def test_an_invariant_release_makes_no_change_that_does_not_come_back() -> None:
    problem = random_problem(7, n_x=4)
    d = np.full((4, 4), np.inf)
    np.fill_diagonal(d, 0.0)
    d[0, 1] = d[1, 0] = 1.0  # these two may be exchanged
    d[1, 2] = d[2, 3] = 1.0  # from here on nothing leads back
    found = distortion.solve(problem, distortion=0.1, costs=d, invariant=True)
    assert found.gap <= GAP
    assert found.p_y == pytest.approx(problem.p_x, abs=1e-12)
    assert found.channel[1, 2] == found.channel[2, 3] == 0.0
    assert found.leakage < problem.leakage_ceiling


def test_a_little_above_the_least_distortion_is_proved() -> None:
    problem = random_problem(8)
    d = np.random.default_rng(8).integers(1, 4, size=(6, 6)).astype(float)  # ties, and a least above 0
    least = float(problem.p_x @ d.min(axis=1))
    for above in (0.0, 1e-9, 1e-4):
        found = distortion.solve(problem, distortion=least + above, costs=d)
        assert found.gap <= GAP
        assert found.distortion <= least + above + 1e-12


def test_other_outputs_than_records_may_be_described() -> None:
    problem = random_problem(3)
    d = np.hstack([1.0 - np.eye(6), np.full((6, 1), 0.4)])  # the seventh output says nothing, for 0.4
    found = distortion.solve(problem, distortion=0.2, costs=d)
    assert found.gap <= GAP
    assert found.leakage < distortion.solve(problem, distortion=0.2).leakage
    assert found.outputs is None
    with pytest.raises(InvalidInputError, match="7 outputs for 6"):
        distortion.transition_matrix(found)


def test_one_private_symbol_leaks_nothing() -> None:
    found = distortion.solve(pf.Problem([[0.2, 0.3, 0.5]]), distortion=0.0)
    assert (found.leakage, found.distortion, found.status) == (0.0, 0.0, pf.Status.OPTIMAL)


def test_a_time_limit_leaves_a_bound_that_holds(heart: pf.Problem) -> None:
    cut = distortion.solve(heart, distortion=0.2, max_steps=6)
    best = distortion.solve(heart, distortion=0.2)
    assert cut.status is pf.Status.MAX_STEPS
    assert cut.lower_bound <= best.leakage <= cut.leakage
    assert distortion.solve(heart, distortion=0.2, time_limit=1e-9).lower_bound <= best.leakage


# --- costs ------------------------------------------------------------------------------------------------------------


def test_costs_of_columns_add_up(heart: pf.Problem) -> None:
    names = list(heart.public_columns)
    costs = distortion.costs_of(heart, {names[0]: "never", names[1]: "2", names[2]: "0.5*ordinal"})
    values = [np.array(heart.public_columns[name], dtype=object) for name in names]
    differ = [v[:, None] != v for v in values]
    expected = np.where(differ[0], np.inf, 2.0 * differ[1] + 0.5 * differ[2] + differ[3])
    assert np.array_equal(costs.matrix, expected)
    assert costs.words == f"{names[0]} never, {names[1]} 2, {names[2]} 0.5*ordinal, others hamming"
    found = distortion.solve(heart, distortion=0.3, costs=costs)
    assert not found.channel[differ[0]].any()
    assert found.gap <= GAP


def test_ordered_values_are_steps_apart() -> None:
    columns = {"age": ["9", "10", "30"]}
    problem = pf.Problem([[0.2, 0.1, 0.2], [0.1, 0.3, 0.1]], public_columns=columns)
    steps = [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    assert distortion.costs_of(problem, {"age": "ordinal"}).matrix.tolist() == steps
    listed = {"9": {"10": 1, "30": 5}, "10": {"9": 2, "30": 5}, "30": {"9": math.inf, "10": 0.5}}
    assert distortion.costs_of(problem, {"age": listed}).matrix.tolist() == [
        [0, 1, 5],
        [2, 0, 5],
        [math.inf, 0.5, 0],
    ]


@pytest.mark.parametrize(
    "bands",
    [
        ["<18", "18-29", "30–39 years", "40+"],
        ["0.125-0.25", "0.25-1", "1 to 10", ">10"],
        ["-10-0", "0-5", "5-10"],
        ["5k-9k", "10-20k", "30k"],
        ["2 rooms", "10 rooms", "11 rooms or more"],
    ],
)
def test_bands_are_in_the_order_of_the_numbers_they_begin_with(bands: list[str]) -> None:
    assert banded(sorted(bands)) == bands


@pytest.mark.parametrize(
    "bands",
    [
        ["30-39", "30-49", "50+"],
        ["0-20", "10-30", "40"],
        ["500-999", "1.000-4.999", "5.000+"],
        ["500-999", "1,000-4,999", "5,000+"],
        ["500k-1M", "1M-5M", "6M"],
        ["900", "5k", "10k"],
        ["2020-01-05", "2020-02-05", "2020-03-05"],
        ["low", "2", "3"],
    ],
)
def test_bands_whose_numbers_leave_doubt_have_no_order(bands: list[str]) -> None:
    assert banded(bands) is None


def test_the_order_of_texts_can_be_given() -> None:
    columns = {"size": ["S", "L", "M", "null"]}
    problem = pf.Problem([[0.2, 0.1, 0.1, 0.1], [0.1, 0.2, 0.1, 0.1]], public_columns=columns)
    matrix = distortion.costs_of(problem, {"size": "2*ordinal:S,M,L"}).matrix
    assert matrix[0].tolist() == [0.0, 4.0, 2.0, 6.0]
    for rule, words in (
        ("ordinal", "ordinal:L,M,S"),
        ("ordinal:S,L", "'M' is not in the order"),
        ("ordinal:S,M,L,M", "'M' is twice"),
        ("ordinal:", "cannot be read"),
        ("hamming:S,M,L", "cannot be read"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            distortion.costs_of(problem, {"size": rule})


def test_counts_know_the_order_of_their_bins(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = [f"{'ab'[i % 2]},{age}" for i in range(400) for age in (5, 15, 25, "")]
    path.write_text("s,age\n" + "\n".join(rows) + "\n")
    counts = pf.tables.count(path, private="s", public="age", bins={"age": "edges:0,10,20,30"})
    matrix = distortion.costs_of(counts, {"age": "ordinal"}).matrix
    assert matrix[0].tolist() == [0.0, 1.0, 2.0, 3.0]  # the missing value is as far as there are bins
    assert matrix[3].tolist() == [3.0, 3.0, 3.0, 0.0]
    problem = counts.problem()
    assert distortion.costs_of(problem, {"age": "ordinal"}).matrix.tolist() == matrix.tolist()


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ("zero", "not known"),
        ({"town": "never"}, "no public column 'town'"),
        ({"anaemia": "sometimes"}, "cannot be read"),
        ({"anaemia": "2*never"}, "cannot be read"),
        ({"anaemia": "-1"}, "cannot be read"),
        ({"anaemia": None}, "cannot be read"),
        ({"anaemia": {"0": {}}}, "no number for the change"),
        (np.zeros((3, 3)), "shape"),
        (np.full((16, 16), -1.0), "not usable"),
        (np.full((16, 16), np.nan), "not usable"),
        (np.full((16, 16), np.inf), "nothing may be released"),
        ([["a"] * 16] * 16, "not a matrix"),
    ],
)
def test_costs_that_cannot_be_used_are_told(heart: pf.Problem, costs: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        distortion.solve(heart, distortion=0.1, costs=costs)


def test_arguments_that_cannot_be_used_are_told(heart: pf.Problem) -> None:
    for options in ({}, {"distortion": 0.1, "leakage": 0.1}, {"distortion": -1.0}, {"distortion": math.nan},
                    {"distortion": "x"}, {"distortion": 0.1, "gap": 0.0}, {"distortion": 0.1, "max_steps": 0},
                    {"distortion": 0.1, "time_limit": 0.0}, {"leakage": -1.0}):  # fmt: skip
        with pytest.raises(InvalidInputError):
            distortion.solve(heart, **options)
    with pytest.raises(InvalidInputError, match="empty"):
        distortion.trace(heart, distortions=[])
    with pytest.raises(InvalidInputError, match="public_columns"):
        distortion.solve(pf.Problem([[0.5, 0.5]]), distortion=0.1, costs={"a": "never"})
    with pytest.raises(InvalidInputError, match="is no problem"):
        distortion.solve("heart-failure", distortion=0.1)  # type: ignore[arg-type]
    with pytest.raises(InfeasibleError, match="least possible is 1"):
        distortion.solve(heart, distortion=0.5, costs=np.ones((16, 16)))
    with pytest.raises(InvalidInputError, match="square"):
        distortion.solve(heart, distortion=0.5, costs=np.ones((16, 2)), invariant=True)
    with pytest.raises(InvalidInputError, match="diagonal"):
        distortion.solve(heart, distortion=0.5, costs=np.eye(16), invariant=True)
    with pytest.raises(InfeasibleError, match="infeasible with these costs"):
        distortion.solve(heart, leakage=0.0, costs={"anaemia": "never"})
    with pytest.raises(InvalidInputError, match="below the least"):
        distortion.trace(heart, end=0.5, costs=np.ones((16, 16)))


# --- proofs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("invariant", [False, True])
def test_a_proof_is_saved_and_read_and_verified(heart: pf.Problem, tmp_path: Path, invariant: bool) -> None:
    costs = {"anaemia": "never"}
    found = distortion.solve(heart, distortion=0.1, invariant=invariant, costs=costs)
    assert isinstance(found.certificate.body, DistortionBody)
    save_bundle(tmp_path / "c.npz", [found.certificate])
    (again,) = load_bundle(tmp_path / "c.npz")
    assert isinstance(again.body, DistortionBody)
    assert repr(again) == repr(found.certificate)
    again.verify(heart)
    again.verify(heart)
    assert again.lower_bound(0.1) == found.certificate.lower_bound(0.1)
    assert again.claim.scope.invariant is invariant
    with pytest.raises(CertificateError, match="another problem"):
        again.verify(random_problem(0))


def forgeries(honest: Certificate) -> dict[str, dict[str, Any]]:
    n_y, n_s = honest.body.cuts.shape
    free = honest.claim.scope.costs.copy()
    free[0] = np.inf  # nothing may be released for the first symbol: then anything is "proved"
    return {
        "a higher line": {"intercept": honest.intercept + 1e-6},
        "a flatter line": {"slope": honest.slope / 2.0},
        "a negative slope": {"slope": -honest.slope},
        "no number": {"intercept": math.nan},
        "an infinite slope": {"slope": math.inf},
        "cuts that are not normalised": {"cuts": honest.body.cuts + 1.0, "intercept": honest.intercept + 1.0},
        "cuts without numbers": {"cuts": np.full((n_y, n_s), np.nan)},
        "cuts of another table": {"cuts": np.zeros((n_y, n_s + 1))},
        "huge cuts": {"cuts": np.full((n_y, n_s), 1e300)},
        "whole cuts": {"cuts": np.zeros((n_y, n_s), dtype=np.int64)},
        "costs of another table": {"costs": np.zeros((2, n_y))},
        "negative costs": {"costs": honest.claim.scope.costs - 1.0},
        "costs that forbid everything": {"costs": free},
        "costs without numbers": {"costs": np.full(honest.claim.scope.costs.shape, np.nan)},
        "flat costs": {"costs": honest.claim.scope.costs.ravel()},
        "prices of outputs that are free": {"outputs": np.full(n_y, 1e300)},
        "prices of other outputs": {"outputs": np.zeros(n_y + 1)},
    }


NAMES = [
    "a higher line", "a flatter line", "a negative slope", "no number", "an infinite slope",
    "cuts that are not normalised", "cuts without numbers", "cuts of another table", "huge cuts", "whole cuts",
    "costs of another table", "negative costs", "costs that forbid everything", "costs without numbers", "flat costs",
    "prices of outputs that are free", "prices of other outputs",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_forged_proof_is_refused(heart: pf.Problem, point: Any, name: str) -> None:
    forged = changed(point.certificate, **forgeries(point.certificate)[name])
    with pytest.raises(CertificateError):
        forged.verify(heart)


def test_all_forgeries_are_tried(point: Any) -> None:
    assert list(forgeries(point.certificate)) == NAMES


def test_shifted_cuts_prove_the_same(heart: pf.Problem, point: Any) -> None:
    honest = point.certificate
    shifted = DistortionBody.build(heart, honest.claim.scope.costs, honest.slope, honest.body.cuts + 3.0)
    assert shifted.intercept == pytest.approx(honest.intercept, abs=1e-11)


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_solution_and_a_curve_are_read_back(heart: pf.Problem, tmp_path: Path) -> None:
    costs = {"smoking": "never"}
    solution = distortion.solve(heart, distortion=0.1, costs=costs)
    solution.save(tmp_path / "s.json")
    again = pf.Solution.load(tmp_path / "s.json")
    assert again.summary() == solution.summary()
    assert np.array_equal(again.costs.matrix, solution.costs.matrix)
    curve = distortion.trace(heart, points=3, costs=costs)
    curve.save(tmp_path / "c.json")
    read = pf.Curve.load(tmp_path / "c.json")
    for one, other in zip(read.rows(), curve.rows(), strict=True):
        assert one == pytest.approx(other, abs=1e-12)
    assert curve.leakage[-1] <= distortion.solve(heart, distortion=4.0, costs=costs).leakage + 1e-5
    dearest = float(
        heart.p_x @ np.where(np.isfinite(curve.costs.matrix), curve.costs.matrix, 0.0).max(axis=1)
    )
    assert curve.distortion[-1] < 0.5 * dearest  # it ends where further changes no longer help
    assert repr(read) == repr(curve)
    assert "never" in repr(solution)
    assert "distortion E d(X,Y)" in solution._repr_html_()
    assert solution.kkt_residual == solution.gap


def test_a_changed_file_is_refused(heart: pf.Problem, point: Any) -> None:
    data = point.to_dict()
    with pytest.raises(InvalidInputError, match="claims distortion"):
        pf.Solution.from_dict(data | {"distortion": 0.1})
    with pytest.raises(InvalidInputError, match="claims leakage"):
        pf.Solution.from_dict(data | {"leakage": 0.0})
    curve = distortion.trace(heart, points=2).to_dict()
    forbidden = Costs(np.where(np.eye(16) > 0, np.inf, 1.0), "")
    with pytest.raises(InvalidInputError):
        pf.Curve.from_dict(curve | {"question": curve["question"] | {"costs": forbidden.to_dict()}})


def test_a_transition_matrix_is_what_pram_reads(heart: pf.Problem, point: Any, tmp_path: Path) -> None:
    names, matrix = distortion.transition_matrix(point)
    assert names == heart.x_labels
    distortion.write_transition_matrix(point, tmp_path / "t.csv")
    pd = pytest.importorskip("pandas")
    read = pd.read_csv(tmp_path / "t.csv", index_col=0)
    assert list(read.index) == list(read.columns) == list(heart.x_labels)
    assert read.to_numpy() == pytest.approx(matrix, abs=0.0)
    assert read.sum(axis=1).to_numpy() == pytest.approx(np.ones(16), abs=1e-12)


def test_a_curve_is_drawn(heart: pf.Problem) -> None:
    pytest.importorskip("matplotlib")
    figure = distortion.trace(heart, points=3).plot(units="bits")
    assert "bits" in figure.axes[0].get_ylabel()
