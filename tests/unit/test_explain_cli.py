# SPDX-License-Identifier: Apache-2.0
"""`strata explain`, `trace` and `replay` on a study that was sealed as the lab's are."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import pytest
from results_factory import EventLog, S, metrics_of, plan_of, record_of, snapshot_of

from command_line import shown, shown_json
from record_hashes import attempt_of
from strata.errors import ResultError
from strata.results.store import ResultsFolder
from strata.results.trace import seal_trace
from strata.traces.table import read_parquet
from traces import MS, records, request

STACKS = {"ext4": 329.0, "btrfs": 75.0}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stacks of one workload with traces, and one workload without."""
    path = tmp_path_factory.mktemp("results") / "quickstart"
    folder = ResultsFolder.create(path, snapshot_of(STACKS, (1,)))
    for stack, writes in (("ext4", 1), ("btrfs", 3)):
        for workload in ("oltp", "random-mix"):
            plan = plan_of(stack, workload, 1)
            log = EventLog(plan)
            log.step("mkfs", S)
            before = dict.fromkeys(("writes", "write_bytes", "flushes", "busy_ns"), 5)
            log.account("load", "step_start", before)
            start = log.now_ns
            log.step("load", S)
            after = {"writes": 5 + 10 * writes, "write_bytes": 5 + 40960 * writes, "flushes": 15}
            log.account("load", "step_end", {**after, "busy_ns": 5 + 10 * (writes * 4 + 2) * MS})
            log.finish()
            attempt = folder.store.begin(folder.study().trials[plan.trial.key])
            attempt.plan_path.write_bytes(plan.to_json())
            attempt.events_path.write_text(log.text())
            made = []
            for number in range(10):
                at = start + 1 + number * 50 * MS
                made += [
                    request(at + index * 4 * MS, kind="write_journal", sector=8 * number, seek=4 * MS)
                    for index in range(writes)
                ]
                made.append(request(at + writes * 4 * MS, kind="flush", sectors=0, flush=2 * MS))
            if workload == "oltp":
                (attempt.path / "trace.bin").write_bytes(records(*made).tobytes())
            trace = seal_trace(attempt, ["disk0"])
            record = record_of(plan, attempt.events_path, metrics_of(workload, STACKS[stack], 1))
            attempt.write_result(record.model_copy(update={"trace": trace}))
    return path


def test_a_trial_is_named_by_its_path_or_by_its_folder_and_its_id(results: Path) -> None:
    by_path = shown("explain", results / "ext4.oltp.s1")

    assert by_path == shown("explain", results, "ext4.oltp.s1")
    for said in ("journal writes and commits", "flushes", "Requests", "disk0: the window"):
        assert said in by_path


def test_json_holds_the_figures(results: Path) -> None:
    found = shown_json("explain", results / "btrfs.oltp.s1")

    kinds = {kind["name"]: kind for kind in found["disks"][0]["kinds"]}
    assert (kinds["write_journal"]["requests"], kinds["flush"]["requests"]) == (30, 10)
    assert kinds["write_journal"]["shares_ns"] == {"seek": 30 * 4.0 * MS}
    assert found["disks"][0]["busy_ns"] == found["disks"][0]["account"]["busy_ns"] == 140 * MS


def test_two_trials_are_compared_in_sentences(results: Path) -> None:
    said = " ".join(shown("explain", results, "ext4.oltp.s1", "btrfs.oltp.s1").split())

    assert "ext4 is" in said
    assert "on journal writes and commits" in said
    plain = shown_json("explain", results, "ext4.oltp.s1", "btrfs.oltp.s1")
    total = sum(each["difference_ns"] for each in plain["contributions"])
    assert total == pytest.approx(plain["difference_ns"])


def test_what_the_slow_requests_waited_for_is_said_of_each_trial_in_their_order(results: Path) -> None:
    words = ("explain", results, "btrfs.oltp.s1", "ext4.oltp.s1", "--percentile", "90")

    said = " ".join(shown(*words).split())
    assert said.index("btrfs.oltp.s1: The load keeps no log") < said.index(
        "ext4.oltp.s1: The load keeps no log"
    )
    plain = shown_json(*words)["trials"]
    assert [*plain] == ["btrfs.oltp.s1", "ext4.oltp.s1"]
    assert plain["ext4.oltp.s1"]["slow"]["percentile"] == 90


