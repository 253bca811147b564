"""The pages: readable lines, numbers that are measured, and a site that builds and asks nobody for anything."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from documents import DOCS, ROOT, build_site
from privfunnel import measures, solve
from privfunnel.data import instances
from privfunnel.model.guarantees import GUARANTEES

#: The mechanism's numbers are quoted with three decimals; the optimum is one of several, all proved to 1e-6 nats.
THREE_DECIMALS = 6e-4


def nav_pages(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    values = entry.values() if isinstance(entry, dict) else entry
    return list(itertools.chain.from_iterable(nav_pages(value) for value in values))


def test_every_page_is_in_the_navigation() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    assert sorted(nav_pages(site["nav"])) == sorted(
        path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")
    )


def test_the_design_shows_the_rooms_that_the_linter_checks() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    checked = [row for contract in contracts for row in contract["layers"]]
    text = (DOCS / "design.md").read_text("utf-8")
    shown = [re.split(r"\s{2,}", line.strip())[0] for line in text.splitlines() if re.match(r" {4}\w", line)]
    assert shown[: len(checked)] == checked


def test_the_page_of_attackers_has_a_row_for_each_guarantee_and_each_measure() -> None:
    text = (DOCS / "attackers.md").read_text("utf-8")
    assert re.findall(r"^\| `([\w-]+)=\S+` \|", text, re.M) == list(GUARANTEES)
    rows = set(re.findall(r"^\| `([\w-]+)` \|", text, re.M))
    assert rows >= {each for each in measures.MEASURES if each != measures.INFORMATION.name}


def known_column(channel: np.ndarray, *names: str) -> tuple[float, float]:
    """I(S;Y|A) and I(S;X|A) of heart failure, in nats, for an attacker who knows the columns ``names``."""
    problem = instances.load("heart-failure")
    known = np.array(
        [
            "".join(part for part in label.split(", ") if part.split("=")[0] in names)
            for label in problem.x_labels
        ]
    )
    told = whole = 0.0
    for value in np.unique(known):
        p_sx = problem.p_sx[:, known == value]
        share = p_sx.sum()
        told += share * float(measures.mutual_information(p_sx @ channel[known == value] / share))
        whole += share * float(measures.mutual_information(p_sx / share))
    return told, whole


@pytest.fixture(scope="module")
def silent() -> np.ndarray:
    """The channel of the largest disclosure without leakage, for heart failure."""
    return solve(instances.load("heart-failure"), disclosure=0.999 * FREE).channel


FREE = 1.562633590


@pytest.mark.parametrize("page", ["README.md", "docs/choose-a-point.md"])
def test_the_table_of_attackers_is_what_one_measures(page: str, silent: np.ndarray) -> None:
    rows = re.findall(
        r"^\| ([a-z ]+) \| ([\d.]+) \| ([\d.]+) \|$", (ROOT / page).read_text("utf-8"), re.MULTILINE
    )
    assert len(rows) >= 5
    for who, told, whole in rows:
        names = [] if who == "nothing" else who.split(" and ")
        assert known_column(silent, *names) == pytest.approx((float(told), float(whole)), abs=THREE_DECIMALS)


def test_two_draws_tell_what_the_pages_say(silent: np.ndarray) -> None:
    problem = instances.load("heart-failure")
    pair = (silent[:, :, None] * silent[:, None, :]).reshape(len(silent), -1)
    told = float(measures.mutual_information(problem.p_sx @ pair))
    assert float(measures.mutual_information(problem.p_sx @ silent)) == pytest.approx(0.0, abs=1e-12)
    assert told == pytest.approx(0.0779, abs=THREE_DECIMALS)
    assert told / problem.leakage_ceiling == pytest.approx(0.38, abs=0.005)
    assert "0.0779 nats together, 38 % of I(S;X)" in (DOCS / "math.md").read_text("utf-8")


@pytest.mark.parametrize("name", instances.names())
def test_hiding_s_costs_at_most_the_logarithm_of_the_rank(name: str) -> None:
    problem = instances.load(name)
    least = problem.disclosure_ceiling - float(np.log(np.linalg.matrix_rank(problem.p_s_given_x)))
    best = solve(problem, disclosure=max(least, 0.0), throw=False)
    assert best.leakage == pytest.approx(0.0, abs=1e-9)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


#: What a browser fetches by itself; a link that a person may follow is not among it.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|<link\b[^>]*\bhref=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|url\(\s*["']?(?:https?:)?//[^)]+|@import\s+["'](?:https?:)?//[^"']+""",
    re.IGNORECASE,
)


def test_the_pattern_finds_what_a_browser_would_fetch() -> None:
    for text in (
        '<script async src="https://cdn.test/x.js">', "<link rel=stylesheet href=//fonts.test/css>",
        "src: url(https://fonts.test/a.woff2)", '@import "https://cdn.test/x.css"',
    ):  # fmt: skip
        assert FETCHED.search(text)
    assert not FETCHED.search('<a href="https://example.test/">')


def test_the_site_asks_nobody_for_anything(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in {".html", ".css"}]
    assert len(files) > 20
    assert [f"{p.name}: {hit}" for p in files for hit in FETCHED.findall(p.read_text("utf-8"))] == []


def test_the_site_can_be_read_from_the_file_system(site: Path) -> None:
    broken = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue  # served for any address, so its links are absolute
        for target in re.findall(r"""(?:href|src)="([^"#?:]+)(?:[#?][^"]*)?\"""", page.read_text("utf-8")):
            if not (page.parent / target).is_file():
                broken.append(f"{page.relative_to(site)}: {target}")
    assert broken == []
    assert (site / "index.html").is_file()
    assert "__index" in (site / "search.js").read_text("utf-8")[:100]


def test_the_reference_is_made_from_the_docstrings(site: Path) -> None:
    pages = {path.stem: path.read_text("utf-8") for path in (site / "api").glob("*.html")}
    for page, name in {
        "problem": "model.problem.Problem", "solving": "solving.point.solve", "curve": "solving.curve.Curve.at",
        "solvers": "algorithms.aem.AEM", "tables": "release.mechanism.Mechanism", "audit": "audit.release",
        "report": "report.write", "more": "neighbours.bottleneck.trace",
    }.items():  # fmt: skip
        assert f'id="privfunnel.{name}"' in pages[page]
    # Sphinx roles have become links or code.
    assert [name for name, text in pages.items() if re.search(r":(class|func|meth|mod):", text)] == []
    assert 'href="problem.html#privfunnel.model.problem.Problem"' in pages["solving"]
