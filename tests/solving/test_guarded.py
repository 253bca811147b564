"""Funnels with attackers who know something, published columns and guarantees: values, proofs, attacks on proofs."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import privfunnel as pf
from funnels import toy
from helpers_cli import assert_one_line_error, run
from privfunnel import measures
from privfunnel.algorithms.deadline import cpu_clock
from privfunnel.certificate import GuardedBody
from privfunnel.data import instances, tables
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.model import guarantees
from privfunnel.model import threat as threats
from privfunnel.model.threat import Threat
from privfunnel.release.mechanism import Mechanism
from privfunnel.solving.ends import itself

COLUMNS = ["anaemia", "high blood pressure", "diabetes", "smoking"]
Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def heart() -> pf.Problem:
    return instances.load("heart-failure")


# --- vertex enumeration, written apart from the package ---------------------------------------------------------------


def vertices(equal: Array, below: Array, caps: Array) -> Array:
    """All vertices of {w: equal·w = 0, below·w ≤ 0, 0 ≤ w ≤ caps, Σw = 1}: every choice of constraints that bind."""
    n = caps.size
    inequalities = np.concatenate([below, -np.eye(n), np.eye(n)])
    limits = np.concatenate([np.zeros(len(below)), np.zeros(n), caps])
    rank = np.linalg.matrix_rank(np.concatenate([equal, np.ones((1, n))]))
    found = []
    for chosen in itertools.combinations(range(len(inequalities)), n - rank):
        rows = np.concatenate([equal, np.ones((1, n)), inequalities[list(chosen)]])
        goal = np.concatenate([np.zeros(len(equal)), [1.0], limits[list(chosen)]])
        if np.linalg.matrix_rank(rows) == n:
            w = np.linalg.lstsq(rows, goal, rcond=None)[0]
            exact = np.abs(rows @ w - goal).max() < 1e-9
            if exact and np.all(inequalities @ w <= limits + 1e-9):
                found.append(np.maximum(w, 0.0))
    return np.unique(np.round(np.array(found), 10), axis=0)


def most_disclosure(problem: pf.Problem, points: Array) -> float:
    """H(X) − min Σ r H(w) over mixtures of these posteriors with total p_x."""
    from scipy.optimize import linprog

    solved = linprog(measures.entropy(points), A_eq=points.T, b_eq=problem.p_x, method="highs")
    return problem.disclosure_ceiling - float(solved.fun)


def private_rows(problem: pf.Problem, known: list[str]) -> Array:
    """Σ_{x ∈ a} (p(s|x) − p(s|a)) w_x = 0 for attackers who know nothing or one of these columns."""
    rows = []
    for values in [("0",) * problem.n_x, *(problem.public_columns[name] for name in known)]:
        for value in set(values):
            inside = np.array([each == value for each in values])
            prior = problem.p_sx[:, inside].sum(axis=1) / problem.p_x[inside].sum()
            rows += list((problem.p_s_given_x - prior[:, None]) * inside)
    return np.array(rows)


@pytest.mark.parametrize("known", [["a"], ["b", "c"]])
def test_no_leakage_to_any_attacker_is_solved_exactly(known: list[str]) -> None:
    problem = toy(n_s=2)
    points = vertices(private_rows(problem, known), np.zeros((0, 7)), np.ones(7))
    solution = pf.solve(problem, leakage=0, known=known)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.disclosure_upper_bound is not None
    assert solution.disclosure_upper_bound >= most_disclosure(problem, points) - 1e-12
    assert set(solution.leakages) == {"nothing", *known}
    assert solution.disclosure == pytest.approx(most_disclosure(problem, points), abs=2e-6)
    assert problem.evaluate(solution.channel, known=known).leakage < 1e-12


@pytest.mark.parametrize("text", ["lip=0.3", "lift=0.2", "ldp=0.8", "k=20", "beta-likeness=0.1"])
def test_the_most_that_a_guarantee_allows_is_that_of_its_vertices(text: str) -> None:
    problem = toy(1, n_s=2)
    guarantee = guarantees.parse(text)
    caps = guarantee.caps(problem)
    points = vertices(
        np.zeros((0, 7)), guarantee.rows(problem).values, np.ones(7) if caps is None else np.asarray(caps)
    )
    solution = pf.solve(problem, guarantees=[text])
    assert solution.status is pf.Status.OPTIMAL
    assert solution.disclosure == pytest.approx(most_disclosure(problem, points), abs=2e-6)
    assert guarantee.excess(problem, problem.p_x) < 0.0
    (reached,) = solution.guaranteed.values()
    assert reached >= guarantee.value - 1e-7 if text.startswith("k=") else reached <= guarantee.value + 1e-7


@pytest.mark.parametrize(
    "text", ["t-closeness=0.05", "ordered-t-closeness=0.05", "l-diversity=2.7", "recursive-l-diversity=1.2,2"]
)
def test_no_random_release_that_meets_a_guarantee_discloses_more(text: str) -> None:
    problem = toy(2)
    threat = Threat.of(problem, guarantees=text)
    solution = pf.solve(problem, guarantees=[text], gap=1e-4)
    assert solution.status is pf.Status.OPTIMAL
    assert threat.excess(problem, solution.channel) <= guarantees.MET
    assert solution.disclosure_upper_bound is not None
    rng = np.random.default_rng(0)
    allowed = 0
    for _ in range(400):
        channel = rng.dirichlet(np.full(4, 0.5), size=7)
        # The largest share of it that meets the guarantee, the rest of the time nothing is told.
        for share in (1.0, 0.5, 0.2, 0.05):
            mixed = share * channel + (1.0 - share) * (problem.p_x @ channel)
            if threat.excess(problem, mixed) <= 0.0:
                allowed += 1
                assert problem.evaluate(mixed).disclosure <= solution.disclosure_upper_bound
                break
    assert allowed > 50


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guards", "expected"),
    [
        ({"known": COLUMNS}, 0.0),
        ({"published": "anaemia"}, 1.421727),
        ({"published": ["high blood pressure"]}, 1.442821),
        ({"published": ["anaemia", "high blood pressure"]}, 1.331157),
        pytest.param({"published": ["diabetes"]}, 1.482292, marks=pytest.mark.slow),
        pytest.param({"published": ["smoking"]}, 1.524682, marks=pytest.mark.slow),
        pytest.param({"known": ["anaemia"]}, 0.738011, marks=pytest.mark.slow),
        pytest.param({"known": ["high blood pressure"]}, 0.794653, marks=pytest.mark.slow),
        pytest.param({"known": ["diabetes"]}, 0.802634, marks=pytest.mark.slow),
        pytest.param({"known": ["smoking"]}, 0.897008, marks=pytest.mark.slow),
        pytest.param({"known": ["anaemia", "high blood pressure"]}, 0.333106, marks=pytest.mark.slow),
    ],
)
def test_free_disclosures_of_heart_failure(
    heart: pf.Problem, guards: dict[str, Any], expected: float
) -> None:
    solution = pf.solve(heart, leakage=0, gap=1e-5, **guards)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.disclosure == pytest.approx(expected, abs=1e-5)
    assert solution.leakage < 1e-12
    assert solution.disclosure_upper_bound is not None
    assert solution.disclosure_upper_bound - solution.disclosure <= 1e-5


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [
        (0.25, 2.00765),
        (1, 2.40185),
        pytest.param(0, 1.56263, marks=pytest.mark.slow),
        pytest.param(0.05, 1.71544, marks=pytest.mark.slow),
        pytest.param(0.1, 1.81171, marks=pytest.mark.slow),
        pytest.param(0.5, 2.22549, marks=pytest.mark.slow),
        pytest.param(2, 2.51175, marks=pytest.mark.slow),
    ],
)
def test_local_information_privacy_of_heart_failure(
    heart: pf.Problem, epsilon: float, expected: float
) -> None:
    solution = pf.solve(heart, guarantees=[f"lip={epsilon}"])
    assert solution.status is pf.Status.OPTIMAL
    assert solution.disclosure == pytest.approx(expected, abs=6e-6)
    assert solution.guaranteed[f"lip={epsilon}"] <= epsilon + 1e-7


def test_a_search_begins_with_a_split_of_p_x() -> None:
    # With equations alone no more than log of their number is lost, however short the time.
    problem = instances.load("census-income")
    with cpu_clock():
        solution = pf.solve(problem, leakage=0, known=["age"], time_limit=0.5, throw=False)
    rank = np.linalg.matrix_rank(private_rows(problem, ["age"])) + 1
    assert solution.disclosure >= problem.disclosure_ceiling - np.log(rank) - 1e-9
    assert solution.disclosure_upper_bound is not None
    assert solution.disclosure_upper_bound <= problem.h_x_given_s + 1e-9


def test_published_columns_are_released_as_they_are(heart: pf.Problem) -> None:
    solution = pf.solve(heart, leakage=0, published=["anaemia"], gap=1e-4)
    values = np.array(heart.public_columns["anaemia"])
    for y in range(solution.n_outputs):
        assert len(set(values[solution.channel[:, y] > 0.0])) == 1
    assert solution.published_leakage == pytest.approx(
        heart.evaluate(np.stack([values == "no", values == "yes"], axis=1).astype(float)).leakage
    )
    assert list(solution.leakages) == ["anaemia"]
    least = pf.solve(heart, disclosure=0.1, published=["anaemia"])
    assert least.n_outputs == 2
    assert least.leakage == 0.0


def test_the_worst_of_several_attackers_is_bounded_from_both_sides() -> None:
    problem = toy(3)
    disclosure = 0.7 * problem.disclosure_ceiling
    solution = pf.solve(problem, disclosure=disclosure, known=["a", ["b", "c"]], gap=1e-3)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.disclosure >= disclosure - 1e-9
    assert solution.leakage == max(solution.leakages.values())
    assert solution.lower_bound <= solution.leakage <= solution.lower_bound + 1e-3
    # It is no better than against one who knows nothing, and no worse than that optimum is against all.
    plain = pf.solve(problem, disclosure=disclosure)
    assert solution.leakage >= plain.lower_bound
    assert solution.lower_bound <= problem.evaluate(plain.channel, known=["a", ["b", "c"]]).leakage
    # The way back: what may leak to the worst attacker.
    back = pf.solve(problem, leakage=solution.leakage, known=["a", ["b", "c"]], gap=1e-2)
    assert back.disclosure_upper_bound is not None
    assert back.disclosure_upper_bound >= solution.disclosure
    assert max(back.leakages.values()) <= solution.leakage + 1e-9


def test_no_random_release_beats_the_proved_bound_against_attackers() -> None:
    problem = toy(4)
    known = ["a", "b", "c"]
    solution = pf.solve(problem, disclosure="80%", known=known, gap=1e-3)
    proof = solution.certificate
    assert isinstance(proof.body, GuardedBody)
    rng = np.random.default_rng(1)
    for _ in range(1000):
        channel = rng.dirichlet(np.full(5, 0.2), size=7)
        point = problem.evaluate(channel, known=known)
        assert point.leakage >= proof.lower_bound(point.disclosure) - 1e-12


@pytest.mark.slow
def test_the_worst_of_five_attackers_learns_little(heart: pf.Problem) -> None:
    solution = pf.solve(
        heart, disclosure="50%", known=COLUMNS, node_limit=60, time_limit=math.inf, throw=False
    )
    assert len(solution.leakages) == 5
    assert solution.leakage <= 0.01128
    assert solution.lower_bound <= solution.leakage


@pytest.mark.slow
@pytest.mark.parametrize(("share", "reached", "gap"), [("70%", 0.03188, 1e-4), ("90%", 0.11183, 1e-5)])
def test_the_worst_of_five_attackers_is_proved(
    heart: pf.Problem, share: str, reached: float, gap: float
) -> None:
    pytest.importorskip("numba", reason="hundreds of times as many linear programs take minutes")
    solution = pf.solve(heart, disclosure=share, known=COLUMNS, gap=gap)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.leakage <= reached
    assert solution.gap <= gap


@pytest.mark.slow
def test_guarantees_of_larger_tables_are_proved() -> None:
    problem = pf.Problem(np.random.default_rng(0).integers(1, 40, size=(6, 48)))
    solution = pf.solve(problem, guarantees=["lip=1"], gap=1e-5)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.guaranteed["lip=1"] <= 1.0 + 1e-7


def test_guarantees_and_disclosure_together() -> None:
    problem = toy(5)
    most = pf.solve(problem, guarantees=["lip=0.3"]).disclosure
    solution = pf.solve(problem, disclosure=0.97 * most, guarantees=["lip=0.3"], gap=1e-2)
    assert solution.status is pf.Status.OPTIMAL
    assert solution.guaranteed["lip=0.3"] <= 0.3 + 1e-7
    with pytest.raises(InfeasibleError, match="the guarantees allow"):
        pf.solve(problem, disclosure=1.1 * most, guarantees=["lip=0.3"])


def test_a_short_time_is_honest(heart: pf.Problem) -> None:
    with pytest.warns(pf.PrivFunnelWarning):
        solution = pf.solve(heart, disclosure="60%", known=COLUMNS, time_limit=0.3)
    assert solution.status is pf.Status.TIME_LIMIT
    assert solution.lower_bound <= solution.leakage
    assert solution.disclosure >= 0.6 * heart.disclosure_ceiling - 1e-9


def test_a_proof_that_is_cut_short_proves_what_it_reached(heart: pf.Problem) -> None:
    asked: dict[str, Any] = {"disclosure": "90%", "known": COLUMNS, "solver": "global", "gap": 1e-4}
    solution = pf.solve(heart, **asked, node_limit=150, throw=False)
    assert solution.status is pf.Status.NODE_LIMIT
    assert isinstance(solution.certificate.body, GuardedBody)
    # Less than what the whole proof reaches, and more than what holds for who knows nothing.
    assert float(heart.lower_bound(0.9 * heart.disclosure_ceiling)) < solution.lower_bound < 0.1007
    assert solution.lower_bound == pytest.approx(
        solution.certificate.lower_bound(0.9 * heart.disclosure_ceiling), abs=1e-12
    )


def test_what_a_closed_form_proves_needs_no_boxes() -> None:
    # S tells X: I(S;Y) = I(X;Y) for who knows nothing, who therefore learns most.
    problem = pf.Problem(np.diag([3, 4, 5, 6]), public_columns={"a": [0, 0, 1, 1]})
    solution = pf.solve(problem, disclosure="60%", known=["a"])
    assert (solution.status, solution.bound_source, solution.steps) == (pf.Status.OPTIMAL, "closed form", 0)
    assert pf.solve(problem, leakage="40%", known=["a"]).status is pf.Status.OPTIMAL


def test_ends_need_no_search(heart: pf.Problem) -> None:
    assert pf.solve(heart, disclosure=0, known=["smoking"]).leakage < 1e-15
    whole = pf.solve(heart, disclosure="100%", known=["smoking"])
    assert whole.leakage == pytest.approx(heart.leakage_ceiling)
    assert whole.gap == 0.0
    assert pf.solve(heart, leakage=1.0, known=["smoking"]).disclosure == heart.disclosure_ceiling


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lap=1", "did you mean 'lip'"),
        ("privacy", "choose one of lift"),
        ("lip", "no usable value"),
        ("lip=x", "no usable value"),
        ("lip=-1", "at least 0"),
        ("t-closeness=2", "below 1"),
        ("k=0.5", "at least 1"),
        ("recursive-l-diversity=3", "write e.g. recursive-l-diversity=3,2"),
        (3, "give a text such as"),
    ],
)
def test_guarantees_that_make_no_sense_are_refused(text: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        guarantees.parse(text)


def test_guarantees_are_written_as_they_are_read() -> None:
    for text in ("lip=0.2", "k=5", "recursive-l-diversity=3,2", "t-closeness=0.1234567890123"):
        assert str(guarantees.parse(text)) == text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"known": ["a"]}, "give disclosure="),
        ({"known": ["a"], "disclosure": 0.1, "leakage": 0.1}, "at most one"),
        ({"known": ["a"], "leakage": 0, "solver": "aem"}, "solves the plain funnel"),
        ({"known": ["z"], "leakage": 0}, "no public column 'z'"),
        ({"measure": "entropy", "leakage": 0}, "no measure"),
        ({"measure": "guessing", "leakage": 0.1, "solver": "aem"}, "solves the plain funnel"),
    ],
)
def test_questions_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        pf.solve(toy(), **options)


@pytest.mark.parametrize(
    "text", ["lip=0.2", "t-closeness=0.1", "l-diversity=1.7", "recursive-l-diversity=3,2", "k=20"]
)
def test_sparse_channels_miss_guarantees_by_as_much(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.random.default_rng(0).integers(1, 9, (3, 8))
    problem = pf.Problem(counts, public_columns={"a": tuple("01010101")})
    monkeypatch.setattr(threats, "TOGETHER", 3)  # outputs are looked at in several parts
    channels = (np.eye(8), np.eye(9)[:8], np.random.default_rng(1).dirichlet(np.ones(5), 8))
    for threat in (Threat.of(problem, guarantees=[text]), Threat.of(problem, guarantees=[text], known=["a"])):
        for channel in channels:
            missed = threat.excess(problem, sparse.csc_array(channel))
            assert missed == pytest.approx(threat.excess(problem, channel), abs=1e-12)


def test_ends_of_tables_whose_identity_is_sparse_are_judged_by_guarantees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = toy(2)
    dense = [itself(problem, Threat.of(problem, guarantees=[text])) for text in ("lip=0.01", "lip=9")]
    monkeypatch.setattr("privfunnel.model.channels.DENSE_ENTRIES", 4)
    thin = [itself(problem, Threat.of(problem, guarantees=[text])) for text in ("lip=0.01", "lip=9")]
    assert dense[0] is thin[0] is None
    assert sparse.issparse(thin[1])
    asked = pf.solve(problem, disclosure="100%", guarantees=["lip=9"])
    assert asked.status is pf.Status.OPTIMAL
    assert asked.leakage == pytest.approx(problem.leakage_ceiling, abs=1e-12)


def test_what_cannot_hold_is_named() -> None:
    problem = toy()
    with pytest.raises(InfeasibleError, match="l-diversity=9 cannot hold"):
        pf.solve(problem, guarantees=["l-diversity=9"])
    with pytest.raises(InfeasibleError, match="rows"):
        pf.solve(problem, guarantees=["k=10000"])
    with pytest.raises(InvalidInputError, match="counts rows"):
        pf.solve(pf.Problem(problem.p_sx), guarantees=["k=2"])


# --- files and commands -----------------------------------------------------------------------------------------------


def test_a_solution_survives_its_file_and_changes_are_found(tmp_path: Path) -> None:
    solution = pf.solve(toy(), leakage=0, known=["a"], gap=1e-3)
    solution.save(tmp_path / "solution.json")
    read = pf.Solution.load(tmp_path / "solution.json")
    assert read.leakages == pytest.approx(solution.leakages, abs=1e-12)
    data = json.loads((tmp_path / "solution.json").read_text("utf-8"))
    data["leakage"] = 0.5
    with pytest.raises(InvalidInputError, match="its channel gives"):
        pf.Solution.from_dict(data)
    data["question"]["guards"]["attackers"] = {}
    with pytest.raises(InvalidInputError, match="incomplete"):
        pf.Solution.from_dict(data)


def test_a_mechanism_remembers_whom_it_guards_against(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    rows = pandas.DataFrame({name: rng.integers(0, 2, 500) for name in ("a", "b", "c")})
    rows["s"] = (rows.a ^ rows.b) | (rng.random(500) < 0.2)
    counts = tables.count(rows, private="s", public=["a", "b", "c"])
    solution = pf.solve(counts, disclosure="60%", known=["a"], gap=1e-3)
    mechanism = Mechanism.from_solution(counts, solution)
    mechanism.save(tmp_path / "mechanism.json")
    read = Mechanism.load(tmp_path / "mechanism.json")
    assert read.leakage == pytest.approx(solution.leakages["nothing"], abs=1e-12)
    assert read.provenance["leakages"] == solution.leakages


def test_the_command_line_knows_attackers_and_guarantees(tmp_path: Path) -> None:
    told = run("solve", "heart-failure", "--leakage", "0", "--published", "anaemia", "--option", "gap=1e-3",
               "--out", tmp_path / "design")  # fmt: skip
    assert told.exit_code == 0, told.output
    assert "to who knows anaemia" in told.output
    assert "told by what is published" in told.output
    checked = run("verify", tmp_path / "design" / "certificate.npz", "heart-failure")
    assert checked.exit_code == 0, checked.output
    assert "disclosure ≤ 1.42" in checked.output
    as_json = run("verify", tmp_path / "design" / "certificate.npz", "heart-failure", "--json")
    assert json.loads(as_json.output)[0]["threat"]["published"] == "anaemia"
    told = run("solve", "heart-failure", "--guarantee", "lip=1", "--option", "gap=1e-3")
    assert "lip=1" in told.output
    assert_one_line_error(run("solve", "heart-failure", "--leakage", "0", "--known", "anemia"), "anaemia")
    assert_one_line_error(run("solve", "heart-failure", "--known", "anaemia"), "--disclosure")
    assert_one_line_error(
        run("solve", "heart-failure", "--leakage", "0", "--known", "smoking", "--holdout", "0.3"), "--holdout"
    )
