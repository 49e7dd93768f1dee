# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: what a reader sees, presses and takes along."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page
from screenshots import hold_against
from watched import EVERY_VIEW, NewPage, overflow_px, violations

from made_results import made_results
from strata.report import cells
from strata.report.page import page_of, render
from strata.report.report import Report
from strata.statistics.study import gather

STACKS, WORKLOADS, SEEDS = 4, 3, 4


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report."""
    folder = tmp_path_factory.mktemp("browser")
    results = made_results(folder / "results", stacks=STACKS, workloads=WORKLOADS, seeds=SEEDS)
    file = folder / "report.html"
    file.write_text(render(Report(gather(results))))
    return file.as_uri()


@pytest.fixture
def shown(page: Page, report: str) -> Page:
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(report)
    return page


def texts(page: Page, selector: str) -> list[str]:
    return [each.strip() for each in page.locator(selector).all_inner_texts()]


def heat(page: Page) -> list[list[str]]:
    """The heat map's shown cells, row by row."""
    rows: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('#heat tbody tr')].filter(row => row.offsetParent).map(row =>"
        " [...row.querySelectorAll('td')].filter(cell => cell.offsetParent).map(cell => cell.textContent))"
    )
    return rows


def test_every_chart_has_a_size_and_something_drawn(shown: Page) -> None:
    drawn: list[dict[str, Any]] = shown.evaluate("""[...document.querySelectorAll('svg')].map(svg => {
        svg.scrollIntoView();
        const box = svg.getBoundingClientRect(), marks = svg.querySelectorAll('path, rect, circle').length;
        return {width: box.width, height: box.height, marks, said: svg.parentElement.ariaLabel};
    })""")

    assert len(drawn) == WORKLOADS * 6
    for each in drawn:
        assert min(each["width"], each["height"]) > 60, each
        assert each["marks"] > STACKS, each
        assert each["said"], each


def test_another_reference_changes_ratios_colours_and_the_table(shown: Page) -> None:
    before, classes = heat(shown), shown.locator("#heat tbody td").nth(1).get_attribute("class")

    shown.get_by_label("Compare with").select_option("xfs")

    after = heat(shown)
    assert [row[1] for row in after] == ["1"] * WORKLOADS
    assert [row[0] for row in before] == ["1"] * WORKLOADS
    for one, other in zip(before, after, strict=True):
        ratio, turned = float(one[1][:4]), float(other[0][:4])
        assert ratio * turned == pytest.approx(1, abs=0.01)
    assert shown.locator("#heat tbody td").nth(1).get_attribute("class") != classes
    shown.locator("#cells summary").click()
    assert "Against xfs" in shown.locator(".numbers caption").inner_text()
    assert texts(shown, ".numbers tbody tr:nth-child(2) td:nth-child(6)") == ["reference"]


def test_the_script_says_what_python_said_first(shown: Page, report: str, new_page: NewPage) -> None:
    plain = new_page(java_script_enabled=False)
    plain.goto(report)
    written = [each.strip() for each in plain.locator("#heat tbody td").all_text_contents()]
    titles = [each.get_attribute("title") for each in plain.locator("#heat tbody td").all()]

    cells = shown.locator("#heat tbody td")
    assert [each.strip() for each in cells.all_text_contents()] == written
    assert [each.get_attribute("data-words") for each in cells.all()] == titles


def test_a_cell_says_its_interval_to_the_pointer_and_to_the_keyboard(shown: Page) -> None:
    tip = shown.get_by_role("tooltip")
    shown.locator("#heat tbody td").nth(1).hover()
    assert re.search(r"xfs under postgresql: 1\.\d\d × \(1\.\d+ to 1\.\d+\) of ext4", tip.inner_text())

    shown.mouse.move(0, 0)
    shown.locator("#heat tbody td").first.focus()
    for key in ("ArrowRight", "ArrowDown"):
        shown.keyboard.press(key)
    assert "xfs under mail" in tip.inner_text()
    assert shown.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tip"
    shown.keyboard.press("Escape")
    assert tip.is_hidden()


