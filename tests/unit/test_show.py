# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from results_factory import STACKS, good_log, make_study, metrics_of, plan_of, snapshot_of, store_trial

from command_line import shown, shown_json
from record_hashes import forget
from strata.errors import ResultError
from strata.model.trial import TrialKey
from strata.results.store import ResultsFolder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_study(tmp_path_factory.mktemp("show") / "results").path)


def test_nothing_is_cut_in_a_terminal_of_80_columns(tmp_path: Path) -> None:
    stacks = {"ext4": 329.0, "btrfs-nodatacow-zstd-raid1": 75.0}
    folder = ResultsFolder.create(tmp_path / "results", snapshot_of(stacks, (1, 2, 3), ("random-mix",)))
    rate, *latencies = metrics_of("random-mix", 200, 1)
    both = [each.prefixed(f"{direction}_") for direction in ("read", "write") for each in latencies]
    for stack in stacks:
        plan = plan_of(stack, "random-mix", 1)
        store_trial(folder, plan, [rate, *both], good_log(plan, 200))

    said = shown("show", str(folder.path), width=80)

    lines = said.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "…" not in said
    for stack in stacks:
        assert sum(line.split()[:1] == [stack] for line in lines) == 3
    for heading in ("Operations per second  more is", "Read latency, 99th", "Write latency, 99th"):
        assert sum(line.startswith(heading) for line in lines) == 1


def test_json_holds_every_metric_of_every_stack_and_every_trial(results: str) -> None:
    plain = shown_json("show", results)

    best = [row for row in plain["cells"] if row["metric"] == "transactions_per_s"]
    assert [row["stack"] for row in best] == ["xfs", "ext4", "btrfs"]
    assert best[2]["verdict"] == "worse"
    assert best[2]["ratio_to_best"] == pytest.approx(75 / 344, rel=0.05)
    assert len(plain["trials"]) == 18
    assert all(trial["valid"] for trial in plain["trials"])


def test_the_error_about_an_unknown_metric_lists_the_known_ones(results: str) -> None:
    for form in ((), ("--json",)):
        with pytest.raises(ResultError, match='no workload has the metric "speed"') as caught:
            shown("show", results, "--metric", "speed", *form)

        assert "latency_ns_p99" in (caught.value.remedy or "")


def test_one_trial_is_shown_with_where_its_disks_time_went(results: str) -> None:
    said = shown("show", results, "--trial", "xfs.oltp.s1")

    for text in (
        "valid",
        "seek",
        "rotation",
        "transfer",
        "flush",
        "queue",
        "7.2.12",
        "postgresql-17",
        "4.8 ×",
    ):
        assert text in said
    plain = shown_json("show", results, "--trial", "xfs.oltp.s1")
    assert plain["record_sha256"] in said


def test_the_error_about_an_unknown_trial_lists_the_known_ones(results: str) -> None:
    with pytest.raises(ResultError, match='no trial "zfs"') as caught:
        shown("show", results, "--trial", "zfs")

    assert "ext4.oltp.s1" in (caught.value.remedy or "")


def test_a_damaged_and_a_missing_result_are_named(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "results")
    path = folder.attempts(TrialKey("xfs", "oltp", 1))[0].result_path
    path.write_bytes(path.read_bytes()[:500])
    folder.attempts(TrialKey("btrfs", "oltp", 3))[0].result_path.unlink()

    said = shown("show", str(folder.path))

    assert "16 of 18 trials are valid" in said
    assert "xfs.oltp.s1: not JSON" in said
    assert "btrfs.oltp.s3: interrupted before its end" in said
    assert "2 of 3" in said


def test_what_is_left_to_be_run_is_one_line_for_all_stacks(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "results")
    forget(folder.path, *(f"{stack}.oltp.s{seed}" for stack in STACKS for seed in (2, 3)))

    said = shown("show", str(folder.path))

    assert said.count("oltp, seeds 2, 3: not run yet") == 1


def test_a_report_is_written_beside_the_results_or_where_asked(results: str, tmp_path: Path) -> None:
    shown("report", results)
    shown("report", results, "-o", str(tmp_path / "mine.html"))

    assert (tmp_path / "mine.html").read_bytes() == (Path(results) / "report.html").read_bytes()


def test_a_report_that_cannot_be_written_is_an_error(results: str, tmp_path: Path) -> None:
    (tmp_path / "no-folder").write_text("")
    with pytest.raises(ResultError, match="cannot"):
        shown("report", results, "-o", str(tmp_path / "no-folder" / "mine.html"))
    with pytest.raises(ResultError, match="it is a folder"):
        shown("report", results, "-o", str(tmp_path))


def test_show_does_not_write_into_the_results(results: str) -> None:
    before = sorted(Path(results).rglob("*"))
    shown("show", results)

    assert sorted(Path(results).rglob("*")) == before
