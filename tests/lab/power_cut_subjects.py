# SPDX-License-Identifier: Apache-2.0
"""The subjects of power cuts: a filesystem on a drive, with files or PostgreSQL on it, and its plans."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from strata.devices.device import Device, find_device
from strata.devices.faults import IgnoresFlush
from strata.model.step import Command, Step, literal
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_stack
from strata.plan.model import Monitors, Plan, PlanDevice
from strata.plan.recovery import compile_recovery
from strata.reading.load import load_study
from strata.seeds import derive_seed
from strata.units import NS_PER_S

WORKERS: Final = {"files": 4, "postgresql": 3}
FILESYSTEMS: Final = ("ext4", "xfs", "btrfs", "zfs")
SMALL_SECTORS: Final = "wd-re4-500gb"
"""Writes 512 bytes at a time: anything larger may be torn."""
LARGE_SECTORS: Final = "generic-nearline-hdd"
FLASH: Final = "samsung-870-evo-1tb"
"""No protection against power loss."""

_CAPACITY: Final = "1GiB"
_NOTES_BYTES: Final = 1 << 20
_STUDY: Final = """\
[study]
name = "power-cuts"
question = "Does it survive?"
seeds = [1]
time_limit = "60m"

[devices.disk0]
model = "{drive}"
capacity = "{capacity}"

[stacks.stack]
layers = {layers}

[workloads.unused]
workload = "fio"
preset = "random-mix-4k"
size = "16MiB"
duration = "1s"
"""
_PYTHON: Final = ("python3", "-I", "-S", "-c")
_SOCKET: Final = {"PGHOST": "${scratch}", "PGUSER": "postgres", "PGDATABASE": "postgres"}
_DATA: Final = "${mount}/pgdata"
# A small log, so that checkpoints, full-page writes and reused segments come often.
_SERVER: Final = (
    *("postgres", "-D", _DATA),
    *("-c", "listen_addresses=", "-c", "unix_socket_directories=${scratch}", "-c", "huge_pages=off"),
    *("-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on"),
    *("-c", "shared_buffers=4MB", "-c", "max_wal_size=2MB", "-c", "min_wal_size=2MB"),
    *("-c", "wal_sync_method=fdatasync", "-c", "checkpoint_timeout=30s", "-c", "jit=off"),
    # Vacuum is a part of the work; nothing is replicated.
    *("-c", "autovacuum=off", "-c", "max_logical_replication_workers=0", "-c", "max_connections=10"),
)
_TABLE: Final = """\
CREATE EXTENSION amcheck;
CREATE TABLE rows (epoch int, worker int, number int, version int NOT NULL, body text NOT NULL,
                   PRIMARY KEY (epoch, worker, number));
CREATE INDEX ON rows (version);
"""

# A block of their metadata, 4 KiB, must not be torn, and a drive with sectors of 512 bytes may do so: a mount
# refuses btrfs's superblock then, and XFS's recovery takes a block whose first sector is new for new.
# ext4 replays whole blocks.
_TORN_BY: Final = ("xfs", "btrfs")

Content = Literal["files", "postgresql"]
_CONTENTS: Final[tuple[Content, ...]] = ("files", "postgresql")


@dataclass(frozen=True)
class Subject:
    """One thing to be tortured.

    Attributes:
        filesystem: The layer.
        content: What works on it.
        drive: The device's name.
        mount: Mount options.
        lies: The drive ignores flushes.
    """

    filesystem: str
    content: Content
    drive: str
    mount: tuple[str, ...] = ()
    lies: bool = False

    @property
    def expected(self) -> Literal["sound", "damaged", "either"]:
        """The expected result."""
        if self.lies or self.mount:
            return "damaged"
        return "either" if self.filesystem in _TORN_BY and self.drive == SMALL_SECTORS else "sound"

    @property
    def condition(self) -> str:
        """The difference from a setup fit for use; empty if there is none."""
        if self.lies:
            return "the drive ignores flushes"
        return ", ".join(self.mount) or ("sectors of 512 bytes" if self.expected == "either" else "")

    @property
    def name(self) -> str:
        parts = (self.filesystem, self.content, self.drive, *self.mount, "lies" if self.lies else "")
        return ".".join(part for part in parts if part)

    @cached_property
    def study(self) -> Study:
        options = "[" + ", ".join(f'"{option}"' for option in self.mount) + "]"
        layers = f'[{{ layer = "{self.filesystem}", mount = {options} }}]'
        if self.filesystem == "zfs":
            layers = '[{ layer = "zpool", arc_max = "64MiB" }, { layer = "zfs" }]'
        text = _STUDY.format(drive=self.drive, capacity=_CAPACITY, layers=layers)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "study.toml"
            file.write_text(text)
            return load_study(file, catalogue())

    def devices(self) -> Mapping[str, Device]:
        drive = self.study.devices["disk0"].device
        return {
            "disk0": replace(drive, faults=(IgnoresFlush(),) if self.lies else ()),
            "notes": find_device("null"),
        }

    def preparation(self) -> Plan:
        """Make the filesystem and, for PostgreSQL, the cluster and its table; then power off."""
        plan = compile_stack(self.study, "stack", 1)
        steps = list(plan.steps)
        if self.content == "postgresql":
            steps += [*_cluster_steps(), _server("prepare"), _psql("table", "prepare", _TABLE)]
        return _with_notes(plan, steps, seed=derive_seed(1, self.name))

    def boot(self, seed: int, epoch: int, cut_after_us: int | None) -> Plan:
        """Recover, check, verify what was acknowledged; then work until the power is cut.

        Args:
            seed: The chain's.
            epoch: How many boots there were before.
            cut_after_us: When, after the beginning of the work, the power is cut; None for no work.
        """
        then = [_server("build")] if self.content == "postgresql" else []
        then.append(self._program("verify", seed, epoch, WORKERS[self.content]))
        if cut_after_us is not None:
            then.append(self._program("work", seed, epoch, WORKERS[self.content], cut_after_us))
        elif self.content == "postgresql":
            then.append(_postgres("amcheck", "build", "pg_amcheck", "--heapallindexed", "postgres"))
        plan = compile_recovery(self.study, "stack", 1)
        return _with_notes(plan, [*plan.steps, *then], seed=derive_seed(seed, "boot", str(epoch)))

    def closing(self) -> Plan:
        """After a boot without a cut, which stops the server as one should: every page's checksum."""
        plan = compile_recovery(self.study, "stack", 1)
        checksums = _postgres("checksums", "build", "pg_checksums", "--check", f"--pgdata={_DATA}")
        steps = [*plan.steps, *([checksums] if self.content == "postgresql" else [])]
        return _with_notes(plan, steps, seed=derive_seed(1, self.name, "closing"))

    def _program(self, mode: str, *numbers: int) -> Step:
        file = "files.py" if self.content == "files" else "rows.py"
        folder = ("${mount}",) if self.content == "files" else ()
        return Step(
            id=mode,
            phase="build",
            title=f"{mode} in epoch {numbers[1]}",
            argv=(*_PYTHON, program(file), mode, *folder, "${notes}", *map(str, numbers)),
            environment=_SOCKET,
            cwd="${scratch}",
            time_limit_ns=600 * NS_PER_S,
        )


