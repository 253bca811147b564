"""What survives in released records: said after a release, in audits, and, rounded, in reports."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from html import unescape
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funnels import mechanism_of, random_mechanism
from helpers_cli import run
from privfunnel import audit, release, report
from privfunnel.data import tables
from privfunnel.errors import SmallSampleWarning
from privfunnel.release import fidelity
from privfunnel.release.fidelity import Fidelity, Numbers, Series, figures
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.publication import Policy
from privfunnel.release.records import RecordAlphabet
from privfunnel.report.described import Described
from privfunnel.report.review_board import questions_section
from privfunnel.report.rounding import Rounding
from privfunnel.report.survival import survival_section

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")
pytest.importorskip("narwhals")

N = 900


def rows() -> Any:
    rng = np.random.default_rng(0)
    income = np.exp(rng.normal(3.0, 0.7, N)).round(2)
    town = rng.choice(["north", "south", "west"], N, p=[0.5, 0.3, 0.2])
    town[:3] = "rare"
    ill = rng.random(N) < 0.2 + 0.4 * (town == "north")
    texts = [None if i % 50 == 7 else str(value) for i, value in enumerate(town)]
    return pa.table({"income": income, "town": texts, "sex": rng.choice([0, 1], N), "ill": ill})


ROLES: dict[str, Any] = {
    "private": "ill",
    "public": ["income", "town", "sex"],
    "bins": {"income": "quantiles:4"},
}


@pytest.fixture(scope="module")
def mechanism() -> Mechanism:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        return random_mechanism(tables.count(rows(), **ROLES), n_y=8)


def released(mechanism: Mechanism, folder: Path, **options: Any) -> release.ReleaseSummary:
    return release.write(rows(), mechanism, folder / "r.parquet", force=True, **options)


@pytest.mark.parametrize("batch_rows", [100, 10_000])
def test_what_survives_is_what_the_two_tables_say(
    mechanism: Mechanism, tmp_path: Path, batch_rows: int
) -> None:
    summary = released(mechanism, tmp_path, batch_rows=batch_rows)
    found = summary.fidelity
    assert found is not None
    after = pa.parquet.read_table(tmp_path / "r.parquet")
    before = rows()
    by_name = {each.name: each for each in found.columns}
    for name in ("income", "sex"):
        for told, table in ((by_name[name].before, before), (by_name[name].after, after)):
            assert told is not None
            values = table[name].to_numpy().astype(float)
            assert told.mean == pytest.approx(values.mean(), rel=1e-9)
            assert told.sd == pytest.approx(values.std(), rel=1e-9)
            assert told.quartiles == pytest.approx(np.quantile(values, [0.25, 0.5, 0.75]))
    assert by_name["town"].before is None

    def shares(table: Any, *names: str) -> dict[tuple[Any, ...], float]:
        counts: dict[tuple[Any, ...], float] = {}
        for values in zip(*(table[name].to_pylist() for name in names), strict=True):
            row = tuple("(other)" if value == "rare" else value for value in values)  # as it is written
            counts[row] = counts.get(row, 0.0) + 1.0 / N
        return counts

    def largest(*names: str) -> float:
        old, new = shares(before, *names), shares(after, *names)
        return max(abs(old.get(key, 0.0) - new.get(key, 0.0)) for key in {*old, *new})

    assert by_name["town"].margin == pytest.approx(largest("town"))
    assert by_name["sex"].margin == pytest.approx(largest("sex"))
    assert found.pair_margin >= largest("town", "sex") - 1e-12
    order = release.order.load(summary.order)  # type: ignore[attr-defined, arg-type]
    for name in ("town", "sex"):
        old = [before[name].to_pylist()[i] for i in order.rows]
        old = ["(other)" if value == "rare" else value for value in old]
        same = np.mean([a == b for a, b in zip(old, after[name].to_pylist(), strict=True)])
        assert by_name[name].unchanged == pytest.approx(same)


def test_an_audit_finds_the_same(mechanism: Mechanism, tmp_path: Path) -> None:
    summary = released(mechanism, tmp_path)
    found = audit.release(
        rows(), tmp_path / "r.parquet", mechanism=mechanism, bootstrap=20, permutations=0, attacker_rows=0
    )
    assert found.fidelity is not None
    assert summary.fidelity is not None
    assert found.fidelity.pair == summary.fidelity.pair
    assert found.fidelity.pair_margin == pytest.approx(summary.fidelity.pair_margin)
    for one, other in zip(found.fidelity.columns, summary.fidelity.columns, strict=True):
        assert one.unchanged == pytest.approx(other.unchanged)
        assert one.margin == pytest.approx(other.margin)
        assert one.value == other.value
        if one.before is not None and other.before is not None:
            assert one.before.mean == pytest.approx(other.before.mean)
    assert "are what they were" in "\n".join(found.words())


def test_symbols_have_nothing_that_survives_in_columns(mechanism: Mechanism, tmp_path: Path) -> None:
    assert released(mechanism, tmp_path, form="symbols").fidelity is None


def test_intervals_are_no_numbers(mechanism: Mechanism, tmp_path: Path) -> None:
    found = released(mechanism, tmp_path, numbers="interval").fidelity
    assert found is not None
    assert found.columns[0].after is None
    assert "income: mean" not in "\n".join(found.words)


def test_quartiles_of_many_numbers_come_from_an_even_sample() -> None:
    series = Series()
    values = np.random.default_rng(0).permutation(np.arange(400_000.0))
    for part in np.array_split(values, 37):
        series.add(pa.array(part))
    found = series.numbers()
    assert found is not None
    assert found.mean == pytest.approx(199_999.5)
    assert found.sd == pytest.approx(values.std())
    # Of 2^15 numbers or more, five standard deviations of a quantile are 1.4 % of the range.
    assert found.quartiles == pytest.approx((1e5, 2e5, 3e5), abs=5600)
    assert sum(map(len, series.sample)) <= 2**16
    assert Series().numbers() is None


def test_the_command_says_and_shows_what_survives(mechanism: Mechanism, tmp_path: Path) -> None:
    pa_csv.write_csv(rows(), tmp_path / "t.csv")
    mechanism.save(tmp_path / "m.json")
    asked = ("release", tmp_path / "t.csv", "--mechanism", tmp_path / "m.json", "-o", tmp_path / "r.csv")
    done = run(*asked)
    assert done.exit_code == 0, done.output
    for words in (
        "are what they were",
        "What survives",
        "quartiles",
        "Rows before and after",
        "largest change",
    ):
        assert words in done.stdout
    assert done.stdout.count("before  ") >= 5
    told = json.loads(run(*asked, "--force", "--json").stdout)["fidelity"]
    assert [column["name"] for column in told["columns"]] == ["income", "town", "sex"]
    assert len(told["sample"]) == 5
    assert len(told["sample"][0]["before"]) == 3


# --- what is published of it ------------------------------------------------------------------------------------


def told_in(found: Fidelity, n: float) -> str:
    section = survival_section(found, Rounding(n))
    return " ".join(
        [*section.words, *(text for _, _, rows in section.tables for row in rows for text in row)]
    )


def test_a_report_tells_it_in_steps_and_shows_no_row(mechanism: Mechanism, tmp_path: Path) -> None:
    summary = released(mechanism, tmp_path)
    found = audit.release(
        rows(), tmp_path / "r.parquet", mechanism=mechanism, bootstrap=20, permutations=0, attacker_rows=0
    )
    text = unescape(
        re.sub(r"<[^>]+>", " ", report.render(mechanism, report.Report(audit=found)).partition("<script>")[0])
    )
    assert "What survives" in text
    assert "Rows before and after" in text
    assert "a row with" in text
    assert summary.fidelity is not None
    income = summary.fidelity.columns[0]
    assert income.before is not None
    for exact in (income.before.mean, income.before.sd):  # quartiles are where the bins were cut
        assert f"{exact:.4g}" not in text
    assert "town = rare" not in text


def test_a_report_on_records_tells_what_the_records_keep_beside_what_the_symbols_keep(
    mechanism: Mechanism, tmp_path: Path
) -> None:
    released(mechanism, tmp_path)
    options: dict[str, Any] = {"bootstrap": 20, "permutations": 0, "attacker_rows": 0}
    found = audit.release(rows(), tmp_path / "r.parquet", mechanism=mechanism, **options)
    described = Described.of_records(mechanism, Policy(found.threshold))
    given_y = RecordAlphabet.of(mechanism, Policy(found.threshold)).given_y(mechanism)
    point = tables_point(mechanism, mechanism.channel @ given_y)
    assert (described.disclosure, described.leakage) == pytest.approx(point)
    assert described.disclosure < mechanism.disclosure
    assert described.leakage <= mechanism.leakage
    for before, after in zip(mechanism.guesses, described.meaning.guesses, strict=True):
        assert before.before <= after.after <= before.after
    say = Rounding(float(N), Policy(found.threshold))
    records, symbols = (
        say.percent(nats / described.disclosure_ceiling)
        for nats in (described.disclosure, mechanism.disclosure)
    )
    assert records != symbols
    text = unescape(re.sub(r"<[^>]+>", " ", report.render(mechanism, report.Report(audit=found))))
    assert f"This release keeps {records} of what the public columns say" in text
    assert f"drawn from the mechanism's symbols, which keep {symbols} themselves" in text
    release.write(rows(), mechanism, tmp_path / "s.parquet", form="symbols")
    found = audit.release(rows(), tmp_path / "s.parquet", mechanism=mechanism, **options)
    text = unescape(re.sub(r"<[^>]+>", " ", report.render(mechanism, report.Report(audit=found))))
    assert f"This release keeps {symbols} of what the public columns say" in text
    assert "mechanism's symbols" not in text


def tables_point(mechanism: Mechanism, channel: Any) -> tuple[float, float]:
    """Disclosure and leakage of a channel for the table of :func:`rows`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        point = tables.count(rows(), **ROLES).problem().evaluate(channel)
    return point.disclosure, point.leakage


