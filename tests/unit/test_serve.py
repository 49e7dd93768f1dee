# SPDX-License-Identifier: Apache-2.0
"""`strata serve`: what it shows of results folders in any state, and how it follows them."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from execution_factory import fake_runner, study_in
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from made_results import made_results, trial_key
from strata.advice.advise import advise
from strata.advice.uses import bundled_uses
from strata.execution.pool import ClusterNow, MachineTally
from strata.execution.schedule import plan_study
from strata.model.trial import TrialKey
from strata.plan.catalogue import catalogue
from strata.report.page import render
from strata.report.report import Report
from strata.results import records
from strata.results.reading import read_record
from strata.results.records import Attempt
from strata.results.store import CLUSTER_NAME, ResultsFolder
from strata.runners.base import Progress
from strata.serve import pages as pages_module
from strata.serve.app import application
from strata.serve.watch import StudyNow, Watch, find_watches
from strata.statistics.study import gather
from strata.units import NS_PER_S

HOST = "http://127.0.0.1:8000"
FIRST = "ext4.postgresql.s1"
PAGES = ("/", "/study/made/", "/study/made/results", "/study/made/report", f"/study/made/trial/{FIRST}")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of 2 stacks × 2 workloads × 2 seeds; not to be changed."""
    folder = tmp_path_factory.mktemp("whole") / "made"
    made_results(folder, stacks=2, workloads=2, seeds=2)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return Path(shutil.copytree(whole, tmp_path / "results" / "made"))


def client_of(*roots: Path, **more: object) -> TestClient:
    return TestClient(application([*roots], **more), base_url=HOST, raise_server_exceptions=True)


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    with client_of(folder) as opened:
        yield opened


def attempt_of(folder: Path, trial_id: str = FIRST) -> Attempt:
    return ResultsFolder(folder).attempts(trial_key(trial_id))[-1]


def unfinished(folder: Path, trial_id: str = FIRST) -> Attempt:
    """As a run leaves a trial that it is at, or was at when it was killed."""
    attempt = attempt_of(folder, trial_id)
    attempt.result_path.unlink()
    return attempt


def look(folder: Path) -> StudyNow:
    return Watch("made", folder).now()


def state_of(now: StudyNow, trial_id: str = FIRST) -> str:
    return next(each.state for each in now.trials if each.id == trial_id)


# The pages.


def test_what_a_study_says_of_itself_is_text(tmp_path: Path) -> None:
    made_results(tmp_path / "made", stacks=1, workloads=1, seeds=1, question="<script>alert(1)</script>?")

    for address in ("/", "/study/made/", f"/study/made/trial/{FIRST}"):
        text = client_of(tmp_path / "made").get(address).text
        assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in client_of(tmp_path).get("/").text


def test_results_of_the_same_name_are_distinguished(tmp_path: Path, whole: Path) -> None:
    roots = [Path(shutil.copytree(whole, tmp_path / each / "made")) for each in ("monday", "tuesday")]

    found = find_watches([*roots, roots[0]], {})

    assert {key: watch.path for key, watch in found.items()} == {"made": roots[0], "made-2": roots[1]}


def test_a_study_of_which_nothing_is_done_is_all_left(tmp_path: Path) -> None:
    every = {f"ext4.postgresql.s{seed}" for seed in (1, 2)}
    made_results(tmp_path / "made", stacks=1, workloads=1, seeds=2, missing=every)
    client = client_of(tmp_path / "made")

    text = client.get("/study/made/").text

    assert "<b>0 of 2</b> trials done" in text
    assert "2 left" in text
    assert client.get("/study/made/report").status_code == 404
    assert "There is no report yet" in client.get("/study/made/report").text


def test_a_trials_page_shows_its_metrics_its_checks_its_plan_and_its_console(
    folder: Path, client: TestClient, tmp_path: Path
) -> None:
    attempt = attempt_of(folder)
    planned = plan_study(study_in(tmp_path), fake_runner())[0]
    attempt.plan_path.write_bytes(
        next(each.plan for each in planned if each.key == TrialKey("ext4", "mix", 1)).to_json()
    )
    attempt.console_path.write_text("first\n" * 20_000 + "Kernel panic <not syncing>\n")

    text = client.get(f"/study/made/trial/{FIRST}").text

    assert "Transactions per second" in text
    assert "Did the measured window reach the disks?" in text
    assert "mkfs.ext4" in text
    assert "Kernel panic &lt;not syncing&gt;" in text
    assert text.count("first") < 12_000  # its end


