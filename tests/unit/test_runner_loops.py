# SPDX-License-Identifier: Apache-2.0
"""Scratch folders that others may write to, loop devices, and whoever races against both."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from left_behind import loops_under
from strata.errors import LabError, RunError, StrataError, ToolError
from strata.lab.cache import cache_root
from strata.lab.folder import PrivateFolder, private_folder, remove_stale
from strata.lab.programs import AgentBuild
from strata.plan.compile import ENVIRONMENT
from strata.runners.assembled import Assembled
from strata.runners.block_devices import Attached, attach, attach_images, attached, detach
from strata.runners.host import HostRunner
from strata.runners.leftovers import Journal, remove_leftovers

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists(), reason="needs root and loop devices"
)
NOBODY = 65534
MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_loop_remains(tmp_path: Path) -> Iterator[None]:
    yield
    deadline_s = time.monotonic() + 10  # a device that another program has open goes when it is closed
    while loops_under(tmp_path) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert loops_under(tmp_path) == {}


def runner_on(scratch: Path) -> HostRunner:
    return HostRunner(AgentBuild(Path("/nonexistent"), "0" * 64), scratch=scratch, journal=scratch.parent)


@contextmanager
def trial(scratch: Path) -> Iterator[PrivateFolder]:
    """A private folder with a loop device, as the host runner makes and removes them."""
    runner = runner_on(scratch)
    with runner._place() as folder:
        attach_images(folder, {"disk0": 8 * MIB})
        yield folder


def test_a_scratch_folder_that_others_could_exchange_is_refused(scratch: Path) -> None:
    for where, mode, owners, said in (
        ("scratch", 0o777, (0, 0), "chmod go-w"),
        ("scratch", 0o775, (0, NOBODY), "chmod go-w"),
        ("scratch", 0o1777, (0, 0), "make a folder of your own in it"),
        ("scratch", 0o755, (NOBODY, NOBODY), "chown root"),
        ("", 0o777, (0, 0), "chmod go-w"),
        ("", 0o755, (NOBODY, NOBODY), "chown root"),
    ):
        place = scratch.parent / where
        place.chmod(mode)
        os.chown(place, *owners)

        with pytest.raises(ToolError) as error:
            runner_on(scratch).check([])

        assert error.value.place == str(place)
        assert said in (error.value.remedy or "")


def test_a_folder_that_only_the_owners_own_group_may_write_is_used_unless_a_list_adds_others(
    scratch: Path,
) -> None:
    scratch.chmod(0o775)  # what a umask of 002 gives, the default of Fedora and RHEL
    runner_on(scratch).check([])

    # setfacl -m u:65534:rwx
    entries = ((1, 7, -1), (2, 7, NOBODY), (4, 7, -1), (16, 7, -1), (32, 5, -1))
    listed = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in entries)
    try:
        os.setxattr(scratch, "system.posix_acl_access", listed)
    except OSError as error:
        pytest.skip(f"the filesystem has no access control lists: {error.strerror}")
    with pytest.raises(ToolError, match="other users may write to this folder"):
        runner_on(scratch).check([])


def test_a_scratch_folder_below_a_sticky_one_is_used(scratch: Path) -> None:
    scratch.parent.chmod(0o1777)

    runner_on(scratch).check([])

    with trial(scratch) as folder:
        assert folder.path.is_dir()


def test_a_link_of_another_user_is_no_way_to_a_scratch_folder(scratch: Path) -> None:
    link = scratch.parent / "link"
    link.symlink_to(scratch)
    runner_on(link).check([])
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)

    with pytest.raises(ToolError) as error:
        runner_on(link).check([])

    assert error.value.place == str(link)


def test_other_users_cannot_read_a_private_folder_or_its_images_under_any_umask(
    scratch: Path,
) -> None:
    before = os.umask(0o077)
    try:
        with trial(scratch) as folder:
            folder.make_folder("mount", 0o755)
            assert folder.path.stat().st_mode & 0o777 == 0o700
            assert (folder.path / "disk0.img").stat().st_mode & 0o777 == 0o600
            assert (folder.path / "mount").stat().st_mode & 0o777 == 0o755
    finally:
        os.umask(before)


def test_an_image_has_its_size_and_its_loop_device_direct_io(scratch: Path) -> None:
    with trial(scratch) as folder:
        [(loop, file)] = loops_under(scratch).items()
        state = Path("/sys/block") / Path(loop).name
        assert file == str(folder.path / "disk0.img")
        assert int((state / "size").read_text()) * 512 == 8 * MIB
        assert (state / "loop/dio").read_text() == "1\n"


def test_a_filesystem_without_direct_io_is_refused_and_no_loop_device_remains(scratch: Path) -> None:
    if subprocess.run(["mount", "-t", "ramfs", "none", str(scratch)], check=False).returncode != 0:
        pytest.skip("no ramfs can be mounted here")
    try:
        scratch.chmod(0o755)
        with pytest.raises(LabError, match="no loop device for disk0") as error, trial(scratch):
            pass
    finally:
        subprocess.run(["umount", str(scratch)], check=True)

    assert "direct I/O" in (error.value.remedy or "")


def is_of(scratch: Path, loop: Path) -> bool:
    """Whether a loop device has a file of this folder; one of another test is not opened."""
    backing = Path("/sys/block", loop.name, "loop/backing_file")
    return backing.exists() and backing.read_text().startswith(str(scratch))


def test_a_loop_device_is_found_when_its_file_was_renamed_or_deleted(scratch: Path) -> None:
    for how in ("renamed", "deleted"):
        with private_folder(scratch, remove=remove_leftovers) as folder:
            loop = Path(attach_images(folder, {"disk0": MIB})["disk0"])
            image = folder.path / "disk0.img"
            image.rename(scratch / "elsewhere") if how == "renamed" else image.unlink()
        assert not is_of(scratch, loop)


def test_a_loop_device_that_remains_is_an_error_which_names_it(scratch: Path) -> None:
    with private_folder(scratch, remove=remove_leftovers) as folder:
        loop = attach_images(folder, {"disk0": MIB})["disk0"]
        user = os.open(loop, os.O_RDONLY)
        try:
            with pytest.raises(RunError, match="still in use") as error:
                Assembled(folder.path, patience_s=0.2).take_down()
        finally:
            os.close(user)

    assert loop in str(error.value)
    assert "strata lab clean" in str(error.value)


def test_what_could_not_be_removed_keeps_its_folder_for_strata_clean(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.runners.leftovers.Assembled", lambda path: Assembled(path, patience_s=0.2))
    user = -1
    try:
        with pytest.raises(RunError, match="still in use"), trial(scratch):
            user = os.open(next(iter(loops_under(scratch))), os.O_RDONLY)
    finally:
        os.close(user)

    assert [path.name for path in Journal(scratch.parent).folders()] == [
        each.name for each in scratch.iterdir()
    ]
    assert Journal(scratch.parent).clean() != []
    assert list(scratch.iterdir()) == []


def test_a_strangers_loop_device_on_a_file_with_a_name_like_ours_is_left_alone(scratch: Path) -> None:
    with private_folder(scratch, remove=remove_leftovers) as folder:
        file = scratch.parent / f"{folder.path.name.replace('-', '_')}_data"
        file.write_bytes(bytes(MIB))
        loop = subprocess.run(
            ["losetup", "--find", "--show", str(file)], check=True, capture_output=True, text=True
        ).stdout.strip()
    try:
        assert attached(Path(loop)) is not None
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)


@pytest.mark.skipif(shutil.which("mkfs.btrfs") is None, reason="mkfs.btrfs is not installed")
def test_a_btrfs_of_the_same_uuid_is_mounted_on_the_loop_devices_of_the_next_trial(scratch: Path) -> None:
    uuid = str(uuid4())
    others: list[str] = []
    mount = scratch / "mount"
    mount.mkdir()
    try:
        for _ in range(2):
            with private_folder(scratch, remove=remove_leftovers) as folder:
                loops = attach_images(folder, {"disk0": 400 * MIB, "disk1": 400 * MIB})
                disks = list(loops.values())
                make = ["mkfs.btrfs", "-q", "-f", "-U", uuid, "-d", "raid1", *disks]
                subprocess.run(make, check=True, env=ENVIRONMENT)
                subprocess.run(["blkid", *disks], check=True)  # enters the UUID into the machine's cache
                options = ["-o", f"device={disks[1]}", disks[0]]
                subprocess.run(["mount", "-t", "btrfs", *options, str(mount)], check=True)
                subprocess.run(["umount", str(mount)], check=True)
            with private_folder(scratch) as kept:  # takes the number, so that the next trial has another
                others += attach_images(kept, {"other": MIB}).values()
    finally:
        for loop in others:
            subprocess.run(["losetup", "--detach", loop], check=True)


def test_a_number_that_was_given_another_file_is_not_detached(scratch: Path) -> None:
    with (scratch / "image").open("w+b") as image:
        image.truncate(MIB)
        loop = Path(
            attach(image.fileno(), "a mark that is longer than the kernel's sixty-four bytes" + "x" * 99)
        )
    found = attached(loop)
    assert found is not None
    assert found.inode == (scratch / "image").stat().st_ino

    assert detach(loop, Attached(found.mark, found.device, found.inode + 1)) is not None
    assert attached(loop) == found
    assert detach(loop, found) is None
    assert not is_of(scratch, loop)


RACER = """
import os, sys
place, watched = sys.argv[1:]
print("ready", flush=True)
while True:
    for name in os.listdir(place):
        for path in (f"{place}/{name}", f"{place}/disk0.img"):
            try:
                os.rename(path, f"{place}/moved")
                os.symlink(watched, path)
                os.unlink(path)
            except OSError:
                pass
    try:
        os.symlink(watched, f"{place}/disk0.img")
    except OSError:
        pass
