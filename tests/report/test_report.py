"""The report: what it says equals the library, and the file stands alone."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import privfunnel as pf
from privfunnel import report
from privfunnel.app.cli import main
from privfunnel.errors import InvalidInputError
from privfunnel.measures import to_bits
from privfunnel.report.rounding import Rounding


@pytest.fixture(scope="module")
def curve() -> pf.Curve:
    problem = pf.instances.load("heart-failure")
    return pf.trace(problem, points=7, solver="aem", restarts=2, max_steps=60, throw=False)


@pytest.fixture(scope="module")
def text(curve: pf.Curve) -> str:
    chosen = curve.at(0.7 * curve.problem.disclosure_ceiling)
    other = pf.trace(curve.problem, points=5, solver="greedy", throw=False)
    audit = report.Section(
        title="Audit", words=["A sentence."], tables=[("Numbers", ("what", "#value"), [("leakage", "0.1")])]
    )
    options = report.Report(
        title="For the <board>",
        source="heart-failure",
        chosen=chosen,
        others={"greedy": other},
        sections=[audit],
        command="privfunnel curve heart-failure",
        created=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
    )
    return report.render(curve, options)


class Tags(HTMLParser):
    """Collects tags and checks that they nest."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parse(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    return tags


def test_the_file_is_well_formed_and_loads_nothing(text: str) -> None:
    tags = parse(text)
    for tag, attributes in tags.seen:
        for name in ("src", "href", "srcset", "action", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith("data:image/png;base64,"), (tag, value)
    assert not any(tag == "link" for tag, _ in tags.seen)
    outside_namespaces = re.sub(r"http://www\.w3\.org/\S+", "", text)
    assert "http://" not in outside_namespaces
    assert "https://" not in outside_namespaces
    assert "@import" not in text
    assert "url(" not in text


def test_a_policy_forbids_every_request(text: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'")
    assert "connect-src" not in policy[1]


def test_it_is_small(text: str) -> None:
    assert len(text.encode()) < 300 * 1024


def test_the_census_report_stays_a_few_hundred_kib() -> None:
    problem = pf.instances.load("census-income")
    curve = pf.trace(problem, points=4, solver="greedy", throw=False)
    whole = report.render(curve, report.Report(chosen=curve.at(2.0)))
    assert len(whole.encode()) < 600 * 1024


def test_every_point_is_in_the_table_and_the_chart(curve: pf.Curve, text: str) -> None:
    problem, say = curve.problem, Rounding(curve.problem.n)
    for solution in curve.solutions:
        kept = say.percent(solution.disclosure / problem.disclosure_ceiling)
        leaked = say.percent(solution.leakage / problem.leakage_ceiling)
        assert f"<tr><td class=num>{kept}</td><td class=num>{leaked}</td>" in text
    assert text.count('class="point"') == 2 * len(curve.solutions)  # the wide drawing and the narrow one


def test_the_chosen_point_is_described_with_the_librarys_numbers(curve: pf.Curve, text: str) -> None:
    chosen = curve.at(0.7 * curve.problem.disclosure_ceiling)
    # Steps of 0.05 bits are the first round ones that five of 299 patients could move: 5/299 nats are 0.024 bits.
    (told,) = re.findall(r"<dt>Disclosed</dt><dd>([\d.]+) bits", text)
    assert float(told) == pytest.approx(to_bits(chosen.disclosure), abs=0.025 + 1e-9)
    assert 1e-4 < to_bits(chosen.leakage) < 0.025
    assert "<dt>Leaked</dt><dd>less than 0.05 bits" in text
    problem = curve.problem
    p_sy = problem.p_sx @ chosen.channel
    sex = np.array([[label.startswith("sex=woman") for label in problem.s_labels]]).ravel()
    after = np.maximum(p_sy[sex].sum(axis=0), p_sy[~sex].sum(axis=0)).sum()
    near = 2 * round(50 * after)  # steps of 2 % are worth five of the 299 patients
    assert f"<td>sex</td><td class=num>64 %</td><td class=num>{near} %</td>" in text


def test_text_from_outside_is_escaped(text: str) -> None:
    assert "For the &lt;board&gt;" in text
    assert "<board>" not in text


def test_hostile_labels_cannot_leave_their_places() -> None:
    nasty = ['</script><script>alert("1")</script>', '"><img src=x onerror=alert(1)>']
    problem = pf.Problem([[4, 1], [2, 5]], [f"s={n}" for n in nasty], [f"x={n}" for n in nasty])
    curve = pf.trace(problem, points=3, solver="aem", restarts=2, max_steps=30, throw=False)
    whole = report.render(curve, report.Report(source=nasty[0], title=nasty[1], chosen=curve.at(0.3)))
    tags = parse(whole)
    assert not any(tag == "img" for tag, _ in tags.seen)
    scripts = [a for tag, a in tags.seen if tag == "script"]
    assert sum(a.get("type") is None for a in scripts) == 1
    for block in re.findall(r'<script type="application/json">(.*?)</script>', whole, re.DOTALL):
        assert json.loads(block)["rows"]


def test_it_says_where_it_comes_from_and_how_to_verify(curve: pf.Curve, text: str) -> None:
    for wanted in (pf.__version__, "<dd>aem</dd>", "2026-01-02 03:04 UTC", "privfunnel verify",
                   "privfunnel curve heart-failure", "not differential privacy"):  # fmt: skip
        assert wanted in text


def test_further_sections_and_other_methods_are_shown(curve: pf.Curve, text: str) -> None:
    assert "<h2>Audit</h2><p>A sentence.</p>" in text
    assert 'class="other o0"' in text
    assert "<h2>Other methods</h2>" in text


def test_other_methods_may_be_plain_points(curve: pf.Curve) -> None:
    ceiling = curve.problem.disclosure_ceiling
    line = [
        (0.0, 0.0),
        (0.5 * ceiling, 0.1),
        (0.9 * ceiling, float("nan")),
        (ceiling, curve.problem.leakage_ceiling),
    ]
    whole = report.render(curve, report.Report(others={"chord": line}))
    excess = to_bits(0.1 - curve.at(0.5 * ceiling).leakage)
    (told,) = re.findall(r"<td>chord</td><td class=num>1</td><td class=num>([\d.]+) bits</td>", whole)
    assert float(told) == pytest.approx(excess, abs=0.025 + 1e-9)
    assert "nan" not in whole.partition("<main>")[2].partition("Provenance")[0]


def test_the_same_input_gives_the_same_file(curve: pf.Curve) -> None:
    options = report.Report(created=datetime(2026, 1, 2, tzinfo=UTC))
    assert report.render(curve, options) == report.render(curve, options)


def test_without_a_chosen_point_there_is_no_such_section(curve: pf.Curve) -> None:
    whole = report.render(curve)
    assert "The chosen point" not in whole
    assert "<h2>The trade-off</h2>" in whole
    parse(whole)


def test_write_makes_the_whole_file_or_none(curve: pf.Curve, tmp_path: Path) -> None:
    report.write(tmp_path / "report.html", curve)
    assert (tmp_path / "report.html").read_text("utf-8").endswith("</html>\n")
    with pytest.raises(InvalidInputError, match=r"cannot write .*: choose a folder"):
        report.write(tmp_path / "nowhere" / "report.html", curve)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html"]


@pytest.mark.parametrize("table", [[[1.0]], [[0.5, 0.5]], [[0.5], [0.5]], [[0.25, 0.25], [0.25, 0.25]]])
def test_trivial_problems_have_reports_too(table: list[list[float]]) -> None:
    problem = pf.Problem(table)
    curve = pf.trace(problem, points=3, solver="aem", throw=False)
    made = parse(report.render(curve, report.Report(chosen=curve.solutions[-1])))
    assert [tag for tag, _ in made.seen].count("h1") == 1


def test_the_command_line_chooses_and_compares(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the command also draws figures")
    arguments = [
        "curve",
        "heart-failure",
        "--points",
        "4",
        "--solver",
        "greedy",
        "--out",
        str(tmp_path / "out"),
    ]
    result = CliRunner().invoke(main, [*arguments, "--describe", "80%", "--compare-with", "greedy"])
    assert result.exit_code == 0, result.output
    whole = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "The chosen point" in whole
    assert "<h2>Other methods</h2>" in whole
    assert "--describe 80% --compare-with greedy" in whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--describe", "80%"], "--out DIR"),
        (["--compare-with", "greedy"], "--out DIR"),
        (["--compare-with", "gredy", "--out", "out"], "did you mean 'greedy'"),
        (["--describe", "120%", "--out", "out"], "infeasible"),
        (["--describe", "lots", "--out", "out"], "cannot be read"),
    ],
)
def test_what_cannot_go_into_a_report_is_told_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["curve", "heart-failure", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_report_says_what_the_table_is_taken_as(curve: pf.Curve, text: str) -> None:
    for few in (text, report.render(curve)):  # 299 rows
        assert "taken as a sample" in few
        assert "a register" not in few
    many = pf.trace(pf.Problem(1000 * np.array([[40, 10, 20], [10, 30, 20]])), points=3)
    for plenty in (report.render(many), report.render(many, report.Report(chosen=many.solutions[1]))):
        assert "the population (a register)" in plenty
        assert "taken as a sample" not in plenty
