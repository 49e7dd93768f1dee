# SPDX-License-Identifier: Apache-2.0
"""Trials with hostile options on this machine: however they end, nothing outside of them changes.

`STRATA_ATTACKS` is how many of the drawn options are run; the rest is for the slow test.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import pytest
from lab_factory import public_folder
from rich.console import Console

from hostile_corpus import corpus
from hostile_options import Attack, Decoys, drawn, study_text, unchecked
from strata.execution.display import LineDisplay
from strata.experiment.run import run_study
from strata.lab import Lab
from strata.model.study import Study
from strata.runners.base import Task
from strata.runners.host import HostRunner
from study_texts import mistakes, read
from watched_world import World, adopt_orphans, reap, watched

pytestmark = pytest.mark.root

SEED: Final = 11
DRAWN: Final = 10_000
FEW: Final = int(os.environ.get("STRATA_ATTACKS", "12"))
_FOLDERS: Final = ("/etc", "/root", "/srv", "/tmp", "/var/tmp")
_LOOP_FIRST: Final = 1000
_LOOP_REMOVE: Final = 0x4C81
_DEVICE_BYTES: Final = 64 << 20
# Other layers and workloads take minutes per option or may be missing here; unit tests check their values.
_QUICK: Final = ("ext2", "ext3", "ext4", "xfs", "btrfs", "fio")


class WatchedRunner(HostRunner):
    """The host runner, with the world watched around each of its trials."""

    world: World
    escapes: dict[str, list[str]]

    def run(self, task: Task) -> None:
        with watched(self.world) as seen:
            try:
                super().run(task)
            finally:
                reap()
        if seen.found:
            self.escapes[task.plan.trial.id] = seen.found


@dataclass
class Ground:
    """The place of the attacks: scratch and results, surrounded by decoys.

    Attributes:
        number: Of the next results folder.
        valid: How many trials came to their end.
    """

    path: Path
    decoys: Decoys
    around: tuple[Path, ...]
    number: int = 0
    valid: int = 0

    def attacks(self, lab: Lab, study: Study) -> dict[str, list[str]]:
        """Run a study; what changed outside of each trial that changed something."""
        self.number += 1
        results = self.path / f"results-{self.number}"
        runner = WatchedRunner(lab.agent, scratch=self.path / "scratch", journal=results, load=lab.load)
        runner.world = World(trees=self.around, devices=(self.decoys.device,), own=(self.path / "scratch",))
        runner.escapes = {}
        with (self.path / "said").open("a") as said:
            display = LineDisplay(Console(file=said), virtual=False)
            self.valid += len(run_study(study, results, runner, display, jobs=1, retries=0).valid)
        return runner.escapes


@pytest.fixture(scope="module")
def ground(lab: Lab) -> Iterator[Ground]:
    if os.geteuid() != 0:
        pytest.skip("needs root, for loop devices")
    adopt_orphans()
    made: list[Path] = []
    with public_folder() as path:
        image = path / "victim.img"
        with image.open("wb") as content:
            content.truncate(_DEVICE_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-L", "victim", str(image)], check=True)
        # A number that the kernel does not assign: a late detach of a low number cannot hit this device.
        device = f"/dev/loop{_LOOP_FIRST + os.getpid()}"
        done = subprocess.run(["losetup", device, str(image)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no loop devices here: {done.stderr}")
        try:
            for place in (*_FOLDERS, str(path)):
                folder = Path(tempfile.mkdtemp(prefix="strata-decoys-", dir=place))
                made.append(folder)
                # Everybody may write here: only the sandbox is in the way of what runs without root.
                folder.chmod(0o777)
                (folder / "file").write_text(f"the decoy in {place}\n")
                (folder / "link").symlink_to("file")
            (path / "scratch").mkdir(mode=0o755)
            yield Ground(path, Decoys(made[-1] / "file", device), tuple(made))
        finally:
            subprocess.run(["losetup", "--detach", device], check=False)
            with Path("/dev/loop-control").open("rb") as control:
                fcntl.ioctl(control, _LOOP_REMOVE, _LOOP_FIRST + os.getpid())
            for folder in made:
                shutil.rmtree(folder)


def accepted(folder: Path, attacks: Iterable[Attack]) -> Iterator[Attack]:
    """Attacks that `strata check` accepts, one for each option."""
    found: set[tuple[str, str]] = set()
    for attack in attacks:
        is_new = attack.name in _QUICK and (attack.place, attack.option) not in found
        if is_new and not mistakes(folder, study_text([attack])):
            found.add((attack.place, attack.option))
            yield attack


def by_ground(attacks: Sequence[Attack]) -> Iterator[list[Attack]]:
    """Group the attacks into studies: attacks on layers, and attacks on workloads."""
    for kind in ("layers", "workloads"):
        if same := [each for each in attacks if each.kind == kind]:
            yield same


def outside(ground: Ground, lab: Lab, attacks: Sequence[Attack]) -> list[str]:
    """Changes outside of the trials whose options `strata check` accepts."""
    changed = []
    ground.valid = 0
    for same in by_ground(attacks):
        study = read(ground.path, study_text(same))
        for trial, found in ground.attacks(lab, study).items():
            changed.append(f"{same[_number(trial, same)].place} {same[_number(trial, same)].value}: {found}")
    print(f"{len(attacks)} options, {ground.valid} valid trials, {len(changed)} with changes outside")
    # Where every trial fails, nothing is tested.
    assert ground.valid > len(attacks) // 2
    return changed


def _number(trial: str, attacks: Sequence[Attack]) -> int:
    stack, workload, _ = trial.split(".")
    return int((stack if attacks[0].kind == "layers" else workload)[1:])


def test_options_that_are_accepted_change_nothing_outside(ground: Ground, lab: Lab) -> None:
    attacks = [*islice(accepted(ground.path, drawn(DRAWN // 4, SEED, ground.decoys)), FEW)]

    assert outside(ground, lab, attacks) == []


@pytest.mark.slow
def test_all_options_that_are_accepted_change_nothing_outside(ground: Ground, lab: Lab) -> None:
    attacks = [*accepted(ground.path, drawn(DRAWN, SEED, ground.decoys))]

    assert len(attacks) > FEW
    assert outside(ground, lab, attacks) == []


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(("ext4", None), ("fio", 6), ("pgbench", 1)),
        # Each takes a second and more; servers take some to start.
        *(
            pytest.param(each, None, marks=pytest.mark.slow)
            for each in ("xfs", "btrfs", "fio", "pgbench", "sql-suite")
        ),
    ],
)
def test_what_gets_past_the_check_changes_nothing_outside(
    ground: Ground, lab: Lab, name: str, count: int | None
) -> None:
    """As if the lists had a hole for all that was found: the sandbox alone must hold."""
    known = {what: each for what, each in corpus(ground.decoys).items() if each.name == name}
    attacks = list(known.values())[:count]
    key = attacks[0].kind.removesuffix("s")
    sound = read(ground.path, study_text([Attack(attacks[0].kind, name, key, name)]))

    escapes = ground.attacks(lab, unchecked(sound, attacks))

    assert {list(known)[_number(trial, attacks)]: found for trial, found in escapes.items()} == {}
