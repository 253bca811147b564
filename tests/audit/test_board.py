"""The three questions of a review board: their numbers against brute force, their words, their rounded report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import privfunnel as pf
from funnels import mechanism_of
from helpers_cli import assert_one_line_error, run
from privfunnel import audit, measures, release
from privfunnel.audit.review_board import board, questions, words
from privfunnel.data import tables
from privfunnel.model.amounts import amount, told
from privfunnel.release.ledger import Ledger
from privfunnel.release.mechanism import Mechanism
from privfunnel.report import Report, render
from privfunnel.report.from_audit import audit_section
from privfunnel.report.html import FORMS

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

pytestmark = pytest.mark.filterwarnings("ignore::privfunnel.errors.SmallSampleWarning")


def rows(n: int = 500) -> Any:
    rng = np.random.default_rng(8)
    age, job = rng.integers(0, 4, n), rng.integers(0, 3, n)
    sick = rng.random(n) < 0.1 + 0.15 * (age == 3) + 0.2 * (job == age)
    return pd.DataFrame({"sick": sick, "age": age, "job": np.array(["a", "b", "c"])[job]})


ROWS = rows()


@pytest.fixture(scope="module")
def designed() -> Mechanism:
    counts = tables.count(ROWS, private=["sick"], public=["age", "job"])
    return Mechanism.from_solution(counts, pf.solve(counts, disclosure="70%", gap=1e-4))


def test_the_numbers_are_those_of_an_attacker_who_tries_everybody() -> None:
    rng = np.random.default_rng(0)
    counted = np.array([3, 1, 4, 2])  # people by public symbol
    n, channel = int(counted.sum()), rng.dirichlet(np.ones(5), size=4)
    p_xy = counted[:, None] / n * channel
    p_sy = rng.dirichlet(np.ones(2), size=5).T * p_xy.sum(axis=0)
    found = board(p_xy, p_sy, n, (list("uvwxy"), ["healthy", "sick"]))
    assert found is not None
    # Everybody is a row of their own: p(person, y) = p(y|x of the person)/n.
    p_person_y = np.repeat(channel, counted, axis=0) / n
    given = p_person_y / p_person_y.sum(axis=0)
    assert found.singled_out == pytest.approx(given.max())
    assert found.linked == pytest.approx(p_person_y.max(axis=0).sum())
    assert found.linked_original == pytest.approx(4 / n)
    assert found.singled_out_share == pytest.approx(p_xy.sum(axis=0)[given.max(axis=0).argmax()])
    lifts = p_sy / p_sy.sum(axis=0) / p_sy.sum(axis=1, keepdims=True)
    assert found.lift == pytest.approx(lifts.max())
    assert found.symbol == "uvwxy"[lifts.max(axis=0).argmax()]


def test_pointing_is_the_same_of_a_sparse_table() -> None:
    table = np.array([[0.2, 0.1, 0.0], [0.0, 0.3, 0.0], [0.1, 0.1, 0.2]])
    dense, held = measures.pointing(table), measures.pointing(sparse.csr_array(table))
    assert dense == pytest.approx(held)
    assert dense[1] == pytest.approx(np.exp(measures.maximal_leakage(table)))


def test_nobody_is_singled_out_by_a_release_that_says_nothing() -> None:
    found = board(np.full((4, 1), 0.25), np.array([[0.3], [0.7]]), 8, (["y0"], ["s0", "s1"]))
    assert found is not None
    assert found.singled_out == found.linked == pytest.approx(1 / 8)
    assert found.lift == pytest.approx(1.0)
    assert board(np.ones((1, 1)), np.ones((1, 1)), 0.0, (["y0"], ["s0"])) is None


def test_every_answer_has_a_number_a_proof_and_what_it_assumes(designed: Mechanism) -> None:
    found = audit.table(ROWS, designed, view="register")
    asked = questions(found)
    assert [each.name for each in asked] == ["Singling out", "Linkability", "Inference"]
    assert found.board is not None
    assert found.board.people == len(ROWS)
    assert f"1 in {int(1 / found.board.singled_out)}" in asked[0].answer
    alone = replace(found, board=replace(found.board, singled_out=0.8))
    assert "with probability 80 %, by a symbol" in questions(alone)[0].answer
    assert all("counted from the mechanism" in each.proof for each in asked)
    assert "of the target nothing or what is named here" in asked[2].assumes
    assert len(words(found)) == 3
    assert json.loads(json.dumps(found.to_dict()))["board"]["people"] == len(ROWS)


@pytest.mark.filterwarnings("ignore::privfunnel.errors.GuaranteeWarning")
@pytest.mark.parametrize("form", ["symbols", "decoys", "records"])
def test_only_records_are_said_to_be_drawn_anew(form: str, designed: Mechanism) -> None:
    released = release.frame(ROWS, designed, form=form, seed=2, keep_order=True)
    found = audit.release(
        ROWS, released, mechanism=designed, bootstrap=20, permutations=0, attacker_rows=0, view="register"
    )
    assert ("drawn anew" in questions(found)[0].proof) is (form == "records")
    if (
        form != "records"
    ):  # whoever knows nothing learns what the mechanism tells, as those who know something do
        assert any(f"who knows nothing learns {amount(designed.leakage)}." in line for line in found.words())
    # Those who know a column learn less from records; the board's numbers are of the symbols all the same.
    worst = audit.table(ROWS, designed, view="register").informed[0]
    assert (found.informed[0].leakage < worst.leakage - 1e-4) is (form == "records")
    assert f"one who knows {worst.columns} {told(worst.leakage)};" in questions(found)[2].answer
    assert f"replaced by {FORMS[form]}" in render(designed, Report(audit=found))
    # Decoys name combinations of values that few rows have, which is not for a report.
    loud = replace(found, symbols=(replace(found.symbols[0], share=0.5, lift=1.5),))
    titles = [title for title, _, _ in audit_section(loud).tables]
    assert (any(title.startswith("Released symbols that enough rows get") for title in titles)) is (
        form != "decoys"
    )


def test_a_guarantee_is_named_where_it_answers() -> None:
    counts = tables.count(ROWS, private=["sick"], public=["age", "job"])
    solution = pf.solve(counts, guarantees=["k=10", "lip=1"], gap=1e-2)
    found = audit.table(ROWS, Mechanism.from_solution(counts, solution), view="register")
    assert found.board is not None
    assert found.board.singled_out <= 0.1 + 1e-9
    singled, _, inference = questions(found)
    assert "The design guarantees k=10 for every output." in singled.proof
    assert "The design guarantees lip=1 for every output." in inference.proof


def test_a_release_that_tells_nothing_changes_no_chance() -> None:
    counts = tables.count(ROWS, private=["sick"], public=["age", "job"])
    nothing, everything = (
        " ".join(words(audit.table(ROWS, mechanism_of(counts, channel), bootstrap=20)))
        for channel in (np.ones((counts.n_x, 1)), np.eye(counts.n_x))
    )
    assert "no released symbol changes the chance of any private value" in nothing
    assert "no released symbol makes a private value more than" in everything


def test_a_ledger_says_what_all_draws_tell_together(designed: Mechanism) -> None:
    once = Ledger.begin(ROWS, designed).with_release(designed)
    twice = once.with_release(designed)
    alone, both = once.together(designed), twice.together(designed)
    assert alone.entered
    assert alone.draws == 1
    assert alone.leakage == pytest.approx(designed.leakage, abs=1e-9)
    assert both.leakage > alone.leakage + 1e-3
    assert both.linked > alone.linked
    assert both.leakage == pytest.approx(pf.joint_leakage(once.problem, [designed, designed]))
    empty = Ledger.begin(ROWS, designed).together(designed)
    assert not empty.entered
    assert empty.draws == 1


def test_the_audit_of_a_file_with_its_ledger_on_the_command_line(designed: Mechanism, tmp_path: Path) -> None:
    table, path, ledger = tmp_path / "rows.csv", tmp_path / "mechanism.json", tmp_path / "ledger.json"
    ROWS.to_csv(table, index=False)
    designed.save(path)
    for name in ("one.csv", "two.csv"):
        done = run(
            "release",
            str(table),
            "--mechanism",
            str(path),
            "-o",
            str(tmp_path / name),
            "--ledger",
            str(ledger),
        )
        assert done.exit_code == 0, done.output
    report = tmp_path / "report.html"
    done = run("audit", str(table), "--mechanism", str(path), "--ledger", str(ledger), "--view", "register", "--out",
               str(report))  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Three questions of a review board:" in done.output
    assert "the draws of the ledger, 2, tell" in done.output
    page = report.read_text()
    assert "Singling out, linkability, inference" in page
    assert "All 2 draws of these rows together" in page
    assert "The releases of these rows, as the ledger has them." in page
    assert page.count("<td>alone</td>") == 2
    assert "EXCEEDED" not in page
    asked = ("audit", str(table), "--mechanism", str(path), "--view", "register", "--bootstrap", "20")
    done = run(*asked, "--ledger", str(ledger), "--budget", "1%", "--out", str(report))
    assert done.exit_code == 1
    assert "MORE THAN the budget of" in done.output
    assert "Releases of these rows (bits)" in done.output
    assert "EXCEEDED" in report.read_text()
    assert_one_line_error(run(*asked, "--budget", "1%"), "--budget 1% is for all draws of a ledger")
    refused = run("audit", str(table), str(table), "--private", "sick", "--public", "age,job", "--ledger", str(ledger),
                  "--bootstrap", "20", "--permutations", "0", "--attacker-rows", "0")  # fmt: skip
    assert_one_line_error(refused, "give --mechanism, too")


def test_a_report_rounds_the_answers_up(designed: Mechanism) -> None:
    page = render(designed, Report(audit=audit.table(ROWS, designed, view="register")))
    found = audit.mechanism(designed).board
    assert found is not None
    assert f"{100 * found.linked:.4g} %" not in page
    assert "rounded up here" in page
    assert "of the rows; with the public columns as they are" in page


def test_a_report_says_what_a_guarded_release_was_designed_against() -> None:
    counts = tables.count(ROWS, private=["sick"], public=["age", "job"])
    solution = pf.solve(counts, disclosure="50%", known=["job"], gap=1e-2)
    page = render(Mechanism.from_solution(counts, solution))
    assert "It was designed against attackers who know nothing; job." in page
