"""What may be published: no number of it is one person's, and the counts behind it cannot be found again."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfunnel import measures
from privfunnel.data import tables
from privfunnel.data.engines import Column, Cut
from privfunnel.data.engines.cutting import rounded, rounded_all
from privfunnel.errors import InvalidInputError, SmallSampleWarning
from privfunnel.release import codebook
from privfunnel.release.bin_density import Density
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.publication import Policy
from privfunnel.solving.point import solve

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

POLICY = Policy()


def design(rows: Any, **roles: Any) -> Mechanism:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        counts = tables.count(rows, **roles)
    problem = counts.problem()
    solution = solve(problem, disclosure=0.6 * problem.disclosure_ceiling, solver="greedy")
    return Mechanism.from_solution(counts, solution)


# --- numbers ----------------------------------------------------------------------------------------------------


@given(n=st.integers(1, 10**9))
def test_sizes_leave_as_many_candidates_as_twice_the_threshold(n: int) -> None:
    told = POLICY.rows(n)
    assert abs(told - n) <= max(0.05 * n, 10)
    same = [m for m in range(max(n - 12, 1), n + 13) if POLICY.rows(m) == told]
    assert len(same) >= 9
    assert POLICY.about(1987) == "about 2,000"


@given(
    shares=st.lists(st.floats(0.0, 1.0), max_size=20),
    rows=st.integers(0, 10**5),
    finest=st.sampled_from([0.001, 0.01]),
)
def test_many_shares_are_rounded_as_each_is(shares: list[float], rows: int, finest: float) -> None:
    own = np.array(shares) * rows
    steps = POLICY.steps(own, finest)
    assert [None if np.isnan(step) else step for step in steps] == [
        POLICY.step(n, finest) for n in own.tolist()
    ]
    some = ~np.isnan(steps)
    told = rounded_all(np.array(shares)[some], steps[some])
    asked = zip(np.array(shares)[some].tolist(), steps[some].tolist(), strict=True)
    assert told.tolist() == [rounded(share, step) for share, step in asked]


@given(nats=st.floats(1e-6, 10.0), rows=st.integers(10, 10**7))
def test_promises_are_rounded_to_the_safe_side_and_to_what_rows_support(nats: float, rows: int) -> None:
    low, near, high = (POLICY.information(nats, rows, side) for side in (-1, 0, 1))
    assert low <= nats * (1 + 1e-9)
    assert high >= nats * (1 - 1e-9)
    assert low <= near <= high
    assert high - low == 0.0 or high - low >= 5 / rows * (1 - 1e-9)
    assert POLICY.information(0.0, rows, 1) == 0.0


def test_a_threshold_of_one_person_is_refused() -> None:
    for bad in (1, 2.5, True, "5"):
        with pytest.raises(InvalidInputError, match="hides nobody"):
            Policy(bad)  # type: ignore[arg-type]


# --- values and bins --------------------------------------------------------------------------------------------


def test_rare_texts_are_other_and_rare_numbers_go_to_their_neighbour() -> None:
    towns = Column("town", "text", ("Bath", "Nook", "Wells", None))
    found = POLICY.column(towns, np.array([0.5, 0.01, 0.48, 0.01]), 300)
    assert found.texts == ("Bath", "Wells", "(other)", "null")
    assert found.codes.tolist() == [0, 2, 1, 3]
    children = Column("children", "integer", (0, 1, 2, 9))
    assert POLICY.column(children, np.array([0.5, 0.3, 0.19, 0.01]), 300).codes.tolist() == [0, 1, 2, 2]
    alone = POLICY.column(Column("n", "integer", (7, 8)), np.array([0.5, 0.5]), 6)
    assert alone.column.values == (None,)
    assert alone.codes.tolist() == [0, 0]
    halves = POLICY.column(Column("n", "number", (7, 7.5, 8)), np.array([0.5, 0.01, 0.49]), 300)
    assert (halves.column.kind, halves.column.values) == ("integer", (7, 8))
    unmet = POLICY.column(Column("town", "text", ("Bath", "Nook")), np.array([1.0, 0.0]), 300)
    assert unmet.column.values == ("Bath",)
    known = Column("town", "text", ("(other)", "Bath"))
    assert POLICY.column(known, np.array([0.5, 0.5]), 300).codes.tolist() == [0, 1]


def test_a_bin_of_few_rows_is_written_as_its_fuller_neighbour() -> None:
    cut = Cut("width:4", (-math.inf, 10.0, 20.0, 30.0, math.inf))
    column = Column("v", "number", cut.labels, cut, (4.0, 14.0, 26.0, 5000.0))
    found = POLICY.column(column, np.array([0.4, 0.3, 0.29, 0.01]), 200)
    assert found.codes.tolist() == [0, 1, 2, 2]
    assert found.texts == ("< 10", "[10, 20)", "≥ 20")
    assert found.numbers is not None
    assert found.numbers.tolist() == [4.0, 14.0, 26.0]  # no sign of the two rows about 5000


@given(
    inner=st.lists(st.integers(-1000, 1000), min_size=1, max_size=6, unique=True).map(sorted),
    part=st.floats(0.0, 1.0, exclude_max=True),
    rows=st.integers(5, 10_000),
    whole=st.booleans(),
)
def test_the_number_of_a_bin_lies_in_it_and_near_its_mean(
    inner: list[int], part: float, rows: int, whole: bool
) -> None:
    cut = Cut("edges", (-math.inf, *map(float, inner), math.inf), whole)
    ends = (inner[0] - 10.0, *map(float, inner), inner[-1] + 10.0)
    means = tuple(low + part * (high - low) for low, high in itertools.pairwise(ends))
    column = Column("v", "integer" if whole else "number", cut.labels, cut, means)
    found = POLICY.column(column, np.full(cut.size, 1.0 / cut.size), rows * cut.size)
    assert found.numbers is not None
    assert cut.codes(found.numbers).tolist() == list(range(cut.size))
    for mean, number, low, high in zip(means, found.numbers, ends, ends[1:], strict=False):
        widest = 3.0 * max(high - low, 1.0)
        assert abs(number - mean) <= max(widest / 20.0, widest / rows, 1.0 if whole else 0.0) * 2.5


def test_bins_without_means_are_written_by_their_middles() -> None:
    """As of counts with noise, which have no means."""
    ages = Cut("edges", (0.0, 20.0, 65.0, math.inf))
    found = POLICY.column(Column("age", "number", ages.labels, ages), np.full(3, 1 / 3), 3000)
    assert found.column.values == ages.labels
    assert found.numbers is not None
    assert found.numbers.tolist() == [10.0, 40.0, 90.0]  # rounded as any number of a bin


@given(
    edges=st.tuples(st.floats(-50, 0), st.floats(0.5, 50)),
    part=st.floats(0.01, 0.99),
    open_end=st.sampled_from(["none", "low", "high"]),
)
def test_drawn_numbers_have_the_mean_of_their_bin(
    edges: tuple[float, float], part: float, open_end: str
) -> None:
    low, high = edges
    mean = low + part * (high - low)
    cut = Cut("edges", (-math.inf if open_end == "low" else low, math.inf if open_end == "high" else high))
    u = (np.arange(20_000) + 0.5) / 20_000
    numbers = Density(cut, np.array([mean])).draw(np.zeros(len(u), dtype=np.int64), u)
    assert numbers.mean() == pytest.approx(mean, abs=2e-3 * (high - low) * 3)
    assert np.ptp(numbers) > min(mean - low, high - mean)  # not the mean again and again
    assert cut.codes(numbers).tolist() == [0] * len(u)


# --- whole files ------------------------------------------------------------------------------------------------


def outlying() -> Any:
    rng = np.random.default_rng(3)
    income = np.round(rng.lognormal(1.0, 0.4, 800), 3)
    income[17] = 30.671
    town = rng.choice(["Bath", "Wells"], 800).astype(object)
    town[5], town[6] = "Nether Wallop", "Nether Wallop"
    return pa.table({"income": income, "town": town, "sick": rng.random(800) < 0.2 + 0.3 * (income > 3)})


@pytest.mark.parametrize("rule", ["quantiles:4", "bins:5"])
def test_no_extreme_and_no_rare_value_is_in_a_codebook(rule: str) -> None:
    mechanism = design(outlying(), private="sick", public=["income", "town"], bins={"income": rule})
    text = json.dumps(codebook.to_dict(mechanism)) + codebook.to_csv(mechanism)
    assert "Nether Wallop" not in text
    assert "30.6" not in text
    values = [entry["number"] for entry in codebook.to_dict(mechanism)["bins"]["income"]]
    assert max(values) < 20.0


def test_combinations_of_few_rows_are_not_listed() -> None:
    rows = pa.table({"a": ["x"] * 200 + ["y"] * 100, "b": ["u"] * 197 + ["v"] * 3 + ["v"] * 100,
                     "s": ["p", "q"] * 150})  # fmt: skip
    book = codebook.to_dict(design(rows, private="s", public=["a", "b"]))
    listed = {label for entry in book["symbols"] for label in entry["p_x_given_y"]}
    assert "a=x, b=u" in listed
    assert "a=x, b=v" not in listed


def tables_of(n: int, cells: int) -> Any:
    """All tables of n rows in so many cells, one a row."""
    bars = np.array(list(itertools.combinations(range(n + cells - 1), cells - 1)))
    ends = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n + cells - 1)])
    return np.diff(ends, axis=1) - 1


def test_many_tables_of_thirty_rows_fit_a_codebook() -> None:
    truth = np.array([[9, 4, 2], [1, 5, 9]])
    cells = [(s, x) for s in range(2) for x in range(3) for _ in range(truth[s, x])]
    rows = pa.table({"s": [f"s{s}" for s, _ in cells], "x": [f"x{x}" for _, x in cells]})
    mechanism = design(rows, private="s", public="x")
    book = codebook.to_dict(mechanism)
    # The attacker is given more than the file: the number of rows and the exact channel.
    every = tables_of(30, 6).reshape(-1, 2, 3).astype(float) / 30
    fits = np.ones(len(every), dtype=bool)
    p_x, p_y = every.sum(axis=1), every.sum(axis=1) @ mechanism.channel
    h_x, i_sx = measures.entropy(p_x), measures.mutual_information(every)
    for name, value in (("disclosure_ceiling", h_x), ("leakage_ceiling", i_sx)):
        distinct, which = np.unique(value, return_inverse=True)
        told = np.array([POLICY.information(float(v), 30) for v in distinct])[which]
        fits &= np.isclose(told, book["promise"][name], atol=1e-9)
    for j, entry in enumerate(book["symbols"]):
        if book["p_y_step"] is not None:
            fits &= np.abs(p_y[:, j] - entry["p_y"]) <= book["p_y_step"] / 2 + 1e-9
        if entry["p_s_given_y_step"] is not None:
            p_sy = every @ mechanism.channel[:, j]
            for s in range(2):
                own = np.divide(p_sy[:, s], p_y[:, j], out=np.zeros(len(every)), where=p_y[:, j] > 0)
                told = entry["p_s_given_y"].get(f"s=s{s}", 0.0)
                fits &= np.abs(own - told) <= entry["p_s_given_y_step"] / 2 + 1e-9
    assert fits[np.flatnonzero((every == truth / 30).all(axis=(1, 2)))].all()
    assert fits.sum() > 1000
    # Nor does any single cell follow.
    assert (np.ptp(every[fits], axis=0) * 30 >= 3).all()


def test_a_codebook_without_a_number_of_rows_is_coarse_all_the_same() -> None:
    mechanism = design(outlying(), private="sick", public="town")
    book = codebook.to_dict(replace(mechanism, provenance={}))
    assert book["p_y_step"] is None
    assert all(entry["p_s_given_y"] == {} for entry in book["symbols"])