def test_one_rich_person_does_not_show_in_what_is_published(mechanism: Mechanism, tmp_path: Path) -> None:
    found = released(mechanism, tmp_path).fidelity
    assert found is not None
    income = found.columns[0]
    assert income.before is not None

    def with_mean(mean: float, sd: float) -> str:
        assert income.before is not None
        numbers = Numbers(mean, sd, income.before.quartiles)
        return told_in(replace(found, columns=(replace(income, before=numbers), *found.columns[1:])), N)

    # A million or ten millions in one row: both change the mean by more than is told.
    assert with_mean(1e6 / N, 3e4) == with_mean(1e7 / N, 3e5)


def test_of_few_rows_no_change_is_told(mechanism: Mechanism, tmp_path: Path) -> None:
    found = released(mechanism, tmp_path).fidelity
    assert found is not None
    assert "change not told" in told_in(found, 6.0)
    assert "change not told" not in told_in(found, 900.0)


def dependent_rows() -> Any:
    """``twin`` repeats ``town`` nine times in ten; people have four rows each."""
    rng = np.random.default_rng(1)
    town = rng.choice(["north", "south", "west"], N)
    twin = np.where(rng.random(N) < 0.9, town, rng.choice(["north", "south", "west"], N))
    ill = rng.random(N) < 0.2 + 0.4 * (town == "north")
    return pa.table({"town": town, "twin": twin, "ill": ill, "who": np.arange(N) // 4})


@pytest.mark.parametrize("person", ["", "who"])
def test_models_among_public_columns_are_as_good_as_the_release_lets_them_be(
    person: str, tmp_path: Path
) -> None:
    pytest.importorskip("sklearn")
    table = dependent_rows()
    counts = tables.count(table, private="ill", public=["town", "twin"])
    shares = {}
    for name, channel in (("all", np.eye(9)), ("nothing", np.ones((9, 1)))):
        mechanism = mechanism_of(counts, channel)
        path = tmp_path / f"{name}.parquet"
        release.write(table, mechanism, path)
        found = audit.release(
            table, path, mechanism=mechanism, bootstrap=20, permutations=0, attacker_rows=2000, person=person
        )
        assert [model.column for model in found.models] == ["town", "twin"]
        assert any("A model of town" in line for line in found.words())
        assert len(json.loads(json.dumps(found.to_dict()))["models"]) == 2
        shares[name] = found.models[0]
        assert found.fidelity is not None
    assert shares["all"].original > 0.85
    assert shares["all"].release == pytest.approx(shares["all"].original, abs=0.03)
    # Records drawn without looking at the row still have the table's own distribution.
    assert shares["nothing"].release > 0.8
    section = survival_section(found.fidelity, Rounding(N), found.models)
    caption, _, lines = section.tables[1]
    assert "models" in caption
    assert [line[0] for line in lines] == ["town", "twin"]


def test_few_rows_symbols_and_single_columns_have_no_models(mechanism: Mechanism, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    path = tmp_path / "s.parquet"
    release.write(rows(), mechanism, path, form="symbols")
    found = audit.release(rows(), path, mechanism=mechanism, bootstrap=20, permutations=0, attacker_rows=500)
    assert found.models == ()
    released(mechanism, tmp_path)
    few = audit.release(
        rows(), tmp_path / "r.parquet", mechanism=mechanism, bootstrap=20, permutations=0, attacker_rows=60
    )
    assert few.models == ()


def test_numbers_are_written_plainly_up_to_six_figures() -> None:
    assert [figures(value) for value in (1502.6, 23456.0, 234567.0, 0.01234)] == [
        "1503",
        "23460",
        "234600",
        "0.01234",
    ]
    assert figures(1502.6, 3) == "1500"
    assert figures(12345678.0) == "1.235e+07"


def test_a_worst_record_beyond_the_number_of_symbols_is_reported(mechanism: Mechanism) -> None:
    described = Described.of_records(mechanism, Policy())
    assert described.p_sy.shape[1] > described.channel.shape[1]
    # The last record alone tells something: its place is none among the symbols.
    p_y = described.p_sy.sum(axis=0)
    p_s = described.p_sy.sum(axis=1, keepdims=True)
    p_sy = p_s * p_y
    shift = 0.5 * p_sy[0, -1]
    p_sy[0, -1], p_sy[1, -1] = p_sy[0, -1] - shift, p_sy[1, -1] + shift
    section = questions_section(replace(described, p_sy=p_sy), None, Rounding(1e6))
    assert section is not None
    assert "times as likely" in section.tables[0][2][2][1]


@pytest.mark.parametrize("widths", [(3,), (3, 4), (2, 3, 4, 5, 6, 7, 8), (300, 2, 3, 400, 2), (70, 70, 3)])
def test_each_two_columns_are_margins_of_what_is_counted_together(
    widths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fidelity, "MOST_CELLS", 20_000)  # some pairs have more
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, width, 500) for width in widths]
    shares = rng.normal(size=500)
    found = fidelity._pairs(codes, shares)
    assert list(found) == list(combinations(range(len(widths)), 2))
    for (i, j), largest in found.items():
        apart = np.zeros((widths[i], widths[j]))
        np.add.at(apart, (codes[i], codes[j]), shares)
        assert largest == pytest.approx(np.abs(apart).max(), rel=1e-12)
