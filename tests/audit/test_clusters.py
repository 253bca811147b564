"""Rows that were sampled together, in households: resampled, permuted and held out a cluster at a time."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funnels import random_mechanism
from helpers_cli import assert_one_line_error, run
from privfunnel import audit, release
from privfunnel.audit.persons import PersonRows, Together, gathered, rows_of
from privfunnel.data import tables
from privfunnel.errors import GuaranteeWarning, IdentifierWarning, InvalidInputError, SmallSampleWarning
from privfunnel.release.mechanism import Mechanism

pa = pytest.importorskip("pyarrow")
pa_csv = pytest.importorskip("pyarrow.csv")
pytest.importorskip("duckdb")
pytest.importorskip("narwhals")

HOMES, MEMBERS, VISITS = 120, 3, 2


def survey(seed: int = 0) -> Any:
    """Households of three persons with two rows each; what is public and private is that of the household."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(HOMES * MEMBERS * VISITS)
    person = rows // VISITS
    home = person // MEMBERS
    a = rng.integers(0, 3, HOMES)
    ill = rng.random(HOMES) < 0.25 + 0.25 * a
    return pa.table({"home": home, "id": person, "a": a[home], "s": np.where(ill[home], "ill", "well")})


def counted(table: Any, **options: Any) -> tables.Counts:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        warnings.simplefilter("ignore", IdentifierWarning)
        return tables.count(table, private="s", public="a", **options)


def codes(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def people(person: Any, cluster: Any) -> PersonRows:
    none = np.zeros(len(cluster), dtype=np.int64)
    found = gathered(Together("id", "home"), (person, cluster), (none, none, none))
    assert found is not None
    return found


def test_counts_know_their_clusters_and_warn_by_them() -> None:
    counts = counted(survey(), person="id", cluster="home")
    assert (counts.persons, counts.clusters, counts.pieces) == (HOMES * MEMBERS, HOMES, HOMES)
    few = survey().slice(0, 60)
    with pytest.warns(SmallSampleWarning, match=r"clusters \(60 rows\)"):
        tables.count(few, private="s", public="a", cluster="home")


def test_a_person_in_two_clusters_joins_them() -> None:
    apart = people(codes(0, 1, 2, 3), codes(0, 0, 1, 1))
    assert apart.pieces == 2
    joined = people(codes(0, 1, 1, 2), codes(0, 0, 1, 2))
    assert joined.piece.tolist() == [0, 0, 0, 1]


def test_whole_clusters_are_resampled() -> None:
    rows = rows_of(survey(), counted(survey(), person="id", cluster="home"))
    drawn = np.array(
        [
            table[0, 0]
            for table in rows.resampling(
                rows.person * 0, rows.person * 0, (1, 1), 3, np.random.default_rng(0)
            )
        ]
    )
    assert np.allclose(drawn, 1.0)
    for table in rows.resampling(rows.piece, rows.x, (HOMES, 3), 3, np.random.default_rng(0)):
        whole = table.sum(axis=1) * rows.n / (MEMBERS * VISITS)
        assert np.allclose(whole, np.rint(whole))


def test_one_row_of_each_cluster_judges_a_design_of_all_rows_of_the_others() -> None:
    table = survey()
    counts = counted(table, person="id", cluster="home")
    found = audit.guaranteed(
        counts, share=0.25, disclosure=0.5, solver="greedy", people=rows_of(table, counts)
    )
    assert found.holdout.held_out_rows == HOMES // 4
    assert found.holdout.design_rows == (HOMES - HOMES // 4) * MEMBERS * VISITS
    assert (found.holdout.design_clusters, found.holdout.design_persons) == (90, 270)
    assert found.holdout.population.clusters
    assert not found.holdout.population.persons
    assert "one of each other cluster" in found.holdout.words()[0]
    assert (found.mechanism.cluster, found.mechanism.pieces) == ("home", 90)


def test_a_split_by_rows_is_refused_where_there_are_clusters() -> None:
    counts = counted(survey(), cluster="home")
    with pytest.raises(InvalidInputError, match=r"cluster \(home\) must not be on both sides"):
        audit.holdout(counts, disclosure=0.5)


def test_an_interval_by_clusters_is_wider_than_one_by_persons() -> None:
    table = survey()
    counts = counted(table)
    spreads = [
        np.std(
            [float(t[0, 0]) for t in each.resampling(each.s, each.s, (2, 2), 60, np.random.default_rng(1))]
        )
        for each in (rows_of(table, counts, "id"), rows_of(table, counts, "id", cluster="home"))
    ]
    assert spreads[1] > 1.3 * spreads[0]  # three alike in a home: √3 times as wide


def test_an_audit_takes_the_clusters_of_the_mechanism() -> None:
    table = survey()
    mechanism = random_mechanism(counted(table, cluster="home"), n_y=3)
    orders: list[Any] = []
    with pytest.warns(GuaranteeWarning, match="seed"):
        released = release.frame(table, mechanism, form="symbols", seed=5, on_order=orders.append)
    quick: dict[str, Any] = {"bootstrap": 40, "permutations": 19, "attacker_rows": 0, "order": orders[0]}
    found = audit.release(table, released, mechanism=mechanism, **quick)
    assert found.clusters is not None
    assert found.persons is None
    assert found.clusters.clusters == HOMES
    assert found.draws is not None
    assert found.draws.agrees
    assert any("720 rows are in 120 clusters (home)" in line for line in found.words())
    assert any("from a cluster drawn at random" in line for line in found.limits)
    alone = audit.release(table, released, mechanism=mechanism, cluster="", **quick)
    assert alone.clusters is None
    assert alone.leakage.high - alone.leakage.low < found.leakage.high - found.leakage.low


def test_a_table_of_clusters_is_cross_fitted_by_one_row_of_each() -> None:
    table = survey()
    mechanism = Mechanism.from_solution(*_designed(counted(table, cluster="home")))
    found = audit.table(table, mechanism, view="sample")
    assert found.population is not None
    assert found.population.clusters
    assert found.population.rows == HOMES
    with pytest.raises(InvalidInputError, match="'a' cannot say which rows belong together"):
        audit.table(table, mechanism, cluster="a")


def _designed(counts: tables.Counts) -> tuple[tables.Counts, Any]:
    import privfunnel as pf

    return counts, pf.solve(counts.problem(), disclosure=0.4, solver="greedy")


def test_the_command_line_holds_whole_clusters_out(tmp_path: Path) -> None:
    path = str(tmp_path / "survey.csv")
    pa_csv.write_csv(survey(), path)
    roles = ["--private", "s", "--public", "a", "--cluster", "home"]
    solved = run(
        "solve",
        path,
        *roles,
        "--disclosure",
        "50%",
        "--solver",
        "greedy",
        "--holdout",
        "0.25",
        "--out",
        str(tmp_path / "design"),
    )
    assert "In the population that these 30 clusters come from" in solved.stdout
    told = json.loads((tmp_path / "design" / "population.json").read_text("utf-8"))
    assert (told["design_clusters"], told["population"]["clusters"]) == (90, True)
    audited = run("audit", path, *roles, "--holdout", "0.25", "--disclosure", "50%", "--solver", "greedy")
    assert "one of each other cluster" in audited.stdout
    error = run("solve", path, "--private", "s", "--public", "a", "--cluster", "s", "--disclosure", "50%")
    assert_one_line_error(error, "cannot be private or public too")
