# SPDX-License-Identifier: Apache-2.0
"""The health that a disk reports, by smartctl or nvme-cli."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from strata.disks.inventory import Disk
from strata.disks.machine import MISSING_STATUS, Machine

_KELVIN: Final = 273
# Attributes of ATA disks: reallocated, reported uncorrectable, pending, offline uncorrectable sectors.
_ERRORS: Final = (5, 187, 197, 198)


@dataclass(frozen=True)
class Health:
    source: str = ""  # the program that read it
    passed: bool | None = None  # the disk's overall verdict, if it gives one
    temperature_c: int | None = None
    power_on_h: int | None = None
    wear_percent: int | None = None  # of a flash drive's life, by its own estimate
    errors: int | None = None  # sectors reallocated, pending or unreadable; for NVMe, media errors
    note: str = ""  # why there is no report

    def __str__(self) -> str:
        if self.note:
            return self.note
        facts = [
            {True: "passed", False: "FAILING", None: "no verdict"}[self.passed],
            f"{self.errors} bad sectors or media errors" if self.errors else "",
            f"{self.wear_percent} % worn" if self.wear_percent is not None else "",
            f"{self.temperature_c} °C" if self.temperature_c is not None else "",
            f"{self.power_on_h} h in use" if self.power_on_h is not None else "",
        ]
        return ", ".join(filter(None, facts))


def health(machine: Machine, disk: Disk) -> Health:
    """Ask the disk. A sleeping disk is not woken, and a virtual one is not asked."""
    if disk.transport not in ("sata", "sas", "scsi", "usb", "nvme"):
        return Health(note="not reported by this kind of disk")
    whole = f"/dev/{disk.whole or disk.name}"
    done = machine.call("smartctl", "--json", "--info", "--health", "--attributes", "-n", "standby,0", whole)
    if done.returncode != MISSING_STATUS:
        return _of_smartctl(_parsed(done.stdout))
    if disk.transport == "nvme":
        done = machine.call("nvme", "smart-log", "-o", "json", whole)
        if done.returncode != MISSING_STATUS:
            return _of_nvme(_parsed(done.stdout))
        return Health(note="unknown: install smartmontools or nvme-cli")
    return Health(note="unknown: install smartmontools")


def _of_smartctl(report: dict[str, Any]) -> Health:
    log = _table(report, "nvme_smart_health_information_log")
    rows = _table(report, "ata_smart_attributes").get("table")
    attributes = {
        each.get("id"): _whole(_table(each, "raw").get("value"))
        for each in (rows if isinstance(rows, list) else [])
        if isinstance(each, dict)
    }
    errors = [found for each in _ERRORS if (found := attributes.get(each)) is not None]
    passed = _table(report, "smart_status").get("passed")
    account = Health(
        source="smartctl",
        passed=passed if isinstance(passed, bool) else None,
        temperature_c=_whole(_table(report, "temperature").get("current")),
        power_on_h=_whole(_table(report, "power_on_time").get("hours")),
        wear_percent=_whole(log.get("percentage_used")),
        errors=sum(errors) if errors else _whole(log.get("media_errors")),
    )
    return account if account != Health(source="smartctl") else Health(note="the disk gave no account")


def _of_nvme(report: dict[str, Any]) -> Health:
    kelvin, warning = _whole(report.get("temperature")), _whole(report.get("critical_warning"))
    if kelvin is None and warning is None:
        return Health(note="the disk gave no account")
    return Health(
        source="nvme-cli",
        passed=None if warning is None else warning == 0,
        temperature_c=None if kelvin is None else kelvin - _KELVIN,
        power_on_h=_whole(report.get("power_on_hours")),
        wear_percent=_whole(report.get("percent_used", report.get("percentage_used"))),
        errors=_whole(report.get("media_errors")),
    )


def _parsed(text: str) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(text)
        return found if isinstance(found, dict) else {}
    return {}


def _table(report: dict[str, Any], name: str) -> dict[str, Any]:
    found = report.get(name)
    return found if isinstance(found, dict) else {}


def _whole(value: object) -> int | None:
    """A number, which nvme-cli may write as text."""
    with suppress(ValueError):
        return int(value) if isinstance(value, int | str) else None
    return None
