# SPDX-License-Identifier: Apache-2.0
"""This machine's disks, and which a study could have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from strata.diagnostics.names import nearest
from strata.disks import inventory
from strata.disks.health import Health, health
from strata.disks.inventory import Disk
from strata.disks.judgement import Reason, judged, judged_groups
from strata.disks.machine import Machine
from strata.disks.signatures import Signature, signatures
from strata.disks.usage import DiskUse, Usage
from strata.errors import LabError, ToolError
from strata.printable import in_json


@dataclass(frozen=True)
class ExaminedDisk:
    disk: Disk
    uses: tuple[DiskUse, ...]
    content: tuple[Signature, ...] | None  # None: not read, because the disk is in use or cannot be opened
    health: Health
    reasons: tuple[Reason, ...]

    @property
    @in_json
    def verdict(self) -> str:
        if self.reasons:
            more = f" (and {len(self.reasons) - 1} more)" if len(self.reasons) > 1 else ""
            return f"cannot be used: {self.reasons[0].cause}{more}"
        if not self.content:
            return "can be used"
        members = max(each.members for each in self.content)
        others = f"; all {members} devices of its filesystem must be named" if members > 1 else ""
        return f"can be used with --erase {self.disk.erase_name}, which destroys what is on it{others}"

    @property
    @in_json
    def erase(self) -> str | None:
        """The name that ``--erase`` takes, of a usable disk with content."""
        return self.disk.erase_name if self.content and not self.reasons else None


def examine_disks(name: str | None = None) -> list[ExaminedDisk]:
    """Each disk with its content, users and health, or only one by name, path or serial number.

    Raises ToolError if there is none of the name.
    """
    machine = Machine()
    known = inventory.disks(machine)
    found = [each for each in known if each.size_bytes or each.transport not in ("zram", "ram", "nbd")]
    if name is not None:
        found = [each for each in found if name in (each.name, str(each.node), each.serial, each.path)]
        if not found:
            raise ToolError(
                f'there is no disk "{name}"',
                place="strata list disks",
                remedy=nearest(name, [each.name for each in known]),
            )
    usage = Usage(machine)
    return [_examined(machine, each, usage) for each in found]


def _examined(machine: Machine, disk: Disk, usage: Usage) -> ExaminedDisk:
    uses = usage.of(disk)
    reasons = judged(machine, disk, usage, {"the root filesystem": Path("/")}, uses)
    content: tuple[Signature, ...] | None = None
    if not uses and disk.size_bytes:
        try:
            content = tuple(signatures(machine, disk))
            reasons += judged_groups(content, usage)
        except LabError as error:
            reasons.append(Reason(error.cause, error.remedy or ""))
    return ExaminedDisk(disk, tuple(uses), content, health(machine, disk), tuple(reasons))
