# SPDX-License-Identifier: Apache-2.0
"""A few seeded power cuts of each kind; ``make power-cuts`` makes a thousand."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from power_cut_subjects import FLASH, LARGE_SECTORS, SMALL_SECTORS, Subject, program, unsound_subjects
from power_cuts import Chain, Outcome, Rack, run_chains

from examples import SHARE
from strata.errors import RunError
from strata.lab import Lab
from strata.lab.disk_image import DiskImage, PowerCut
from strata.runners.lab import LabRunner

CUTS = 2
UNSOUND_CUTS_MAX = 60
SOON = {"files": 1, "postgresql": 2}
"""Seeds of unsound chains with which damage appeared after few cuts; any seed comes to it."""
SOUND = [
    Subject("ext4", "files", SMALL_SECTORS),
    Subject("ext4", "postgresql", FLASH),
    Subject("xfs", "files", FLASH),
    Subject("btrfs", "files", LARGE_SECTORS),
]
if SHARE == 1:  # a database takes most of the time; test_survival_in_lab.py cuts the power of others
    SOUND += [Subject("xfs", "postgresql", LARGE_SECTORS), Subject("btrfs", "postgresql", FLASH)]
# Each condition, each drive and each kind of work occurs; `make power-cuts` has them in every combination.
UNSOUND = [
    subject
    for subject in unsound_subjects()
    if (subject.drive == SMALL_SECTORS) == (subject.content == "files" or subject.filesystem == "xfs")
    and (subject.content == "files" or subject.lies)
    and subject.filesystem != "zfs"  # `make power-cuts` has it
    and (subject.content == "files" or subject.filesystem == "ext4" or SHARE == 1)
]

# A chain that ends with anything else has not shown that damage is seen.
FOUND_BY = r", epoch \d+: step (\w+-recover-mount|\w+-check|server|verify): "
NO_SUCH_CPU = 10**6

Outcomes = dict[Subject, Outcome]


@pytest.fixture(scope="module")
def outcomes(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    chains = [Chain(subject, seed=1, cuts=CUTS, repeat=True) for subject in SOUND]
    chains += [
        Chain(subject, SOON[subject.content], UNSOUND_CUTS_MAX, until_damaged=True) for subject in UNSOUND
    ]
    with Rack(LabRunner(lab), tmp_path_factory.mktemp("power")) as rack:
        return run_chains(rack, chains, sorted(os.sched_getaffinity(0)))


@pytest.mark.slow
def test_zfs_is_imported_scrubbed_and_verified_and_a_lying_drive_is_found_out(
    lab: Lab, tmp_path: Path
) -> None:
    sound = Subject("zfs", "files", FLASH)
    lying = Subject("zfs", "files", FLASH, lies=True)
    chains = [Chain(sound, seed=1, cuts=CUTS), Chain(lying, 1, UNSOUND_CUTS_MAX, until_damaged=True)]
    with Rack(LabRunner(lab), tmp_path) as rack:
        found = run_chains(rack, chains, sorted(os.sched_getaffinity(0)))

    assert found[sound].damage == []
    assert found[sound].survived == CUTS
    assert found[sound].operations > 0
    assert found[lying].damage != []


def name_of(subject: Subject) -> str:
    return subject.name


@pytest.mark.parametrize("subject", SOUND, ids=name_of)
def test_a_stack_with_barriers_keeps_everything_it_acknowledged(outcomes: Outcomes, subject: Subject) -> None:
    outcome = outcomes[subject]

    assert outcome.damage == []
    assert outcome.survived == outcome.cuts == CUTS
    assert outcome.operations > 0
    assert outcome.remarks == [] or subject.filesystem == "btrfs"


@pytest.mark.parametrize("subject", SOUND, ids=name_of)
def test_the_same_cut_leaves_the_same_image(outcomes: Outcomes, subject: Subject) -> None:
    assert outcomes[subject].different == []


@pytest.mark.parametrize("subject", UNSOUND, ids=name_of)
def test_without_barriers_or_on_a_drive_that_lies_damage_appears(
    outcomes: Outcomes, subject: Subject
) -> None:
    (damage,) = outcomes[subject].damage

    assert re.search(FOUND_BY, damage)


def test_the_cuts_lose_writes_that_the_disk_has_acknowledged(outcomes: Outcomes) -> None:
    assert sum(outcomes[subject].lost + outcomes[subject].torn for subject in SOUND) > 0
    assert sum(outcomes[subject].lost_acknowledged for subject in SOUND) > 0


def test_a_cut_at_the_very_first_command_leaves_the_image_as_it_was(lab: Lab, tmp_path: Path) -> None:
    chain = Chain(SOUND[0], seed=1, cuts=1)
    with (
        Rack(LabRunner(lab), tmp_path) as rack,
        rack.prepared(chain.subject, None).copy() as image,
        DiskImage(tmp_path) as notes,
    ):
        before = image.sha256()
        cut = rack.boot(chain, chain.subject.boot(1, 0, None), [image, notes], None, PowerCut(after_ios=1))
        after = image.sha256()
        again = rack.boot(chain, chain.subject.boot(1, 1, None), [image, notes], None)

    assert cut.losses is not None
    assert [(loss.disk, loss.writes_acknowledged) for loss in cut.losses] == [("sda", 0)]
    assert after == before
    assert again.damage is None


def test_a_lab_that_ends_from_outside_is_not_taken_for_damage(lab: Lab, tmp_path: Path) -> None:
    chain = Chain(SOUND[0], seed=1, cuts=1)
    with (
        Rack(LabRunner(lab), tmp_path) as rack,
        DiskImage(tmp_path) as image,
        DiskImage(tmp_path) as notes,
        pytest.raises(RunError, match="before its agent was done"),
    ):
        rack.boot(chain, chain.subject.boot(1, 0, None), [image, notes], NO_SUCH_CPU)


OPERATIONS = 60
TOLD = (1, 0, 0)  # seed, epoch, worker


@pytest.fixture
def files() -> dict[str, Any]:
    """The program that works on files in the lab, here on the host's."""
    namespace: dict[str, Any] = {"__name__": "files"}
    exec(program("files.py").replace("$$", "$"), namespace)
    return namespace


