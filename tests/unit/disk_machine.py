# SPDX-License-Identifier: Apache-2.0
"""A machine's /sys, /proc, /run and /dev as a tree of files, for disks that this machine has not."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strata.disks.machine import Machine, Node

GIB = 1 << 30
BY_ID = "/dev/disk/by-id"


@dataclass(frozen=True)
class FakeMachine(Machine):
    """Device nodes are files here; which device one is, its name says."""

    busy: set[str] = field(default_factory=set)
    characters: set[str] = field(default_factory=set)

    def node(self, path: Path) -> Node:
        real = Path(os.path.realpath(self.root / path.relative_to("/")))
        numbers = [
            *self.root.glob(f"sys/block/{real.name}/dev"),
            *self.root.glob(f"sys/block/*/{real.name}/dev"),
        ]
        if not real.exists():
            return Node("missing")
        if real.name in self.characters:
            return Node("character", "1:3")
        if numbers:
            return Node("block", numbers[0].read_text().strip())
        return Node("folder" if real.is_dir() else "file")

    def opened_alone(self, path: Path) -> str | None:
        return "Device or resource busy" if path.name in self.busy else None


class Tree:
    """Builds the files of a machine, and answers for the programs that are asked about it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.called: list[tuple[str, ...]] = []
        self.contents: dict[str, list[dict[str, str | None]]] = {}
        self.loops: list[dict[str, Any]] = []
        self.pools = ""
        self.unreadable: set[str] = set()
        self.programs: dict[str, str] = {}
        self.machine = FakeMachine(root, self.call)
        self.mounted = ["20 1 253:9 / / rw - ext4 /dev/vdz rw"]
        self.disk("vdz", "ROOT", transport="virtio")
        self.write("proc/self/mountinfo", self.mounted[0] + "\n")
        self.write("proc/swaps", "Filename Type Size Used Priority\n")

    def write(self, path: str, text: str = "") -> Tree:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return self

    def link(self, path: str, target: str) -> Tree:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).symlink_to(target)
        return self

    def disk(
        self, name: str, serial: str = "", size: int = 100 * GIB, transport: str = "ata1", **files: str
    ) -> Tree:
        """A disk with the link that udev makes for its serial number; two underscores are a slash."""
        place = f"sys/block/{name}"
        index = len(self.contents) + 1
        self.contents[name] = []
        stated = {"dev": f"253:{9 if name == 'vdz' else index * 16}", "size": str(size // 512), "ro": "0"}
        stated |= {"removable": "0", "diskseq": str(index), "queue/zoned": "none", "device/path": transport}
        stated |= {"serial": serial} if serial else {}
        for file, text in (stated | {key.replace("__", "/"): text for key, text in files.items()}).items():
            self.write(f"{place}/{file}", text + "\n")
        for inner in ("holders", "slaves"):
            (self.root / place / inner).mkdir()
        self.write(f"dev/{name}")
        if serial:
            self.link(f"dev/disk/by-id/ata-DISK_{serial}", f"../../{name}")
        return self

    def character(self, name: str) -> Tree:
        self.machine.characters.add(name)
        return self.write(f"dev/{name}")

    def busy(self, name: str) -> Tree:
        self.machine.busy.add(name)
        return self

    def part(self, disk: str, index: int, size: int = 10 * GIB) -> str:
        name = f"{disk}{index}"
        minor = int((self.root / f"sys/block/{disk}/dev").read_text().split(":")[1]) + index
        place = f"sys/block/{disk}/{name}"
        files = {
            "dev": f"253:{minor}",
            "size": str(size // 512),
            "start": "2048",
            "partition": str(index),
            "ro": "0",
        }
        for file, text in files.items():
            self.write(f"{place}/{file}", text + "\n")
        (self.root / place / "holders").mkdir()
        self.write(f"dev/{name}")
        self.contents[name] = []
        for link in (self.root / "dev/disk/by-id").iterdir():
            if link.readlink().name == disk:
                self.link(f"dev/disk/by-id/{link.name}-part{index}", f"../../{name}")
        return name

    def hold(self, lower: str, upper: str) -> Tree:
        places = [*self.root.glob(f"sys/block/{lower}"), *self.root.glob(f"sys/block/*/{lower}")]
        (places[0] / "holders" / upper).symlink_to(f"../../{upper}")
        (self.root / "sys/block" / upper / "slaves" / lower).symlink_to(f"../../{lower}")
        return self

    def mount(
        self, source: str, point: str, kind: str = "ext4", process: str = "self", number: str = "0:99"
    ) -> Tree:
        file = f"proc/{process}/mountinfo"
        before = self.machine.content(file).decode()
        self.write(file, f"{before}30 20 {number} / {point} rw - {kind} {source} rw\n")
        return self

    def root_on(self, name: str) -> Tree:
        self.write("proc/self/mountinfo", f"20 1 0:99 / / rw - ext4 /dev/{name} rw\n")
        return self

    def swap(self, path: str) -> Tree:
        self.write("proc/swaps", f"Filename Type Size Used Priority\n{path} partition 1 0 -2\n")
        return self

    def opened(self, pid: str, path: str, name: str) -> Tree:
        self.link(f"proc/{pid}/fd/3", path)
        self.write(f"proc/{pid}/comm", name + "\n")
        return self

    def loop(self, name: str, file: str, inode: int) -> Tree:
        self.disk(name, transport="loop", loop__backing_file=file)
        self.loops.append({"name": f"/dev/{name}", "back-ino": inode, "back-maj:min": "253:9"})
        return self

    def has(self, name: str, kind: str | None, label: str | None = None, uuid: str | None = None) -> Tree:
        self.contents[name].append({"device": name, "type": kind, "label": label, "uuid": uuid})
        return self

    def bytes_at(self, name: str, offset: int, content: bytes) -> Tree:
        with (self.root / "dev" / name).open("r+b") as device:
            device.seek(offset)
            device.write(content)
        return self

    def call(self, *argv: str) -> subprocess.CompletedProcess[str]:
        self.called.append(argv)
        match argv:
            case ("losetup", "--list", *_):
                return self.done(argv, json.dumps({"loopdevices": self.loops}))
            case ("wipefs", "--json", "--output", _, node):
                name = node.removeprefix("/dev/")
                if name in self.unreadable:
                    return subprocess.CompletedProcess(
                        argv, 1, "", f"wipefs: error: {node}: Input/output error"
                    )
                return self.done(argv, json.dumps({"signatures": self.contents[name]}))
            case ("zpool", "list", *_):
                return self.done(argv, self.pools)
            case (program, *_) if program in self.programs:
                return self.done(argv, self.programs[program])
            case ("smartctl" | "nvme", *_):
                return subprocess.CompletedProcess(argv, 127, "", "No such file or directory")
        raise AssertionError(f"this would not only read: {argv}")

    def done(self, argv: tuple[str, ...], said: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(argv, 0, said, "")
