"""A newcomer with an office file in a real browser: to a released table and a report, without the manual."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explorer_page import download, draw, keep

pytestmark = pytest.mark.browser


def european(path: Path, rows: int) -> Path:
    """Write what an office has: semicolons, Windows-1252, dates as day.month.year, decimal commas; 15 columns."""
    random = np.random.default_rng(5)
    towns = ["Köln", "Düsseldorf", "Münster", "Straßburg"]

    def comma(low: int, high: int) -> str:
        return f"{random.integers(low, high) / 10:.1f}".replace(".", ",")

    def date(first: int, last: int) -> str:
        return f"{random.integers(1, 29):02d}.{random.integers(1, 13):02d}.{random.integers(first, last)}"

    def yes(chance: float) -> str:
        return "ja" if random.random() < chance else "nein"

    lines = [
        "Nr;Geburtstag;Aufnahme;Größe;Gewicht;Einkommen;Stadt;Geschlecht;krank;Raucher;Kasse;Station;a;b;c"
    ]
    for i in range(rows):
        town = int(random.integers(0, 4))
        fields = [str(i), date(1930, 2005), date(2020, 2025), comma(1500, 2000), comma(400, 1200), comma(9000, 90000),
                  towns[town], "mw"[i % 2], yes(0.1 + 0.1 * town), yes(0.3), ["AOK", "Größere"][i % 3 % 2],
                  f"S{i % 5}", "x", "y", "z"]  # fmt: skip
        lines.append(";".join(fields))
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return path


def test_an_office_file_is_read_without_being_told_how(open_page: Any, tmp_path: Path) -> None:
    page = open_page()
    page.locator("#file").set_input_files(european(tmp_path / "Aufnahmen März.csv", 20_000))
    page.locator("#table-summary", has_text="Aufnahmen März.csv · 20,000 rows · 15 columns").wait_for()
    page.locator("#preview th", has_text="Größe").wait_for()
    assert page.locator("#error").is_hidden()
    page.locator('.column[data-column="krank"]').get_by_text("Private").click()
    for name in ("Stadt", "Raucher", "Kasse"):
        page.locator(f'.column[data-column="{name}"]').get_by_text("Public").click()
    page.locator("#size", has_text="2 private × 16 public").wait_for()
    page.wait_for_selector("#curve:not([data-locked])")
    # Nobody has said how it is read; the page says what it has found out, and dates and decimal commas have bins.
    said = page.locator("#read-as").inner_text()
    assert said == "Windows-1252 (Western) · separated by semicolons · decimal commas · dates day first"
    page.locator('.column[data-column="Kasse"]').get_by_text("Ignore").click()
    page.locator('.column[data-column="Aufnahme"]').get_by_text("Public").click()
    page.locator("#size", has_text="2 private × 40 public").wait_for()  # by year
    page.locator('.column[data-column="Raucher"]').get_by_text("Ignore").click()
    page.locator('.column[data-column="Gewicht"]').get_by_text("Public").click()
    page.locator("#size", has_text="2 private × 80 public").wait_for()  # quartiles
    page.get_by_label("Bins of Aufnahme", exact=True).select_option(label="age groups")
    page.get_by_label("Day of the ages of Aufnahme").fill("2026-01-01")
    page.get_by_label("Number of bins of Aufnahme").fill("2")
    page.locator("#size", has_text="2 private × 32 public").wait_for()
    page.get_by_label("Each row is about").select_option(label="the person in Nr")
    page.locator("#size", has_text="from 20,000 rows about 20,000 persons").wait_for()


def test_a_newcomer_gets_from_an_office_file_to_a_release_and_a_report(
    open_page: Any, tmp_path: Path
) -> None:
    page = open_page()
    page.locator("#file").set_input_files(european(tmp_path / "Aufnahmen März.csv", 20_000))
    page.get_by_text("Change how the file is read").click()
    page.get_by_label("Encoding").select_option(label="ISO 8859-1 (Western)")
    page.get_by_label("Columns are separated by").select_option(label="semicolon")
    page.get_by_role("button", name="Read it again").click()
    page.locator("#table-summary", has_text="Aufnahmen März.csv · 20,000 rows · 15 columns").wait_for()
    page.locator("#preview th", has_text="Größe").wait_for()
    assert page.locator("#error").is_hidden()
    page.locator('.column[data-column="krank"]').get_by_text("Private").click()
    for name in ("Stadt", "Raucher", "Kasse"):
        page.locator(f'.column[data-column="{name}"]').get_by_text("Public").click()
    page.locator("#size", has_text="2 private × 16 public").wait_for()
    page.wait_for_selector("#curve:not([data-locked])")
    draw(page)
    keep(page, "80")
    assert page.locator("#samples tbody").count() == 6
    with download(page, "release.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20_000
    assert {row["Stadt"] for row in rows} == {"Köln", "Düsseldorf", "Münster", "Straßburg"}
    assert "Aufnahmen März.csv" in download(page, "report.html").read_text("utf-8")
    command = page.locator("#command").text_content()
    assert "--encoding latin-1" in command
    assert "--delimiter ';'" in command


def test_a_text_among_numbers_is_asked_about(open_page: Any, tmp_path: Path) -> None:
    rows = "".join(f"{'ab'[i % 2]},{i % 70},{i % 3}\n" for i in range(400))
    (tmp_path / "t.csv").write_text(f"s,age,code\n{rows}a,NA,NA\nb,3,unknown\n")
    page = open_page()
    page.locator("#file").set_input_files(tmp_path / "t.csv")
    page.locator('.column[data-column="s"]').get_by_text("Private").click()
    page.locator('.column[data-column="age"]').get_by_text("Public").click()
    asked = page.locator('.column[data-column="age"] .question')
    assert asked.inner_text().startswith("age is text now: it holds 70 numbers and 'NA'.")
    assert page.get_by_label("Bins of age", exact=True).input_value() == "none"
    page.locator("#size", has_text="'age' mixes types").wait_for()
    assert page.locator('.column[data-column="code"] .question').count() == 0  # few texts, one of them a word
    asked.get_by_role("button", name="NA means missing").click()
    # The roles are kept, and the column is one of numbers.
    page.locator("#size", has_text="2 private × 5 public").wait_for()
    assert page.locator(".question").count() == 0
    assert page.get_by_label("Bins of age", exact=True).input_value() == "quantiles"
    assert page.get_by_label("Missing values are written").input_value() == "NA"


def test_titles_above_the_header_are_left_out_and_may_be_changed(open_page: Any, tmp_path: Path) -> None:
    rows = "".join(f"{'ab'[i % 2]},{i % 70}\n" for i in range(400))
    (tmp_path / "t.csv").write_text(f"Visits of 2020\nmade in May\n\ns,x\n{rows}")
    page = open_page()
    page.locator("#file").set_input_files(tmp_path / "t.csv")
    page.locator("#read-as", has_text="3 rows above the header left out").wait_for()
    assert page.get_by_label("Rows above the header").input_value() == "3"
    (tmp_path / "u.csv").write_text(f"Visits,of 2020\ns,x\n{rows}")  # names, as far as anybody can tell
    page.locator("#file").set_input_files(tmp_path / "u.csv")
    asked = page.locator('.column[data-column="of 2020"] .question')
    asked.get_by_text("Is the header further down?").wait_for()
    assert asked.get_by_role("button").all_inner_texts() == ["It is text"]  # and no missing value
    page.get_by_text("Does it look wrong?").click()
    page.get_by_label("Rows above the header").fill("1")
    page.get_by_role("button", name="Read it again").click()
    page.locator("#table-summary", has_text="u.csv · 400 rows · 2 columns").wait_for()
    assert page.locator('.column[data-column="x"] .question').count() == 0


def test_bins_are_as_wide_as_the_page_says(open_page: Any, tmp_path: Path) -> None:
    rows = "".join(f"{'ab'[i % 2]},{20 + i % 72}\n" for i in range(720))
    (tmp_path / "t.csv").write_text(f"s,age\n{rows}")
    page = open_page()
    page.locator("#file").set_input_files(tmp_path / "t.csv")
    page.locator('.column[data-column="s"]').get_by_text("Private").click()
    page.locator('.column[data-column="age"]').get_by_text("Public").click()
    page.get_by_label("Bins of age", exact=True).select_option(label="bins this wide")
    page.get_by_label("Width of the bins of age").fill("15")
    page.locator("#size", has_text="2 private × 6 public").wait_for()
    page.get_by_label("Bins of age", exact=True).select_option(label="bins of equal width")
    page.get_by_label("Number of bins of age").fill("3")
    page.locator("#size", has_text="2 private × 3 public").wait_for()
