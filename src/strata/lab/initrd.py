# SPDX-License-Identifier: Apache-2.0
"""The lab's initial root: a cpio archive with the agent as ``/init``, its plan and its bindings.

The format is "newc" (Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's source).
Equal content gives equal bytes: no times, no owners, inode numbers by position.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_MAGIC: Final = b"070701"
_TRAILER: Final = "TRAILER!!!"
_ALIGNMENT: Final = 4
# Without it the first process has no output: no filesystem is mounted yet.
_CONSOLE: Final = (5, 1)
_FOLDERS: Final = ("dev", "newroot", "proc", "run", "strata", "sys", "tmp")
_NOTHING: Final[Mapping[str, bytes]] = {}


@dataclass(frozen=True)
class Member:
    """One file, folder or device of an archive; ``path`` has no leading slash."""

    path: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def lab_initrd(
    agent: bytes,
    plan: bytes,
    bindings: bytes,
    modules: Mapping[str, bytes] = _NOTHING,
    programs: Mapping[str, bytes] = _NOTHING,
) -> bytes:
    """The archive that a lab boots from; modules and programs are given by their paths."""
    folders = sorted({path.rpartition("/")[0] for path in (*modules, *programs)})
    return cpio(
        [
            *(Member(folder, stat.S_IFDIR | 0o755) for folder in _FOLDERS),
            Member("dev/console", stat.S_IFCHR | 0o600, device=_CONSOLE),
            Member("init", stat.S_IFREG | 0o755, agent),
            Member("strata/plan.json", stat.S_IFREG | 0o644, plan),
            Member("strata/bindings.json", stat.S_IFREG | 0o644, bindings),
            *(Member(folder, stat.S_IFDIR | 0o755) for folder in folders),
            *(Member(path, stat.S_IFREG | 0o644, content) for path, content in modules.items()),
            *(Member(path, stat.S_IFREG | 0o755, content) for path, content in programs.items()),
        ]
    )


def cpio(members: list[Member]) -> bytes:
    """An archive of ``members``, in their order; a folder must come before its content."""
    records = [_record(member, inode) for inode, member in enumerate(members, start=1)]
    return b"".join([*records, _record(Member(_TRAILER, 0), 0)])


def _record(member: Member, inode: int) -> bytes:
    name = member.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(member.mode) else 1
    fields = (
        *(inode, member.mode, 0, 0, links, 0, len(member.content)),  # 0: owner, group, time
        *(0, 0, *member.device, len(name), 0),
    )
    header = _MAGIC + b"".join(b"%08x" % field for field in fields) + name
    return header + _padding(len(header)) + member.content + _padding(len(member.content))


def _padding(length: int) -> bytes:
    return b"\0" * (-length % _ALIGNMENT)
