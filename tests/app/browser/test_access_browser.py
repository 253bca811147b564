"""The explorer for everybody: narrow windows, the keyboard alone, and names that a screen reader reads."""

from __future__ import annotations

import re
from typing import Any

import pytest
from explorer_page import draw, figures, keep, load_heart, settled

pytestmark = pytest.mark.browser


def test_a_narrow_window_needs_no_sideways_scrolling_and_every_control_has_a_name(open_page: Any) -> None:
    page = open_page(width=390, color_scheme="light")
    failed: list[str] = []
    page.on("response", lambda each: failed.append(each.url) if each.status >= 400 else None)
    page.reload()  # from the first request on
    page.wait_for_selector("#table[data-ready]")
    load_heart(page)
    draw(page, solver="greedy")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.locator("#guarantee").select_option("lip")
    wide = page.evaluate(
        """[...document.querySelectorAll('.card .row *')].filter((e) => e.getClientRects().length
             && e.getBoundingClientRect().right > e.closest('.card').getBoundingClientRect().right).map((e) => e.id)"""
    )
    assert wide == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("#chart svg.narrow").is_visible()
        assert page.locator("#chart svg.wide").is_hidden()
        small = page.evaluate(
            "[...document.querySelectorAll('#chart svg.narrow text')].map((t) => t.getBoundingClientRect().height)"
            ".filter((h) => h > 0 && h < 9).length"
        )
        assert small == 0
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        dark = sum(int(c) for c in re.findall(r"\d+", background)[:3]) < 200
        assert dark == (scheme == "dark")
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, input, select, a[href], [role=button]')].filter((e) =>
             !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length)
               || e.title)).map((e) => e.outerHTML)"""
    )
    assert nameless == []
    # Nothing that is asked of the server is missing, on any step; browsers ask for an icon by themselves.
    for link in page.locator(".steps a").all():
        link.click()
    icon = page.context.request.get(f"{page.url.split('#')[0]}favicon.ico")
    assert (icon.status, icon.headers["content-type"]) == (200, "image/svg+xml")
    assert failed == []


def test_the_keyboard_is_enough(open_page: Any) -> None:
    page = open_page()
    page.get_by_role("button", name="Heart failure").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#curve:not([data-locked])")
    page.locator("#trace").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#export:not([data-locked])")
    settled(page)
    before = figures(page)["Disclosed"]
    page.get_by_label("Information to keep").focus()
    with page.expect_response(lambda r: "/point?" in r.url):
        page.keyboard.press("End")
    settled(page)
    assert figures(page)["Disclosed"] != before
    assert figures(page)["Leaked"] == "0.2933 bits"
    # Points of the curve: one tab stop, arrows between them, Enter chooses.
    page.locator("#chart svg.wide .point").first.focus()
    page.keyboard.press("ArrowRight")  # from nothing to the free limit
    assert page.evaluate("document.activeElement.classList.contains('point')")
    assert page.locator("#chart .tip").is_visible()
    with page.expect_response(lambda r: "/point?" in r.url):
        page.keyboard.press("Enter")
    settled(page)
    assert figures(page)["Leaked"] == "0.0000 bits"
    # The heat map reads its cells aloud.
    page.locator("#heat svg.heat").first.focus()
    page.keyboard.press("ArrowDown")
    assert "%" in page.locator("#heat .readout").first.inner_text()
    assert page.locator("#status").get_attribute("aria-live") == "polite"


def test_what_cannot_be_kept_is_refused_and_the_focus_stays(open_page: Any) -> None:
    page = open_page()
    load_heart(page)
    page.locator("#trace").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#export:not([data-locked])")
    settled(page)
    assert page.evaluate("document.activeElement.id") == "trace"
    before = figures(page)
    for name, typed, why in (("keep", "150", "150 is not a share"), ("budget", "-1", "-1 is not a leakage")):
        page.locator(f"#{name}").fill(typed)
        page.keyboard.press("Enter")
        page.locator("#refused", has_text=why).wait_for()
        assert page.locator(f"#{name}").get_attribute("aria-invalid") == "true"
        assert figures(page) == before
        assert page.evaluate("document.activeElement.id") == name
    keep(page, "70")
    assert page.locator("#refused").is_hidden()
    # The point moves under a reader who stands on a download.
    page.locator('#downloads a[download="codebook.json"]').focus()
    with page.expect_response(lambda r: "/point?" in r.url):
        page.evaluate("document.querySelector('#go-free').click()")
    settled(page)
    assert page.evaluate("document.activeElement.getAttribute('download')") == "codebook.json"
