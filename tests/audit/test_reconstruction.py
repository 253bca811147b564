"""Whether the counts of a small table can be found again from all that is published of its release.

The reader here is given more than any real one: the exact channel, the exact number of rows, and this program. Every
table of as many rows is published in the same way, and those whose files are the same to the last letter cannot be told
apart from the true one.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from itertools import combinations, permutations

import numpy as np
import pytest

from privfunnel import audit, measures, report
from privfunnel.certificate.answer import Answer, Status
from privfunnel.data.engines import Alphabet, Column
from privfunnel.data.tables import Counts
from privfunnel.release import codebook
from privfunnel.release.mechanism import Mechanism
from privfunnel.release.publication import Policy
from privfunnel.solving.judging import Run, judge
from privfunnel.solving.point import solve
from privfunnel.solving.request import Request

ROWS, SHAPE = 30, (2, 3)
TABLES = (np.array([[7, 4, 2], [3, 6, 8]]), np.array([[5, 5, 5], [2, 4, 9]]))
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
#: Candidates whose files are made in full, of those that agree in the amounts.
TRIED = 150


def counts_of(table: np.ndarray) -> Counts:
    s, x = np.nonzero(table)
    private = Alphabet((Column("s", "text", ("no", "yes")),), np.arange(2)[:, None])
    public = Alphabet((Column("x", "text", ("low", "mid", "top")),), np.arange(3)[:, None])
    return Counts(private, public, s, x, table[s, x].astype(np.int64))


def designed(table: np.ndarray, channel: np.ndarray) -> Mechanism:
    counts = counts_of(table)
    problem = counts.problem()
    answer = Answer(channel=channel, status=Status.FEASIBLE)
    asked = Request(disclosure=problem.evaluate(channel).disclosure).of(problem, axis="disclosure")
    solution = judge(asked, answer, Run("auto", 0))
    return Mechanism.from_solution(counts, solution)


def published(mechanism: Mechanism) -> str:
    """All that goes out with a release: the report with its audit, and the codebook."""
    details = report.Report(audit=audit.mechanism(mechanism), created=WHEN)
    return report.render(mechanism, details) + json.dumps(codebook.to_dict(mechanism))


@cache
def all_tables() -> np.ndarray:
    """All tables of so many rows with every row and column of the table in use, shape (tables, 2, 3)."""
    bars = np.array(list(combinations(range(ROWS + 5), 5)))
    ends = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), ROWS + 5)], axis=1)
    found = (np.diff(ends, axis=1) - 1).reshape(-1, *SHAPE)
    return found[(found.sum(axis=1) > 0).all(axis=1) & (found.sum(axis=2) > 0).all(axis=1)]


def agreeing(truth: np.ndarray, channel: np.ndarray) -> np.ndarray:
    """The tables that agree with the true one in what is quickly computed: a reader would begin with these."""
    policy = Policy()
    step = policy.step(ROWS)

    def shares(tables: np.ndarray) -> np.ndarray:
        return np.round(tables.sum(axis=1) @ channel / ROWS / step + 1e-9)

    def amounts(tables: np.ndarray) -> np.ndarray:
        p = tables / ROWS
        found = zip(measures.entropy(p.sum(axis=1)), measures.mutual_information(p), strict=True)
        return np.round([[policy.information(float(each), ROWS) for each in pair] for pair in found], 9)

    near = all_tables()[(shares(all_tables()) == shares(truth[None])).all(axis=1)]
    return near[(amounts(near) == amounts(truth[None])).all(axis=1)]


def exactly_like(truth: np.ndarray, channel: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    text = published(designed(truth, channel))
    same = [table for table in candidates if published(designed(table, channel)) == text]
    return np.array(same).reshape(-1, *SHAPE)


@pytest.fixture(scope="module", params=range(len(TABLES)))
def release(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray]:
    truth = TABLES[request.param]
    problem = counts_of(truth).problem()
    return truth, np.asarray(solve(problem, disclosure=0.8 * problem.disclosure_ceiling).channel)


def test_all_that_is_published_of_thirty_rows_leaves_every_count_open(
    release: tuple[np.ndarray, np.ndarray],
) -> None:
    truth, channel = release
    candidates = agreeing(truth, channel)
    some = np.random.default_rng(0).permutation(len(candidates))[:TRIED]
    same = exactly_like(truth, channel, candidates[some])
    assert (
        same.max(axis=0) - same.min(axis=0)
    ).min() >= Policy().threshold  # no count is known to within five people


def test_one_row_more_or_less_may_show(release: tuple[np.ndarray, np.ndarray]) -> None:
    """Differencing, which no rounding prevents: documented, and not the rule for every neighbour."""
    truth, channel = release
    neighbours = []
    for here, there in permutations(range(truth.size), 2):
        moved = truth.ravel().copy()
        moved[here] -= 1
        moved[there] += 1
        neighbours.append(moved.reshape(SHAPE))
    assert 0 < len(exactly_like(truth, channel, np.array(neighbours))) < len(neighbours)


def test_of_few_rows_only_what_is_kept_and_leaked_is_told(release: tuple[np.ndarray, np.ndarray]) -> None:
    text = published(designed(*release)).partition("<script>")[0]
    assert "too few rows for that to be told here" in text
    for title in (
        "What an attacker gains",
        "Rows before and after",
        "The mechanism",
        "what each tells",
        "AUC",
    ):
        assert title not in text
    many = published(designed(10 * release[0], release[1])).partition("<script>")[0]
    for title in (
        "What an attacker gains",
        "Rows before and after",
        "The mechanism",
        "what each tells",
        "AUC",
    ):
        assert title in many