@pytest.mark.parametrize(
    ("search", "rows", "columns", "status"),
    [
        ("btrfs", 3, 1, "3 of 12 cells are shown: 1 of 4 stacks, 3 of 3 workloads."),
        ("mail", 1, 4, "4 of 12 cells are shown: 4 of 4 stacks, 1 of 3 workloads."),
        ("pgbench", 1, 4, "4 of 12 cells are shown: 4 of 4 stacks, 1 of 3 workloads."),
        ("nothing so called", 0, 0, "No cell fits these filters."),
    ],
)
def test_the_search_filters_and_says_what_is_left(
    shown: Page, search: str, rows: int, columns: int, status: str
) -> None:
    shown.get_by_label("Search").fill(search)

    found = heat(shown)
    assert (len(found), len(found[0]) if found else 0) == (rows, columns)
    assert shown.get_by_role("status").inner_text() == status
    assert shown.locator("section.workload:visible").count() == rows

    shown.get_by_role("button", name="Show everything").click()
    shown.wait_for_function("document.querySelector('#status').textContent === ''")
    assert len(heat(shown)) == WORKLOADS


def test_a_stack_that_is_not_chosen_leaves_tables_and_fades_in_charts(shown: Page) -> None:
    shown.locator("#filters").get_by_label("btrfs", exact=True).uncheck()

    assert shown.locator("tr[data-stack=btrfs]:visible").count() == 0
    assert shown.locator("tr[data-stack=xfs]:visible").count() > 0
    faded = shown.locator("svg g[data-stack=btrfs]").first.evaluate("g => getComputedStyle(g).opacity")
    assert float(faded) < 0.5


def test_a_verdict_leaves_the_cells_that_have_it(shown: Page) -> None:
    shown.get_by_label("Verdict").select_option("better")

    bright = texts(shown, "#heat tbody td:not(.dim):visible")
    assert bright
    assert all(each.endswith("▲") for each in bright)


def test_light_and_dark_are_the_reader_s_choice_for_the_visit(shown: Page) -> None:
    def ground() -> Any:
        return shown.evaluate("getComputedStyle(document.body).backgroundColor")

    light = ground()
    shown.get_by_role("button", name="Dark").click()
    dark = ground()
    shown.reload()

    assert dark != light
    assert ground() == dark
    assert shown.get_by_role("button", name="Light").is_visible()


def test_the_keyboard_reaches_every_control_and_shows_where_it_is(shown: Page) -> None:
    wanted = set(
        shown.evaluate(
            '[...document.querySelectorAll(\'a[href]:not([tabindex="-1"]), button, select, input, summary,'
            ' [tabindex="0"]\')].filter(each => each.checkVisibility({contentVisibilityAuto: false}))'
            ".map((each, i) => { each.dataset.stop = i; return String(i); })"
        )
    )
    reached = []
    for _ in range(len(wanted) + 5):
        shown.keyboard.press("Tab")
        stop, outline = shown.evaluate("""(() => {
            const at = document.activeElement;
            return [at.dataset.stop ?? '', getComputedStyle(at).outlineStyle];
        })()""")
        reached.append(stop)
        assert not stop or outline != "none", shown.evaluate("document.activeElement.outerHTML.slice(0, 200)")

    assert wanted <= set(reached)
    assert shown.evaluate("document.querySelector('.skip').dataset.stop") == reached[0]


@pytest.mark.parametrize(("width_px", "scheme"), EVERY_VIEW)
def test_nothing_stands_in_the_way_of_a_reader(
    new_page: NewPage, report: str, width_px: int, scheme: Literal["light", "dark"]
) -> None:
    page = new_page(width_px=width_px, color_scheme=scheme)
    page.goto(report)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    # The browser lays out a section only when it comes near the window.
    page.evaluate("""(async () => {
        for (const each of document.querySelectorAll('section')) {
            each.scrollIntoView();
            for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
        }
    })()""")

    assert violations(page) == []
    assert overflow_px(page) <= 0


