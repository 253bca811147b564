"""Take the pictures of the explorer in docs/figures again: ``python scripts/explorer_figures.py``.

It starts the explorer, uses the page as a person would, and takes pictures of the window. It needs Playwright and a
Chromium, named in CHROMIUM or found. With ``--out DIR`` they go elsewhere, and ``--all`` takes whole pages as well,
narrow and wide, light and dark, to be looked at.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
WIDTH, HEIGHT = 1000, 1080
SECONDS = 300  # somebody else may use the machine


@contextlib.contextmanager
def explorer() -> Iterator[str]:
    """Run the explorer; gives the address that it prints."""
    command = [sys.executable, "-m", "privfunnel", "explore", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running.stdout.readline().split()[-1]
        finally:
            running.terminate()


def drawn(page: Any, example: str, size: str, share: str) -> None:
    """Load an example of a size, draw its curve and keep a share of what the public columns say, in percent."""
    page.get_by_role("button", name=example).click()
    page.locator("#size", has_text=size).wait_for()
    page.wait_for_selector("#curve:not([data-locked])")
    page.get_by_role("button", name="Draw the curve").click()
    page.wait_for_selector("#export:not([data-locked])")
    settled(page)
    page.locator("#keep").fill(share)
    page.keyboard.press("Enter")
    page.wait_for_timeout(500)
    settled(page)
    page.wait_for_selector("#instead:not(.busy) tbody tr")


def settled(page: Any) -> None:
    """Wait until neither a curve nor a point is being worked on."""
    page.wait_for_function(
        "() => !document.querySelector('#meaning').classList.contains('busy')"
        " && !document.querySelector('#trace').disabled"
    )


def picture(page: Any, selector: str, path: Path) -> None:
    """Take a picture of the window, with an element at its top and no field in use."""
    page.evaluate("document.activeElement.blur()")
    page.locator(selector).evaluate("(each) => each.scrollIntoView({ block: 'start', behavior: 'instant' })")
    if selector.startswith("h3"):
        page.evaluate("window.scrollBy({ top: -60, behavior: 'instant' })")  # the steps stay at the top
    page.wait_for_timeout(400)  # the steps at the top follow
    page.screenshot(path=path)


def main() -> None:
    """Take the pictures."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FIGURES)
    parser.add_argument("--all", action="store_true")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright, explorer() as address:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        context.set_default_timeout(1000 * SECONDS)
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("#table[data-ready]")
        drawn(page, "Heart failure", "4 private × 16 public", "80")
        picture(page, "#curve", asked.out / "explorer-point.png")
        picture(page, "#meaning", asked.out / "explorer-meaning.png")
        if asked.all:
            for width in (400, 1280):
                for scheme in ("light", "dark"):
                    page.set_viewport_size({"width": width, "height": 900})
                    page.emulate_media(color_scheme=scheme)
                    page.wait_for_timeout(300)
                    page.screenshot(path=asked.out / f"page-{width}-{scheme}.png", full_page=True)
            page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        page.emulate_media(color_scheme="dark")
        drawn(page, "Census income", "10 private × 156 public", "80")
        picture(page, "h3:has-text('Before and after')", asked.out / "explorer-census.png")
        browser.close()


if __name__ == "__main__":
    main()
