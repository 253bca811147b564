"""What a person in a notebook gets: tables in cells, amounts as they are written, progress, labels of frames."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import privfunnel as pf
from privfunnel import audit
from privfunnel.errors import InfeasibleError, InvalidInputError
from privfunnel.infra import cards, watching
from privfunnel.infra.watching import Progress

NASTY = '<img src=x onerror=alert(1)>"&'
PROBLEM = pf.Problem([[30, 10, 5], [5, 20, 30]], ["s=no", f"s={NASTY}"], ["x=low", "x=mid", f"x={NASTY}"])


class Tags(HTMLParser):
    """The tags and the text of a piece of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[Any] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.said += data


@pytest.fixture(scope="module")
def counts() -> pf.tables.Counts:
    pd = pytest.importorskip("pandas", reason="counts are made from a frame")
    pytest.importorskip("narwhals", reason="frames are read through narwhals")
    rows = [("a", "u"), ("a", "v"), ("b", "v"), ("b", NASTY)]
    frame = pd.DataFrame([row for row, n in zip(rows, (40, 20, 30, 60), strict=True) for _ in range(n)])
    return pf.tables.count(frame.set_axis(["s", "x"], axis=1), private="s", public="x")


def test_cells_show_escaped_tables_without_scripts(counts: pf.tables.Counts) -> None:
    solution = pf.solve(PROBLEM, disclosure="60%")
    mechanism = pf.Mechanism.from_solution(counts, pf.solve(counts, disclosure="60%"))
    shown = {
        "problem": PROBLEM,
        "counts": counts,
        "solution": solution,
        "curve": pf.trace(PROBLEM, points=4),
        "audit": audit.mechanism(mechanism),
    }
    for name, thing in shown.items():
        found = Tags(thing._repr_html_())
        allowed = {"table", "caption", "thead", "tbody", "tr", "th", "td", "b", "ul", "li"}
        assert found.tags <= allowed, name
        assert found.attributes == [], name
    assert NASTY in Tags(PROBLEM._repr_html_()).said
    assert "(60.0 %)" in Tags(solution._repr_html_()).said


def test_long_tables_show_their_ends() -> None:
    said = Tags(cards.grid("t", ("n",), [(f"<{i}>",) for i in range(100)])).said
    assert "<0>" in said
    assert "<99>" in said
    assert "12 of 100 rows" in said


@pytest.mark.parametrize(
    ("text", "nats"),
    [
        ("60%", 0.6 * PROBLEM.disclosure_ceiling),
        ("0.5 bits", 0.5 * np.log(2)),
        ("0.5 nats", 0.5),
        (".5", 0.5),
    ],
)
def test_amounts_may_be_written_as_on_the_command_line(text: str, nats: float) -> None:
    assert pf.solve(PROBLEM, disclosure=text, solver="greedy", throw=False).requested == pytest.approx(nats)


def test_a_written_budget_is_a_share_of_the_leakage() -> None:
    assert pf.solve(PROBLEM, leakage="10%").budget == pytest.approx(0.1 * PROBLEM.leakage_ceiling)


def test_amounts_that_cannot_be_read_are_told() -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        pf.solve(PROBLEM, disclosure="lots")
    with pytest.raises(InfeasibleError):
        pf.solve(PROBLEM, disclosure="120%")
    assert pf.solve(PROBLEM, disclosure="120%", throw=False).status is pf.solution.Status.INFEASIBLE


def test_counts_are_solved_and_traced_as_their_problem(counts: pf.tables.Counts) -> None:
    assert pf.solve(counts, disclosure=0.5).leakage == pf.solve(counts.problem(), disclosure=0.5).leakage
    assert pf.trace(counts, points=3).problem == counts.problem()
    with pytest.raises(InvalidInputError, match="is no problem"):
        pf.solve([[1, 2], [3, 4]], disclosure=0.5)  # type: ignore[arg-type]


def test_a_cross_tabulation_brings_its_labels() -> None:
    pd = pytest.importorskip("pandas", reason="the cross-tabulation is pandas'")
    frame = pd.DataFrame({"sex": list("mmwww"), "dead": [0, 1, 0, 0, 1], "smoker": list("ynnyn")})
    found = pf.Problem(pd.crosstab([frame.sex, frame.dead], frame.smoker))
    assert found.s_labels == ("sex=m, dead=0", "sex=m, dead=1", "sex=w, dead=0", "sex=w, dead=1")
    assert found.x_labels == ("smoker=n", "smoker=y")
    assert found.n == 5
    assert pf.Problem(pd.DataFrame([[1, 2], [3, 4]])).s_labels == ("s0", "s1")
    with pytest.raises(InvalidInputError, match="without margins"):
        pf.Problem(pd.crosstab(frame.sex, frame.smoker, margins=True))


def test_progress_is_a_line_on_stderr_that_goes_away(capsys: pytest.CaptureFixture[str]) -> None:
    with watching.watching(True) as listen:
        assert listen is not None
        listen(Progress(done=3, total=9, message="points", value=0.25))
        listen(Progress(done=4, total=9))  # too soon after the other
    told = capsys.readouterr().err
    assert "3 of 9, points, leakage 0.250000" in told
    assert "4 of 9" not in told
    assert told.endswith("\r")


def test_progress_is_a_bar_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = SimpleNamespace(update=shown.append)
    display = SimpleNamespace(HTML=str, display=lambda *_, **__: handle)
    monkeypatch.setitem(
        sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1))
    )
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with watching.watching(True) as listen:
        assert listen is not None
        listen(Progress(done=3, total=9, message="<b>"))
    assert shown == ['<progress value="3" max="9"></progress> <small>3 of 9, &lt;b&gt;</small>', ""]


def test_a_run_shows_its_progress_and_is_otherwise_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    quiet, shown = (pf.trace(PROBLEM, points=4, solver="global", progress=p) for p in (False, True))
    assert "of" in capsys.readouterr().err
    assert quiet.leakage.tolist() == shown.leakage.tolist()
