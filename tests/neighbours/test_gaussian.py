"""The Gaussian funnel and bottleneck: closed forms, random mechanisms, and why continuous data need a resolution."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

import privfunnel as pf
from documents import DOCS
from helpers_cli import assert_one_line_error, run
from privfunnel import measures
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.neighbours.gaussian import GaussianProblem


def random_pair(seed: int, k: int = 2, d: int = 3) -> GaussianProblem:
    root = np.random.default_rng(seed).standard_normal((k + d, k + d + 1))
    joint = root @ root.T
    return GaussianProblem(joint[:k, :k], joint[:k, k:], joint[k:, k:])


def told(pair: GaussianProblem, noise: np.ndarray) -> tuple[float, float]:
    """I(X;Y) and I(S;Y) of Y = X + noise with this covariance, straight from determinants."""

    def half(matrix: np.ndarray) -> float:
        return 0.5 * float(np.linalg.slogdet(matrix)[1])

    y = pair.x + noise
    joint = np.block([[pair.s, pair.sx], [pair.sx.T, y]])
    return half(y) - half(noise), half(pair.s) + half(y) - half(joint)


def test_one_direction_is_the_formula_of_the_correlation() -> None:
    pair = GaussianProblem([[1.0]], [[0.8]], [[1.0]])
    assert pair.leakage_ceiling == pytest.approx(-0.5 * np.log(1 - 0.64))
    assert pair.gains == pytest.approx([0.64 / 0.36])
    found = pair.bottleneck(0.7)
    # Y = X + noise with correlation r² = 1 − e^(−2R): I(S;Y) = −½ log(1 − ρ² r²)
    assert found.leakage == pytest.approx(-0.5 * np.log(1 - 0.64 * (1 - np.exp(-1.4))))
    assert found.disclosure == pytest.approx(0.7)


@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_are_those_of_determinants(seed: int) -> None:
    pair = random_pair(seed)
    found = pair.bottleneck(1.0)
    noise = found.noise[0]
    kept = np.isfinite(noise)
    # Y = directions·X + noise; put the noise back into the coordinates of X, hidden directions nearly infinite.
    back = np.linalg.inv(found.directions)
    covariance = back @ np.diag(np.where(kept, noise, 1e9)) @ back.T
    assert told(pair, covariance) == pytest.approx((found.disclosure, found.leakage), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_no_gaussian_mechanism_is_outside_both_curves(seed: int) -> None:
    pair, rng = random_pair(seed), np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(pair.x)
    root, inverse = vectors * np.sqrt(values), vectors / np.sqrt(values)
    for _ in range(200):
        turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        left = turn @ np.diag(rng.uniform(0.05, 0.999, size=3)) @ turn.T  # posterior variance of whitened X
        noise = root @ np.linalg.inv(np.linalg.inv(left) - np.eye(3)) @ root.T
        rate, leaked = told(pair, 0.5 * (noise + noise.T))
        assert leaked <= pair.bottleneck(rate).leakage + 1e-9
        assert leaked >= pair.funnel(rate, resolution=0.05).leakage - 1e-9
    np.testing.assert_allclose(inverse.T @ pair.x @ inverse, np.eye(3), atol=1e-9)


def test_the_bottleneck_is_a_maximum_over_two_directions() -> None:
    pair = GaussianProblem(np.eye(2), np.diag([0.9, 0.5]), np.eye(2))
    rate = 0.8

    def leaked(split: float) -> float:
        return float(measures.gaussian_information(pair.gains, np.exp(-2 * np.array([split, rate - split]))))

    best = minimize_scalar(
        lambda t: -leaked(t), bounds=(0.0, rate), method="bounded", options={"xatol": 1e-12}
    )
    assert pair.bottleneck(rate).leakage == pytest.approx(-best.fun, abs=1e-9)


def test_the_funnel_releases_what_tells_least_first() -> None:
    pair = GaussianProblem(np.eye(2), [[0.9, 0.0, 0.0], [0.0, 0.5, 0.0]], np.eye(3))
    step = 0.5 * np.log(100)
    assert pair.funnel(step, resolution=0.01).leakage == pytest.approx(0.0, abs=1e-12)
    half = pair.funnel(1.5 * step, resolution=0.01)
    one = pair.funnel(2 * step, resolution=0.01)
    assert half.leakage == pytest.approx(0.5 * one.leakage)
    assert half.shares == pytest.approx([0.5, 0.5])
    whole = pair.funnel(3 * step, resolution=0.01)
    assert whole.leakage < pair.leakage_ceiling
    assert pair.bottleneck(3 * step).leakage > whole.leakage
    with pytest.raises(InfeasibleError, match="3 directions"):
        pair.funnel(3.1 * step, resolution=0.01)
    assert pair.funnel(0.0, resolution=0.5).disclosure == pair.bottleneck(0.0).leakage == 0.0


def test_columns_give_the_covariances_and_releases_have_the_variances() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20_000, 2)) @ [[1.0, 0.3], [0.0, 2.0]] + 5.0
    s = x[:, :1] + rng.standard_normal((20_000, 1))
    pair = GaussianProblem.from_columns(s, x)
    assert repr(pair) == "GaussianProblem(1 private, 2 public columns)"
    mechanism = pair.funnel(1.8, resolution=0.1)
    used, y = mechanism.release(x, rng)
    assert np.bincount(used.astype(int)) / len(x) == pytest.approx(mechanism.shares, abs=0.02)
    whitened = (x - pair.mean) @ mechanism.directions.T
    left = np.var(whitened[:, 0] - (1 - 0.1) * y[:, 0])  # the posterior mean is (1 − δ) y
    assert left == pytest.approx(0.1, abs=0.01)
    assert np.isnan(y[used == 0, 1]).all()


@pytest.fixture
def measured(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A file of five columns, S first, in units from 1e-4 to 1e5, and its numbers; one row lacks a value."""
    rng = np.random.default_rng(1)
    s = rng.normal(50.0, 12.0, 300)
    columns = [s, 100 + 0.6 * s + rng.normal(0, 8, 300), 1e5 * rng.normal(1, 0.2, 300) + 500 * s]
    numbers = np.column_stack([*columns, 1e-4 * rng.standard_normal(300), np.arange(300)])
    lines = [",".join(map(repr, row)) for row in numbers.tolist()]
    path = tmp_path / "measured.csv"
    path.write_text(
        "\n".join(["age,pressure,income,trace,number,town", *(f"{line},a" for line in lines)]) + "\n"
    )
    return path, numbers