def test_the_page_is_one_file(results: Path, tmp_path: Path) -> None:
    shown("explain", results, "ext4.oltp.s1", "btrfs.oltp.s1", "--html", tmp_path / "page.html")

    page = (tmp_path / "page.html").read_text()
    assert "ext4.oltp.s1" in page
    assert "where and when" in page
    found = shown_json("explain", results / "ext4.oltp.s1", "--html", tmp_path / "new" / "page.html")
    assert (found["trial_id"], (tmp_path / "new" / "page.html").is_file()) == ("ext4.oltp.s1", True)


def test_trials_of_one_id_are_named_with_their_folders(results: Path, tmp_path: Path) -> None:
    other = tmp_path / "later"
    shutil.copytree(results, other)

    said = " ".join(shown("explain", results / "ext4.oltp.s1", other / "ext4.oltp.s1").split())

    assert "quickstart/ext4.oltp.s1" in said
    assert "later/ext4.oltp.s1" in said


def test_a_mistyped_trace_and_a_damaged_one_get_remedies_of_their_own(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(results, folder)
    found = attempt_of(folder, "ext4.oltp.s1") / "trace.parquet"

    def remedy(*words: str | Path) -> str:
        with pytest.raises(ResultError) as caught:
            shown(*words)
        return caught.value.remedy or ""

    assert remedy("trace", tmp_path / "none.parquet", "--on", "wd-re4-500gb") == "check the path"
    found.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    assert "damaged or edited" in remedy("trace", folder, "ext4.oltp.s1")
    found.unlink()
    assert "damaged or edited" in remedy("trace", folder, "ext4.oltp.s1")


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("explain", "ext4.oltp.s1"), "names no trial of a results folder"),
        (("explain", "RESULTS", "zfs.oltp.s1"), 'has no trial "zfs.oltp.s1"'),
        (("explain", "RESULTS"), "no trial was named"),
        (("explain", "RESULTS", *["ext4.oltp.s1"] * 3), "3 trials were named"),
        (("explain", "RESULTS", "ext4.oltp.s1", "ext4.random-mix.s1"), "no common unit of work"),
        (("explain", "RESULTS", "ext4.random-mix.s1", "btrfs.random-mix.s1"), "no trace of its requests"),
        (("explain", "RESULTS", "ext4.oltp.s1", "ext4.oltp.s1"), "the same trial is named twice"),
        (("trace", "RESULTS", "ext4.oltp.s1", "--whole", "--format", "csv"), "csv always holds the whole"),
        (("trace", "RESULTS", "ext4.random-mix.s1"), "no trace of its requests"),
        (("trace", "RESULTS", "ext4.oltp.s1", "--format", "parquet"), "Parquet is no text"),
        (("trace", "RESULTS", "ext4.oltp.s1", "--on", "wd-re4-500gb", "--disk", "sdb"), "no disk"),
    ],
)
def test_what_cannot_be_done_is_said(results: Path, words: tuple[str, ...], cause: str) -> None:
    with pytest.raises(ResultError, match=cause):
        shown(*(str(results) if word == "RESULTS" else word for word in words))


def test_the_text_of_a_trace_begins_with_the_measured_window(results: Path) -> None:
    first, *_ = shown("trace", results / "ext4.oltp.s1").splitlines()

    assert first == "  8,0    0        1     0.000000001     0  Q WSM 0 + 8 [strata]"


def test_a_trace_can_be_had_as_csv_and_as_parquet(results: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(shown("trace", results / "ext4.oltp.s1", "--format", "csv"))))
    shown("trace", results / "ext4.oltp.s1", "--format", "parquet", "-o", tmp_path / "t.parquet")

    assert len(rows) == len(read_parquet(tmp_path / "t.parquet").records) == 20
    assert (rows[0]["kind"], rows[0]["seek_ns"]) == ("write_journal", str(4 * MS))


def test_a_table_alone_can_be_replayed(results: Path, tmp_path: Path) -> None:
    shown("trace", results / "ext4.oltp.s1", "--format", "parquet", "-o", tmp_path / "t.parquet")

    plain = shown_json("trace", tmp_path / "t.parquet", "--on", "wd-re4-500gb")["result"]

    assert plain["recorded"]["all"]["requests"] == 20
    assert plain["recorded"]["flush"]["max"] == 2 * MS
