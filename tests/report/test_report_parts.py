"""The parts of a report: axes, meanings, charts and heat maps, against numbers worked out by other means."""

from __future__ import annotations

import base64
import io
import json
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privfunnel as pf
from privfunnel.data.engines import Alphabet, Column
from privfunnel.report import chart, heat, meaning
from privfunnel.report.axes import Axis
from privfunnel.report.rounding import Rounding
from privfunnel.report.view import worst_case

HEART = pf.instances.load("heart-failure")
S_AXIS = Axis.parse(HEART.s_labels, "S")
X_AXIS = Axis.parse(HEART.x_labels, "X")


# --- axes -----------------------------------------------------------------------------------------------------------


def test_labels_are_read_as_attributes() -> None:
    assert S_AXIS.names == ("sex", "death")
    assert S_AXIS.values[0] == ("woman", "no")
    assert X_AXIS.names == ("anaemia", "high blood pressure", "diabetes", "smoking")
    assert len(X_AXIS) == 16


def test_quoted_values_and_intervals_keep_their_commas() -> None:
    axis = Axis.parse(['town="Wells, Somerset", age=[0, 5)', "town=Bath, age=[5, 9]"], "X")
    assert axis.names == ("town", "age")
    assert axis.values == (('"Wells, Somerset"', "[0, 5)"), ("Bath", "[5, 9]"))


@pytest.mark.parametrize(
    "labels", [["a", "b"], ["a=1", "b=2"], ["a=1, b=2", "a=1"], ["a=1, a=2"], ["=1", "=2"], ["a=1", "b"]]
)
def test_other_labels_are_one_attribute(labels: list[str]) -> None:
    axis = Axis.parse(labels, "X")
    assert axis.names == ("X",)
    assert axis.values == tuple((label,) for label in labels)


def test_levels_go_by_number_or_by_appearance() -> None:
    assert Axis.parse(["n=10", "n=9", "n=2.5"], "X").levels(0) == ("2.5", "9", "10")
    assert Axis.parse(["n=[10, 20)", "n=[2, 10)", "n=>=20"], "X").levels(0) == ("[2, 10)", "[10, 20)", ">=20")
    assert Axis.parse(["n=low", "n=high", "n=7"], "X").levels(0) == ("low", "high", "7")


def test_order_sorts_by_the_first_attribute_first() -> None:
    axis = Axis.parse(["a=2, b=1", "a=1, b=2", "a=1, b=1"], "X")
    assert axis.order.tolist() == [2, 1, 0]


def test_levels_of_counted_columns_keep_their_order() -> None:
    column = Column("n", "text", ("b", "c", "a"))
    counted = Axis.of(Alphabet((column,), np.array([[0], [2]])))
    assert counted.levels(0) == ("b", "a")
    assert counted.values == (("b",), ("a",))


def test_by_column_sums_what_shares_a_value() -> None:
    sexes = S_AXIS.alphabet.by_column(HEART.p_sx)["sex"]
    assert sexes.shape == (2, 16)
    np.testing.assert_allclose(sexes[0], HEART.p_sx[:2].sum(axis=0))
    np.testing.assert_allclose(sexes.sum(), 1.0)


# --- meaning --------------------------------------------------------------------------------------------------------


def random_channel(seed: int, n_x: int, n_y: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(n_y, 0.5), size=n_x)


def test_a_constant_release_tells_nothing() -> None:
    told = meaning.explain(HEART, np.ones((16, 1)), S_AXIS, X_AXIS)
    assert told.disclosure == pytest.approx(0.0, abs=1e-12)
    assert told.leakage == pytest.approx(0.0, abs=1e-12)
    assert [g.after for g in told.guesses] == [g.before for g in told.guesses]
    assert [k.kept for k in told.kept] == pytest.approx([0.0] * 4, abs=1e-12)
    assert told.maximal_leakage == pytest.approx(0.0, abs=1e-12)
    assert told.max_lift == pytest.approx(1.0)
    assert told.epsilon == pytest.approx(0.0, abs=1e-9)


def test_releasing_everything_keeps_everything() -> None:
    told = meaning.explain(HEART, np.eye(16), S_AXIS, X_AXIS)
    assert told.leakage == pytest.approx(HEART.leakage_ceiling)
    assert [k.share for k in told.kept] == pytest.approx([1.0] * 4)
    for guess in told.guesses:
        assert guess.after == pytest.approx(guess.original)
    assert math.isinf(told.epsilon)  # some combination occurs for one private group only


def test_guesses_by_hand() -> None:
    channel = random_channel(3, 16, 5)
    told = meaning.explain(HEART, channel, S_AXIS, X_AXIS)
    assert [g.name for g in told.guesses] == ["sex", "death", "all together"]
    p_sy = HEART.p_sx @ channel
    women, men = p_sy[:2].sum(axis=0), p_sy[2:].sum(axis=0)
    assert told.guesses[0].before == pytest.approx(max(women.sum(), men.sum()))
    assert told.guesses[0].after == pytest.approx(sum(max(w, m) for w, m in zip(women, men, strict=True)))
    assert told.guesses[2].after == pytest.approx(p_sy.max(axis=0).sum())


