# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from results_factory import (
    FINGERPRINT,
    STACKS,
    good_log,
    make_study,
    metrics_of,
    plan_of,
    record_of,
    snapshot_of,
    spec_sha256_of,
    store_trial,
)

from strata.errors import ResultError
from strata.files import write_durably
from strata.model.trial import TrialKey
from strata.results.record import record_sha256
from strata.results.store import ResultsFolder

PLAN = plan_of("xfs", "oltp", 1)


@pytest.fixture
def folder(tmp_path: Path) -> ResultsFolder:
    return ResultsFolder.create(tmp_path / "results", snapshot_of(STACKS, (1, 2, 3)))


def store(folder: ResultsFolder, seed: int = 1) -> Path:
    plan = plan_of("xfs", "oltp", seed)
    return store_trial(folder, plan, metrics_of("oltp", 344, seed), good_log(plan, 344)).result_path


def test_a_stored_result_is_read_back_whole(folder: ResultsFolder) -> None:
    path = store(folder)

    record = folder.attempts(PLAN.trial.key)[0].read_result()

    assert json.loads(path.read_text())["record_sha256"] == record_sha256(record)
    assert record.metric("transactions_per_s") == metrics_of("oltp", 344, 1)[0]


def test_attempts_are_numbered_and_none_is_overwritten(folder: ResultsFolder) -> None:
    first, second = folder.new_attempt(PLAN.trial.key), folder.new_attempt(PLAN.trial.key)

    assert [first.path.name, second.path.name] == ["attempt-001", "attempt-002"]


def test_a_valid_result_of_the_same_specification_is_reason_to_skip(folder: ResultsFolder) -> None:
    store(folder)
    other_lab = FINGERPRINT.model_copy(update={"kernel_sha256": "0" * 64})

    assert folder.valid_result(PLAN.trial.key, spec_sha256_of(PLAN), FINGERPRINT) is not None
    assert folder.valid_result(PLAN.trial.key, "0" * 64, FINGERPRINT) is None
    assert folder.valid_result(PLAN.trial.key, spec_sha256_of(PLAN), other_lab) is None
    assert folder.valid_result(TrialKey.parse("xfs.oltp.s2"), spec_sha256_of(PLAN), FINGERPRINT) is None


def test_an_interrupted_attempt_is_no_result(folder: ResultsFolder) -> None:
    attempt = folder.new_attempt(PLAN.trial.key)
    attempt.events_path.write_text(good_log(PLAN, 344).text())

    reading = folder.read_trial(PLAN.trial.key)

    assert (reading.record, reading.attempts, reading.incomplete) == (None, 1, 1)
    assert reading.problem == "interrupted before its end"
    assert folder.valid_result(PLAN.trial.key, spec_sha256_of(PLAN), FINGERPRINT) is None


@pytest.mark.parametrize("depth", [100, 900, 200_000])
def test_a_file_of_nested_brackets_is_damage_not_a_traceback(folder: ResultsFolder, depth: int) -> None:
    path = store(folder)
    nested = "[" * depth + "]" * depth
    content = json.loads(path.read_text())
    path.write_text(
        json.dumps({**content, "phases_ns": 0}).replace('"phases_ns": 0', f'"phases_ns": {nested}')
    )

    reading = folder.read_trial(PLAN.trial.key)

    assert not reading.usable
    assert "attempt-001" in (reading.problem or "")
    folder.study_path.write_text('{"study_version": 1, "name": ' + nested + "}")
    with pytest.raises(ResultError) as caught:
        folder.study()
    assert "bring it back from a copy" in (caught.value.remedy or "")


@pytest.mark.parametrize(
    "trial_id", ["../../elsewhere", "xfs.oltp.s1/..", "/etc", "xfs.oltp.s1\n", "xfs.oltp", "zfs.oltp.s1", ""]
)
def test_a_trial_id_that_is_none_of_the_studys_is_refused(folder: ResultsFolder, trial_id: str) -> None:
    content = json.loads(folder.study_path.read_text())
    content["trials"] = {trial_id: "0" * 64}
    folder.study_path.write_text(json.dumps(content))

    with pytest.raises(ResultError, match="trial") as caught:
        folder.readings()

    assert caught.value.place == str(folder.study_path)


def test_a_result_of_a_changed_study_is_out_of_date(folder: ResultsFolder) -> None:
    store(folder)

    reading = folder.read_trial(PLAN.trial.key, "0" * 64)

    assert reading.record is None
    assert "the study has changed" in (reading.problem or "")


def test_a_new_valid_result_replaces_an_invalid_one(folder: ResultsFolder) -> None:
    attempt = folder.new_attempt(PLAN.trial.key)
    attempt.events_path.write_text("")
    attempt.write_result(record_of(PLAN, attempt.events_path, []))
    assert not folder.read_trial(PLAN.trial.key).usable
    store(folder)

    assert folder.read_trial(PLAN.trial.key).usable


