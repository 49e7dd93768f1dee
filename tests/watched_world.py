# SPDX-License-Identifier: Apache-2.0
"""The machine outside a trial, recorded before and after it, and compared.

A record is one flat table from the name of a thing to its state, so that a difference is one line of text.
A trial's processes are known by descent: the watching process adopts the orphans of all processes that it
started (`adopt_orphans`), so every process that outlives a trial is its descendant.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

State = Mapping[str, str]
"""The state of each thing by its name, as in ``file /etc/passwd``."""

# Everything below these by its state, without its content.
_LISTED: Final = ("/etc", "/boot", "/usr/local/bin", "/usr/local/sbin", "/var/spool", "/var/lib/postgresql")
# The names in these. In the temporary ones everybody makes files, so that only those are looked at that the
# measured programs are known to make, or whose names are an attack's.
_TEMPORARY: Final = ("/tmp", "/var/tmp", "/srv")
_SHARED: Final = ("/", "/root", "/home", "/run", "/dev", "/dev/shm", "/dev/mapper", *_TEMPORARY)
_DROPPINGS: Final = re.compile(r"/(\.s\.|#sql|mysql|maria|ibtmp|local-|fio|core)|attack-new")
# Other tests' and programs' own; the semaphores are those of Python's pools of processes.
_OTHERS: Final = re.compile(r"/(strata-|pytest-|sem\.mp-|tmp|loop\d|\.cache$|\.bash_history$|\.cargo$)")
# They come with the kernel's device mapper, at the first look of any test at volumes.
_OF_MODULES: Final = frozenset(map(Path, ("/dev/mapper", "/dev/mapper/control")))
_SETTINGS: Final = ("/proc/sys/vm", "/proc/sys/kernel", "/proc/sys/fs", "/sys/kernel/mm/transparent_hugepage")
# Values that the kernel counts or draws anew by itself.
_RESTLESS: Final = re.compile(
    r"-nr$|-state$|random/|ns_last_pid|pty/nr|stat_refresh|compact_memory|drop_caches|tainted|epoll|numa_|"
    r"sched_domain|userprocess|/sys/kernel/mm/.*stat|_status$"
)
_PR_SET_CHILD_SUBREAPER: Final = 36
# Reading the table of sockets takes a processor for milliseconds.
_POLL_S: Final = 0.2


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies: nothing gets out of sight."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def descendants() -> dict[int, str]:
    """The living processes below this one: when each was started, and what it was started as."""
    parents: dict[int, int] = {}
    shown: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, ValueError):  # ended meanwhile
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] not in "ZX":
                parents[int(entry.name)] = int(fields[1])
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                shown[int(entry.name)] = f"started at {fields[19]}: {words.strip()[:120]}"
    own = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return {pid: shown[pid] for pid in own - {os.getpid()}}


def reap() -> None:
    """Collect the adopted children that have ended; no other process waits for them."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