def test_worst_case_by_hand() -> None:
    channel = random_channel(4, 16, 3)
    told = meaning.explain(HEART, channel, S_AXIS, X_AXIS)
    p_sy = HEART.p_sx @ channel
    p_y_given_s = p_sy / p_sy.sum(axis=1, keepdims=True)
    assert told.maximal_leakage == pytest.approx(math.log(p_y_given_s.max(axis=0).sum()))
    ratio = p_sy / np.outer(p_sy.sum(axis=1), p_sy.sum(axis=0))
    assert told.max_lift == pytest.approx(ratio.max())
    assert told.min_lift == pytest.approx(ratio.min())
    s, y, p_y = told.most_telling
    assert ratio[s, y] == pytest.approx(ratio.max())
    assert p_y == pytest.approx(p_sy[:, y].sum())


@given(seed=st.integers(0, 2**32 - 1), n_y=st.integers(1, 20))
def test_measures_are_ordered(seed: int, n_y: int) -> None:
    told = meaning.explain(HEART, random_channel(seed, 16, n_y), S_AXIS, X_AXIS)
    assert 0.0 <= told.leakage <= told.maximal_leakage + 1e-12
    assert told.maximal_leakage <= math.log(told.max_lift) + 1e-12
    assert math.log(told.max_lift) <= told.epsilon + 1e-12
    for guess in told.guesses:
        assert guess.before <= guess.after <= guess.original <= 1.0 + 1e-12
    for kept in told.kept:
        assert 0.0 <= kept.share <= 1.0
        assert kept.kept <= told.disclosure + 1e-12  # data processing: one attribute is a function of X


def test_outputs_that_never_occur_do_not_count() -> None:
    channel = random_channel(5, 16, 4)
    padded = np.hstack([np.zeros((16, 1)), channel])
    plain, wide = (meaning.explain(HEART, c, S_AXIS, X_AXIS) for c in (channel, padded))
    assert wide.max_lift == pytest.approx(plain.max_lift)
    assert wide.most_telling[1] == plain.most_telling[1] + 1


# --- chart ----------------------------------------------------------------------------------------------------------


@given(top=st.floats(1e-6, 1e6), about=st.integers(2, 10))
def test_ticks_are_few_round_and_inside(top: float, about: int) -> None:
    found = chart.ticks(top, about)
    assert found[0] == 0.0
    assert found[-1] <= top * 1.001
    assert 1 <= len(found) <= about + 2
    if len(found) > 1:
        step = found[1] / 10 ** math.floor(math.log10(found[1]))
        assert min(abs(step - m) for m in (1.0, 2.0, 2.5, 5.0, 10.0)) < 1e-9


def picture(**changes: object) -> chart.Picture:
    marks = tuple(chart.Mark(r, r * r / 4, 0.9 * r * r / 4, "proved optimal") for r in (0.5, 1.0, 2.0))
    options: dict[str, object] = {
        "disclosure_ceiling": 2.0,
        "leakage_ceiling": 1.0,
        "h_x_given_s": 1.0,
        "marks": marks,
    }
    return chart.Picture(**{**options, **changes})  # type: ignore[arg-type]


def drawings(text: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).findall("svg"))


def test_points_are_where_their_numbers_say() -> None:
    for svg in drawings(chart.figure(picture())):
        left, right, top, bottom, x_max, y_max = (
            float(svg.get(f"data-{n}", "")) for n in ("left", "right", "top", "bottom", "xmax", "ymax")
        )
        circles = svg.findall(".//circle[@class='point']")
        assert len(circles) == 3
        for circle, (r, v) in zip(circles, ((0.5, 0.0625), (1.0, 0.25), (2.0, 1.0)), strict=True):
            x = left + (right - left) * r / math.log(2) / x_max
            y = bottom - (bottom - top) * v / math.log(2) / y_max
            assert float(circle.get("cx", "")) == pytest.approx(x, abs=0.06)
            assert float(circle.get("cy", "")) == pytest.approx(y, abs=0.06)
            assert top <= float(circle.get("cy", "")) <= bottom


def test_one_point_can_be_reached_by_tab_and_each_is_labelled() -> None:
    for svg in drawings(chart.figure(picture())):
        circles = svg.findall(".//circle[@class='point']")
        assert [c.get("tabindex") for c in circles] == ["0", "-1", "-1"]
        assert "leakage 0.3607 bits" in circles[1].get("aria-label", "")


def test_what_is_not_known_is_not_drawn() -> None:
    bare = chart.figure(picture())
    assert 'class="proved"' not in bare
    assert 'class="free"' not in bare
    assert 'visibility="hidden"' in bare
    full = chart.figure(
        picture(
            proved=((0.0, 0.0), (2.0, 1.0)),
            free_disclosure=0.4,
            chosen=(1.0, 0.25),
            others=(chart.Series("<b>", ((0.0, 0.0), (2.0, 1.0))),),
        )
    )
    assert len(drawings(full)) == 2
    for wanted in ('class="proved"', 'class="free"', "free up to 0.577 bits", "&lt;b&gt;"):
        assert wanted in full
    assert 'class="chosen" transform' in full


