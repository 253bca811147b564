"""The site in a real browser, read from the file system: search works, and nothing is asked of any network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from documents import build_site

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


def test_the_search_finds_a_page_without_a_server(browser: Any, site: Path) -> None:
    page = browser.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((site / "index.html").as_uri())
    page.locator(".md-search__button").click()
    # All at once: single keys may be lost while the index is being loaded.
    page.get_by_role("combobox", name="Search").fill("chain bound", timeout=180_000)
    page.get_by_text(re.compile(r"^[1-9]\d* results$")).wait_for(timeout=180_000)
    page.get_by_text("More private symbols").first.wait_for(timeout=180_000)
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    page.close()
