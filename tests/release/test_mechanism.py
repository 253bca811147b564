"""Mechanism files: exact round trip, recomputed claims, and what is refused."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funnels import count_people, people, random_mechanism
from privfunnel import measures
from privfunnel.data import tables
from privfunnel.errors import InvalidInputError
from privfunnel.release.mechanism import Mechanism
from privfunnel.solving.point import solve

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")


@pytest.fixture(scope="module")
def counts() -> tables.Counts:
    return count_people(pa.table(people()))


@pytest.fixture(scope="module")
def mechanism(counts: tables.Counts) -> Mechanism:
    return random_mechanism(counts)


def test_the_file_gives_the_same_mechanism_bit_for_bit(mechanism: Mechanism, tmp_path: Path) -> None:
    mechanism.save(tmp_path / "m.json")
    again = Mechanism.load(tmp_path / "m.json")
    for name in ("channel", "p_x", "p_s_given_y", "s_codes", "x_codes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(mechanism, name))
        assert getattr(again, name).dtype == getattr(mechanism, name).dtype
    assert again.private == mechanism.private
    assert again.public == mechanism.public
    assert again.promise == mechanism.promise
    assert again.guesses == mechanism.guesses
    assert again.provenance == mechanism.provenance
    assert again.to_dict() == mechanism.to_dict()


def test_the_file_holds_no_rows_and_no_joint_table(mechanism: Mechanism, counts: tables.Counts) -> None:
    text = json.dumps(mechanism.to_dict())
    assert "p17" not in text  # an identifier of a row
    joint = counts.table() / counts.n
    cells = set(joint[joint > 0].tolist()) - set(joint.sum(axis=0).tolist())
    assert cells
    assert not cells & {float(number) for number in re.findall(r"\d+\.\d+(?:e-?\d+)?", text)}


def test_promise_and_posteriors_are_those_of_the_solution(counts: tables.Counts) -> None:
    problem = counts.problem()
    solution = solve(
        problem, disclosure=0.5 * problem.disclosure_ceiling, solver="aem", restarts=2, throw=False
    )
    mechanism = Mechanism.from_solution(counts, solution)
    assert mechanism.leakage == solution.leakage
    assert mechanism.disclosure == solution.disclosure >= 0.5 * problem.disclosure_ceiling - 1e-9
    np.testing.assert_allclose(mechanism.p_x_given_y, solution.p_x_given_y)
    np.testing.assert_allclose(mechanism.p_sy, problem.p_sx @ solution.channel, atol=1e-15)
    assert mechanism.provenance["data"] == counts.fingerprint
    assert mechanism.provenance["rows"] == 2000
    assert "leakage" in repr(mechanism)
    assert mechanism.bins == counts.bins


def test_guesses_match_a_count_by_hand(counts: tables.Counts, mechanism: Mechanism) -> None:
    by_name = {guess.attribute: guess for guess in mechanism.guesses}
    assert set(by_name) == {"sick", "smoker", "sick and smoker"}
    sick = counts.table()[counts.s_codes[:, 0] == 1].sum(axis=0) / counts.n
    well = counts.table()[counts.s_codes[:, 0] == 0].sum(axis=0) / counts.n
    assert by_name["sick"].before == pytest.approx(max(sick.sum(), well.sum()))
    assert by_name["sick"].original == pytest.approx(np.maximum(sick, well).sum())
    y = np.stack([sick, well]) @ mechanism.channel
    assert by_name["sick"].after == pytest.approx(y.max(axis=0).sum())
    for guess in mechanism.guesses:
        assert guess.before <= guess.after + 1e-12 <= guess.original + 2e-12


def test_attributes_leak_no_more_than_all_together(mechanism: Mechanism) -> None:
    leaks = {
        name: float(measures.mutual_information(table))
        for name, table in mechanism.s_alphabet.collapse(mechanism.p_sy).items()
    }
    whole = leaks.pop("sick and smoker")
    assert whole == pytest.approx(mechanism.leakage, abs=1e-12)
    assert max(leaks.values()) <= whole + 1e-12


def test_a_solution_of_another_table_is_refused(counts: tables.Counts) -> None:
    other = count_people(pa.table(people(1000)))
    solution = solve(other.problem(), disclosure=0.0, solver="greedy")
    with pytest.raises(InvalidInputError, match="another table"):
        Mechanism.from_solution(counts, solution)


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda d: d.update(schema="something"), "not a privfunnel/mechanism file"),
        (lambda d: d.update(version=99), "version 99 cannot be read .*: write the file again"),
        (lambda d: d.pop("channel"), "not a complete mechanism file"),
        (lambda d: d["promise"].pop("leakage"), "not a complete mechanism file"),
        (lambda d: d["guesses"][0].update(extra=1), "not a complete mechanism file"),
        (lambda d: d["channel"].update(x=[9999] * len(d["channel"]["x"])), "not a complete mechanism file"),
        (lambda d: d["channel"]["p"].__setitem__(0, 0.9), "channel of the mechanism holds no probabilities"),
        (lambda d: d["p_x"].__setitem__(0, -0.1), "p_x of the mechanism holds no probabilities"),
        (lambda d: d["p_x"].pop(), "p_x of the mechanism does not fit"),
        (lambda d: d["promise"].update(leakage=0.0), r"claims leakage 0\.0, its channel gives 0\.\d+"),
        (lambda d: d["promise"].update(disclosure=math.inf), "claims disclosure inf"),
        (lambda d: d["x_codes"][0].__setitem__(0, 77), "x_codes of the mechanism do not fit"),
        (lambda d: d["x_codes"][0].__setitem__(0, 0.5), "not whole numbers"),
        (lambda d: d["public"][0].update(kind="colour"), "unknown kind 'colour'"),
        (lambda d: d.update(version=True), "version True cannot be read"),
        (
            lambda d: d["channel"].update(shape=[10**7, 10**7]),
            r"shape \[10000000, 10000000\], its symbols need",
        ),
        (lambda d: d["channel"]["y"].__setitem__(0, -1), "negative positions"),
        (lambda d: d.update(p_s_given_y=[]), "p_s_given_y of the mechanism is no table"),
        (lambda d: d["provenance"].update(rows="abc"), "number of rows is 'abc'"),
        (lambda d: d["provenance"].update(rows=math.nan), "number of rows is nan"),
        (lambda d: d["promise"].update(disclosure_ceiling=math.nan), "promised disclosure_ceiling .* is nan"),
        (lambda d: d["promise"].update(disclosure_ceiling="x"), "promised disclosure_ceiling .* is 'x'"),
        (lambda d: d["promise"].update(disclosure_ceiling=None), "promised disclosure_ceiling .* is None"),
        (lambda d: d["promise"].update(leakage_ceiling=math.inf), "promised leakage_ceiling .* is inf"),
        (lambda d: d["promise"].update(requested="much"), "promised requested .* is 'much'"),
        (lambda d: d["promise"].update(leakage="0.1"), "claims leakage '0.1', no number"),
        (lambda d: d["promise"].update(lower_bound=d["promise"]["leakage"] + 1e-6), "above its own leakage"),
        (lambda d: d["guesses"][0].update(after=None), "guess after of 'sick' .* is None"),
        (lambda d: d["public"].__setitem__(1, d["public"][0]), "missing or named twice"),
        (
            lambda d: d["x_codes"].__setitem__(0, d["x_codes"][1]),
            "x_codes of the mechanism hold a symbol twice",
        ),
        (
            lambda d: d["s_codes"].__setitem__(0, d["s_codes"][1]),
            "s_codes of the mechanism hold a symbol twice",
        ),
    ],
)
def test_altered_files_are_refused_in_one_line(mechanism: Mechanism, change: Change, match: str) -> None:
    data = copy.deepcopy(mechanism.to_dict())
    change(data)
    with pytest.raises(InvalidInputError, match=match) as caught:
        Mechanism.from_dict(data)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text("{oops")
    with pytest.raises(InvalidInputError, match="not a JSON file"):
        Mechanism.load(tmp_path / "m.json")


def test_a_file_of_brackets_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text("[" * 100_000)
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        Mechanism.load(tmp_path / "m.json")


def test_an_infinite_value_must_be_binned_before_it_is_saved(tmp_path: Path) -> None:
    rows = pa.table({"s": ["a", "b"] * 200, "dose": [1.0, 2.0, 2.0, math.inf] * 100})
    endless = random_mechanism(tables.count(rows, private="s", public="dose"), n_y=2)
    with pytest.raises(InvalidInputError, match=r"column 'dose' has the value inf, .*: bin it"):
        endless.save(tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []
