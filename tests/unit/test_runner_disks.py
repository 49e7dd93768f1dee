# SPDX-License-Identifier: Apache-2.0
"""Loop devices as real disks: the checks repeated before the first write, and the writes after them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from execution_factory import study_in

from strata.disks.inventory import disks
from strata.disks.machine import Machine
from strata.disks.signatures import signatures
from strata.errors import DiagnosticsError, LabError
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.reading.load import load_study
from strata.runners.disks import DISKS_NAME, RealDisks, choose_disks
from strata.runners.kernel import BOOT_NAME, HostKernel, boot_id
from strata.runners.leftovers import remove_leftovers
from study_texts import HEAD, disk, fio

pytestmark = pytest.mark.root
MIB = 1 << 20
STUDY = (
    HEAD
    + disk("disk0", capacity="100MiB")
    + '[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n'
    + fio("mix", "16MiB")
)


@pytest.fixture
def attach(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Attaches files as loop devices, which are detached at the end."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("needs root and loop devices")
    loops: list[str] = []

    def new(name: str = "a.img", size: int = 128 * MIB, *more: str) -> str:
        file = tmp_path / name
        if not file.exists():
            file.touch()
            os.truncate(file, size)
        loops.append(run("losetup", "--find", "--show", *more, str(file)))
        return loops[-1]

    yield new
    for mount in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        if str(tmp_path) in mount.split()[4]:
            subprocess.run(["umount", mount.split()[4]], check=False)
    for loop in loops:
        with suppress(subprocess.CalledProcessError):
            run("losetup", "--detach", loop)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_in(tmp_path_factory.mktemp("study"), STUDY)


@pytest.fixture(scope="module")
def plan(study: Study) -> Plan:
    return compile_trial(study, "ext4", "mix", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "strata-private"
    path.mkdir()
    (path / ".owner").touch()
    (path / BOOT_NAME).write_text(boot_id(HostKernel()))
    return path


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def serial_of(loop: str) -> str:
    return next(each.serial for each in disks(Machine()) if str(each.node) == loop)


def contents(loop: str) -> list[str]:
    machine = Machine()
    return [each.kind for each in signatures(machine, next(d for d in disks(machine) if str(d.node) == loop))]


def chosen(study: Study, loop: str, *erase: str) -> RealDisks:
    return choose_disks(study, [f"disk0={loop}"], erase, {"the root filesystem": Path("/")})


def diagnostic(study: Study, loop: str) -> str:
    with pytest.raises(DiagnosticsError) as mistakes:
        chosen(study, loop)
    return str(mistakes.value)


def first_bytes(loop: str) -> bytes:
    with Path(loop).open("rb") as device:
        return device.read(2 * MIB)


def test_a_mounted_filesystem_is_refused_and_named(
    attach: Callable[..., str], study: Study, tmp_path: Path
) -> None:
    loop = attach()
    run("mkfs.ext4", "-q", loop)
    point = tmp_path / "mounted"
    point.mkdir()
    run("mount", loop, str(point))

    assert f"is mounted at {point}" in diagnostic(study, loop)


def test_what_begins_to_use_a_disk_after_the_last_look_keeps_its_signatures(
    attach: Callable[..., str], study: Study, plan: Plan, tmp_path: Path
) -> None:
    loop = attach()
    run("mkfs.ext4", "-q", loop)
    taken = chosen(study, loop, serial_of(loop))
    (tmp_path / "mount").mkdir()
    run("mount", loop, str(tmp_path / "mount"))

    with pytest.raises(LabError, match="cannot be opened: Device or resource busy"):
        taken._empty(taken.of(plan)["disk0"])

    assert contents(loop) == ["ext4"]


@pytest.mark.usefixtures("alone")
def test_a_mount_that_only_another_namespace_sees_is_found(
    attach: Callable[..., str], study: Study, tmp_path: Path
) -> None:
    loop = attach()
    run("mkfs.ext4", "-q", loop)
    point = tmp_path / "inner"
    point.mkdir()
    script = 'mount "$1" "$2" && echo ready && read line'
    line = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", loop, str(point)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as inner:
        assert inner.stdout is not None
        assert inner.stdout.readline() == "ready\n"

        said = diagnostic(study, loop)

        inner.communicate("\n")
    assert f"is mounted at {point}" in said


def test_a_mounted_partition_keeps_its_disk_and_its_siblings(
    attach: Callable[..., str], study: Study, tmp_path: Path
) -> None:
    loop = attach("parts.img", 256 * MIB, "--partscan")
    for index in ("1", "2"):  # named to the kernel, which need not know any partition table
        run("addpart", loop, index, str(204800 * (int(index) - 1) + 2048), "204800")
    run("mkfs.ext4", "-q", f"{loop}p1")
    (tmp_path / "point").mkdir()
    run("mount", f"{loop}p1", str(tmp_path / "point"))

    assert "p1 is mounted at" in diagnostic(study, loop)
    assert "p1 is mounted at" in diagnostic(study, f"{loop}p2")


def test_a_swap_area_in_use_is_refused(attach: Callable[..., str], study: Study) -> None:
    loop = attach()
    run("mkswap", loop)
    if subprocess.run(["swapon", loop], capture_output=True, check=False).returncode != 0:
        pytest.skip("no swap here")
    try:
        assert "is a swap area in use" in diagnostic(study, loop)
    finally:
        run("swapoff", loop)


def test_the_second_device_of_a_mounted_btrfs_is_refused(
    attach: Callable[..., str], study: Study, tmp_path: Path
) -> None:
    first, second = attach("a.img"), attach("b.img")
    run("mkfs.btrfs", "-q", "--data", "raid1", "--metadata", "raid1", first, second)
    (tmp_path / "point").mkdir()
    run("mount", first, str(tmp_path / "point"))

    assert "belongs to the mounted btrfs" in diagnostic(study, second)


def test_a_file_that_two_loop_devices_share_is_no_disk(attach: Callable[..., str], study: Study) -> None:
    first, second = attach(), attach()

    assert "shares its file" in diagnostic(study, first)
    assert Path(first).name in diagnostic(study, second)


def test_nothing_is_written_to_a_disk_before_its_serial_number_is_given(
    attach: Callable[..., str], study: Study
) -> None:
    loop = attach()
    run("mkfs.ext4", "-q", "-L", "precious", loop)
    before = first_bytes(loop)

    said = diagnostic(study, loop)

    assert '"precious"' in said
    assert f"add --erase {serial_of(loop)}" in said
    assert first_bytes(loop) == before
    assert [*chosen(study, loop, serial_of(loop)).chosen] == ["disk0"]
    assert first_bytes(loop) == before


def test_right_before_the_trial_the_disk_is_noted_and_then_emptied(
    attach: Callable[..., str], study: Study, plan: Plan, folder: Path
) -> None:
    loop = attach()
    run("mkfs.ext4", "-q", loop)
    real = chosen(study, loop, serial_of(loop))

    with real.taken(plan, folder) as nodes:
        assert nodes == {"disk0": loop}
        assert [each["serial"] for each in json.loads((folder / DISKS_NAME).read_text())] == [serial_of(loop)]
        assert contents(loop) == []


def test_an_erased_disk_has_no_partitions_any_more(
    attach: Callable[..., str], study: Study, plan: Plan, folder: Path
) -> None:
    loop = attach("parts.img", 256 * MIB, "--partscan")
    run("addpart", loop, "1", "2048", "204800")
    run("mkfs.ext4", "-q", f"{loop}p1")
    real = chosen(study, loop, serial_of(loop))

    with real.taken(plan, folder):
        assert not Path(f"{loop}p1").exists()
    run("addpart", loop, "1", "2048", "204800")
    assert contents(loop) == []


def test_what_a_trial_leaves_is_gone_before_the_next_of_the_same_run(
    attach: Callable[..., str], study: Study, plan: Plan, folder: Path
) -> None:
    loop = attach()
    real = chosen(study, loop)
    with real.taken(plan, folder):
        run("mkfs.btrfs", "-q", loop)

    with real.taken(plan, folder):
        assert contents(loop) == []


def test_content_put_on_a_disk_since_it_was_chosen_stays(
    attach: Callable[..., str], study: Study, plan: Plan, folder: Path
) -> None:
    loop = attach()
    real = chosen(study, loop)
    run("mkfs.ext4", "-q", loop)

    with pytest.raises(LabError, match="what is on it has changed"), real.taken(plan, folder):
        pass

    assert contents(loop) == ["ext4"]


def test_a_disk_that_is_mounted_since_it_was_chosen_stays_as_it_is(
    attach: Callable[..., str], study: Study, plan: Plan, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.runners.disks._PATIENCE_S", 0.3)
    loop = attach()
    run("mkfs.ext4", "-q", loop)
    real = chosen(study, loop, serial_of(loop))
    (folder.parent / "point").mkdir()
    run("mount", loop, str(folder.parent / "point"))

    with (
        pytest.raises(LabError, match=r"nothing was written to this disk: loop\d+ is mounted"),
        real.taken(plan, folder),
    ):
        pass

    assert contents(loop) == ["ext4"]


def test_another_disk_under_the_same_name_is_not_touched(
    attach: Callable[..., str], study: Study, plan: Plan, folder: Path
) -> None:
    loop = attach("a.img")
    real = chosen(study, loop)
    run("losetup", "--detach", loop)
    other = folder.parent / "b.img"
    other.touch()
    os.truncate(other, 128 * MIB)
    run("losetup", loop, str(other))
    run("mkfs.ext4", "-q", loop)

    with pytest.raises(LabError, match="not the disk any more"), real.taken(plan, folder):
        pass

    assert contents(loop) == ["ext4"]


def test_a_disk_serves_one_run_at_a_time(
    attach: Callable[..., str], study: Study, plan: Plan, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.runners.disks._PATIENCE_S", 0.3)
    loop = attach()
    real = chosen(study, loop)

    with (
        real.taken(plan, folder),
        pytest.raises(LabError, match="maybe another run of Strata"),
        chosen(study, loop).taken(plan, folder),
    ):
        pass


def test_a_stack_on_a_disk_is_taken_down_and_the_disk_stays_attached_with_its_content(
    attach: Callable[..., str], study: Study, plan: Plan, folder: Path
) -> None:
    loop = attach()
    with chosen(study, loop).taken(plan, folder):
        run("mkfs.ext4", "-q", loop)
    (folder / "mount").mkdir()
    # A mount that ends with its namespace: then only the disk below tells whose the inner device is.
    script = 'mount "$1" "$2" && truncate -s 16M "$2/x.img" && losetup --find --show "$2/x.img"'
    line = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", loop)
    inner = run(*line, str(folder / "mount"))

    said = remove_leftovers(folder, grace_s=0)

    assert {line.split()[0] for line in said} == {"detached", "deleted"}
    assert Path(f"/sys/block/{Path(loop).name}/loop").exists()
    assert not Path(f"/sys/block/{Path(inner).name}/loop").exists()
    assert contents(loop) == ["ext4"]


def test_a_disk_that_is_not_the_noted_one_any_more_is_left_alone(
    attach: Callable[..., str], study: Study, plan: Plan, folder: Path
) -> None:
    loop = attach("a.img")
    with chosen(study, loop).taken(plan, folder):
        pass
    run("losetup", "--detach", loop)
    (folder.parent / "b.img").touch()
    os.truncate(folder.parent / "b.img", 128 * MIB)
    run("losetup", loop, str(folder.parent / "b.img"))
    run("mkfs.ext4", "-q", loop)
    (folder.parent / "users").mkdir()
    run("mount", loop, str(folder.parent / "users"))
    (folder.parent / "users" / "inner.img").touch()
    os.truncate(folder.parent / "users" / "inner.img", MIB)
    inner = run("losetup", "--find", "--show", str(folder.parent / "users" / "inner.img"))

    said = remove_leftovers(folder, grace_s=0)

    try:
        assert said == [f"deleted {folder}"]
        assert Path(f"/sys/block/{Path(inner).name}/loop").exists()
    finally:
        run("losetup", "--detach", inner)


def test_the_plan_has_the_disks_own_size_and_two_disks_are_two_specifications(
    attach: Callable[..., str], study: Study, plan: Plan
) -> None:
    first, second = (chosen(study, attach(name)) for name in ("a.img", "b.img"))

    real = load_study(study.file, catalogue(), first.devices)

    assert compile_trial(real, "ext4", "mix", 1).devices[0].capacity_bytes == 128 * MIB
    assert first.setting(plan) != second.setting(plan)
    assert serial_of(first.chosen["disk0"].path) not in json.dumps([first.setting(plan), first.packages])