def test_virtual_and_wall_results_never_share_a_folder(folder: ResultsFolder) -> None:
    wall = snapshot_of(STACKS, (1,)).model_copy(update={"time_domain": "wall"})

    with pytest.raises(ResultError, match="never pooled"):
        ResultsFolder.create(folder.path, wall)


def test_two_studies_never_share_a_folder(folder: ResultsFolder) -> None:
    other = snapshot_of(STACKS, (1,)).model_copy(update={"name": "another"})

    with pytest.raises(ResultError, match='holds the study "quickstart", not "another"'):
        ResultsFolder.create(folder.path, other)


def test_a_folder_with_other_things_in_it_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(ResultError, match="holds no results of Strata"):
        ResultsFolder.create(tmp_path, snapshot_of(STACKS, (1,)))


def test_a_run_killed_while_it_made_the_folder_can_be_started_again(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    pid = os.fork()
    if pid == 0:
        os.replace = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
        ResultsFolder.create(killed, snapshot_of(STACKS, (1,)))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert [path.name for path in killed.iterdir()] == [".study.json.part"]

    for path in (killed, whole):
        with ResultsFolder(path).lock():
            ResultsFolder.create(path, snapshot_of(STACKS, (1,)))

    assert {path.name for path in killed.iterdir()} == {path.name for path in whole.iterdir()}


def test_a_folder_that_is_refused_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(ResultError, match="holds no results of Strata"), ResultsFolder(tmp_path).lock():
        pass

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_below_a_file_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ResultError, match="Not a directory"):
        ResultsFolder.create(tmp_path / "file" / "results", snapshot_of(STACKS, (1,)))


def test_an_unwritable_folder_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    nobody = 65534
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from results_factory import STACKS, snapshot_of\n"
        "from strata.results.store import ResultsFolder\n"
        "from strata.errors import ResultError\n"
        f"os.geteuid() == 0 and os.setuid({nobody})\n"
        "try:\n"
        "    ResultsFolder.create(Path(sys.argv[1]), snapshot_of(STACKS, (1,)))\n"
        "except ResultError as error:\n"
        "    print(error)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "results")],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "Permission denied" in done.stdout
    assert "choose a folder that you may write to" in done.stdout


@pytest.fixture
def no_room() -> Iterator[None]:
    """Files may not grow beyond 512 bytes, which fails a write in its midst as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_midway_leaves_neither_a_result_nor_a_temporary_file(
    folder: ResultsFolder, request: pytest.FixtureRequest
) -> None:
    attempt = folder.new_attempt(PLAN.trial.key)
    attempt.events_path.write_text(good_log(PLAN, 344).text())
    record = record_of(PLAN, attempt.events_path)
    request.getfixturevalue("no_room")

    with pytest.raises(ResultError, match="cannot write the file"):
        attempt.write_result(record)

    assert not attempt.complete
    assert [path.name for path in attempt.path.iterdir()] == ["events.jsonl"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_a_full_disk_says_so_and_keeps_what_is_there(tmp_path: Path) -> None:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "strata-test", str(tmp_path)], check=False
    )
    if mount.returncode != 0:
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        folder = ResultsFolder.create(tmp_path / "results", snapshot_of(STACKS, (1, 2, 3)))
        store(folder)
        attempt = folder.new_attempt(TrialKey.parse("xfs.oltp.s2"))
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "ballast").write_bytes(bytes(1 << 20))

        with pytest.raises(ResultError, match="No space left on device") as caught:
            attempt.write_result(folder.attempts(PLAN.trial.key)[0].read_result())

        assert "make room" in (caught.value.remedy or "")
        assert folder.read_trial(PLAN.trial.key).usable
        assert not attempt.complete
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_second_run_into_the_folder_is_refused_while_the_first_lasts(folder: ResultsFolder) -> None:
    with (
        folder.lock(),
        pytest.raises(ResultError, match=f"process {os.getpid()} is running"),
        ResultsFolder(folder.path).lock(),
    ):
        pass
    with folder.lock():
        pass


def test_a_finished_study_lists_its_trials_in_its_own_order(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "results", seeds=(1, 2))

    assert [reading.trial_id for reading in folder.readings()][:5] == [
        *("ext4.oltp.s1", "ext4.oltp.s2", "ext4.random-mix.s1", "ext4.random-mix.s2", "xfs.oltp.s1")
    ]


def test_an_interrupt_during_writing_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    (tmp_path / "study.json").write_text("before")
    monkeypatch.setattr(os, "fsync", interrupted)

    with pytest.raises(KeyboardInterrupt):
        write_durably(tmp_path / "study.json", b"after")

    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("study.json", "before")]