@pytest.fixture
def verify(files: dict[str, Any], tmp_path: Path) -> Callable[[], int]:
    """The verifier's status after some operations; 0 is sound. The last operation is not acknowledged."""
    root = tmp_path / "e0" / "w0"
    for folder in ("d0", "d1"):
        (root / folder).mkdir(parents=True)
    state: dict[str, bytes] = {}
    for number in range(1, OPERATIONS + 2):
        following = files["operation"](state, *TOLD, number)
        files["carry_out"](following, str(root))
        state = following.apply(state)
    (tmp_path / "notes").write_bytes(b"")
    notes = files["Notes"](str(tmp_path / "notes"))
    notes.acknowledge(0, 0, OPERATIONS)
    return lambda: int(files["verify"](str(tmp_path), notes, 1, 1, 1))


def untouched(files: dict[str, Any]) -> tuple[str, bytes]:
    """A file that the last operation has nothing to do with, and what it must hold."""
    state: dict[str, bytes] = {}
    for number in range(1, OPERATIONS + 1):
        state = files["operation"](state, *TOLD, number).apply(state)
    last = files["operation"](state, *TOLD, OPERATIONS + 1)
    name = max(set(state) - {last.name, last.target}, key=lambda name: len(state[name]))
    return f"e0/w0/{name}", state[name]


def test_the_verifier_accepts_an_operation_that_was_done_but_not_acknowledged(
    verify: Callable[[], int],
) -> None:
    assert verify() == 0


def test_the_verifier_sees_one_byte_that_is_not_as_it_was_acknowledged(
    verify: Callable[[], int], files: dict[str, Any], tmp_path: Path
) -> None:
    name, content = untouched(files)
    (tmp_path / name).write_bytes(content[:-1] + b"\0")

    assert verify() == 1


def test_the_verifier_sees_an_acknowledged_file_that_is_gone(
    verify: Callable[[], int], files: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / untouched(files)[0]).unlink()

    assert verify() == 1


def test_the_verifier_sees_a_file_that_came_back(verify: Callable[[], int], tmp_path: Path) -> None:
    (tmp_path / "e0/w0/d0/old").write_bytes(b"")

    assert verify() == 1


def test_the_verifier_finds_foreign_content_in_an_unsynced_file(
    verify: Callable[[], int], tmp_path: Path
) -> None:
    (tmp_path / "e0/noise").mkdir()
    (tmp_path / "e0/noise/1.1").write_bytes(b"somebody else's")

    assert verify() == 1
