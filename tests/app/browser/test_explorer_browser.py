"""The explorer in a real browser: the whole flow, from a table to its sanitised copy."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explorer_page import download, draw, expert, figures, keep, load_heart, settled

import privfunnel as pf
from privfunnel.certificate import load_bundle
from privfunnel.measures import to_bits

pytestmark = pytest.mark.browser

AWKWARD = Path(__file__).parents[2] / "fixtures" / "awkward.csv"


@pytest.fixture(scope="module")
def curve() -> pf.Curve:
    problem = pf.instances.load("heart-failure")
    grid = [0.0, *np.linspace(pf.free_disclosure(problem), problem.disclosure_ceiling, 5)]
    return pf.trace(problem, disclosures=grid, refine=5, throw=False)


def test_heart_failure_from_the_example_to_the_sanitised_table(open_page: Any, curve: pf.Curve) -> None:
    page = open_page()
    load_heart(page)
    assert "299 rows" in page.locator("#table-summary").inner_text()
    assert page.locator("#preview tbody tr").count() == 6
    assert "4 private × 16 public combinations" in page.locator("#size").inner_text()
    draw(page)

    # The curve is the library's.
    circles = page.locator("#chart svg.wide .point")
    assert circles.count() == len(curve.solutions) == 11
    for i, solution in enumerate(curve.solutions):
        assert float(circles.nth(i).get_attribute("data-r")) == pytest.approx(solution.disclosure, abs=1e-9)
        assert float(circles.nth(i).get_attribute("data-l")) == pytest.approx(solution.leakage, abs=2e-6)
    assert "11 of 11 points proved optimal" in page.locator("#curve-note").inner_text()

    # Beside it is what is estimated for people like these, in colours for light and dark.
    people = page.locator("#chart svg.wide path.people")
    assert people.count() == page.locator("#chart svg.wide path.people-band").count() == 1
    assert "people like them: estimated leakage" in page.locator("#chart figcaption").inner_text()
    colours = set()
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        colours.add(people.evaluate("line => getComputedStyle(line).stroke"))
    assert len(colours - {"none"}) == 2

    # It begins at the free limit, which leaks nothing.
    free = pf.free_disclosure(curve.problem)
    shown = figures(page)
    assert shown["Disclosed"] == f"{to_bits(free):.3f} bits"
    assert shown["Leaked"] == "0.0000 bits"
    assert shown["Could a release leak less?"] == "no"  # and no bound of nothing is called proved
    assert "proved" not in page.locator("#figures").inner_text()
    assert "tells nothing about the private ones" in page.locator("#in-words").inner_text()

    # Any other point says what the library says.
    keep(page, "80")
    solution = curve.at(0.8 * curve.problem.disclosure_ceiling)
    shown = figures(page)
    assert shown["Disclosed"] == f"{to_bits(solution.disclosure):.3f} bits"
    assert float(shown["Leaked"].split()[0]) == pytest.approx(to_bits(solution.leakage), abs=1e-4)
    sex = page.locator("#guesses tr", has_text="sex").first.locator("td").all_inner_texts()
    assert sex[0] == "64.9 %"
    assert sex[2] == "68.6 %"
    assert page.locator("#kept tbody tr").count() == 4
    assert page.locator("#worst tbody tr").count() == 4
    assert page.locator("#heat svg.heat").count() == 2

    # Beside it stands what one would do otherwise, and everything is in one unit, which can be changed.
    page.wait_for_selector("#instead:not(.busy) tbody tr:nth-child(3)")
    others = page.locator("#instead td.num").all_inner_texts()
    assert others[0] == "80.0 %"
    assert all(float(share.split()[0]) < 80.0 for share in others[1:])
    assert page.locator("#known tbody tr").count() > 4
    with page.expect_response(lambda r: "/beside?" in r.url):
        page.get_by_label("Information in").select_option("nats")
    settled(page)
    assert figures(page)["Leaked"] == f"{solution.leakage:.4f} nats"
    assert not re.search(r"\bbits\b", page.locator("main").inner_text())
    with page.expect_response(lambda r: "/point?" in r.url):
        page.get_by_label("Information in").select_option("bits")
    settled(page)
    assert not re.search(r"\bnats\b", page.locator("main").inner_text())

    # Combinations of values are looked for: what the table tells of them, and what they may become.
    page.get_by_label("Look for values").fill("anaemia=yes, smoking=no")
    page.locator("#found-count", has_text="4 of 16 combinations").wait_for()
    assert page.locator("#found tbody").count() == 4
    assert "itself" in page.locator("#found tbody").first.inner_text()

    # A row may be written as candidates with weights, the true one among them; the file is audited as it is downloaded.
    with page.expect_response(lambda r: "/point?" in r.url):
        page.get_by_label("Each row is released as").select_option("decoys")
    settled(page)
    for row in page.locator("#samples tbody").all()[:3]:
        before, *after = (tr.locator("td").all_inner_texts()[:4] for tr in row.locator("tr").all())
        assert before in after
    assert "--as decoys" in page.locator("#command").text_content()
    found = {"passed": True, "rows": 299, "words": ["The designed promise holds.", "<b>No</b> markup."]}
    assert page.locator("#ledger").is_hidden()  # none is kept here
    kept = {"kept": True, "name": "ledger.json", "budget": "5%", "words": "releases 1, draws 1.", "entered": False,
            "after": "releases 2, draws 2.", "refused": "all draws tell <b>more</b>"}  # fmt: skip
    page.route("**/ledger?*", lambda route: route.fulfill(json=kept))
    page.route("**/audit?*form=decoys*", lambda route: route.fulfill(json=found))
    page.get_by_role("button", name="Audit the release").click()
    page.locator("#verdict", has_text="No check failed. 299 rows, as decoys").wait_for()
    assert page.locator("#findings li").all_inner_texts() == found["words"]
    page.locator("#ledger.bad", has_text=f"would be refused: {kept['refused']}.").wait_for()
    page.unroute("**/ledger?*")
    with page.expect_response(lambda r: "/point?" in r.url):
        page.get_by_label("Each row is released as").select_option("records")
    settled(page)
    assert page.locator("#audited").is_hidden()

    # The downloads belong to that point.
    with download(page, "release.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 299
    assert list(rows[0]) == ["anaemia", "high blood pressure", "diabetes", "smoking"]
    assert {value for row in rows for value in row.values()} <= {"yes", "no"}
    mechanism = pf.mechanism.Mechanism.load(download(page, "mechanism.json"))
    assert to_bits(mechanism.leakage) == pytest.approx(float(shown["Leaked"].split()[0]), abs=6e-5)
    held: list[Any] = []
    page.route("**/export/report.html*", lambda route: held.append(route))
    page.locator('#downloads a[download="report.html"]').click()
    page.wait_for_selector(
        '#downloads a[download="report.html"][aria-busy="true"]'
    )  # it takes time, and that shows
    page.locator("#work-text", has_text="Preparing report.html").wait_for()
    page.get_by_role("button", name="Stop").click()
    held.pop().fulfill(json={"error": "the working process has ended"})  # which is no news then
    page.wait_for_selector("#work", state="hidden")
    assert page.locator("#error").is_hidden()
    assert page.evaluate("document.activeElement.getAttribute('download')") == "report.html"
    with page.expect_request("**/export/report.html*"):
        page.keyboard.press("Enter")
    page.wait_for_selector('#downloads a[download="report.html"][aria-busy="true"]')
    held[0].fulfill(json={"error": "the disk is full: make room and try again"})
    page.locator("#error", has_text="the disk is full").wait_for()
    page.unroute("**/export/report.html*")
    report = download(page, "report.html").read_text("utf-8")
    assert "<!DOCTYPE html>" in report
    # Page and report claim the same about people like these.
    assert "For people like these the release leaks an estimated" in page.locator("#people").inner_text()
    assert "About people like them an estimated" in report
    assert "nothing is claimed" not in report
    assert page.locator("#error").is_hidden()
    assert "pf.tables.count(" in download(page, "release.py").read_text("utf-8")
    assert "privfunnel solve heart-failure.csv" in page.locator("#command").text_content()
    assert page.locator('[data-group="publish"] a').count() == 7
    assert page.locator('[data-group="keep confidential"] a[download="mechanism.json"]').count() == 1


def test_an_awkward_upload(open_page: Any) -> None:
    page = open_page()
    page.locator("#file").set_input_files(AWKWARD)
    page.wait_for_selector("#roles:not([data-locked])")
    assert "awkward.csv · 400 rows · 5 columns" in page.locator("#table-summary").inner_text()
    assert "Wells, Somerset" in page.locator("#preview").inner_text()
    assert page.locator("#preview td.null").count() >= 1
    town = page.locator('.column[data-column="town, region"]')
    assert "25 missing" in town.inner_text()
    town.get_by_text("Public").click()
    page.locator('.column[data-column="naïve Größe"]').get_by_text("Private").click()
    score = page.locator('.column[data-column="score"]')
    assert "40 distinct" in score.inner_text()
    score.get_by_text("Public").click()
    page.wait_for_selector("#curve:not([data-locked])")
    # Each value for itself is too many; the page says what to do, and bins help.
    score.get_by_label("Bins of score", exact=True).select_option("none")
    page.get_by_text("40 different values").wait_for()
    assert page.locator("#curve[data-locked]").count() == 1
    score.get_by_label("Bins of score", exact=True).select_option("edges")
    score.get_by_label("Edges of the bins of score").fill("10, 30")
    page.wait_for_selector("#curve:not([data-locked])")
    page.wait_for_function(
        "() => document.querySelectorAll('[data-column=score] .histogram line').length === 2"
    )
    draw(page, solver="greedy")
    heat = page.locator("#heat").inner_html()
    assert "Wells, Somerset" in heat
    assert "東京" in heat
    assert "null" in heat
    keep(page, "60")
    with download(page, "symbols.csv").open(encoding="utf-8") as file:
        assert len(file.readlines()) == 401
    assert page.locator("#command").text_content().startswith("# with mechanism.json")


def test_a_release_for_a_task(open_page: Any, tmp_path: Path) -> None:
    rng, lines = np.random.default_rng(2), ["sex,age,town,paid"]
    for _ in range(800):
        sex, age = rng.integers(0, 2), rng.integers(0, 2)
        town = "abc"[(sex + age + rng.integers(0, 2)) % 3]
        lines.append(f"{'fm'[sex]},{age},{town},{int(rng.random() < 0.1 + 0.4 * age + 0.3 * sex)}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    page = open_page()
    page.locator("#file").set_input_files(tmp_path / "people.csv")
    for column, role in (("sex", "Private"), ("age", "Public"), ("town", "Public")):
        page.locator(f'.column[data-column="{column}"]').get_by_text(role).click()
    page.wait_for_selector("#curve:not([data-locked])")
    assert page.locator("#guards").is_visible()
    # What is private cannot be what the release is for, and the page says so.
    page.get_by_label("The release is for").select_option("sex")
    page.locator("#size", has_text="is private and a task").wait_for()
    page.get_by_label("The release is for").select_option("paid")
    page.wait_for_selector("#curve:not([data-locked])")
    assert "about paid" in page.locator("#curve-about").inner_text()
    assert page.locator("#guards").is_visible()
    draw(page)
    assert "utility I(U;Y), bits" in page.locator("#chart svg.wide").text_content()
    keep(page, "95")
    shown = figures(page)
    assert next(iter(shown)) == "Kept of paid"
    assert "95.0 % of what the public columns tell about paid" in page.locator("#in-words").inner_text()
    assert page.locator("#useful tbody tr th").all_inner_texts() == ["paid"]
    page.wait_for_selector("#instead:not(.busy) tbody tr:nth-child(3)")
    leaked = [float(each.split()[0]) for each in page.locator("#instead td.num").all_inner_texts()]
    assert leaked[0] == pytest.approx(float(shown["Leaked"].split()[0]), abs=1e-9)
    assert min(leaked[1:]) > leaked[0]
    mechanism = pf.mechanism.Mechanism.load(download(page, "mechanism.json"))
    assert mechanism.task == ("paid",)
    assert mechanism.utility is not None
    assert to_bits(mechanism.utility[0]) == pytest.approx(float(shown["Kept of paid"].split()[0]), abs=6e-4)
    assert "--utility" in page.locator("#command").text_content()


def test_files_can_be_dropped_and_may_be_parquet(open_page: Any, tmp_path: Path) -> None:
    page = open_page()
    page.evaluate(
        """() => {
          const files = new DataTransfer();
          files.items.add(new File(["colour,size\\nred,1\\nblue,2\\nred,3\\n"], "dropped.csv"));
          const drop = new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
          document.querySelector("#drop").dispatchEvent(drop);
        }"""
    )
    page.locator("#table-summary", has_text="dropped.csv · 3 rows · 2 columns").wait_for()
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table(
        {"when": arrow.array([1, 2, None]), "what": ["a", "b", "c"], "sure": [True, False, True]}
    )
    parquet.write_table(table, tmp_path / "table.parquet")
    page.locator("#file").set_input_files(tmp_path / "table.parquet")
    page.locator("#table-summary", has_text="table.parquet · 3 rows · 3 columns").wait_for()
    assert "1 missing" in page.locator('.column[data-column="when"]').inner_text()
    assert "boolean" in page.locator('.column[data-column="sure"]').inner_text()


def test_markup_in_a_table_stays_text(open_page: Any, tmp_path: Path) -> None:
    nasty = tmp_path / "nasty <img src=x onerror=alert(1)>.csv"
    values = ["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>']
    with nasty.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["<b>secret</b>", "<i>open</i>"])
        writer.writerows([[values[i % 2], values[(i // 3) % 2]] for i in range(60)])
    page = open_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.locator("#file").set_input_files(nasty)
    page.locator('.column[data-column="<b>secret</b>"]').get_by_text("Private").click()
    page.locator('.column[data-column="<i>open</i>"]').get_by_text("Public").click()
    page.wait_for_selector("#curve:not([data-locked])")
    draw(page, solver="greedy")
    assert page.locator("main img").count() == 0
    assert page.locator("main b", has_text="secret").first.inner_text() == "<b>secret</b>"
    report = download(page, "report.html").read_text("utf-8")
    assert "<script>alert" not in report
    assert "<img" not in report


WRONG = {
    "picture.png": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8, "picture.png"),
    "empty.csv": (b"", "empty"),
    "broken.parquet": (b"PAR1 this is no parquet file PAR1", "parquet"),
    "big.csv": (b"a,b\n" + b"1,2\n" * 1_200_000, "larger than 4 MiB"),
}


def test_wrong_files_are_explained_and_the_page_goes_on(open_page: Any, tmp_path: Path) -> None:
    page = open_page()
    for name, (content, expected) in WRONG.items():
        (tmp_path / name).write_bytes(content)
        assert expected not in page.locator("#error").text_content()
        page.locator("#file").set_input_files(tmp_path / name)
        page.locator("#error", has_text=expected).wait_for()
        message = page.locator("#error").inner_text()
        assert "\n" not in message
        assert "Traceback" not in message
        assert "privfunnel-" not in message  # no paths of the server's own folders
        assert page.locator("#roles[data-locked]").count() == 1
    load_heart(page)
    assert page.locator("#error").is_hidden()


def test_cancelling_keeps_the_page_alive(open_page: Any) -> None:
    page = open_page()
    page.get_by_role("button", name="Census income").click()
    page.wait_for_selector("#curve:not([data-locked])")
    expert(page, "40", "drs")
    page.get_by_role("button", name="Draw the curve").click()
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_function("() => !document.querySelector('#trace').disabled")
    assert page.get_by_role("button", name="Cancel").is_hidden()
    assert page.locator("#error").is_hidden()
    load_heart(page)
    draw(page, solver="greedy")
    assert figures(page)["Disclosed"].endswith("bits")


def test_two_tabs_do_not_see_each_others_data(open_page: Any, watch: Any) -> None:
    watch.expected = ["status of 410"]
    first = open_page()
    second = first.context.new_page()
    watch.page(second)
    second.goto(re.sub(r"\?.*", "", first.url))
    second.wait_for_selector("#table[data-ready]")
    load_heart(first)
    assert second.locator("#table-loaded").is_hidden()
    second.locator("#file").set_input_files(AWKWARD)
    second.wait_for_selector("#roles:not([data-locked])")
    draw(first, solver="greedy")
    assert "heart-failure.csv" in first.locator("#table-summary").inner_text()
    assert "awkward.csv" in second.locator("#table-summary").inner_text()
    # The second tab has no curve, whatever the first one has.
    session = second.evaluate("import('/static/dom.js').then((m) => m.api.session)")
    other = first.evaluate("import('/static/dom.js').then((m) => m.api.session)")
    assert session != other
    answer = second.evaluate(f"fetch('/api/sessions/{session}/curve').then((r) => r.json())")
    assert "no table with roles" in answer["error"] or "draw the curve first" in answer["error"]
    # A closed tab's data is gone.
    first.close()
    second.wait_for_function(f"() => fetch('/api/sessions/{other}/curve').then((r) => r.status === 410)")


def test_a_file_that_is_chosen_at_once_is_not_lost(open_page: Any, server: Any) -> None:
    page = open_page()
    held: list[Any] = []
    page.route("**/api/hello", lambda route: held.append(route))
    page.goto(server.origin, wait_until="domcontentloaded")
    page.locator("#file").set_input_files(AWKWARD)
    page.locator("#loading-text", has_text="awkward.csv is next").wait_for()
    for route in held:
        route.continue_()
    page.unroute("**/api/hello")
    page.locator("#table-summary", has_text="awkward.csv · 400 rows").wait_for()
    assert page.locator("#loading").is_hidden()


def test_refining_sharpening_and_clicking_the_curve(open_page: Any) -> None:
    page = open_page()
    load_heart(page)
    draw(page)
    before = page.locator("#chart svg.wide .point").count()
    page.get_by_role("button", name="Refine").click()
    page.wait_for_function(
        f"() => document.querySelectorAll('#chart svg.wide .point').length >= {before + 3}"
    )
    settled(page)
    page.locator("#chart svg.wide").scroll_into_view_if_needed()
    box = page.locator("#chart svg.wide").bounding_box()
    with page.expect_response(lambda r: "/point?" in r.url):
        page.mouse.click(box["x"] + box["width"] * 0.83, box["y"] + box["height"] * 0.5)
    settled(page)
    assert figures(page)["Gap"] != "0.000000 bits"
    page.get_by_role("button", name="Sharpen this point").click()
    page.wait_for_function("() => document.querySelector('#figures').innerText.includes('proved optimal')")
    with page.expect_response(lambda r: "/point?leakage=" in r.url):
        page.locator("#budget").fill("0.01")
        page.keyboard.press("Tab")
    settled(page)
    assert float(figures(page)["Leaked"].split()[0]) == pytest.approx(0.01, abs=1e-4)


def test_the_key_is_needed_and_comes_from_a_private_file(browser: Any, server: Any, tmp_path: Path) -> None:
    from privfunnel.app.explorer import security

    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(server.origin)
    assert answer.status == 403
    assert "privfunnel explore" in page.inner_text("body")
    page.goto(security.write_invitation(tmp_path, server.address).as_uri())
    page.wait_for_selector("#table[data-ready]")
    assert page.url == f"{server.origin}/"
    assert page.evaluate("document.cookie") == ""
    context.close()


def test_columns_that_are_known_and_a_guarantee_are_chosen_on_the_page(open_page: Any) -> None:
    page = open_page()
    load_heart(page)
    page.get_by_text("Attackers who know something").click()
    page.locator("#guard-columns").get_by_label("anaemia").select_option("published")
    page.locator("#guarantee").select_option("lip")
    page.locator("#guarantee-value").fill("0.3")
    assert page.get_by_label("Another guarantee").is_visible()
    page.get_by_label("Leakage is measured by").select_option("total-variation")
    assert "how far beliefs" in page.locator("#measure-about").inner_text()
    draw(page)

    assert page.locator("#chart svg.wide .point").count() == 5
    assert page.locator("#chart .possible").count() == 0
    said = page.locator("#people").inner_text()
    assert "less than 0.0000" not in said
    assert "Published as counted: anaemia" in said
    assert "Guaranteed for every output: lip=0.3" in said
    # What the guarantee does not allow cannot be asked for: the slider goes back to the end of the curve.
    keep(page, "100")
    assert float(page.locator("#keep").input_value()) < 99.0
    assert page.locator("#people").inner_text().count(": proved") == 1
    shown = figures(page)
    assert float(shown["No release leaks less than"]) > 0.0  # a probability has no unit
    assert shown["Leaked, by total variation"] == page.locator("#budget").input_value()
    assert page.locator("#budget-unit").text_content() == ""
    assert "total variation" in page.locator("#chart svg.wide .title").all_text_contents()
    command = page.locator("#command").text_content()
    assert "--measure total-variation" in command
    assert "--published anaemia" in command
    assert "--guarantee lip=0.3" in command
    proofs = load_bundle(download(page, "certificates.npz"))
    problem = pf.instances.load("heart-failure")
    for proof in proofs:
        assert proof.claim.scope.guards.published.name == "anaemia"
    assert len(proofs) > 0
    assert problem.n_x == proofs[0].body.prices.size
