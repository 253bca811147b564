"""Wide tables: thousands of public symbols, no table of M × N anywhere."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

import privfunnel as pf
from helpers_cli import run
from privfunnel import audit, release
from privfunnel.app.explorer.curves import chosen
from privfunnel.audit import population as beyond
from privfunnel.audit import promise
from privfunnel.audit.held_out import split_rows
from privfunnel.audit.pairs import Pairs
from privfunnel.data import tables
from privfunnel.errors import GuaranteeWarning, InvalidInputError, SmallSampleWarning
from privfunnel.model.coupling import couple
from privfunnel.model.equal_symbols import lump
from privfunnel.release import codebook
from privfunnel.release.candidates import candidates
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.records import RecordAlphabet
from privfunnel.release.sampler import Cumulative
from privfunnel.report.described import Described
from privfunnel.report.front import Instead, board
from privfunnel.report.rounding import Rounding
from privfunnel.solving import free_disclosure as free
from privfunnel.solving import point
from wide import wide_columns

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

FIXTURE = Path(__file__).parents[1] / "fixtures" / "mechanism_of_classes.json"


@pytest.fixture(scope="module")
def table() -> Any:
    return pa.table(wide_columns())


@pytest.fixture(scope="module")
def counts(table: Any) -> tables.Counts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        return tables.count(table, private="ill", public=["a", "b", "c"])


@pytest.fixture(scope="module")
def mechanism(counts: tables.Counts) -> Mechanism:
    problem = counts.problem()
    return Mechanism.from_solution(counts, pf.solve(problem, disclosure=0.96 * problem.disclosure_ceiling))


# --- the coupling ---------------------------------------------------------------------------------------------------


def classes_and_channel(seed: int) -> tuple[pf.Problem, np.ndarray]:
    """A table with repeated columns, and a channel of its classes with many zeros."""
    rng = np.random.default_rng(seed)
    n_s, n_columns = int(rng.integers(2, 5)), int(rng.integers(1, 7))
    columns = rng.integers(1, 9, (n_s, n_columns))
    chosen = rng.integers(0, n_columns, int(rng.integers(n_columns, 40)))
    problem = pf.Problem(columns[:, chosen] * rng.integers(1, 6, chosen.size))
    channel = rng.dirichlet(np.full(int(rng.integers(1, 6)), 0.4), lump(problem).n_classes)
    channel[channel < 0.1] = 0.0
    return problem, channel / channel.sum(axis=1, keepdims=True)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 0.3, 0.0]))
def test_members_are_coupled_without_loss(seed: int, share: float) -> None:
    problem, channel = classes_and_channel(seed)
    lumping = lump(problem)
    full, outputs = couple(lumping.classes, problem.p_x, channel, share)
    point, inner = problem.evaluate(full), lumping.lumped.evaluate(channel)
    assert point.leakage == pytest.approx(share * inner.leakage, abs=1e-12)
    assert point.disclosure == pytest.approx(share * (inner.disclosure + lumping.h_within), abs=1e-11)
    used = int((channel.sum(axis=0) > 0.0).sum())
    assert full.shape[1] <= problem.n_x - lumping.n_classes + used + 1
    assert outputs.shape == (full.shape[1],)
    assert (np.diff(outputs) >= 0).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_a_released_symbol_has_one_member_of_each_class_with_the_weights_of_the_classes(seed: int) -> None:
    problem, channel = classes_and_channel(seed)
    lumping = lump(problem)
    full, outputs = couple(lumping.classes, problem.p_x, channel)
    p_xy = full.toarray() * problem.p_x[:, None]
    of_class = np.stack(
        [np.bincount(lumping.classes, column, lumping.n_classes) for column in p_xy.T], axis=1
    )
    entries = np.stack(
        [np.bincount(lumping.classes, column > 0, lumping.n_classes) for column in p_xy.T], axis=1
    )
    assert entries.max() == 1
    wanted = (channel * lumping.lumped.p_x[:, None])[:, outputs]
    np.testing.assert_allclose(of_class / of_class.sum(axis=0), wanted / wanted.sum(axis=0), atol=1e-9)


def test_members_narrower_than_a_rounding_are_released_too() -> None:
    p_x = np.array([0.5, 0.5 - 1e-14, 1e-14])
    full, _ = couple(np.zeros(3, dtype=np.intp), p_x, np.ones((1, 1)))
    assert full.sum(axis=1) == pytest.approx(1.0)
    assert full.shape[1] == 3


# --- what is free ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_all_that_is_free_is_released_where_less_was_asked_for(counts: tables.Counts, share: float) -> None:
    problem = counts.problem()
    wanted = share * problem.disclosure_ceiling
    found = pf.solve(problem, disclosure=wanted)
    assert found.status is pf.Status.OPTIMAL
    assert found.leakage == pytest.approx(0.0, abs=1e-12)
    assert found.disclosure == pytest.approx(pf.free_disclosure(problem), abs=1e-9)
    assert found.free_extra == found.disclosure - wanted
    assert free.free_words(found).startswith("More than you asked for is free: this release discloses 9")
    mechanism = Mechanism.from_solution(counts, found)
    assert candidates(mechanism, RecordAlphabet.of(mechanism)).most <= problem.n_s
    assert "More than was asked for is free" in board(
        Described.of_mechanism(mechanism), Rounding(counts.n), form="a list", instead=Instead(()), beyond=()
    )


def test_what_is_free_is_said_to_lie_between_where_that_is_not_proved(counts: tables.Counts) -> None:
    found = pf.solve(counts.problem(), leakage=0)
    ceiling = found.problem.disclosure_ceiling
    assert free.open_disclosure(found) <= free.FREE_PROVED
    assert free.free_words(found) == ""
    values = found.values._replace(disclosure=0.6 * ceiling)
    unproved = dataclasses.replace(found, values=values, bound=0.75 * ceiling)
    assert free.free_words(unproved) == (
        "At least 60.0 %, at most 75.0 % of H(X) can be released without any leakage."
    )
    assert free.open_disclosure(unproved) == pytest.approx(0.15 * ceiling)
    late = dataclasses.replace(unproved, status=pf.Status.TIME_LIMIT)
    with pytest.warns(pf.PrivFunnelWarning, match=f"gap {0.15 * ceiling:.3g} nats of disclosure"):
        point._raise_or_warn(late)
    # Of another budget, and of a disclosure, the gap is one of leakage.
    other = dataclasses.replace(found.question, budget=0.01)
    assert free.open_disclosure(dataclasses.replace(unproved, question=other)) == 0.0


@pytest.mark.parametrize("solver", ["auto", "greedy"])
def test_three_private_symbols_have_all_that_is_free_by_solvers_that_prove(solver: str) -> None:
    rng = np.random.default_rng(4)
    columns = rng.integers(1, 5, (3, 12))[:, rng.integers(0, 12, 90)]
    problem = pf.Problem(columns * rng.integers(1, 3, 90))
    within = lump(problem).h_within
    below = pf.solve(problem, disclosure=0.5 * within, solver=solver)
    assert below.leakage == pytest.approx(0.0, abs=1e-12)
    assert below.disclosure == pytest.approx(
        pf.free_disclosure(problem) if solver == "auto" else 0.5 * within
    )
    if solver == "auto":
        above = pf.solve(problem, disclosure=0.5 * (within + pf.free_disclosure(problem)))
        assert above.disclosure == pytest.approx(pf.free_disclosure(problem), abs=1e-9)
    assert pf.solve(problem, disclosure=0.0, solver=solver).disclosure == 0.0


def test_outputs_that_say_nothing_are_left_out() -> None:
    told = np.array([[0.5, 0.0], [0.0, 0.5]])
    silent = np.full((2, 1), 0.5)
    for table in (np.hstack([told, silent]), sparse.csc_array(np.hstack([silent, told]))):
        found = free.telling(table)
        np.testing.assert_allclose(sparse.csc_array(found).toarray(), np.eye(2))
    assert free.telling(silent) is silent


def test_the_page_releases_all_that_is_free_of_a_wide_table(counts: tables.Counts) -> None:
    problem = counts.problem()
    ceiling = problem.disclosure_ceiling
    curve = pf.trace(problem, disclosures=[0.0, pf.free_disclosure(problem), ceiling])
    asked = 0.5 * ceiling
    found = chosen(curve, asked, None)
    assert found.disclosure == pytest.approx(pf.free_disclosure(problem), abs=1e-9)
    assert found.requested == asked
    assert chosen(curve, 0.0, None).disclosure == 0.0
    assert chosen(curve, 0.99 * ceiling, None).leakage > 0.0


# --- drawing --------------------------------------------------------------------------------------------------------


def test_a_sparse_row_is_drawn_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.full(40, 0.2), 7)
    rows[rows < 0.01] = 0.0
    rows[2] = np.eye(40)[5]
    rows /= rows.sum(axis=1, keepdims=True)
    drawn = Cumulative(sparse.csc_array(rows))
    for i, row in enumerate(rows):
        found = np.bincount(drawn.draw(np.full(20_000, i), rng.random(20_000)), minlength=40)
        assert not found[row == 0.0].any()
        possible = row > 0.0
        if possible.sum() > 1:
            assert stats.chisquare(found[possible], 20_000 * row[possible]).pvalue > 1e-4
    ends = drawn.draw(np.repeat(np.arange(7), 2), np.tile([0.0, np.nextafter(1.0, 0.0)], 7))
    assert (rows[np.repeat(np.arange(7), 2), ends] > 0.0).all()


# --- the mechanism --------------------------------------------------------------------------------------------------


def test_the_entry_drawn_is_the_first_whose_sum_is_above_the_number() -> None:
    rng = np.random.default_rng(4)
    table = rng.dirichlet(np.ones(50), 60) * (rng.random((60, 50)) < 0.1)
    table[:, 0] += 0.01  # some rows have one entry, and one all of them
    table[0] = rng.dirichlet(np.ones(50))
    drawer = Cumulative(sparse.csr_array(table))
    rows, uniform = rng.integers(0, 60, 2000), rng.random(2000)
    found = drawer.entries(rows, uniform)
    for row, number, entry in zip(rows.tolist(), uniform.tolist(), found.tolist(), strict=True):
        own = drawer.upto[drawer.start[row] : drawer.start[row + 1]]
        assert entry == drawer.start[row] + np.searchsorted(own, number, side="right")


def test_a_wide_mechanism_keeps_its_promise_without_a_dense_table(mechanism: Mechanism) -> None:
    n_x, n_y = mechanism.channel.shape
    assert n_x > 5000
    assert mechanism.sparse
    assert mechanism.channel.nnz <= 2 * n_y
    assert mechanism.p_x_given_y.nnz == mechanism.channel.nnz
    assert pf.measures.mutual_information(mechanism.p_xy) == pytest.approx(mechanism.disclosure, abs=1e-9)
    assert pf.measures.mutual_information(mechanism.p_sy) == pytest.approx(mechanism.leakage, abs=1e-9)
    assert mechanism.p_x_given_y.sum(axis=0) == pytest.approx(1.0)


def test_a_file_of_classes_gives_the_same_mechanism_bit_for_bit(mechanism: Mechanism, tmp_path: Path) -> None:
    mechanism.save(tmp_path / "m.json")
    again = Mechanism.load(tmp_path / "m.json")
    assert again.to_dict() == mechanism.to_dict()
    assert (again.channel != mechanism.channel).nnz == 0
    np.testing.assert_array_equal(again.p_s_given_y, mechanism.p_s_given_y)
    assert (tmp_path / "m.json").stat().st_size < 100 * len(mechanism.p_x)


def test_a_file_of_entries_gives_the_same_mechanism(mechanism: Mechanism) -> None:
    plain = dataclasses.replace(mechanism, classes=None)
    data = json.loads(json.dumps(plain.to_dict()))
    again = Mechanism.from_dict(data)
    assert (again.channel != plain.channel).nnz == 0


def test_the_stored_file_of_classes_is_read_as_it_was_written() -> None:
    found = Mechanism.load(FIXTURE)
    assert found.classes is not None
    assert found.channel.shape == (30, 25)
    assert found.leakage == pytest.approx(0.0, abs=1e-9)
    assert found.to_dict()["classes"] == json.loads(FIXTURE.read_text(encoding="utf-8"))["classes"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"classes": [0] * 30}, "classes of the mechanism|class_channel of the mechanism|claims"),
        ({"classes": [-1] + [0] * 29}, "classes of the mechanism cannot be used"),
        ({"classes": [0.5] * 30}, "not whole numbers"),
        ({"share": 1.5}, "share of the mechanism cannot be used"),
        ({"share": True}, "share of the mechanism cannot be used"),
        ({"share": 0.5}, "outputs of the mechanism|claims disclosure"),
        ({"outputs": []}, "outputs of the mechanism do not fit"),
        ({"class_channel": [[1.0]]}, "class_channel of the mechanism cannot be used"),
        ({"version": 99}, "version 99 cannot be read"),
    ],
)
def test_a_changed_file_of_classes_is_refused(change: dict[str, Any], said: str) -> None:
    data = copy.deepcopy(json.loads(FIXTURE.read_text(encoding="utf-8"))) | change
    with pytest.raises(InvalidInputError, match=said):
        Mechanism.from_dict(data)


# --- the release ----------------------------------------------------------------------------------------------------


def test_a_wide_release_holds_what_the_mechanism_draws(
    table: Any, mechanism: Mechanism, tmp_path: Path
) -> None:
    with pytest.warns(pf.errors.GuaranteeWarning, match="seed"):
        found = release.write(table, mechanism, tmp_path / "r.parquet", form="symbols", seed=1)
    assert sum(found.symbols) == 9000
    order = release.order.load(found.order)
    import pyarrow.parquet as pq

    symbols = pq.read_table(tmp_path / "r.parquet").column("released").to_pylist()
    y = np.array([int(symbol[1:]) for symbol in symbols])
    x = mechanism.x_alphabet.recogniser()(mechanism.x_alphabet.encode(table))[order.rows]
    assert (mechanism.channel.tocsr()[x, y] > 0.0).all()


def test_records_of_a_wide_release_are_candidates_of_what_was_drawn(
    table: Any, mechanism: Mechanism, tmp_path: Path
) -> None:
    with pytest.warns(pf.errors.GuaranteeWarning, match="seed"):
        release.write(table, mechanism, tmp_path / "r.csv", seed=1)
    lines = (tmp_path / "r.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "a,b,c"
    assert len(lines) == 9001


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        {"a": [], "b": {}, "ü, \n": [1, 2.5e-7, None, True, "x, y"]},
        {"a": [{"b": {"c": [[1], []]}}, "d"]},
        [[{}]],
        3,
    ],
    ids=str,
)
def test_codebooks_are_indented_as_ever(data: Any) -> None:
    assert codebook.indented(data) == json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)


@pytest.mark.parametrize(
    ("form", "digest"),
    [("records", "935ae6d7ab773481"), ("decoys", "4eec4f065d160edc"), ("symbols", "12d325ef358fbd96")],
)
def test_a_seed_gives_the_files_that_it_always_gave(form: str, digest: str, tmp_path: Path) -> None:
    mechanism = Mechanism.load(FIXTURE)
    values = np.array(mechanism.x_alphabet.values, dtype=object)[np.arange(2000) % 30]
    rows = pa.table({name: values[:, j].tolist() for j, name in enumerate(mechanism.public_names)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        release.write(rows, mechanism, tmp_path / "r.csv", form=form, seed=7, batch_rows=300)
    written = b"".join(
        (tmp_path / f"r.{suffix}").read_bytes() for suffix in ("csv", "codebook.json", "order")
    )
    assert hashlib.sha256(written).hexdigest()[:16] == digest


def test_the_codebook_of_a_wide_mechanism_lists_only_what_rows_stand_behind(mechanism: Mechanism) -> None:
    book = codebook.to_dict(mechanism)
    assert len(book["symbols"]) < mechanism.n_y
    assert "symbols of too few rows" in book["unlisted"]
    assert all(entry["p_x_given_y_step"] is not None for entry in book["symbols"])


# --- the audit ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["records", "symbols"])
def test_a_wide_release_is_audited_as_it_was_promised(
    table: Any, mechanism: Mechanism, tmp_path: Path, form: str
) -> None:
    with pytest.warns(pf.errors.GuaranteeWarning, match="seed"):
        release.write(table, mechanism, tmp_path / "r.csv", form=form, seed=2)
    found = audit.release(
        table, tmp_path / "r.csv", mechanism=mechanism, bootstrap=20, permutations=0, attacker_rows=0
    )
    assert found.passed
    assert found.draws is not None
    assert found.draws.agrees
    assert found.recount is not None
    assert found.recount.leakage == pytest.approx(mechanism.leakage, abs=1e-9)
    assert found.recount.disclosure == pytest.approx(mechanism.disclosure, abs=1e-9)


def test_rows_that_a_wide_mechanism_did_not_draw_are_found_out(
    table: Any, mechanism: Mechanism, tmp_path: Path
) -> None:
    with pytest.warns(pf.errors.GuaranteeWarning, match="seed"):
        release.write(table, mechanism, tmp_path / "r.csv", form="symbols", seed=2)
    order = release.order.load(tmp_path / "r.order")
    swapped = release.Order(order.rows[::-1].copy(), order.original_rows)
    found = audit.release(
        table,
        tmp_path / "r.csv",
        mechanism=mechanism,
        order=swapped,
        bootstrap=20,
        permutations=0,
        attacker_rows=0,
    )
    assert found.draws is not None
    assert found.draws.impossible > 8000
    assert not found.draws.agrees


def test_a_wide_mechanism_is_audited_alone(mechanism: Mechanism) -> None:
    alone = audit.mechanism(mechanism)
    assert alone.leakage.plug_in == pytest.approx(mechanism.leakage, abs=1e-9)
    assert len(alone.symbols) <= 2000
    kept = {each.name: each.kept for each in alone.columns}
    rows = mechanism.p_xy.tocsr()
    for j, column in enumerate(mechanism.public):
        categories = range(column.n_values)
        part = np.stack([rows[mechanism.x_codes[:, j] == code].sum(axis=0) for code in categories])
        assert kept[column.name] == pytest.approx(pf.measures.mutual_information(part), abs=1e-9)


def test_rows_of_another_table_go_through_a_wide_mechanism(
    counts: tables.Counts, mechanism: Mechanism
) -> None:
    rng = np.random.default_rng(0)
    few, _ = split_rows(counts, 0.9, rng)
    known = dataclasses.replace(mechanism, p_x=mechanism.p_x[:-1], channel=mechanism.channel[:-1],
                                x_alphabet=mechanism.x_alphabet.take(range(len(mechanism.p_x) - 1)))  # fmt: skip
    channel, new = promise.channel_for(known, counts)
    assert np.flatnonzero(new).tolist() == [counts.n_x - 1]
    np.testing.assert_allclose(channel[[counts.n_x - 1]].toarray()[0], known.p_y)
    found = promise.recount(mechanism, few, ())
    assert not found.same_table
    assert found.new_rows == 0
    channel, _ = promise.channel_for(mechanism, few)
    drawn = beyond.released(few.table(), channel, rng)
    sy, xy = drawn.sy, drawn.xy
    assert sy.sum() == xy.sum() == few.n
    assert (channel[sparse.coo_array(xy).coords] > 0.0).all()


def test_pairs_are_counted_alike_in_tables_and_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    batches = [(rng.integers(0, 50, 400), rng.integers(0, 60, 400)) for _ in range(5)]
    dense = Pairs(50, 60)
    monkeypatch.setattr("privfunnel.audit.pairs.DENSE_ENTRIES", 10)
    monkeypatch.setattr("privfunnel.audit.pairs.WAITING", 1000)
    scattered = Pairs(50, 60)
    for x, y in batches:
        dense.add(x, y)
        scattered.add(x, y)
    np.testing.assert_array_equal(scattered.table().toarray(), dense.table())
    assert Pairs(50, 60).table().nnz == 0


# --- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_wide_table_goes_from_a_file_to_an_audit_of_decoys_in_one_sitting(
    table: Any, tmp_path: Path
) -> None:
    source, design, out = tmp_path / "wide.csv", tmp_path / "design", tmp_path / "decoys.parquet"
    pytest.importorskip("pyarrow.csv").write_csv(table.slice(0, 5500), source)
    named = ("--private", "ill", "--public", "a,b,c")
    solved = run("solve", str(source), *named, "--disclosure", "50%", "--out", str(design), "--json")
    assert solved.exit_code == 0, solved.output
    told = json.loads(solved.stdout)
    assert told["status"] == "optimal"
    assert told["free_extra"] == told["disclosure"] - told["requested"] > 0.0
    mechanism = ("--mechanism", str(design / "mechanism.json"))
    written = run("release", str(source), *mechanism, "-o", str(out), "--as", "decoys", "--json")
    assert written.exit_code == 0, written.output
    assert json.loads(written.stdout)["rows"] == 5500
    audited = run("audit", str(source), str(out), *mechanism, "--attacker-rows", "0", "--bootstrap", "20",
                  "--permutations", "0", "--json")  # fmt: skip
    found = json.loads(audited.stdout)
    assert found["recount"]["holds"]
    assert found["draws"]["impossible"] == 0