"""


@contextmanager
def racer(place: Path, watched: Path) -> Iterator[None]:
    """Another user who keeps exchanging what is in a folder by links to a watched file."""
    line = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        sys.executable,
        "-c",
        RACER,
    ]
    with subprocess.Popen([*line, str(place), str(watched)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        process.kill()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "watched"
    file.write_text("of value")
    state = file.stat()
    yield file
    now = file.stat()
    assert file.read_text() == "of value"
    assert (now.st_mtime_ns, now.st_ctime_ns, now.st_mode) == (
        state.st_mtime_ns,
        state.st_ctime_ns,
        state.st_mode,
    )


def test_a_race_for_the_image_is_never_won(scratch: Path, watched: Path) -> None:
    """Even in a folder that all may write to, which no private folder is."""
    scratch.chmod(0o777)
    folder = PrivateFolder(scratch, os.open(scratch, os.O_RDONLY))
    made = 0
    with racer(scratch, watched):
        for _ in range(300):
            with suppress(LabError):
                loop = Path(attach_images(folder, {"disk0": MIB})["disk0"])
                found = attached(loop)
                assert found is not None
                assert found.inode != watched.stat().st_ino
                assert detach(loop, found) is None
                made += 1
    os.close(folder.descriptor)

    assert made > 0


def test_a_race_for_the_private_folder_is_never_won(scratch: Path, watched: Path) -> None:
    """While its place is opened to all and closed again, so that it passes as safe now and then."""
    ended = threading.Event()

    def toggle() -> None:
        while not ended.is_set():
            scratch.chmod(0o777)
            scratch.chmod(0o755)

    thread = threading.Thread(target=toggle)
    made = 0
    thread.start()
    try:
        with racer(scratch, watched):
            for _ in range(300):
                with suppress(StrataError), trial(scratch):
                    made += 1
    finally:
        ended.set()
        thread.join()

    assert made > 0


def test_a_place_that_all_may_write_to_gets_no_private_folder(scratch: Path, watched: Path) -> None:
    for mode in (0o777, 0o1777):
        scratch.chmod(mode)
        with racer(scratch, watched):
            for _ in range(300):
                with pytest.raises(LabError), trial(scratch):
                    pass


def test_a_private_folder_that_became_a_link_is_not_deleted_through(scratch: Path) -> None:
    kept = scratch.parent / "kept"
    kept.mkdir()
    (kept / "file").write_text("of value")
    with private_folder(scratch) as folder:
        folder.path.rename(scratch / "moved")
        folder.path.symlink_to(kept)
    left = scratch / "strata-left"
    left.symlink_to(kept)

    assert remove_stale(scratch) == []
    with pytest.raises(RunError, match="cannot be removed"):
        remove_leftovers(folder.path)

    assert (kept / "file").read_text() == "of value"


def test_root_runs_no_lab_from_another_users_cache(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_CACHE", str(scratch / "cache"))
    assert cache_root() == scratch / "cache"
    os.chown(scratch, NOBODY, NOBODY)

    with pytest.raises(LabError) as error:
        cache_root()

    assert error.value.place == str(scratch)
