"""Decoys: candidates with weights, how they are written, read back, audited and computed with."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privfunnel as pf
from funnels import count_people, people, random_mechanism
from helpers_cli import run
from privfunnel import audit, release
from privfunnel.data import tables
from privfunnel.errors import GuaranteeWarning, InvalidInputError, SmallSampleWarning
from privfunnel.release import decoys
from privfunnel.release.candidates import PARTS, ROW, WEIGHT, _parts, candidates
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.publication import Policy
from privfunnel.release.records import RecordAlphabet
from wide import wide_columns

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = 5500
QUICK: dict[str, Any] = {"bootstrap": 20, "permutations": 0, "attacker_rows": 0}


@pytest.fixture(scope="module")
def table() -> Any:
    return pa.table(wide_columns(ROWS))


@pytest.fixture(scope="module")
def mechanism(table: Any) -> Mechanism:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        counts = tables.count(table, private="ill", public=["a", "b", "c"])
    problem = counts.problem()
    return Mechanism.from_solution(counts, pf.solve(problem, disclosure=0.95 * problem.disclosure_ceiling))


@pytest.fixture(autouse=True)
def told() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="decoys name combinations", category=GuaranteeWarning)
        warnings.filterwarnings("ignore", message="seed=", category=GuaranteeWarning)
        yield


@pytest.fixture(scope="module")
def folder(table: Any, mechanism: Mechanism, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("decoys")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        release.write(table, mechanism, found / "r.csv", form="decoys", seed=5)
    return found


# --- candidates -----------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=8), min_size=1, max_size=5))
def test_weights_are_whole_parts_that_add_up(groups: list[list[float]]) -> None:
    start = np.cumsum([0, *map(len, groups)])
    found = _parts(np.array([w for group in groups for w in group]), start)
    for group, first in zip(groups, start, strict=False):
        own = found[first : first + len(group)]
        assert own.sum() == PARTS
        assert own.min() >= 1
        exact = np.array(group) / sum(group) * PARTS
        # Those of less than a part are raised to one, and the heaviest pays.
        assert np.abs(own - exact).max() <= 1.0 + (exact < 1.0).sum()


def test_candidates_are_the_posteriors_of_the_mechanism(mechanism: Mechanism) -> None:
    alphabet = RecordAlphabet.of(mechanism, Policy())
    found = candidates(mechanism, alphabet)
    assert found.most == 2
    posterior = mechanism.p_x_given_y
    for y in range(0, mechanism.n_y, 500):
        column = posterior[:, [y]].toarray()[:, 0]
        own = slice(found.start[y], found.start[y + 1])
        by_record = np.bincount(alphabet.of_x, column, len(alphabet))
        np.testing.assert_array_equal(np.flatnonzero(by_record > 1e-9), found.record[own])
        np.testing.assert_allclose(found.parts[own] / PARTS, by_record[found.record[own]], atol=1.0 / PARTS)


def test_a_symbol_with_too_many_candidates_is_refused() -> None:
    rng = np.random.default_rng(0)
    columns = {"s": rng.integers(0, 2, 3000).tolist(), "x": [f"v{i}" for i in rng.integers(0, 80, 3000)]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        counts = tables.count(pa.table(columns), private="s", public="x")
    blurred = random_mechanism(counts)
    with pytest.raises(
        InvalidInputError, match=r"[0-9]+ candidates, too many for decoys: design with 'privfunnel solve'"
    ):
        release.frame(pa.table(columns), blurred, form="decoys")


def test_a_column_with_a_name_that_decoys_need_is_refused() -> None:
    table = pa.table({"s": [0, 0, 0, 1] * 500, "decoy_row": [0, 0, 1, 1] * 500})
    counts = tables.count(table, private="s", public="decoy_row")
    mechanism = Mechanism.from_solution(counts, pf.solve(counts.problem(), leakage=0.0))
    with pytest.raises(
        InvalidInputError, match="'decoy_row' has a name that decoys need for themselves: rename it"
    ):
        release.frame(table, mechanism, form="decoys")


# --- files ----------------------------------------------------------------------------------------------------------


def test_every_row_is_among_its_candidates_whose_weights_add_up(
    table: Any, mechanism: Mechanism, folder: Path
) -> None:
    found = csv.read_csv(folder / "r.csv").to_pydict()
    assert list(found) == [ROW, "a", "b", "c", WEIGHT]
    order = release.order.load(folder / "r.order")
    row = np.array(found[ROW])
    assert sorted(set(row.tolist())) == list(range(1, ROWS + 1))
    np.testing.assert_allclose(np.bincount(row, found[WEIGHT])[1:], 1.0)
    assert np.bincount(row).max() <= 2
    truth = list(zip(*(table[name].to_pylist() for name in "abc"), strict=True))
    listed: dict[int, list[tuple[Any, ...]]] = {}
    for number, *values in zip(found[ROW], *(found[name] for name in "abc"), strict=True):
        listed.setdefault(number, []).append(tuple(values))
    places = []
    for number, candidates_ in listed.items():
        true = truth[int(order.rows[number - 1])]
        assert true in candidates_
        if len(candidates_) == 2:
            places.append(candidates_.index(true))
    # The place of the true candidate is a fair coin: four standard deviations.
    assert abs(np.mean(places) - 0.5) < 2.0 / np.sqrt(len(places))


def test_a_seed_repeats_itself_and_formats_agree(
    table: Any, mechanism: Mechanism, folder: Path, tmp_path: Path
) -> None:
    release.write(table, mechanism, tmp_path / "r.csv", form="decoys", seed=5)
    assert (tmp_path / "r.csv").read_bytes() == (folder / "r.csv").read_bytes()
    release.write(table, mechanism, tmp_path / "p.parquet", form="decoys", seed=5)
    assert (
        parquet.read_table(tmp_path / "p.parquet").to_pydict() == csv.read_csv(folder / "r.csv").to_pydict()
    )
    assert (
        release.frame(table, mechanism, form="decoys", seed=5).to_pydict()
        == csv.read_csv(folder / "r.csv").to_pydict()
    )


def test_files_of_one_draw_agree_and_kept_columns_are_repeated(mechanism: Mechanism, tmp_path: Path) -> None:
    columns = wide_columns(ROWS)
    keyed = pa.table(columns | {"key": [f"k{(7919 * i) % ROWS:04d}" for i in range(ROWS)]})
    with pytest.warns(GuaranteeWarning, match="kept columns"):
        release.write_all(
            keyed,
            mechanism,
            {tmp_path / "s.csv": "symbols", tmp_path / "d.csv": "decoys"},
            seed=1,
            keep=["key"],
        )
    symbols = csv.read_csv(tmp_path / "s.csv").to_pydict()
    told = csv.read_csv(tmp_path / "d.csv").to_pydict()
    keys = dict(zip(told[ROW], told["key"], strict=True))
    assert [keys[i + 1] for i in range(ROWS)] == symbols["key"]
    sizes = np.diff(candidates(mechanism, RecordAlphabet.of(mechanism, Policy())).start)
    released = np.array([int(symbol[1:]) for symbol in symbols["released"]])
    np.testing.assert_array_equal(np.bincount(told[ROW])[1:], sizes[released])


def test_the_codebook_says_how_decoys_are_read(folder: Path) -> None:
    book = json.loads((folder / "r.codebook.json").read_text(encoding="utf-8"))
    assert book["decoys"]["row"] == ROW
    assert book["decoys"]["weight"] == WEIGHT
    assert "not of a population" in book["decoys"]["reading"]
    assert book["symbols"] == []


def test_whom_decoys_name_is_said(table: Any, mechanism: Mechanism) -> None:
    with pytest.warns(GuaranteeWarning, match="fewer than 5 rows have, of [0-9,]+ of 5,500 rows"):
        release.frame(table, mechanism, form="decoys")


def test_the_leakage_is_that_of_the_whole_list_and_a_second_draw_repeats_the_first() -> None:
    # Two classes of three members each; what is released of the classes is nothing.
    problem = pf.Problem(np.repeat([[8.0, 2.0], [2.0, 8.0]], 3, axis=1))
    found = pf.solve(problem, leakage=0.0, lump=True)
    assert found.disclosure == pytest.approx(np.log(3))
    assert found.leakage == pytest.approx(0.0, abs=1e-12)
    assert pf.joint_leakage(problem, [found.channel, found.channel]) == pytest.approx(0.0, abs=1e-12)


# --- audits ---------------------------------------------------------------------------------------------------------


def test_an_audit_reads_decoys(table: Any, mechanism: Mechanism, folder: Path) -> None:
    found = audit.release(table, folder / "r.csv", mechanism=mechanism, **QUICK | {"attacker_rows": 2000})
    assert found.passed
    assert found.draws is not None
    assert found.draws.agrees
    assert found.draws.impossible == 0
    # The whole list is what is judged.
    assert found.n_y == mechanism.n_y
    assert found.further is None
    assert found.recount is not None
    assert found.recount.leakage == pytest.approx(mechanism.leakage, abs=1e-9)


def test_lines_in_another_order_are_the_same_release(table: Any, mechanism: Mechanism, folder: Path) -> None:
    lines = csv.read_csv(folder / "r.csv")
    mixed = lines.take(np.random.default_rng(0).permutation(len(lines)))
    found = audit.release(table, mixed, mechanism=mechanism, order=folder / "r.order", **QUICK)
    assert found.draws is not None
    assert found.draws.agrees


@pytest.mark.parametrize("change", ["weight", "candidate", "missing", "text"])
def test_changed_decoys_are_found_out(table: Any, mechanism: Mechanism, folder: Path, change: str) -> None:
    lines = csv.read_csv(folder / "r.csv").to_pydict()
    two = next(i for i, weight in enumerate(lines[WEIGHT]) if weight < 1.0)
    if change == "weight":
        lines[WEIGHT][two] += 0.001
    elif change == "candidate":
        lines["a"][two] = (lines["a"][two] + 1) % 25
    elif change == "missing":
        lines = {name: values[:two] + values[two + 1 :] for name, values in lines.items()}
    else:
        lines[WEIGHT] = [str(weight) + "x" for weight in lines[WEIGHT]]
    said = "holds no numbers" if change == "text" else "none that the mechanism releases together"
    with pytest.raises(InvalidInputError, match=said):
        audit.release(table, pa.table(lines), mechanism=mechanism, order=folder / "r.order", **QUICK)


# --- a small table, from the command line to numbers ----------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> tuple[Any, Mechanism]:
    table = pa.table(people(600))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        counts = count_people(table)
    problem = counts.problem()
    return table, Mechanism.from_solution(
        counts, pf.solve(problem, disclosure=0.9 * problem.disclosure_ceiling)
    )


def test_a_small_table_goes_from_a_file_to_decoys_and_an_audit(
    small: tuple[Any, Mechanism], tmp_path: Path
) -> None:
    table, designed = small
    source = tmp_path / "people.csv"
    csv.write_csv(table, source)
    designed.save(tmp_path / "m.json")
    done = run("release", str(source), "--mechanism", str(tmp_path / "m.json"), "-o", str(tmp_path / "d.csv"),
               "--as", "decoys")  # fmt: skip
    assert done.exit_code == 0, done.output
    audited = run("audit", str(source), str(tmp_path / "d.csv"), "--mechanism", str(tmp_path / "m.json"),
                  "--attacker-rows", "0", "--bootstrap", "20", "--permutations", "0", "--json")  # fmt: skip
    # An audit takes one honest release in 200 for another mechanism's.
    assert audited.exit_code in (0, 1), audited.output
    assert json.loads(audited.stdout)["draws"]["impossible"] == 0


def test_rows_are_matched_by_a_kept_key(small: tuple[Any, Mechanism]) -> None:
    table, designed = small
    keyed = table.append_column("key", [[f"k{(7919 * i) % 600:04d}" for i in range(600)]])
    with pytest.warns(GuaranteeWarning, match="kept columns"):
        told = release.frame(keyed, designed, form="decoys", seed=1, keep=["key"])
    found = audit.release(keyed, told, mechanism=designed, on="key", view="register", **QUICK)
    assert found.draws is not None
    assert found.draws.agrees


# --- computing with decoys ------------------------------------------------------------------------------------------


def test_estimates_from_decoys_are_unbiased_and_errors_cover(table: Any, mechanism: Mechanism) -> None:
    truth = np.mean(table["a"].to_numpy())
    many = [decoys.mean(release.frame(table, mechanism, form="decoys", seed=k), "a") for k in range(25)]
    values, errors = np.array(many).T
    spread = float(values.std(ddof=1))
    # Five standard errors of the mean of twenty-five, and what the rounding of weights may add.
    assert abs(values.mean() - truth) < 5.0 * spread / np.sqrt(25) + 0.0005 * 24
    assert errors.min() > 0.6 * spread  # so many draws know a spread to about 14 %
    assert (np.abs(values - truth) < 3.0 * errors).mean() >= 0.95


def test_a_table_of_decoys_is_near_that_of_the_rows(table: Any, mechanism: Mechanism, folder: Path) -> None:
    found = decoys.crosstab(folder / "r.csv", "b", "c")
    assert sum(each.value for each in found.values()) == pytest.approx(ROWS)
    true: dict[tuple[str, str], int] = {}
    for pair in zip(table["b"].to_pylist(), table["c"].to_pylist(), strict=True):
        true[pair] = true.get(pair, 0) + 1
    apart = [(found[pair].value - n) / max(found[pair].error, 1e-12) for pair, n in true.items()]
    assert np.mean(np.abs(apart) < 3.0) > 0.97


def test_a_regression_on_decoys_is_near_that_of_the_rows(
    table: Any, mechanism: Mechanism, folder: Path
) -> None:
    found = decoys.regression(folder / "r.csv", "a", ["c"])
    c = np.array(table["c"].to_pylist())
    z = np.stack([np.ones(ROWS), *((c == f"c{k:02d}").astype(float) for k in range(1, 16))], axis=1)
    true = np.linalg.lstsq(z, table["a"].to_numpy().astype(float), rcond=None)[0]
    assert list(found) == ["(constant)", *(f"c=c{k:02d}" for k in range(1, 16))]
    apart = [(each.value - value) / each.error for each, value in zip(found.values(), true, strict=True)]
    assert np.abs(apart).max() < 4.5


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda t: decoys.mean(t.drop_columns([WEIGHT]), "a"), "written as decoys"),
        (lambda t: decoys.mean(t, "b"), "holds no numbers"),
        (lambda t: decoys.mean(t, "z"), "no column 'z'"),
        (lambda t: decoys.crosstab(t), "no column is named"),
        (
            lambda t: decoys.regression(t.append_column("one", [[1] * len(t)]), "a", ["one"]),
            "are not determined",
        ),
        (lambda t: decoys.mean(t.slice(0, 0), "a"), "no rows"),
    ],
)
def test_what_cannot_be_computed_is_said(folder: Path, ask: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        ask(csv.read_csv(folder / "r.csv"))


def test_empty_entries_are_left_out_of_a_mean() -> None:
    lines = pa.table({ROW: [1, 1, 2], "v": [1.0, None, 3.0], WEIGHT: [0.5, 0.5, 1.0]})
    assert decoys.mean(lines, "v").value == pytest.approx((0.5 + 3.0) / 1.5)
    assert decoys.crosstab(lines, "v")[(None,)].value == 0.5
