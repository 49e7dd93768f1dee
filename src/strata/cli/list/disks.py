# SPDX-License-Identifier: Apache-2.0
"""``strata list disks``: this machine's disks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text

from strata.actions.disks import ExaminedDisk, examine_disks
from strata.cli.output import print_json, stdout
from strata.cli.parameters import AsJson, argument
from strata.disks.inventory import Disk
from strata.units import format_size


def disks(
    name: Annotated[str | None, argument("Only this one, in full.", "DISK")] = None,
    as_json: AsJson = False,
) -> None:
    """List this machine's disks, and which a study could have.

    For each: its content, users and health. Nothing is written. Disks in use are not opened; only root sees
    the content of the others.

    Examples:
        sudo strata list disks
        sudo strata list disks sda
        sudo strata list disks --json | jq '.disks[].disk.path'
    """
    examined = examine_disks(name)
    if as_json:
        print_json(disks=examined)
        return
    console = stdout()
    for each in examined:
        _print_short(console, each) if name is None else _print_all(console, each)


def _print_short(console: Console, each: ExaminedDisk) -> None:
    disk = each.disk
    facts = [format_size(disk.size_bytes), _kind(disk), disk.model]
    console.print(Text.assemble((disk.name, "bold"), "  " + ", ".join(filter(None, facts))), soft_wrap=True)
    if disk.path is not None:
        console.print(Text(f"    {disk.path}"), soft_wrap=True)
    if each.health.passed is False:
        console.print(Text(f"    health: {each.health}", "red"), soft_wrap=True)
    console.print(Text(f"    {each.verdict}", "yellow" if each.reasons else ""), soft_wrap=True)


def _print_all(console: Console, each: ExaminedDisk) -> None:
    disk = each.disk
    sectors = f"{disk.logical_sector_bytes} bytes, {disk.physical_sector_bytes} on the medium"
    rows = [
        ("disk", disk.name),
        ("path", disk.path or "none that stays"),
        *(("also", f"/dev/disk/by-id/{link}") for link in disk.links if link != Path(disk.path or "").name),
        ("model", disk.model or "not stated"),
        ("serial", disk.serial or "not stated"),
        ("WWN", disk.wwn or "not stated"),
        ("firmware", disk.firmware or "not stated"),
        ("size", f"{format_size(disk.size_bytes)} ({disk.size_bytes} bytes)"),
        ("kind", _kind(disk)),
        ("sectors", sectors),
        ("write cache", disk.write_cache or "not stated"),
        ("scheduler", disk.scheduler or "none"),
        ("TRIM", f"up to {format_size(disk.discard_bytes_max)} at once" if disk.discard_bytes_max else "no"),
        *((("file", disk.backing.file),) if disk.backing else ()),
        *(("partition", f"{part.name}, {format_size(part.size_bytes)}") for part in disk.partitions),
        *(("used", str(use)) for use in each.uses),
        *(("content", str(one)) for one in each.content or ()),
        *(
            (("content", "not read" if each.content is None else "nothing known"),)
            if not each.content
            else ()
        ),
        ("health", str(each.health)),
    ]
    for title, value in rows:
        console.print(Text.assemble((f"{title:<12}", "dim"), value), soft_wrap=True)
    if not each.reasons:
        console.print(Text(f"It {each.verdict}."), soft_wrap=True)
    for reason in each.reasons:
        console.print(
            Text(f"It cannot be used: {reason.cause}.\n  {reason.remedy}.", "yellow"), soft_wrap=True
        )


def _kind(disk: Disk) -> str:
    return f"{disk.transport}, {'rotating' if disk.rotational else 'not rotating'}".removeprefix(", ")
