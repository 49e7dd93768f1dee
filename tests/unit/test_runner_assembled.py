# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from left_behind import loops_under
from strata.disks.machine import mounts_under
from strata.errors import RunError
from strata.runners.assembled import Assembled
from strata.runners.block_devices import CONNECTIONS_NAME, Attached, Connections, connections_left, take
from strata.runners.kernel import BOOT_NAME, HostKernel, stack_name
from strata.runners.leftovers import remove_leftovers

# A device is taken on the whole machine: numbers that it does not have, and that no other worker uses.
CONNECTED, ANOTHERS, FREE = (f"nbd{os.getpid()}{number}" for number in (3, 4, 5))
# The number of a loop device is used again at once, so a device is identified by its file.
IMAGE = f"image-{os.getpid()}.raw"


class Machine:
    """A machine's /sys and /proc as far as they are looked at, and the programs that take things down.

    It refuses to take down what something else stands on, as a kernel does.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.called: list[str] = []
        self.write("proc/self/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
        self.write("proc/sys/kernel/random/boot_id", "this-boot\n")
        self.block("sda")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def block(self, name: str, *lower: str, **files: str) -> None:
        folder = self.root / "sys/block" / name
        for inner in ("slaves", "holders"):
            (folder / inner).mkdir(parents=True, exist_ok=True)
        for each in lower:
            (folder / "slaves" / each).symlink_to(f"../../{each}")
            (self.root / "sys/block" / each / "holders" / name).symlink_to(f"../../{name}")
        for file, text in files.items():
            self.write(f"sys/block/{name}/{file.replace('__', '/')}", text)
        number = f"7:{len(list((self.root / 'sys/block').iterdir()))}"
        place = self.root / "sys/dev/block" / number
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(f"../../block/{name}")

    def number(self, name: str) -> str:
        places = (self.root / "sys/dev/block").iterdir()
        return next(place.name for place in places if place.readlink().name == name)

    def call(self, *argv: str) -> subprocess.CompletedProcess[str]:
        line = " ".join(argv)
        self.called.append(line)
        match argv:
            case ("dmsetup", "remove", "--retry", label):
                names = [path.parent.parent for path in self.root.glob("sys/block/*/dm/name")]
                found = [path.name for path in names if (path / "dm/name").read_text().strip() == label]
                return self.done(argv, self.drop(found[0]) if found else "no such device")
            case ("mdadm", "--stop", node) | ("nbd-client", "-d", node):
                return self.done(argv, self.drop(node.removeprefix("/dev/")))
            case ("zpool", "export", "-f", pool):
                shutil.rmtree(self.root / "proc/spl/kstat/zfs" / pool)
                return self.done(argv, "")
        raise AssertionError(line)

    def attached(self, node: Path) -> Attached:
        """As loop devices tell it; loop9 is on a filesystem on dm-1 that is mounted nowhere any more."""
        device = 0
        if node.name == "loop9":
            major, _, minor = self.number("dm-1").partition(":")
            device = os.makedev(int(major), int(minor))
        return Attached("", device, 11)

    def detach(self, node: Path, expected: Attached) -> str:
        self.called.append(f"detach {node.name}")
        assert expected == self.attached(node)
        return self.drop(node.name)

    def done(self, argv: tuple[str, ...], why: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(argv, int(bool(why)), "", why)

    def drop(self, name: str) -> str:
        folder = self.root / "sys/block" / name
        if list((folder / "holders").iterdir()) or (name == "dm-1" and self.is_attached("loop9")):
            return "Device or resource busy"
        for lower in (folder / "slaves").iterdir():
            (self.root / "sys/block" / lower.name / "holders" / name).unlink()
        shutil.rmtree(folder)
        return ""

    def is_attached(self, loop: str) -> bool:
        return (self.root / "sys/block" / loop).exists()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A nested stack of a trial in ``strata-ab_c``: md, LVM, a filesystem, an image, LVM; beside others'."""
    machine = Machine(tmp_path / "root")
    trial = tmp_path / "strata-ab_c"
    trial.mkdir()
    for number in (0, 1):
        machine.block(f"loop{number}", loop__backing_file=f"{trial}/disk{number}.img\n")
    machine.block("md127", "loop0", "loop1", md__array_state="clean\n")
    machine.block("dm-1", "md127", dm__name="strata_ab_c_lvm-data\n")
    machine.block("loop9", loop__backing_file="/image.raw\n")
    machine.block("dm-2", "loop9", dm__name="strata_ab_c_inner-data\n")
    machine.block(CONNECTED, pid="77\n")
    machine.block(ANOTHERS, pid="78\n")
    machine.block("dm-0", "sda", dm__name="strata_ab_cd-root\n")
    machine.block("loop5", loop__backing_file="/srv/strata-ab_cd/disk0.img\n")
    machine.block("md1", "sda", md__array_state="clean\n")
    machine.write("proc/spl/kstat/zfs/strata_ab_c_zpool/state", "ONLINE\n")
    machine.write("proc/spl/kstat/zfs/tank/state", "ONLINE\n")
    machine.write("sys/fs/cgroup/cgroup.procs", "")
    machine.write("dev/strata_ab_c_zpool/disk0", "")
    machine.write("dev/strata_ab_cd_zpool/disk0", "")
    (trial / BOOT_NAME).write_text("this-boot")
    Connections(trial, [f"/dev/{CONNECTED}"], machine.root).record()
    return machine


