# SPDX-License-Identifier: Apache-2.0
"""The pages of `strata serve` in a real browser, before, while and after a study runs."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect
from watched import EVERY_VIEW, NewPage, overflow_px, violations

from made_results import made_results
from strata.model.trial import TrialKey
from strata.results.store import ResultsFolder
from strata.serve.app import application, bound

STACKS, WORKLOADS, SEEDS = 3, 2, 2
TRIALS = STACKS * WORKLOADS * SEEDS
# How long a page may take to show what has happened, on a machine however loaded: a limit, not a measure.
PATIENCE_MS = 60_000


class Serving:
    """A server in a thread, as `strata serve` has it in its process."""

    def __init__(self, *roots: Path) -> None:
        listening = bound(0)
        self.address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        site = application([*roots], stopping=lambda: self._server.should_exit, look_interval_s=0.1)
        self._server: uvicorn.Server = uvicorn.Server(
            uvicorn.Config(site, log_level="warning", lifespan="off")
        )
        self._thread = threading.Thread(target=self._server.run, args=([listening],))
        self._thread.start()

    def end(self) -> None:
        """End it, and wait until it has."""
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All results of the study; not to be changed."""
    folder = tmp_path_factory.mktemp("whole") / "made"
    made_results(folder, stacks=STACKS, workloads=WORKLOADS, seeds=SEEDS)
    return folder


@pytest.fixture
def growing(whole: Path, tmp_path: Path) -> Path:
    """The same study before its first result."""
    folder = tmp_path / "results" / "made"
    folder.mkdir(parents=True)
    shutil.copy(whole / "study.json", folder)
    return folder


@pytest.fixture
def served(growing: Path) -> Iterator[str]:
    serving = Serving(growing.parent)
    yield serving.address
    serving.end()


@pytest.fixture
def served_whole(whole: Path) -> Iterator[str]:
    serving = Serving(whole)
    yield serving.address
    serving.end()


def arrive(trial: TrialKey, whole: Path, folder: Path) -> None:
    """A trial's result appears as a run writes it: everything else first, the record by a rename."""
    (source,) = ResultsFolder(whole).attempts(trial)
    attempt = folder / source.path.relative_to(whole)
    shutil.copytree(source.path, attempt, ignore=shutil.ignore_patterns("result.json"))
    part = attempt / ".result.json.part"
    shutil.copy(source.result_path, part)
    part.rename(attempt / "result.json")


def test_a_study_is_followed_until_all_is_there(page: Page, served: str, growing: Path, whole: Path) -> None:
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    page.goto(served)
    page.get_by_role("link", name="made").click()
    expect(page.locator(".tally")).to_contain_text(f"0 of {TRIALS} trials done")
    page.evaluate("window.sameDocument = true")

    trials = list(ResultsFolder(whole).study().trials)
    for count, trial in enumerate(trials, 1):
        arrive(trial, whole, growing)
        expect(page.locator(".tally")).to_contain_text(f"{count} of {TRIALS} trials done")
        expect(page.locator("a.seed.done")).to_have_count(count)
        expect(page.locator(".newest li a").first).to_have_text(str(trial))

    expect(page.locator("#progress-title")).to_have_text("Finished")
    expect(page.locator(".heat tbody tr")).to_have_count(WORKLOADS)
    expect(page.locator(".heat td.none")).to_have_count(0)
    expect(page.locator("#charts svg")).to_have_count(WORKLOADS)
    for chart in page.locator("#charts svg").all():
        assert chart.locator("path").count() >= STACKS
    assert page.evaluate("window.sameDocument"), "the page was not loaded anew"


def test_a_link_keeps_the_focus_when_results_arrive(
    page: Page, served: str, growing: Path, whole: Path
) -> None:
    first, second, *_ = ResultsFolder(whole).study().trials
    arrive(first, whole, growing)
    page.goto(f"{served}study/made/")
    page.locator(f'a.seed[href="trial/{first}"]').focus()

    arrive(second, whole, growing)

    expect(page.locator("a.seed.done")).to_have_count(2, timeout=PATIENCE_MS)
    assert page.evaluate("document.activeElement.getAttribute('href')") == f"trial/{first}"


def test_a_running_trial_shows_how_far_it_is(page: Page, served: str, growing: Path, whole: Path) -> None:
    trials = ResultsFolder(whole).study().trials
    first, second, *_ = trials
    with ResultsFolder(growing).lock():
        arrive(first, whole, growing)
        (growing / "records" / trials[second] / "attempt-001").mkdir(parents=True)
        page.goto(f"{served}study/made/")

        expect(page.locator("#progress-title")).to_have_text("Running", timeout=PATIENCE_MS)
        expect(page.locator(".now tbody th")).to_have_text(str(second))
        expect(page.locator(".tally")).to_contain_text("left")
        assert violations(page) == []

    expect(page.locator("#progress-title")).to_have_text("Not running", timeout=PATIENCE_MS)


def test_from_the_overview_one_comes_to_a_trial_and_to_the_report(page: Page, served_whole: str) -> None:
    page.goto(served_whole)
    page.get_by_role("link", name="made").click()
    page.locator("a.seed").first.click()
    expect(page.get_by_role("heading", name="Metrics")).to_be_visible()
    page.get_by_role("link", name="made").click()
    page.get_by_role("link", name="The full report").click()

    expect(page.locator("#heat")).to_be_visible()
    page.get_by_label("Compare with").select_option("xfs")  # its script may run
    expect(page.locator("[data-reference]").first).to_have_text("xfs")


@pytest.mark.parametrize(("width_px", "scheme"), EVERY_VIEW)
@pytest.mark.parametrize("place", ["", "study/made/", "study/made/trial/ext4.postgresql.s1"])
def test_pages_can_be_used_by_everybody(
    new_page: NewPage, served_whole: str, width_px: int, scheme: Literal["light", "dark"], place: str
) -> None:
    page = new_page(width_px=width_px, color_scheme=scheme)

    page.goto(served_whole + place)

    assert violations(page) == []
    assert overflow_px(page) == 0


def test_when_the_server_has_ended_the_page_says_so(browser: Browser, whole: Path) -> None:
    serving = Serving(whole)
    page = browser.new_page()  # which may complain of the connection
    try:
        page.goto(f"{serving.address}study/made/")
        expect(page.locator("a.seed.done")).to_have_count(TRIALS, timeout=PATIENCE_MS)
    finally:
        serving.end()

    expect(page.locator("#lost")).to_be_visible(timeout=PATIENCE_MS)
    page.close()