def test_what_a_killed_run_left_is_interrupted(folder: Path, client: TestClient) -> None:
    unfinished(folder)

    assert state_of(look(folder)) == "interrupted"
    assert "Not running" in client.get("/study/made/").text
    assert client.get(f"/study/made/trial/{FIRST}").status_code == 200


def test_what_is_written_while_a_run_holds_the_folder_is_running(folder: Path, tmp_path: Path) -> None:
    attempt = unfinished(folder)
    plan = plan_study(study_in(tmp_path), fake_runner())[0][0].plan
    attempt.plan_path.write_bytes(plan.to_json())
    step = plan.steps[0]
    events = [
        {"type": "agent_start", "monotonic_ns": 1 * NS_PER_S},
        {"type": "step_start", "monotonic_ns": 4 * NS_PER_S, "step": step.id, "phase": step.phase},
    ]
    attempt.events_path.write_text("".join(f"{json.dumps(each)}\n" for each in events) + '{"type": "half')

    with ResultsFolder(folder).lock():
        now = look(folder)

    (running,) = now.of("running")
    assert (running.id, running.step, running.done_ns) == (FIRST, step.title, 3 * NS_PER_S)
    assert running.expected_ns is not None
    assert running.expected_ns > 0
    assert now.running
    assert now.left
    assert not look(folder).running


def test_a_run_on_a_cluster_shows_its_trials_its_machines_and_their_failures(folder: Path) -> None:
    shutil.rmtree(attempt_of(folder).path)
    machines = {"node1": MachineTally(finished=7), "node2": MachineTally(left_out="its disk is full")}
    now = ClusterNow(40, "http://10.0.0.1:8787/status", {FIRST: Progress("measure", "measure", 5)}, machines)
    (folder / CLUSTER_NAME).write_bytes(TypeAdapter(ClusterNow).dump_json(now))

    with ResultsFolder(folder).lock():
        page = client_of(folder).get("/study/made/").text
        (running,) = look(folder).of("running")

    assert (running.id, running.step, running.done_ns) == (FIRST, "measure", 5)
    for shown in ("40 at once", 'href="http://10.0.0.1:8787/status"', "7 trials done", "its disk is full"):
        assert shown in page
    assert "at once" not in client_of(folder).get("/study/made/").text, "the run has ended"


@pytest.mark.parametrize("content", ['{"trial": {"study"', "", '{"result_version": 99}'])
def test_a_damaged_result_is_shown_as_one(folder: Path, content: str) -> None:
    attempt_of(folder).result_path.write_text(content)
    client = client_of(folder)

    page, trial = client.get("/study/made/"), client.get(f"/study/made/trial/{FIRST}")

    assert (page.status_code, trial.status_code) == (200, 200)
    assert "1 unreadable" in page.text
    assert "<b>7 of 8</b>" in page.text
    assert "unreadable" in trial.text
    assert client.get("/study/made/report").status_code == 200


@pytest.mark.parametrize("content", ["{", "", '{"study_version": 99}', None])
def test_a_damaged_study_is_shown_as_one_beside_the_others(
    folder: Path, whole: Path, content: str | None
) -> None:
    shutil.copytree(whole, folder.parent / "sound")
    study = folder / "study.json"
    if content is None:
        study.unlink()
        study.mkdir()
    else:
        study.write_text(content)
    client = client_of(folder.parent)

    overview, study = client.get("/"), client.get("/study/made/")

    assert (overview.status_code, study.status_code) == (200, 200)
    assert "cannot be read" in overview.text
    assert "<b>8 of 8</b>" in overview.text
    assert "cannot be read" in study.text
    assert client.get("/study/made/report").status_code == 404
    assert client.get("/study/made/results").status_code == 200
    assert client.get(f"/study/made/trial/{FIRST}").status_code == 404


def test_results_in_both_kinds_of_time_are_no_charts_and_no_failure(folder: Path, tmp_path: Path) -> None:
    made_results(tmp_path / "wall", stacks=2, workloads=2, seeds=2, time_domain="wall")
    shutil.copy(attempt_of(tmp_path / "wall").result_path, attempt_of(folder).result_path)

    said = client_of(folder).get("/study/made/")

    assert said.status_code == 200
    assert "Charts cannot be drawn" in said.text


def test_a_folder_that_goes_away_is_said_to_have(folder: Path) -> None:
    client = client_of(folder.parent)
    client.get("/study/made/")
    shutil.rmtree(folder)

    assert client.get("/study/made/").status_code == 404
    assert client.get("/").status_code == 200


# How it follows.