def assembled(machine: Machine, patience_s: float = 0.2) -> Assembled:
    trial = machine.root.parent / "strata-ab_c"
    return Assembled(
        trial, HostKernel(machine.root, machine.call, machine.attached, machine.detach), patience_s
    )


def left(machine: Machine) -> list[str]:
    return sorted(path.name for path in (machine.root / "sys/block").iterdir())


STRANGERS = ["dm-0", "loop5", "md1", ANOTHERS, "sda"]


def test_all_of_a_nested_stack_is_taken_down_and_nothing_of_others(machine: Machine) -> None:
    said = assembled(machine).take_down()

    trial = machine.root.parent / "strata-ab_c"
    assert said == [
        "exported the pool strata_ab_c_zpool",
        "removed /dev/dm-2 (strata_ab_c_inner-data)",
        f"removed /dev/{CONNECTED}",
        "detached /dev/loop9 (/image.raw)",
        "removed /dev/dm-1 (strata_ab_c_lvm-data)",
        "removed /dev/md127",
        f"detached /dev/loop0 ({trial}/disk0.img)",
        f"detached /dev/loop1 ({trial}/disk1.img)",
        "deleted /dev/strata_ab_c_zpool",
    ]
    assert [path.name for path in (machine.root / "dev").iterdir()] == ["strata_ab_cd_zpool"]
    assert left(machine) == STRANGERS
    assert [path.name for path in (machine.root / "proc/spl/kstat/zfs").iterdir()] == ["tank"]


def test_a_network_device_of_before_a_restart_can_be_anybodys(machine: Machine) -> None:
    (machine.root.parent / "strata-ab_c" / BOOT_NAME).write_text("another-boot")

    assembled(machine).take_down()

    assert left(machine) == sorted([*STRANGERS, CONNECTED])


@pytest.mark.parametrize("pid", ["78\n", None])
def test_a_network_device_that_another_program_connected_since_stays(
    machine: Machine, pid: str | None
) -> None:
    machine.drop("dm-2")
    if pid:
        machine.write(f"sys/block/{CONNECTED}/pid", pid)
    else:  # killed before it was known who had connected it
        (machine.root.parent / "strata-ab_c" / CONNECTIONS_NAME).unlink()

    assembled(machine).take_down()

    assert left(machine) == sorted([*STRANGERS, CONNECTED])


def test_a_network_device_is_disconnected_while_no_other_trial_can_take_it(machine: Machine) -> None:
    lock = take(CONNECTED)
    assert lock is not None

    with lock, pytest.raises(RunError, match="another trial has taken it"):
        assembled(machine).take_down()

    assert CONNECTED in left(machine)


def test_a_connection_is_noted_anew_when_it_was_made_anew(machine: Machine) -> None:
    trial = machine.root.parent / "strata-ab_c"
    connections = Connections(trial, [f"/dev/{CONNECTED}", f"/dev/{FREE}"], machine.root)
    connections.record()
    machine.write(f"sys/block/{CONNECTED}/pid", "99\n")
    machine.block(FREE)  # not connected yet
    connections.record()

    assert connections_left(trial, machine.root) == {CONNECTED}
    (machine.root / f"sys/block/{CONNECTED}/pid").unlink()
    connections.record()
    assert connections_left(trial, machine.root) == set()


