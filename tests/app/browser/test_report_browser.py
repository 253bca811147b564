"""The report opened from disk: no network, no errors, and it moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import privfunnel as pf
from privfunnel import report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    curve = pf.trace(pf.instances.load("heart-failure"), points=8, solver="greedy", throw=False)
    target = tmp_path_factory.mktemp("report") / "report.html"
    report.write(target, curve, report.Report(source="heart-failure", chosen=curve.at(2.0)))
    return target


@pytest.fixture
def page(browser: Any, path: Path) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    yield page
    assert errors == []
    assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
    context.close()


def test_it_opens_from_disk_and_shows_numbers_on_hover(page: Any) -> None:
    assert page.title() == "Privacy funnel report"
    page.locator("svg.chart.wide").scroll_into_view_if_needed()
    box = page.locator("svg.chart.wide").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.5)
    assert "disclosed" in page.locator(".tip").inner_text()
    assert "proved at least" in page.locator(".tip").inner_text()
    page.locator("svg.heat").first.hover(position={"x": 400, "y": 60})
    assert "→" in page.locator(".readout").first.inner_text()


def test_values_are_looked_for_where_a_channel_is_too_large_to_draw(browser: Any, tmp_path: Path) -> None:
    problem = pf.instances.load("heart-failure")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privfunnel.report.described.DRAWN", 1)
        curve = pf.trace(problem, points=4, solver="greedy", throw=False)
        report.write(tmp_path / "large.html", curve, report.Report(chosen=curve.at(2.0)))
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto((tmp_path / "large.html").as_uri())
    assert page.locator(".lookup tbody tr").count() == 8
    page.get_by_label("Look for values").fill("anaemia=yes, smoking=no")
    found = page.locator(".lookup tbody tr td:first-child").all_inner_texts()
    assert (
        page.locator(".lookup [role=status]").inner_text() == f"{len(found)} of 15 listed"
    )  # one has fewer than five rows
    assert found
    assert {(text.split(", ")[0], text.split(", ")[3]) for text in found} == {("yes", "no")}
    context.close()


def test_it_fits_a_phone(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("svg.chart.narrow").is_visible()


def test_it_prints(page: Any, tmp_path: Path) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("svg.chart.wide").is_visible()
    assert page.locator(".readout").first.is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    pdf = page.pdf(format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    assert 2 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type/Page/") <= 12


def test_it_is_complete_without_scripts(browser: Any, path: Path) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("svg.chart.wide .point").count() == 8
    assert page.locator("svg.heat").count() == 2
    assert "Provenance" in page.content()
    context.close()