@dataclass(frozen=True)
class World:
    """The observed part of the machine.

    Attributes:
        trees: Files and folders whose content is compared, too.
        devices: Block devices of the test's own, whose content is compared.
        own: Folders: loop devices over files in them and cgroups with their names are the test's.
    """

    trees: tuple[Path, ...] = ()
    devices: tuple[str, ...] = ()
    own: tuple[Path, ...] = ()
    listed: tuple[str, ...] = _LISTED
    shared: tuple[str, ...] = _SHARED

    def record(self) -> State:
        """The current state of all things."""
        parts: tuple[Callable[[], Iterator[tuple[str, str]]], ...] = (
            self._files,
            self._blocks,
            self._mounts,
            self._kernel,
            self._groups,
            _processes,
            _network,
        )
        return dict(each for part in parts for each in part())

    def _files(self) -> Iterator[tuple[str, str]]:
        for tree in self.trees:
            for path in walk(tree):
                yield f"file {path}", file_state(path, content=True)
        for folder in self.listed:
            for path in walk(Path(folder)):
                if not _OTHERS.search(str(path).removeprefix(folder)):
                    yield f"file {path}", file_state(path)
        for folder in self.shared:
            for entry in _entries(Path(folder)):
                name = f"/{entry.name}"
                if entry in _OF_MODULES:
                    continue
                if _DROPPINGS.search(name) if folder in _TEMPORARY else not _OTHERS.search(name):
                    yield f"name {entry}", file_state(entry).split()[0]

    def _blocks(self) -> Iterator[tuple[str, str]]:
        for entry in sorted(Path("/sys/block").iterdir()):
            name = entry.name
            backing = text_of(entry / "loop/backing_file")
            is_loop = name.startswith("loop")
            if is_loop and not (backing and (self._is_own(backing) or f"/dev/{name}" in self.devices)):
                continue  # another program's
            settings = ("size", "ro", "queue/scheduler", "queue/read_ahead_kb", "queue/write_cache")
            held = [each.name for each in (*entry.glob("holders/*"), *entry.glob(f"{name}*"))]
            yield f"block {name}", f"{[text_of(entry / each) for each in settings]} {held} {backing}"
            if not name.startswith(("loop", "ram", "zram")):
                yield f"content /dev/{name}", _identity(f"/dev/{name}")
        for device in self.devices:
            yield f"content {device}", _hash(Path(device))

    def _is_own(self, backing: str) -> bool:
        return any(backing.startswith(f"{folder}/") for folder in (*self.own, *self.trees))

    def _mounts(self) -> Iterator[tuple[str, str]]:
        tables = {"self": Path("/proc/self/mountinfo"), "init": Path("/proc/1/mountinfo")}
        own = namespace("self", "mnt")
        for pid in descendants():
            if namespace(pid, "mnt") not in (own, ""):
                tables[str(pid)] = Path(f"/proc/{pid}/mountinfo")
        for whose, table in tables.items():
            for line in text_of(table).splitlines():
                before, _, after = line.partition(" - ")
                if _OTHERS.search(before.split()[4]) and not self._is_own(before.split()[4]):
                    continue
                yield f"mount {before.split()[4]} of {whose}", f"{before.split()[3:6]} {after}"

    def _groups(self) -> Iterator[tuple[str, str]]:
        ours = tuple(str(each.name).replace("-", "_") for folder in self.own for each in _entries(folder))
        for group in _entries(Path("/sys/fs/cgroup")):
            if group.is_dir() and (not group.name.startswith("strata_") or group.name.startswith(ours)):
                yield f"control group {group.name}", ""

    def _kernel(self) -> Iterator[tuple[str, str]]:
        areas = [line.split()[0] for line in text_of(Path("/proc/swaps")).splitlines()[1:]]
        # Swap on another loop device is another test's.
        yield "swap", " ".join(each for each in areas if each in self.devices or "/loop" not in each)
        yield "hostname", os.uname().nodename
        for line in text_of(Path("/proc/modules")).splitlines():
            yield f"module {line.split()[0]}", ""
        for path in Path("/sys/module").glob("*/parameters/*"):
            if path.stat().st_mode & 0o222:  # some of the others are counters
                yield f"parameter {path.parent.parent.name}.{path.name}", text_of(path)
        for folder in _SETTINGS:
            for path in walk(Path(folder)):
                if not _RESTLESS.search(str(path)) and path.is_file() and path.stat().st_mode & 0o222:
                    yield f"setting {path}", text_of(path)


def _processes() -> Iterator[tuple[str, str]]:
    for pid, shown in descendants().items():
        yield f"process {pid}", shown


def _network() -> Iterator[tuple[str, str]]:
    for entry in _entries(Path("/sys/class/net")):
        yield f"interface {entry.name}", text_of(entry / "flags")
    for entry in _entries(Path("/run/netns")):
        yield f"network namespace {entry.name}", ""
    own = namespace("self", "net")
    for pid in descendants():
        if (found := namespace(pid, "net")) not in (own, ""):
            yield f"network namespace {found} of process {pid}", ""
    for where in listening():
        yield f"listens {where}", ""


def listening_sockets() -> set[tuple[str, str]]:
    """The inodes and ports of all listening TCP sockets in this network namespace."""
    return {
        (fields[9], f"{kind} {fields[1]}")
        for kind in ("tcp", "tcp6")
        for fields in (line.split() for line in text_of(Path(f"/proc/self/net/{kind}")).splitlines()[1:])
        if fields[3] == "0A"
    }