def test_looking_takes_no_lock_and_writes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*given: object) -> None:
        raise AssertionError("a lock was taken")

    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    monkeypatch.setattr(fcntl, "flock", locked)

    client = client_of(folder)
    for address in PAGES:
        assert client.get(address).status_code == 200

    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_result_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(wraps=read_record)
    monkeypatch.setattr(records, "read_record", read)
    path = attempt_of(folder).result_path
    kept = path.read_bytes()
    path.unlink()
    watch = Watch("made", folder, clock=iter(range(0, 1000, 10)).__next__)

    first = watch.now()
    watch.now()
    assert read.call_count == 7
    path.write_bytes(kept)
    now = watch.now()

    assert read.call_count == 8
    assert read.call_args.args == (path,)
    assert now.version != first.version
    assert state_of(now) == "done"
    assert [each.id for each in now.newest(1)] == [FIRST]


def test_a_result_that_arrives_during_a_poll_changes_the_version_of_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = attempt_of(folder).result_path
    kept = path.read_bytes()
    path.unlink()
    original = ResultsFolder.read_trial

    def arriving(self: ResultsFolder, trial: TrialKey, spec_sha256: str | None = None) -> object:
        reading = original(self, trial, spec_sha256)
        path.write_bytes(kept)
        return reading

    monkeypatch.setattr(ResultsFolder, "read_trial", arriving)
    watch = Watch("made", folder, clock=iter(range(0, 1000, 10)).__next__)

    before, after = watch.now(), watch.now()

    assert state_of(before) != state_of(after) == "done"
    assert before.version != after.version, "or a page that has the charts of the first would keep them"


def test_a_page_is_never_older_than_the_version_that_it_names(folder: Path) -> None:
    path = attempt_of(folder).result_path
    kept = path.read_bytes()
    path.unlink()
    looks = iter(range(0, 1000, 10))
    watch, other = Watch("made", folder, clock=looks.__next__), Watch("made", folder)
    pages = pages_module.Pages(clock=lambda: 0.0)

    # Another page's request draws the charts of a newer state while this one waits.
    drawing = pages.charts

    def overtaken(watch: Watch, now: StudyNow) -> object:
        path.write_bytes(kept)
        return drawing(watch, other.now())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "charts", overtaken)
        version, html = pages.results_part(watch)

    assert version == other.now().version
    assert f'class="seed done" href="trial/{FIRST}"' in html


def test_the_events_tell_of_a_new_result_and_end_with_the_server(folder: Path) -> None:
    path = attempt_of(folder).result_path
    kept = path.read_bytes()
    path.unlink()
    looks: list[int] = []

    def stopping() -> bool:
        looks.append(1)
        if len(looks) == 3:
            path.write_bytes(kept)
        return len(looks) > 12

    # A fresh look needs another instant, so the folder's clock runs with the looks.
    site = application([folder], stopping=stopping, look_interval_s=0, clock=lambda: float(10 * len(looks)))
    said = TestClient(site, base_url=HOST).get("/study/made/events")

    assert said.headers["Content-Type"].startswith("text/event-stream")
    events = [
        json.loads(line.removeprefix("data: ")) for line in said.text.splitlines() if line[:5] == "data:"
    ]
    assert "<b>7 of 8</b>" in events[0]["html"]
    assert "<b>8 of 8</b>" in events[-1]["html"]
    assert events[0]["version"] != events[-1]["version"]
    assert len(events) <= 4, "an unchanged state is sent again now and then, not each time"


def test_the_served_report_is_the_one_that_the_command_writes(folder: Path, client: TestClient) -> None:
    results = gather(ResultsFolder.open(folder))
    advice = advise(results, list(bundled_uses(catalogue()).values()), None)

    assert client.get("/study/made/report").text == render(Report(results, advice=advice))


def test_charts_are_drawn_once_for_the_same_results_and_seldom_while_a_study_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    clock = [0.0]

    def slow(results: object) -> object:
        drawn.append(1)
        clock[0] += 2.0
        return gather(results)  # type: ignore[arg-type]

    monkeypatch.setattr(pages_module, "gather", slow)
    path = attempt_of(folder).result_path
    kept = path.read_bytes()
    path.unlink()
    watch = Watch("made", folder, clock=iter(range(0, 1000, 10)).__next__)
    pages = pages_module.Pages(clock=lambda: clock[0])

    with ResultsFolder(folder).lock():
        before = pages.charts(watch, watch.now())
        assert pages.charts(watch, watch.now()) is before
        path.write_bytes(kept)
        assert pages.charts(watch, watch.now()) is before, "it took 2 s, so it is good for 18 more"
        clock[0] += 18.0
        after = pages.charts(watch, watch.now())

    assert after.version == watch.now().version != before.version
    assert len(drawn) == 2