def test_a_device_that_is_released_late_is_reported(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = assembled(machine)
    trial.kernel = HostKernel(machine.root, machine.call, machine.attached, lambda node, expected: None)

    def released(_: float) -> None:
        for loop in ("loop0", "loop1", "loop9"):
            if machine.is_attached(loop):
                machine.drop(loop)

    monkeypatch.setattr(time, "sleep", released)

    removed = trial.take_down()

    assert [line.split()[1] for line in removed if line.startswith("detached")] == [
        "/dev/loop9",
        "/dev/loop0",
        "/dev/loop1",
    ]


def test_what_stays_is_named_with_the_reason(machine: Machine) -> None:
    machine.block("dm-9", "md127", dm__name="foreign\n")
    (machine.root / "sys/block/dm-9/slaves/md127").unlink()  # no longer known to stand on the array

    with pytest.raises(RunError, match="still in use") as error:
        assembled(machine).take_down()

    assert "/dev/md127: Device or resource busy" in str(error.value)
    assert "loop0" in left(machine)


def test_a_cache_is_stopped_with_its_set_when_nothing_uses_it(machine: Machine) -> None:
    machine.write("sys/block/loop1/bcache/set/stop", "")
    machine.write("sys/block/loop1/bcache/stop", "")
    machine.block("bcache0", "loop1")
    trial = assembled(machine)
    machine.block("dm-5", "bcache0", dm__name="strata_ab_c_top\n")

    with pytest.raises(RunError, match="bcache on loop1"):
        trial.take_down()  # this machine does not stop anything

    assert "dm-5" not in left(machine)
    assert (machine.root / "sys/block/loop1/bcache/set/stop").read_text() == "1"
    assert (machine.root / "sys/block/loop1/bcache/stop").read_text() == ""
    assert "detach loop1" not in machine.called


def test_control_groups_of_the_trial_are_removed(tmp_path: Path) -> None:
    for name in ("strata_x_guest/inner", "strata_xy_guest", "strata", "unified/strata_x/steps"):
        (tmp_path / "root/sys/fs/cgroup" / name).mkdir(parents=True)
    trial = tmp_path / "strata-x"

    # A real group's files go with it; here there must be none, and so it cannot be asked to kill.
    kernel = HostKernel(tmp_path / "root", lambda *argv: subprocess.CompletedProcess(argv, 0, "", ""))
    Machine(tmp_path / "root")
    for group in ("strata_x_guest", "unified/strata_x"):
        (tmp_path / "root/sys/fs/cgroup" / group / "cgroup.kill").mkdir()
    said = Assembled(trial, kernel, 0.2).take_down()

    assert said == ["removed the control group strata_x_guest", "removed the control group strata_x"]
    assert sorted(path.name for path in (tmp_path / "root/sys/fs/cgroup").iterdir()) == [
        "strata",
        "strata_xy_guest",
        "unified",
    ]


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("needs root and loop devices")
    path = tmp_path / "strata-nested"
    (path / "mount").mkdir(parents=True)
    yield path
    remove_leftovers(path)


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def attached(file: Path, mebibytes: int) -> str:
    file.touch()
    os.truncate(file, mebibytes << 20)
    return run("losetup", "--find", "--show", str(file))


def backing_of(loop: str) -> str:
    """A loop device's file, as the kernel names it; empty if it has none."""
    state = Path("/sys/block") / Path(loop).name / "loop/backing_file"
    with suppress(OSError):
        return state.read_text()
    return ""


@pytest.mark.usefixtures("alone")
def test_a_filesystem_in_an_image_on_a_filesystem_in_an_image(trial: Path) -> None:
    inner_mount = trial / "inner"
    inner_mount.mkdir()
    outer = attached(trial / "disk0.img", 64)
    run("mkfs.ext4", "-q", outer)
    run("mount", outer, str(trial / "mount"))
    inner = attached(trial / "mount" / IMAGE, 16)
    run("mkfs.ext4", "-q", inner)
    run("mount", inner, str(inner_mount))

    said = remove_leftovers(trial, grace_s=0)

    assert {line.split()[0] for line in said} == {"unmounted", "detached", "deleted"}
    assert (mounts_under(trial), loops_under(trial), trial.exists()) == ([], {}, False)
    assert not any(IMAGE in backing or str(trial) in backing for backing in map(backing_of, (outer, inner)))


def test_an_image_on_a_filesystem_that_is_mounted_nowhere_any_more(trial: Path) -> None:
    outer = attached(trial / "disk0.img", 64)
    run("mkfs.ext4", "-q", outer)
    # A mount namespace that ends with its last process: only the loop device keeps the filesystem then.
    script = 'mount "$1" "$2/mount" && truncate -s 16M "$2/mount/$3" && losetup --find --show "$2/mount/$3"'
    line = (
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        script,
        "sh",
        outer,
        str(trial),
        IMAGE,
    )
    inner = run(*line)
    assert f"{stack_name(trial)}" not in backing_of(inner)

    said = remove_leftovers(trial, grace_s=0)

    assert len([line for line in said if line.startswith("detached")]) == 2
    assert not any(IMAGE in backing or str(trial) in backing for backing in map(backing_of, (outer, inner)))
