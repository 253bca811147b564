"""Figures: what is drawn is what is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import privfunnel as pf
from privfunnel import instances, plot
from privfunnel.errors import InvalidInputError
from toys import Mixer


@pytest.fixture(scope="module")
def curve() -> pf.Curve:
    problem = instances.load("synthetic-uniform")
    return pf.trace(problem, points=9, solver="aem", restarts=4, max_steps=300, throw=False)


def test_the_figure_shows_curve_bounds_band_and_ends(curve: pf.Curve) -> None:
    figure = plot.curve(curve, title="synthetic")
    (ax,) = figure.axes
    assert ax.get_xlabel() == "disclosure $I(X;Y)$ [nats]"
    assert ax.get_ylabel() == "leakage $I(S;Y)$ [nats]"
    assert ax.get_title() == "synthetic"
    legend = ax.get_legend()
    assert legend is not None
    told = [text.get_text() for text in legend.get_texts()]
    assert told[0] == "achieved (aem)"
    assert {"closed-form bounds", "certified band", "proved lower bound"} <= set(told)
    (drawn,) = [line for line in ax.lines if line.get_label() == "achieved (aem)"]
    np.testing.assert_array_equal(drawn.get_xdata(), curve.disclosure)
    np.testing.assert_array_equal(drawn.get_ydata(), curve.leakage)


def test_the_free_disclosure_is_marked() -> None:
    heart = pf.trace(instances.load("heart-failure"), points=3, solver=Mixer(), throw=False)
    (ax,) = plot.curve(heart).axes
    (mark,) = [line for line in ax.lines if str(line.get_label()).startswith("free disclosure")]
    assert np.asarray(mark.get_xdata())[0] == pytest.approx(1.5626336, abs=1e-6)
    (ax,) = plot.curve(heart, free=False).axes
    assert not [line for line in ax.lines if str(line.get_label()).startswith("free disclosure")]


def test_bits_rescale_everything(curve: pf.Curve) -> None:
    (ax,) = plot.curve(curve, units="bits").axes
    assert "[bits]" in ax.get_xlabel()
    (drawn,) = [line for line in ax.lines if line.get_label() == "achieved (aem)"]
    np.testing.assert_allclose(np.asarray(drawn.get_xdata()), curve.disclosure / np.log(2.0))
    with pytest.raises(InvalidInputError, match="'nats' or 'bits'"):
        plot.curve(curve, units="bans")


def test_other_curves_and_given_axes(curve: pf.Curve) -> None:
    mixed = pf.trace(curve.problem, points=3, solver=Mixer(), throw=False)
    ax = Figure().add_subplot()
    figure = plot.curve(curve, others={"time sharing": mixed}, ax=ax, legend=False, label="best")
    assert figure is ax.figure
    assert ax.get_legend() is None
    assert {"time sharing", "best"} <= {line.get_label() for line in ax.lines}


def test_what_is_proved_between_the_points(curve: pf.Curve) -> None:
    """The optimum of a finer run is above the proved bound everywhere, and the bound uses what each point proves."""
    grid = np.linspace(0.0, curve.problem.disclosure_ceiling, 40)
    bound = plot.proved_lower_bound(curve, grid)
    assert (bound >= curve.problem.lower_bound(grid) - 1e-12).all()
    better = pf.trace(curve.problem, disclosures=grid, solver="aem", restarts=8, throw=False)
    assert (bound <= better.leakage + 1e-9).all()


def test_convexity_proves_more_than_the_points_alone() -> None:
    """For a curve known exactly at three points, L(R) = max(0, R − 1/2) say, the chords prove it beyond them."""
    problem = pf.Problem(
        np.eye(4) / 4.0
    )  # S = X: L(R) = R exactly, and the closed form proves it at every point
    curve = pf.trace(problem, points=3, solver=Mixer(), throw=False)
    grid = np.linspace(0.0, problem.disclosure_ceiling, 21)
    np.testing.assert_allclose(plot.proved_lower_bound(curve, grid), grid, atol=1e-12)


def test_saving(tmp_path: Path, curve: pf.Curve) -> None:
    figure = plot.curve(curve)
    plot.save(figure, tmp_path / "a.png", tmp_path / "a.svg", tmp_path / "a.pdf")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert "proved lower bound</text>" in (tmp_path / "a.svg").read_text()
    for name in ("b.svg", "c.svg"):
        plot.save(plot.curve(curve), tmp_path / name)
    assert (tmp_path / "b.svg").read_text() == (tmp_path / "c.svg").read_text(), (
        "the same curve, the same file"
    )
    for bad in (tmp_path / "no" / "a.png", tmp_path / "a.xyz"):
        with pytest.raises(InvalidInputError, match="cannot write the figure"):
            plot.save(figure, bad)


def test_the_curve_draws_itself(curve: pf.Curve) -> None:
    assert isinstance(curve.plot(title="mine"), Figure)