PUBLIC = ["pressure", "income", "trace"]


def test_a_table_gives_the_covariances_of_its_columns(
    measured: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch by batch the same as at once; a unit that is large or small is no direction without variance."""
    pytest.importorskip("duckdb", reason="tables of records need the tables extra")
    path, numbers = measured
    at_once = GaussianProblem.from_columns(numbers[:, :1], numbers[:, 1:4])
    monkeypatch.setattr(pf.gaussian, "BATCH_ROWS", 64)
    found = GaussianProblem.from_table(path, private=["age"], public=PUBLIC)
    np.testing.assert_allclose(found.x, at_once.x, rtol=1e-10)
    np.testing.assert_allclose(found.mean, at_once.mean, rtol=1e-12)
    assert found.gains == pytest.approx(at_once.gains, abs=1e-9)
    scaled = GaussianProblem.from_columns(numbers[:, :1] * 1e-6, numbers[:, 1:4] * [1e3, 1e-5, 1e4])
    assert scaled.leakage_ceiling == pytest.approx(found.leakage_ceiling, rel=1e-9)
    whitened = found.directions @ found.x @ found.directions.T
    np.testing.assert_allclose(whitened, np.eye(3), atol=1e-9)
    for private, public, message in (
        (["age"], ["town"], "text, not numbers"), (["age"], ["age"], "twice"), ([], ["trace"], "one private"),
        (["age"], ["weight"], "no column 'weight'"),
    ):  # fmt: skip
        with pytest.raises(InvalidInputError, match=message):
            GaussianProblem.from_table(path, private=private, public=public)


def test_rows_without_numbers_are_refused_or_left_out(measured: tuple[Path, np.ndarray]) -> None:
    pytest.importorskip("duckdb", reason="tables of records need the tables extra")
    path, numbers = measured
    text = path.read_text().splitlines()
    path.write_text("\n".join([*text, "1,2,,3,4,a"]) + "\n")
    with pytest.raises(InvalidInputError, match="missing values"):
        GaussianProblem.from_table(path, private=["age"], public=PUBLIC)
    found = GaussianProblem.from_table(path, private=["age"], public=PUBLIC, missing="drop")
    assert found.mean == pytest.approx(numbers[:, 1:4].mean(axis=0))
    with pytest.raises(InvalidInputError, match="no category"):
        GaussianProblem.from_table(path, private=["age"], public=PUBLIC, missing="category")
    for rows, message in ((3, "more rows than columns"), (9, "'trace' has one value")):
        path.write_text("\n".join([text[0], *(f"{i},{i * i},{i**3},7.5,0,a" for i in range(rows))]) + "\n")
        with pytest.raises(InvalidInputError, match=message):
            GaussianProblem.from_table(path, private=["age"], public=PUBLIC)
    path.write_text("\n".join([text[0], *text[1:9], "inf,1,2,3,4,a"]) + "\n")
    with pytest.raises(InvalidInputError, match="infinite"):
        GaussianProblem.from_table(path, private=["age"], public=PUBLIC)


def test_the_command_shows_both_curves_and_a_mechanism(
    measured: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    pytest.importorskip("duckdb", reason="tables of records need the tables extra")
    path, _ = measured
    asked = ["gaussian", path, "--private", "age", "--public", ",".join(PUBLIC)]
    result = run(*asked, "--disclosure", "80%", "--points", 3, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "hidden" in result.output
    assert "gaussian.json" in result.output
    told = json.loads((tmp_path / "out" / "gaussian.json").read_text())
    problem = GaussianProblem.from_table(path, private=["age"], public=PUBLIC)
    half = told["curve"][1]
    assert half["least"] == pytest.approx(problem.funnel(half["disclosure"], resolution=0.01).leakage)
    assert half["most"] == pytest.approx(problem.bottleneck(half["disclosure"]).leakage)
    assert told["mechanism"]["disclosure"] == pytest.approx(0.8 * problem.disclosure_ceiling(0.01))
    assert json.loads(run(*asked, "--points", 3, "--json").output)["curve"] == told["curve"]
    for more, message in (
        (["--bin", "income=5"], "--bin"), (["--points", "1"], "--points"), (["--resolution", "1"], "resolution"),
        (["--disclosure", "120%"], "infeasible"), (["--missing", "category"], "no category"),
    ):  # fmt: skip
        assert_one_line_error(run(*asked, *more), message)


@pytest.mark.parametrize(
    "covariances",
    [
        ([[1.0]], [[0.5, 0.5]], [[1.0]]),
        ([[1.0]], [[np.nan]], [[1.0]]),
        ([["a"]], [[0.5]], [[1.0]]),
        (np.eye(2), [[0.1], [0.1]], [[1.0, 2.0]]),
        ([[1.0]], [[0.1, 0.1]], [[1.0, 0.5], [0.2, 1.0]]),
    ],
)
def test_tables_that_are_no_covariances_are_refused(covariances: tuple) -> None:  # type: ignore[type-arg]
    with pytest.raises(InvalidInputError):
        GaussianProblem(*covariances)


def test_what_has_no_finite_answer_is_refused() -> None:
    for pair in (
        GaussianProblem([[1.0]], [[1.0]], [[1.0]]),
        GaussianProblem([[1.0]], [[0.1, 0.1]], np.ones((2, 2))),
    ):
        with pytest.raises(InvalidInputError):
            _ = pair.gains
    good = random_pair(0)
    for resolution in (0.0, 1.0, float("nan")):
        with pytest.raises(InvalidInputError, match="resolution"):
            good.funnel(0.1, resolution=resolution)
    with pytest.raises(InvalidInputError, match="nats"):
        good.bottleneck(-1.0)
    with pytest.raises(InvalidInputError, match="rows"):
        GaussianProblem.from_columns(np.ones((3, 1)), np.ones((3, 2)))
    with pytest.raises(InvalidInputError, match="mean"):
        GaussianProblem([[1.0]], [[0.5]], [[1.0]], mean=[1.0, 2.0])


def binned(bins: int) -> pf.Problem:
    """Fair binary S, X normal around −1 or 1 with variance 1, in equal bins of [−5, 5]: the example of the page."""
    edges = np.linspace(-5.0, 5.0, bins + 1)
    edges[0], edges[-1] = -np.inf, np.inf
    return pf.Problem(np.array([0.5 * np.diff(norm.cdf(edges, loc=mean)) for mean in (-1, 1)]))


def comb(step: float, cells: int = 64) -> float:
    """I(S;Y) of Y = X modulo ``step`` for standard normal S and X with correlation 0.8, in nats."""
    s = np.linspace(-5.0, 5.0, 401)
    p_s = norm.pdf(s) / norm.pdf(s).sum()
    y = np.linspace(0.0, step, cells + 1)
    teeth = step * np.arange(-int(8 / step) - 2, int(8 / step) + 3)
    inside = norm.cdf((y[None, :, None] + teeth - 0.8 * s[:, None, None]) / 0.6)
    return float(measures.mutual_information(p_s[:, None] * np.diff(inside, axis=1).sum(axis=2)))


def test_the_page_on_continuous_data_quotes_what_is_computed() -> None:
    text = (DOCS / "continuous.md").read_text("utf-8")
    for bins in (4, 16, 64, 256):
        problem = binned(bins)
        row = (
            f"| {bins} | {problem.disclosure_ceiling:.3f} | {pf.free_disclosure(problem):.3f} | "
            f"{problem.leakage_ceiling:.3f} |"
        )
        assert row in text
    for step in (4.0, 2.0, 1.5, 1.0):
        assert f"| {step:g} | {comb(step):.1e} |" in text