def listening(known: Set[tuple[str, str]] = frozenset()) -> set[str]:
    """The TCP ports on which descendants of this process listen; the sockets known are not looked for."""
    inodes = listening_sockets() - known
    if not inodes:
        return set()
    held = set()
    for pid in descendants():
        for each in _entries(Path(f"/proc/{pid}/fd")):
            with suppress(OSError):
                held.add(str(each.readlink()))
    return {where for inode, where in inodes if f"socket:[{inode}]" in held}


@dataclass
class Escapes:
    """The changes outside a `watched` piece of work."""

    found: list[str] = field(default_factory=list)


@contextmanager
def watched(world: World, *, settle_s: float = 5.0) -> Iterator[Escapes]:
    """Compare the world around a piece of work; processes have ``settle_s`` to end by themselves.

    Sockets are watched during the whole work, because a listening server is gone afterwards.
    """
    escapes = Escapes()
    before = world.record()
    heard: set[str] = set()
    over = threading.Event()

    known = listening_sockets()

    def listen() -> None:
        while not over.wait(_POLL_S):
            heard.update(listening(known))

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        yield escapes
    finally:
        over.set()
        listener.join()
        deadline_s = time.monotonic() + settle_s
        while (found := differences(before, world.record())) and time.monotonic() < deadline_s:
            reap()
            time.sleep(0.2)
        earlier = {name.removeprefix("listens ") for name in before if name.startswith("listens ")}
        escapes.found += [*found, *(f"listened meanwhile {where}" for where in sorted(heard - earlier))]


def differences(before: State, after: State) -> list[str]:
    """Things that appeared, vanished or changed between two records, a line each."""
    return [
        *(f"new: {name} {after[name]}" for name in sorted(after.keys() - before.keys())),
        *(f"gone: {name} {before[name]}" for name in sorted(before.keys() - after.keys())),
        *(
            f"changed: {name}: {before[name]} -> {after[name]}"
            for name in sorted(before.keys() & after.keys())
            if before[name] != after[name]
        ),
    ]


def walk(path: Path) -> Iterator[Path]:
    """A file or a folder with all that is below it; links are not followed."""
    if os.path.lexists(path):
        yield path
    for folder, folders, files in os.walk(path):
        yield from (Path(folder) / each for each in (*folders, *files))


def file_state(path: Path, *, content: bool = False) -> str:
    """Kind, mode, owner, links, size, times, attributes and target of a file; its content by hash."""
    try:
        found = path.lstat()
        words = [stat.filemode(found.st_mode), found.st_uid, found.st_gid, found.st_rdev]
        if content or not path.is_dir():  # what is new in a folder is seen by its name
            words += [found.st_nlink, found.st_size, found.st_mtime_ns]
        words += [f"{each}={os.getxattr(path, each, follow_symlinks=False)!r}" for each in _attributes(path)]
        if path.is_symlink():
            words.append(path.readlink())
        elif content and path.is_file():
            words.append(_hash(path))
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return " ".join(map(str, words))


def _attributes(path: Path) -> list[str]:
    with suppress(OSError):
        return sorted(os.listxattr(path, follow_symlinks=False))
    return []


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        if stat.S_ISBLK(os.fstat(file.fileno()).st_mode):
            # Drop cached pages: the disk may have been written past this node's page cache.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _identity(device: str) -> str:
    """A disk's signature, and a hash of its first KiB; opens the disk for reading only."""
    line = ("blkid", "--probe", "--output", "export", device)
    said = subprocess.run(line, capture_output=True, text=True, check=False).stdout
    with suppress(OSError), Path(device).open("rb") as file:
        said += hashlib.sha256(file.read(1024)).hexdigest()
    return said.replace("\n", " ")


def namespace(pid: int | str, kind: str) -> str:
    """A namespace of a process; empty when the process has ended."""
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    return ""


def text_of(path: Path) -> str:
    """A small file's text; empty when it cannot be read."""
    with suppress(OSError):
        return path.read_bytes().decode(errors="replace").strip()
    return ""


def _entries(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []
