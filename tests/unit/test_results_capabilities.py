# SPDX-License-Identifier: Apache-2.0
"""What was found is kept in findings.json among a study's results, and limited to what still holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from results_factory import FINGERPRINT, TITLES, make_study, snapshot_of

from strata.errors import ResultError
from strata.results.capabilities import Capabilities, Capability, ProbeTitle, Verdict
from strata.results.findings import FINDINGS_NAME, read_capabilities, write_capabilities
from strata.results.store import ResultsFolder

PROBES = (ProbeTitle(name="snapshot", title="Snapshots"), ProbeTitle(name="quota", title="Quota enforced"))
STACKS = {name: TITLES[name] for name in ("ext4", "xfs", "btrfs")}


def found(*cells: tuple[str, str, Verdict], stacks: dict[str, str] = STACKS) -> Capabilities:
    made = tuple(Capability(stack=stack, probe=probe, verdict=verdict) for stack, probe, verdict in cells)
    return Capabilities(study="quickstart", fingerprint=FINGERPRINT, probes=PROBES, stacks=stacks, cells=made)


def test_what_was_found_is_read_again_as_it_was(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "results", stacks={"ext4": 300.0}, seeds=(1,))
    cell = Capability(
        stack="ext4", probe="quota", verdict="partial", note="a note", duration_ns=5, commands=("true",)
    )
    written = found(stacks={"ext4": STACKS["ext4"]}).model_copy(update={"cells": (cell,)})

    write_capabilities(folder, written)
    read = read_capabilities(folder)

    assert read == written
    assert read.of("ext4", "quota") == cell
    assert read.of("ext4", "snapshot") is None
    assert read.title("quota") == "Quota enforced"


def test_a_second_survey_of_one_probe_keeps_what_the_first_found(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "results")
    write_capabilities(folder, found(("ext4", "snapshot", "no"), ("btrfs", "quota", "no")))
    write_capabilities(folder, found(("btrfs", "snapshot", "yes"), ("btrfs", "quota", "yes")))

    read = read_capabilities(folder)

    assert read is not None
    assert [(cell.stack, cell.probe, cell.verdict) for cell in read.cells] == [
        ("ext4", "snapshot", "no"),
        ("btrfs", "snapshot", "yes"),
        ("btrfs", "quota", "yes"),
    ]


def test_what_another_lab_found_is_not_joined(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "results")
    write_capabilities(folder, found(("ext4", "snapshot", "no")).model_copy(update={"fingerprint": None}))
    written = write_capabilities(folder, found(("btrfs", "snapshot", "yes")))

    assert [cell.stack for cell in written.cells] == ["btrfs"]


def test_findings_of_a_stack_that_was_changed_or_left_out_since_are_not_shown(tmp_path: Path) -> None:
    folder = ResultsFolder.create(tmp_path / "results", snapshot_of({"ext4": 1.0, "xfs": 1.0}, (1,)))
    changed = {**STACKS, "xfs": "xfs · on another disk"}
    cells: list[tuple[str, str, Verdict]] = [(name, "quota", "yes") for name in STACKS]
    write_capabilities(folder, found(*cells, stacks=changed))

    read = read_capabilities(folder)

    assert read is not None
    assert [cell.stack for cell in read.cells] == ["ext4"]


def test_another_studys_folder_is_refused(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "results", stacks={"ext4": 300.0}, seeds=(1,))

    with pytest.raises(ResultError, match='holds the study "quickstart", not "other"'):
        write_capabilities(folder, found().model_copy(update={"study": "other"}))


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"findings_version": 99}', "of version 99"),
        ('{"findings_version": 1, "capabilities": {"study": "x"}}', "capabilities.probes: field required"),
    ],
)
def test_a_damaged_or_newer_file_is_refused_with_a_remedy(tmp_path: Path, content: str, cause: str) -> None:
    folder = make_study(tmp_path / "results", stacks={"ext4": 300.0}, seeds=(1,))
    (folder.path / FINDINGS_NAME).write_text(content)

    with pytest.raises(ResultError, match=cause) as caught:
        read_capabilities(folder)

    assert "remove the file and ask again" in (caught.value.remedy or "")
    assert str(folder.path) in (caught.value.place or "")


def test_a_study_may_be_run_into_a_folder_that_has_only_capabilities(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "results")
    write_capabilities(folder, found(("ext4", "quota", "yes")))

    ResultsFolder.create(folder.path, snapshot_of({"ext4": 1.0}, (1,)))

    assert json.loads((folder.path / FINDINGS_NAME).read_text())["capabilities"]["study"] == "quickstart"
