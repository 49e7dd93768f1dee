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
from unittest.mock import Mock

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
from strata.results import records
from strata.results.reading import read_record
from strata.results.store import ResultsFolder

PLAN = plan_of("xfs", "oltp", 1)
IDENTITY = spec_sha256_of(PLAN)


@pytest.fixture
def folder(tmp_path: Path) -> ResultsFolder:
    return ResultsFolder.create(tmp_path / "results", snapshot_of(STACKS, (1, 2, 3)))


def store(folder: ResultsFolder, seed: int = 1) -> Path:
    plan = plan_of("xfs", "oltp", seed)
    return store_trial(folder, plan, metrics_of("oltp", 344, seed), good_log(plan, 344)).result_path


def test_attempts_are_numbered_and_none_is_overwritten(folder: ResultsFolder) -> None:
    first, second = folder.store.begin(IDENTITY), folder.store.begin(IDENTITY)

    assert [first.path.name, second.path.name] == ["attempt-001", "attempt-002"]


def test_a_valid_record_of_the_same_identity_and_lab_is_reason_to_skip(folder: ResultsFolder) -> None:
    store(folder)
    other_lab = FINGERPRINT.model_copy(update={"kernel_sha256": "0" * 64})

    assert folder.store.has(IDENTITY, FINGERPRINT)
    assert folder.store.has(IDENTITY)
    assert not folder.store.has("0" * 64, FINGERPRINT)
    assert not folder.store.has(IDENTITY, other_lab)
    assert folder.store.identities() == [IDENTITY]


def test_studies_that_share_a_store_find_each_others_records(folder: ResultsFolder, tmp_path: Path) -> None:
    other = ResultsFolder.create(tmp_path / "other", snapshot_of(STACKS, (1,)), folder.store)
    store(folder)

    usable = [each.trial_id for each in other.readings() if each.usable]

    assert usable == ["xfs.oltp.s1"]
    assert [path.name for path in other.path.iterdir()] == ["study.json"]
    with other.lock(), pytest.raises(ResultError, match="is running"), folder.lock():
        pass


def test_a_record_under_anothers_identity_is_refused(folder: ResultsFolder) -> None:
    path = store(folder)
    wrong = folder.store.begin("0" * 64)
    wrong.write("result.json", path.read_bytes())

    reading = folder.read_trial(PLAN.trial.key, "0" * 64)

    assert reading.record is None
    assert reading.problem == "this is the record of another trial (attempt-001)"


def test_a_record_is_read_once_and_again_when_it_was_exchanged(
    folder: ResultsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store(folder)
    read = Mock(wraps=read_record)
    monkeypatch.setattr(records, "read_record", read)

    for _ in range(3):
        assert folder.read_trial(PLAN.trial.key, IDENTITY).usable
    assert read.call_count == 1
    path.write_text("{}")
    assert not folder.read_trial(PLAN.trial.key, IDENTITY).usable
    assert read.call_count == 2


def test_an_interrupted_attempt_is_no_result(folder: ResultsFolder) -> None:
    attempt = folder.store.begin(IDENTITY)
    attempt.events_path.write_text(good_log(PLAN, 344).text())

    reading = folder.read_trial(PLAN.trial.key, IDENTITY)

    assert (reading.record, reading.attempts, reading.incomplete) == (None, 1, 1)
    assert reading.problem == "interrupted before its end"
    assert not folder.store.has(IDENTITY, FINGERPRINT)


@pytest.mark.parametrize("depth", [100, 900, 200_000])
def test_a_file_of_nested_brackets_is_damage_not_a_traceback(folder: ResultsFolder, depth: int) -> None:
    path = store(folder)
    nested = "[" * depth + "]" * depth
    content = json.loads(path.read_text())
    path.write_text(
        json.dumps({**content, "phases_ns": 0}).replace('"phases_ns": 0', f'"phases_ns": {nested}')
    )

    reading = folder.read_trial(PLAN.trial.key, IDENTITY)

    assert not reading.usable
    assert "attempt-001" in (reading.problem or "")
    folder.study_path.write_text('{"study_version": 3, "name": ' + nested + "}")
    with pytest.raises(ResultError) as caught:
        folder.study()
    assert "bring it back from a copy" in (caught.value.remedy or "")


def test_a_trial_that_is_none_of_the_studys_or_leads_out_of_the_store_is_refused(
    folder: ResultsFolder,
) -> None:
    content = json.loads(folder.study_path.read_text())
    good = {"stack": "xfs", "workload": "oltp", "seed": 1, "sha256": "0" * 64}
    bad = ({"stack": "zfs"}, {"stack": "../x"}, {"seed": -1}, {"sha256": "../../elsewhere"}, {"sha256": ""})
    for change in bad:
        folder.study_path.write_text(json.dumps({**content, "trials": [good | change]}))
        with pytest.raises(ResultError) as caught:
            folder.readings()
        assert caught.value.place == str(folder.study_path)


def test_a_new_valid_result_replaces_an_invalid_one(folder: ResultsFolder) -> None:
    attempt = folder.store.begin(IDENTITY)
    attempt.events_path.write_text("")
    folder.store.put(attempt, record_of(PLAN, attempt.events_path, []))
    assert not folder.read_trial(PLAN.trial.key, IDENTITY).usable
    store(folder)

    assert folder.read_trial(PLAN.trial.key, IDENTITY).usable


def test_neither_other_results_nor_other_things_share_a_folder(folder: ResultsFolder, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    for path, change, said in (
        (folder.path, {"time_domain": "wall"}, "never pooled"),
        (folder.path, {"name": "another"}, 'holds the study "quickstart", not "another"'),
        (tmp_path / "thesis", {}, "holds no results of Strata"),
    ):
        with pytest.raises(ResultError, match=said):
            ResultsFolder.create(path, snapshot_of(STACKS, (1,)).model_copy(update=change))
    with pytest.raises(ResultError, match="holds no results of Strata"):
        ResultsFolder(tmp_path / "thesis").lock().__enter__()
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["thesis.tex"]


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
    attempt = folder.store.begin(IDENTITY)
    attempt.events_path.write_text(good_log(PLAN, 344).text())
    record = record_of(PLAN, attempt.events_path)
    request.getfixturevalue("no_room")

    with pytest.raises(ResultError, match="cannot write the file"):
        folder.store.put(attempt, record)

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
        attempt = folder.store.begin("0" * 64)
        attempt.events_path.write_text("")
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "ballast").write_bytes(bytes(1 << 20))

        with pytest.raises(ResultError, match="No space left on device") as caught:
            folder.store.put(attempt, record_of(PLAN, attempt.events_path, []))

        assert "make room" in (caught.value.remedy or "")
        assert folder.read_trial(PLAN.trial.key, IDENTITY).usable
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
