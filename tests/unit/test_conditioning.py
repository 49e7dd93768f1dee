# SPDX-License-Identifier: Apache-2.0
"""Real flash drives are brought into a study's state, tried on loop devices that stand for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from execution_factory import fake_runner, study_in

from strata.devices.device import find_device
from strata.devices.kinds.flash import precondition
from strata.errors import LabError
from strata.execution.schedule import plan_study
from strata.machine.reading import SystemFiles
from strata.model.study import StudyDevice
from strata.runners.base import Cancelled, Progress, Task
from strata.runners.conditioning import Conditioned, Conditioning, Drive, Rules, condition, state_of

CAPACITY_BYTES = 64 << 20
# Minutes become tenths of a second.
RULES = Rules(fill_passes=2, round_s=0.1, rounds_max=2, pause_s=0.1)


@dataclass
class ProgressRecord:
    """The steps that a trial reported."""

    steps: list[str] = field(default_factory=list)

    def report(self, progress: Progress) -> None:
        self.steps.append(progress.step)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root, for loop devices")
    if missing := [tool for tool in ("fio", "blkdiscard", "losetup") if not shutil.which(tool)]:
        pytest.skip(f"this machine lacks {', '.join(missing)}")
    file = tmp_path / "disk.img"
    file.touch()
    os.truncate(file, CAPACITY_BYTES)
    attach = ["losetup", "--find", "--show", str(file)]
    done = subprocess.run(attach, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop devices here: {done.stderr}")
    yield Path(done.stdout.strip())
    subprocess.run(["losetup", "--detach", done.stdout.strip()], check=True)


def allocated_bytes(tmp_path: Path) -> int:
    """The allocated bytes of the file behind the loop device."""
    return (tmp_path / "disk.img").stat().st_blocks * 512


def task_in(
    folder: Path, progress: ProgressRecord | None = None, cancel: threading.Event | None = None
) -> Task:
    study = study_in(folder)
    planned = plan_study(study, fake_runner())[0][0]
    return Task(
        plan=planned.plan,
        devices=study.drawn_devices(planned.key.stack, planned.key.seed),
        folder=folder,
        report=(progress or ProgressRecord()).report,
        cancel=cancel or threading.Event(),
    )


def conditioned(
    folder: Path, loop: Path, state: str, rules: Rules = RULES, progress: ProgressRecord | None = None
) -> Conditioned:
    drive = Drive("disk0", loop, state)
    return Conditioning(task_in(folder, progress), drive, folder / "notes.json", rules).run()


def write_something(loop: Path) -> None:
    done = ["dd", "if=/dev/urandom", f"of={loop}", "bs=1M", "count=8", "conv=notrunc,fsync", "status=none"]
    subprocess.run(done, check=True)


def test_a_fresh_drive_holds_nothing(tmp_path: Path, loop: Path) -> None:
    write_something(loop)
    assert allocated_bytes(tmp_path) > 0

    done = conditioned(tmp_path, loop, "fresh")

    assert (done.reached, done.detail) == (True, "discarded whole")
    assert allocated_bytes(tmp_path) == 0


def test_a_filled_drive_is_written_once(tmp_path: Path, loop: Path) -> None:
    written_before = Drive("disk0", loop, "filled").written_bytes
    progress = ProgressRecord()

    done = conditioned(tmp_path, loop, "filled", progress=progress)

    assert done.reached
    assert Drive("disk0", loop, "filled").written_bytes - written_before == CAPACITY_BYTES
    assert allocated_bytes(tmp_path) >= CAPACITY_BYTES
    assert all(each.startswith("disk0: ") for each in progress.steps)


def test_a_used_drive_is_written_in_part_and_partly_again(tmp_path: Path, loop: Path) -> None:
    written_before = Drive("disk0", loop, "used").written_bytes

    done = conditioned(tmp_path, loop, "used")

    assert (done.reached, done.rounds) == (True, ())
    written = Drive("disk0", loop, "used").written_bytes - written_before
    assert written == pytest.approx(CAPACITY_BYTES * 0.75 * 1.5, rel=0.01)
    assert allocated_bytes(tmp_path) == pytest.approx(CAPACITY_BYTES * 0.75, rel=0.01)


def test_a_steady_drive_is_written_twice_and_then_at_random_for_five_rounds_or_more(
    tmp_path: Path, loop: Path
) -> None:
    written_before = Drive("disk0", loop, "steady").written_bytes

    done = conditioned(tmp_path, loop, "steady", replace(RULES, rounds_max=8))

    assert 5 <= len(done.rounds) <= 8
    assert done.reached or len(done.rounds) == 8
    assert done.detail.startswith("written 2 times in order, then overwritten at random for ")
    assert Drive("disk0", loop, "steady").written_bytes - written_before > 2 * CAPACITY_BYTES


def test_a_drive_that_does_not_become_steady_says_so(tmp_path: Path, loop: Path) -> None:
    done = conditioned(tmp_path, loop, "steady")

    assert (done.reached, len(done.rounds)) == (False, 2)
    assert "not steady" in done.detail


def test_before_the_next_trial_a_steady_drive_is_not_filled_again(tmp_path: Path, loop: Path) -> None:
    conditioned(tmp_path, loop, "steady")
    write_something(loop)  # as a trial does

    done = conditioned(tmp_path, loop, "steady")

    assert done.detail.startswith("overwritten at random for ")


def test_a_steady_drive_that_a_trial_has_discarded_is_filled_again(tmp_path: Path, loop: Path) -> None:
    conditioned(tmp_path, loop, "steady")
    subprocess.run(["blkdiscard", "--length", "1M", str(loop)], check=True)

    done = conditioned(tmp_path, loop, "steady")

    assert done.detail.startswith("written 2 times in order")


def test_a_drive_whose_filling_was_cut_short_is_filled_again(tmp_path: Path, loop: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    drive = Drive("disk0", loop, "steady")
    with pytest.raises(Cancelled):
        Conditioning(task_in(tmp_path, cancel=cancel), drive, tmp_path / "notes.json", RULES).run()

    done = conditioned(tmp_path, loop, "steady")

    assert done.detail.startswith("written 2 times in order")


def users_of(node: Path) -> list[str]:
    """The processes that have a device node on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_text().split("\0") if entry.name.isdigit() else []
            if str(os.getpid()) != entry.name and any(str(node) in word.split("=") for word in words):
                found.append(entry.name)
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_nothing_writes_to_the_drive_any_more_when_strata_is_killed(tmp_path: Path, loop: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from test_conditioning import Conditioning, Drive, Rules, task_in\n"
        "folder, node = map(Path, sys.argv[1].split(':'))\n"
        "rules = Rules(fill_passes=0, round_s=600)\n"
        "Conditioning(task_in(folder), Drive('disk0', node, 'steady'), folder / 'notes.json', rules).run()\n"
    )
    # The node is part of a word, so that this process is not taken for one that uses it.
    argv = [sys.executable, "-c", program, f"{tmp_path}:{loop}"]
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    strata = subprocess.Popen(argv, env=here)
    try:
        wait_until(lambda: bool(users_of(loop)) and Drive("disk0", loop, "steady").written_bytes > 0)
    finally:
        strata.kill()
        strata.wait()

    wait_until(lambda: not users_of(loop))


def test_a_program_does_not_outlive_strata_that_ends_at_once() -> None:
    script = (
        "import os, subprocess\n"
        "from strata.runners.base import ending_with_strata\n"
        "for _ in range(10):\n"
        "    if os.fork() == 0:\n"
        "        subprocess.Popen([*ending_with_strata('KILL'), 'sleep', '60'])\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
    )

    # The output ends when no process has it any more.
    subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=30, check=True)


def test_a_device_node_that_is_gone_is_an_error_and_no_file_is_made(tmp_path: Path) -> None:
    node = tmp_path / "gone"
    drive = Drive("disk0", node, "filled")

    with pytest.raises(LabError, match="disk0 cannot be preconditioned"):
        Conditioning(task_in(tmp_path), drive, tmp_path / "notes.json", RULES).run()

    assert not node.exists()


def fake_drive(root: Path, **queue: str) -> Drive:
    for name, text in queue.items():
        path = root / "sys/class/block/sdz/queue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return Drive("disk0", Path("/dev/sdz"), "fresh", SystemFiles(root))


def test_a_rotating_disk_has_no_state(tmp_path: Path) -> None:
    assert fake_drive(tmp_path, rotational="1").is_rotating
    assert not fake_drive(tmp_path, rotational="0").is_rotating


def test_a_drive_without_discards_is_never_fresh(tmp_path: Path) -> None:
    drive = fake_drive(tmp_path, rotational="0", discard_max_bytes="0")

    done = Conditioning(task_in(tmp_path), drive, tmp_path / "notes.json", RULES).run()

    assert (done.reached, done.detail) == (False, "it takes no discards (TRIM)")


def test_the_study_says_the_state_and_modelled_devices_are_left_alone(tmp_path: Path) -> None:
    flash, real = find_device("samsung-870-evo-1tb"), find_device("wd-re4-500gb")
    stated = flash.parameters["precondition"]
    for each, state in ((precondition("steady"), "steady"), (stated, "fresh")):
        modelled = replace(flash, parameters={**flash.parameters, "precondition": each})
        used = StudyDevice("disk0", modelled, 1 << 30).replaced_by(StudyDevice("sdz", real, 1 << 30))
        assert state_of(used.device) == state, "a modelled drive is used by default, a real one fresh"
    assert condition(task_in(tmp_path), {"disk0": "/nonexistent"}, tmp_path) == {}
