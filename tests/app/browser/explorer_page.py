"""What a person does on the explorer's page, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def load_heart(page: Any) -> None:
    page.get_by_role("button", name="Heart failure").click()
    page.locator("#size", has_text="4 private × 16 public").wait_for()
    page.wait_for_selector("#curve:not([data-locked])")


def draw(page: Any, points: str = "10", solver: str = "auto") -> None:
    expert(page, points, solver)
    page.get_by_role("button", name="Draw the curve").click()
    page.wait_for_selector("#export:not([data-locked])")
    settled(page)


def expert(page: Any, points: str, solver: str) -> None:
    """Choose what lies behind the fold."""
    if not page.get_by_label("Solver").is_visible():
        page.get_by_text("Expert options").click()
    page.get_by_label("Points").select_option(points)
    page.get_by_label("Solver").select_option(solver)


def settled(page: Any) -> None:
    """Wait until neither a curve nor a point is being worked on."""
    page.wait_for_function(
        "() => !document.querySelector('#meaning').classList.contains('busy')"
        " && !document.querySelector('#trace').disabled"
    )


def figures(page: Any) -> dict[str, str]:
    names = page.locator("#figures dt").all_inner_texts()
    values = page.locator("#figures dd").all_inner_texts()
    return {name: value.split("\n")[0] for name, value in zip(names, values, strict=True)}


def keep(page: Any, percent: str) -> None:
    """Type how much to keep and wait for the numbers to follow."""
    with page.expect_response(lambda r: "/point?" in r.url):
        page.locator("#keep").fill(percent)
        page.keyboard.press("Tab")
    settled(page)


def download(page: Any, name: str) -> Path:
    with page.expect_download() as waiting:
        page.locator(f'#downloads a[download="{name}"]').click()
    assert waiting.value.suggested_filename == name
    return Path(waiting.value.path())
