"""Figures: what is drawn is what is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import privfunnel as pf
from privfunnel.data import instances
from privfunnel.errors import InvalidInputError
from privfunnel.report import plot, view
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


@pytest.mark.parametrize("stored", [False, True], ids=["with certificates", "read from a file"])
def test_the_figure_and_the_report_show_one_band(stored: bool) -> None:
    """With certificates at three points their lines prove most; without them all comes from chords."""
    curve = pf.trace(instances.load("synthetic-uniform"), points=5, solver="global")
    if stored:
        curve = pf.Curve.from_dict(curve.to_dict())
    (ax,) = plot.curve(curve).axes
    (drawn,) = [line for line in ax.lines if line.get_label() == "proved lower bound"]
    figure = dict(zip(np.asarray(drawn.get_xdata()), np.asarray(drawn.get_ydata()), strict=True))
    report = dict(view.picture(curve).proved)
    shared = sorted(figure.keys() & report.keys())
    assert len(shared) >= 20
    assert [figure[r] for r in shared] == [report[r] for r in shared]
    assert [figure[r] for r in shared] == curve.proved(shared).tolist()
    beyond = np.array([report[r] for r in shared]) - curve.problem.lower_bound(shared)
    assert beyond.max() > 0.02  # more than the closed form, or there would be no band to compare


def test_a_band_that_is_only_the_closed_form_is_not_drawn_twice(curve: pf.Curve) -> None:
    assert view.picture(curve).proved == ()


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
        with pytest.raises(InvalidInputError, match=r"cannot write .*a\."):
            plot.save(figure, bad)


def test_the_curve_draws_itself(curve: pf.Curve) -> None:
    drawn = curve.plot(title="mine")
    assert isinstance(drawn, Figure)
    assert [ax.get_title() for ax in drawn.axes] == ["mine"]