def test_an_empty_picture_can_be_drawn() -> None:
    empty = chart.Picture(disclosure_ceiling=0.0, leakage_ceiling=0.0, h_x_given_s=0.0)
    assert len(drawings(chart.figure(empty))) == 2


# --- heat maps ------------------------------------------------------------------------------------------------------


def decoded(text: str) -> np.ndarray:
    image = pytest.importorskip("PIL.Image", reason="Pillow decodes the picture")
    found = re.search(r'href="data:image/png;base64,([^"]+)"', text)
    assert found is not None
    return np.asarray(image.open(io.BytesIO(base64.b64decode(found[1]))).convert("RGBA"))[..., 3]


def test_opacity_grows_with_the_square_root_of_the_value() -> None:
    values = np.array([[0.0, 0.25], [1.0, 0.04]])
    alpha = decoded(heat.draw(heat.Heat("p", values, Axis.parse(["a=1", "a=2"], "X"), ("y0", "y1"))))
    np.testing.assert_array_equal(alpha, np.rint(255 * np.sqrt(values)))


def test_the_read_out_has_every_cell() -> None:
    values = random_channel(1, 16, 9)
    text = heat.draw(heat.Heat("p", values, X_AXIS, tuple(f"y{j}" for j in range(9))))
    data = json.loads(re.search(r'<script type="application/json">(.*)</script>', text)[1])  # type: ignore[index]
    assert data["rows"][0] == HEART.x_labels[0]
    assert data["cells"] == np.rint(1000 * values).astype(int).ravel().tolist()


@pytest.mark.parametrize("width", [320, 560])
def test_labels_are_cut_to_their_room_and_told_in_full(width: int) -> None:
    long = [f"town={'x' * 80}{i}, age={i}" for i in range(3)]
    text = heat.draw(heat.Heat("p", np.eye(3), Axis.parse(long, "X"), ("y0", "y1", "y2")), width=width)
    assert "…" in text
    assert f"<title>town: {'x' * 80}0</title>" in text
    assert float(re.search(r'viewBox="0 0 (\d+)', text)[1]) <= width + 1  # type: ignore[index]


def test_160_symbols_are_grouped() -> None:
    axis = Axis.parse(pf.instances.load("census-income").x_labels, "X").take(range(150))
    text = heat.draw(
        heat.Heat("p", np.full((150, 151), 1 / 151), axis, tuple(f"y{j:03d}" for j in range(151)))
    )
    written = re.findall(r'<text x="[\d.]+" y="[\d.]+">([^<]+)', text)
    assert "17-31" in written
    assert "Preschool" not in written  # single rows are too low for a label there; the read-out has them
    assert "education=Preschool" in text
    assert len(re.findall('class="column"', text)) < 30


def test_columns_are_ordered_along_the_diagonal() -> None:
    order = np.arange(6)
    posterior = np.eye(6)[:, [3, 0, 5, 1, 4, 2]]
    assert posterior[:, heat.column_order(posterior, order)].tolist() == np.eye(6).tolist()


def test_noise_of_floating_point_makes_no_step() -> None:
    """A guess that is right for 79 % before and after must not be told as 78 and 80 %."""
    told = {Rounding(400).percent(0.79 + noise) for noise in (-1e-14, 0.0, 1e-14)}
    assert len(told) == 1
    assert Rounding(400).percent(0.79 - 1e-6) != Rounding(400).percent(0.79 + 1e-6)


def test_a_worst_case_that_few_rows_decide_is_not_told() -> None:
    """Rounded up to what five of three rows could change, ε would be in the tens: true, and of no use to a reader."""
    assert Rounding(1000).log_factor(0.9) == "0.9"
    few = Rounding(1000).of(0.003)
    assert few.log_factor(0.9) == "not told"
    assert few.log_factor(0.0) == "0"
    assert Rounding(1000).log_factor(math.inf) == "∞"
    assert few.log_factor(math.inf) == "not told"  # that a value is ruled out for three people is theirs, too
    p_sx = np.array([[0.4, 0.098, 0.0005], [0.1, 0.401, 0.0005]])
    problem = pf.Problem(p_sx / p_sx.sum())
    private, public = Axis.parse(["a", "b"], "S"), Axis.parse(["x", "y", "z"], "X")
    told = meaning.explain(problem, np.eye(3), private, public)
    rows = {row["name"]: row for row in worst_case(told, private, Rounding(1000))}
    last = rows["Local information privacy ε"]
    assert last["value"] == "not told"
    assert "few rows" in last["words"]
    silent = meaning.explain(problem, np.ones((3, 1)), private, public)
    assert {row["name"]: row for row in worst_case(silent, private, Rounding(1000))}["Largest lift"][
        "value"
    ] == "× 1"
