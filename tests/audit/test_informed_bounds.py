"""What attackers who know public columns learn in the population, bounded by rows that a design had no part in."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from helpers_cli import run
from privfunnel import audit
from privfunnel.audit import cross_fit
from privfunnel.audit import population as beyond
from privfunnel.audit.informed import Triples, informed_bounds
from privfunnel.data import instances, tables
from privfunnel.model import attackers
from privfunnel.model.problem import Problem

COLUMNS = {"a": ("0", "0", "1", "1"), "b": ("0", "1", "0", "1")}


def sampled(n: int, seed: int = 0) -> Problem:
    """Rows from the patients as a population."""
    whole = instances.load("heart-failure")
    drawn = np.random.default_rng(seed).multinomial(n, whole.p_sx.ravel()).reshape(whole.p_sx.shape)
    return Problem(drawn, whole.s_labels, whole.x_labels, public_columns=whole.public_columns)


def test_triples_are_counted_by_what_is_known() -> None:
    rng = np.random.default_rng(1)
    s, x, y = (rng.integers(0, k, 50) for k in (2, 4, 3))
    n = rng.integers(1, 5, 50)
    table = Triples(s, x, y, n).known(np.array([0, 0, 1, 1]), (2, 3, 2))
    assert table.shape == (2, 3, 2)
    assert table.sum() == n.sum()
    assert table[1, 2, 1] == n[(s == 1) & (y == 2) & (x >= 2)].sum()


def test_all_attackers_are_bounded_at_once_from_above() -> None:
    whole = instances.load("heart-failure")
    channel = pf.solve(whole, disclosure=0.5 * whole.disclosure_ceiling, solver="greedy").channel
    known = attackers.few_columns(whole.public_columns, 2)
    truth = {each.name: each.leakage(whole.p_sx, channel) for each in known}
    rng = np.random.default_rng(2)
    for _ in range(4):
        table = rng.multinomial(2000, whole.p_sx.ravel()).reshape(whole.p_sx.shape).astype(float)
        drawn = beyond.released(table, channel, rng)
        shape = (drawn.sy.shape[0], drawn.sy.shape[1])
        found = informed_bounds(whole.public_columns, drawn.triples, shape, 0.95)
        assert {each.columns for each in found} == set(truth)
        assert all(each.upper >= truth[each.columns] for each in found)
        assert [each.upper for each in found] == sorted((each.upper for each in found), reverse=True)


def test_attackers_share_the_probability_of_an_error() -> None:
    rng = np.random.default_rng(4)
    released = Triples(*(rng.integers(0, k, 200) for k in (2, 4, 2)), np.full(200, 40))
    found = {each.columns: each.upper for each in informed_bounds(COLUMNS, released, (2, 2), 0.95)}
    assert len(found) == 3
    alone = released.known(np.array([0, 0, 1, 1]), (2, 2, 2))
    bound = audit.population_bound(alone, 1.0 - 0.05 / 3.0, method="tilting").upper
    assert found["a"] == pytest.approx(bound)
    assert found["a"] < math.log(2.0)


def test_with_many_columns_attackers_know_one() -> None:
    columns = {f"c{j}": tuple(str(x >> j & 1) for x in range(64)) for j in range(6)}
    rng = np.random.default_rng(3)
    x = rng.integers(0, 64, 900)
    released = Triples(rng.integers(0, 2, 900), x, x % 2, np.ones(900, dtype=np.int64))
    found = informed_bounds(columns, released, (2, 2), 0.95)
    assert [each.known for each in found] == [1] * 6
    assert all(0.0 < each.upper <= math.log(2.0) for each in found)


def test_a_release_without_outputs_to_choose_from_tells_nobody_anything() -> None:
    released = Triples(*(np.array(codes) for codes in ([0, 1], [0, 3], [0, 0], [30, 40])))
    assert all(each.upper == 0.0 for each in informed_bounds(COLUMNS, released, (2, 1), 0.95))


def test_cross_fitted_designs_tell_attackers_at_most_so_much() -> None:
    found = audit.cross_fitted(sampled(20_000), disclosure=1.2, solver="greedy")
    assert len(found.informed) == 10
    assert found.informed[0].upper < found.target / beyond.WORTHWHILE
    told = [
        line
        for line in found.words()
        if line.startswith("Who knows one or two public columns already learns")
    ]
    assert len(told) == 1
    assert found.informed[0].columns in told[0]
    assert found.to_dict()["informed"][0]["upper"] == found.informed[0].upper


def test_nothing_is_said_of_attackers_where_nothing_is_proved() -> None:
    found = audit.cross_fitted(sampled(150), disclosure=1.2, solver="greedy")
    assert len(found.informed) == 10
    assert not any("already learns" in line for line in found.words())


def test_a_problem_without_columns_has_no_informed_attackers() -> None:
    assert audit.cross_fitted(Problem(sampled(2000).counts), disclosure=1.2, solver="greedy").informed == ()


def test_held_out_rows_bound_attackers_with_all_values_of_the_table() -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    rng = np.random.default_rng(5)
    a = np.where(np.arange(4000) < 3, "rare", rng.choice(["u", "v"], 4000))
    s = np.where(rng.random(4000) < np.where(a == "u", 0.2, 0.6), "ill", "well")
    table = pa.table({"s": s, "a": a, "b": rng.choice(["0", "1"], 4000)})
    counts = tables.count(table, private="s", public=["a", "b"])
    found = audit.guaranteed(counts, share=0.4, disclosure=0.6, solver="greedy").holdout.population
    assert {each.columns for each in found.informed} == {"a", "b", "a, b"}
    assert all(0.0 <= each.upper <= math.log(2.0) for each in found.informed)


def test_audit_and_report_carry_the_bounds_of_attackers(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    pytest.importorskip("sklearn")
    tables_of = {name: tmp_path / f"{name}.csv" for name in ("design", "other")}
    for seed, path in enumerate(tables_of.values()):
        rng = np.random.default_rng(seed)
        a, b = rng.integers(0, 2, 6000), rng.integers(0, 2, 6000)
        s = rng.random(6000) < np.where(a == 0, 0.2, 0.7)
        rows = [f"{int(x)},{y},{z}" for x, y, z in zip(s, a, b, strict=True)]
        path.write_text("\n".join(["s,a,b", *rows]) + "\n", "utf-8")
    design = tmp_path / "design"
    solved = run(
        "solve",
        tables_of["design"],
        "--private",
        "s",
        "--public",
        "a,b",
        "--disclosure",
        "60%",
        "--out",
        design,
    )
    assert solved.exit_code == 0, solved.output
    page = tmp_path / "report.html"
    told = run("audit", tables_of["other"], "--mechanism", design / "mechanism.json", "--out", page)
    assert "Who knows one or two public columns already learns at most" in told.stdout.replace("\n", " ")
    assert "in the population at most" in told.stdout
    assert "of such people already learns" in page.read_text("utf-8").replace("\n", " ")


@pytest.mark.parametrize(
    ("asked", "gap"),
    [
        ({}, 0.1 / 250),
        ({"solver": pf.Global()}, 0.1 / 250),
        ({"gap": 1e-5}, 1e-5),
        ({"solver": pf.Global(gap=1e-5)}, None),
        ({"solver": "greedy"}, None),
    ],
)
def test_designs_on_parts_are_proved_as_near_as_their_rows_can_tell(
    asked: dict[str, Any], gap: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaps = []

    def recorded(problem: pf.Problem, **options: Any) -> pf.Solution:
        gaps.append(options.get("gap"))
        return pf.solve(problem, **options)

    monkeypatch.setattr(cross_fit, "solve", recorded)
    audit.cross_fitted(sampled(500), disclosure=0.5, **asked)
    assert gaps == [gap, gap]