def program(file: str) -> str:
    """A program for the lab in one text, with the module that it imports."""
    here = Path(__file__).parent / "in_lab"
    text = (here / "notes.py").read_text() + (here / file).read_text()
    kept = [line for line in text.splitlines() if not line.startswith(("from __future__", "from notes "))]
    return literal("\n".join(kept))


def sound_subjects() -> list[Subject]:
    """Subjects that must survive."""
    return [
        Subject(filesystem, content, drive)
        for filesystem in FILESYSTEMS
        for content in _CONTENTS
        for drive in (LARGE_SECTORS if filesystem in _TORN_BY else SMALL_SECTORS, FLASH)
    ]


def torn_subjects() -> list[Subject]:
    """Subjects that a single torn sector may damage."""
    return [Subject(filesystem, content, SMALL_SECTORS) for filesystem in _TORN_BY for content in _CONTENTS]


def unsound_subjects() -> list[Subject]:
    """Subjects that must be damaged. XFS no longer has a mount option that leaves out the flushes."""
    conditions: list[tuple[str, tuple[str, ...], bool]] = [
        ("ext4", ("barrier=0",), False),
        ("btrfs", ("nobarrier",), False),
        *((filesystem, (), True) for filesystem in FILESYSTEMS),
    ]
    return [
        Subject(filesystem, content, drive, mount, lies)
        for filesystem, mount, lies in conditions
        for content in _CONTENTS
        for drive in (SMALL_SECTORS, FLASH)
    ]


def _with_notes(plan: Plan, steps: list[Step], seed: int) -> Plan:
    return plan.model_copy(
        update={
            "devices": (*plan.devices, PlanDevice(name="notes", capacity_bytes=_NOTES_BYTES)),
            "variables": (*plan.variables, "notes"),
            "monitors": Monitors(interval_ns=60 * NS_PER_S, disks=plan.monitors.disks),
            "trial": plan.trial.model_copy(update={"seed": seed}),
            "steps": tuple(steps),
        }
    )


def _postgres(id: str, phase: str, *argv: str) -> Step:
    fields = {
        "user": "postgres",
        "environment": _SOCKET,
        "cwd": "${scratch}",
        "time_limit_ns": 600 * NS_PER_S,
    }
    return Step.model_validate({"id": id, "phase": phase, "title": id, "argv": argv, **fields})


def _cluster_steps() -> list[Step]:
    folder = ("install", "-d", "-o", "postgres", "-g", "postgres", "-m", "0700", _DATA)
    options = ("--username=postgres", "--auth=trust", "--no-locale", "--encoding=UTF8", "--no-instructions")
    cluster = ("initdb", f"--pgdata={_DATA}", "--data-checksums", "--wal-segsize=1", *options)
    return [
        Step(id="folder", phase="prepare", title="folder", argv=folder),
        _postgres("cluster", "prepare", *cluster),
    ]


def _server(phase: str) -> Step:
    ready = Command(
        argv=("pg_isready", "--quiet"), environment=_SOCKET, user="postgres", time_limit_ns=30 * NS_PER_S
    )
    more = {"background": True, "ready": ready, "stop_signal": "INT", "ready_interval_ns": NS_PER_S // 20}
    return _postgres("server", phase, *_SERVER).model_copy(update=more)


def _psql(id: str, phase: str, statements: str) -> Step:
    return _postgres(id, phase, "psql", "--no-psqlrc", "--quiet", "-v", "ON_ERROR_STOP=1", "-c", statements)