def test_all_values_can_be_taken_along(shown: Page, tmp_path: Path) -> None:
    saved = {}
    for kind in ("CSV", "JSON"):
        with shown.expect_download() as download:
            shown.get_by_role("button", name=f"Save as {kind}").click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        saved[kind] = file.read_text()

    rows = list(csv.DictReader(saved["CSV"].splitlines()))
    rates = [row for row in rows if row["metric"] == "transactions_per_s"]
    raw = json.loads(saved["JSON"])
    assert len(rates) == STACKS * SEEDS
    first = raw["workloads"][0]["metrics"][0]
    assert float(rates[0]["value"]) == first["values"][0][0]
    assert (rates[0]["workload"], rates[0]["stack"], rates[0]["seed"]) == ("postgresql", "ext4", "1")


def test_without_scripts_the_page_still_reads(new_page: NewPage, report: str) -> None:
    page = new_page(java_script_enabled=False)
    page.goto(report)

    assert page.get_by_role("heading", name="The answer").is_visible()
    assert page.locator("#heat tbody td").first.is_visible()
    assert page.locator(".js-only:visible").count() == 0


def test_print_has_the_answer_and_every_workload(shown: Page) -> None:
    shown.emulate_media(media="print", color_scheme="dark")

    assert shown.get_by_role("heading", name="The answer").is_visible()
    assert shown.locator("aside").is_hidden()
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(254, 254, 253)"
    pdf = shown.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 1 + WORKLOADS


def test_print_has_the_reasons_of_the_advice(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page_of(made_results(tmp_path / "results", stacks=2, workloads=2, seeds=3)))
    page.goto(file.as_uri())
    reason = page.locator("#advice details > dl").first

    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert reason.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert reason.is_hidden()


def test_the_page_matches_its_reviewed_screenshots(
    new_page: NewPage, report: str, request: pytest.FixtureRequest
) -> None:
    """The first screen of a phone in the dark, and a workload on a desk."""
    update = bool(request.config.getoption("--update-golden"))
    phone = new_page(width_px=390, color_scheme="dark")
    phone.goto(report)
    hold_against("report-top-390-dark", phone.screenshot(), update=update)

    desk = new_page(width_px=1200, color_scheme="light")
    desk.goto(report)
    desk.evaluate("document.querySelector('#workload-mail').scrollIntoView()")
    # On a busy machine the picture would be taken before that part is painted.
    desk.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    hold_against("report-workload-1200", desk.screenshot(), update=update)


def test_on_a_phone_the_heat_map_scrolls_to_its_last_stack(new_page: NewPage, tmp_path: Path) -> None:
    page = new_page(width_px=390)
    file = tmp_path / "report.html"
    file.write_text(render(Report(gather(made_results(tmp_path / "r", stacks=8, workloads=2, seeds=3)))))
    page.goto(file.as_uri())
    heat_map = page.locator(".heat")

    assert overflow_px(page) <= 0
    page.wait_for_selector(".heat.more-right")
    heat_map.evaluate("each => { each.scrollLeft = 1e6; }")
    page.wait_for_selector(".heat:not(.more-right)")
    last = page.locator("#heat thead th").last.bounding_box()
    assert last is not None
    assert last["x"] + last["width"] <= 390


def test_a_large_study_s_other_references_have_ratios_but_claim_no_interval(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = gather(made_results(tmp_path / "results", stacks=STACKS, workloads=WORKLOADS, seeds=SEEDS))
    classes = {}
    for limit in (1500, 1):
        monkeypatch.setattr(cells, "_COMPARISONS_MAX", limit)
        file = tmp_path / f"{limit}.html"
        file.write_text(render(Report(results)))
        page.goto(file.as_uri())
        page.get_by_label("Compare with").select_option("btrfs")
        classes[limit] = [each.get_attribute("class") for each in page.locator("#heat tbody td").all()]

    assert classes[1] == classes[1500]
    assert all(re.fullmatch(r"[\d.]+", text) for row in heat(page) for text in row)
    page.locator("#heat tbody td").first.hover()
    assert "no interval in this page" in page.get_by_role("tooltip").inner_text()
