# SPDX-License-Identifier: Apache-2.0
"""The watched world notices each kind of change: one that sees nothing would pass every attack."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from strata.disks.machine import mounts
from watched_world import World, adopt_orphans, descendants, differences, reap, watched

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for devices, mounts and settings")


def _keeping_time(path: Path, content: str) -> None:
    path.write_text(content)
    os.utime(path, (1, 1))


FILE_CHANGES: dict[str, Callable[[Path], None]] = {
    "its content": lambda path: _keeping_time(path, "b"),
    "its mode": lambda path: path.chmod(0o4755),
    "its time": lambda path: os.utime(path, (2, 2)),
    "a further name": lambda path: path.with_name("other").hardlink_to(path),
    "its absence": lambda path: path.unlink(),
    "a link": lambda path: path.with_name("link").symlink_to("/etc/passwd"),
    "a new neighbour": lambda path: path.with_name("new").touch(),
    "an attribute": lambda path: os.setxattr(path, "user.strata", b"1"),
}


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def attach(file: Path, cleanup: ExitStack, size_bytes: int = 1 << 20) -> str:
    with file.open("wb") as content:
        content.truncate(size_bytes)
    try:
        device = run("losetup", "--find", "--show", str(file))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine has no loop devices")
    cleanup.callback(run, "losetup", "--detach", device)
    return device


@pytest.mark.parametrize("change", FILE_CHANGES)
def test_every_change_of_a_file_is_noticed(tmp_path: Path, change: str) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    os.utime(path, (1, 1))
    world = World(trees=(tmp_path,))
    before = world.record()

    try:
        FILE_CHANGES[change](path)
    except OSError as error:
        pytest.skip(f"not possible here: {error}")

    assert any(str(tmp_path) in line for line in differences(before, world.record()))


@needs_root
def test_a_change_of_owner_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    world = World(trees=(tmp_path,))
    before = world.record()

    os.chown(path, 1, 1)

    assert [line.split()[2] for line in differences(before, world.record())] == [f"{path}:"]


def test_a_listed_folder_and_a_shared_one_show_new_names(tmp_path: Path) -> None:
    world = World(listed=(str(tmp_path / "listed"),), shared=(str(tmp_path),))
    (tmp_path / "listed").mkdir()
    before = world.record()

    (tmp_path / "listed" / "in").touch()
    (tmp_path / "beside").touch()

    found = "\n".join(differences(before, world.record()))
    assert f"new: file {tmp_path}/listed/in" in found
    assert f"new: name {tmp_path}/beside" in found


@needs_root
def test_what_is_written_to_a_device_and_what_is_attached_are_noticed(
    tmp_path: Path, cleanup: ExitStack
) -> None:
    device = attach(tmp_path / "victim", cleanup)
    world = World(devices=(device,), own=(tmp_path,))
    before = world.record()

    with Path(device).open("r+b") as content:
        content.seek(4096)
        content.write(b"x")
    further = attach(tmp_path / "further", cleanup)

    found = "\n".join(differences(before, world.record()))
    assert f"changed: content {device}" in found
    assert f"new: block {Path(further).name}" in found


@needs_root
def test_a_mount_is_noticed(tmp_path: Path, cleanup: ExitStack) -> None:
    point = tmp_path / "mount"
    point.mkdir()
    world = World(trees=(tmp_path,))
    before = world.record()

    run("mount", "-t", "tmpfs", "none", str(point))
    cleanup.callback(run, "umount", str(point))

    found = differences(before, world.record())
    assert any(line.startswith(f"new: mount {point} of self") for line in found)
    assert any(mount.point == point for mount in mounts())


@needs_root
def test_swap_is_noticed(tmp_path: Path, cleanup: ExitStack) -> None:
    device = attach(tmp_path / "swap", cleanup, 16 << 20)
    world = World(devices=(device,))
    before = world.record()

    try:
        run("mkswap", device)
        run("swapon", device)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine's kernel has no swap: {error.stderr}")
    cleanup.callback(run, "swapoff", device)

    assert any(line.startswith("changed: swap") for line in differences(before, world.record()))


@needs_root
def test_settings_module_parameters_and_control_groups_are_noticed(cleanup: ExitStack) -> None:
    world = World()
    before = world.record()

    for place in ("/proc/sys/vm/stat_interval", "/sys/module/printk/parameters/time"):
        was = Path(place).read_text().strip()
        Path(place).write_text({"1": "2", "Y": "N"}.get(was, "1"))
        cleanup.callback(Path(place).write_text, was)
    group = Path("/sys/fs/cgroup") / f"watched-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("this machine's control groups cannot be written")
    cleanup.callback(group.rmdir)

    found = "\n".join(differences(before, world.record()))
    assert "changed: setting /proc/sys/vm/stat_interval" in found
    assert "changed: parameter printk.time" in found
    assert f"new: control group {group.name}" in found


def in_child(script: str) -> str:
    """Run a script of Python in a process of its own, which leaves what it likes behind."""
    return run(sys.executable, "-c", script)


@pytest.fixture
def adopting() -> Iterator[None]:
    adopt_orphans()
    yield
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)
    reap()


def test_a_process_that_hides_from_its_starter_is_noticed(adopting: None) -> None:
    others = set(descendants())
    with watched(World(), settle_s=0) as escapes:
        in_child(
            "import os,time\nif os.fork() == 0:\n os.setsid()\n os.close(1)\n os.close(2)\n time.sleep(60)"
        )
    (pid,) = set(descendants()) - others
    os.kill(pid, 9)

    assert any(line.startswith(f"new: process {pid} ") for line in escapes.found)


@needs_root
def test_a_network_of_its_own_is_noticed(adopting: None) -> None:
    others = set(descendants())
    with watched(World(), settle_s=0) as escapes:
        in_child(
            "import ctypes,os,time\nif os.fork() == 0:\n os.close(1)\n os.close(2)\n"
            " ctypes.CDLL(None).unshare(0x40000000)\n time.sleep(60)\ntime.sleep(0.5)"
        )
    for pid in set(descendants()) - others:
        os.kill(pid, 9)

    assert any("network namespace" in line for line in escapes.found)


def test_a_server_that_listened_only_meanwhile_is_noticed(adopting: None) -> None:
    with watched(World()) as escapes:
        in_child("import socket,time\ns=socket.create_server(('127.0.0.1', 0))\ntime.sleep(1)")

    assert [line.split()[0] for line in escapes.found] == ["listened"]


def test_where_nothing_happens_nothing_is_noticed(tmp_path: Path) -> None:
    with watched(World(trees=(tmp_path,))) as escapes:
        time.sleep(0.1)

    assert escapes.found == []
