"""A real Chromium, watched: it must stay on this machine and print no errors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


# Playwright keeps an event loop running in the thread for as long as it is open; that is no longer than a module of
# tests, since others want a loop of their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    for module in ("playwright", "starlette", "uvicorn", "httpx", "duckdb"):
        pytest.importorskip(module, reason=f"browser tests need {module}")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: install it, or name it in CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    from explorer_server import running

    with running(max_upload=4 << 20) as server:
        yield server


class Watch:
    """What pages did that they should not have done."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.expected: list[str] = []

    def page(self, page: Any) -> None:
        page.on(
            "console", lambda message: self.errors.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def check(self, origin: str) -> None:
        foreign = [u for u in self.requests if not u.startswith((f"{origin}/", "data:", f"blob:{origin}/"))]
        assert foreign == []
        unexpected = [e for e in self.errors if not any(part in e for part in self.expected)]
        assert unexpected == []


@pytest.fixture
def watch(server: Any) -> Iterator[Watch]:
    watch = Watch()
    yield watch
    watch.check(server.origin)


@pytest.fixture
def open_page(browser: Any, server: Any, watch: Watch, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Open the explorer in a fresh browser profile; ``open_page(width=390)`` and so on."""
    contexts = []

    def open_page(**options: Any) -> Any:
        width = options.pop("width", 1280)
        context = browser.new_context(
            viewport={"width": width, "height": 900}, accept_downloads=True, **options
        )
        contexts.append(context)
        # Whatever tries to leave this machine is stopped as well as noticed.
        context.route(
            lambda url: not url.startswith((server.origin, "data:", "blob:")), lambda route: route.abort()
        )
        context.set_default_timeout(180_000)
        page = context.new_page()
        watch.page(page)
        page.goto(server.address)
        page.wait_for_selector("#table[data-ready]")
        return page

    yield open_page
    shots = os.environ.get("PRIVFUNNEL_SCREENSHOTS")
    if shots:
        for i, context in enumerate(contexts):
            for page in context.pages:
                name = "".join(c if c.isalnum() else "-" for c in request.node.name)
                page.screenshot(path=Path(shots) / f"{name}-{i}.png", full_page=True)
    for context in contexts:
        context.close()
