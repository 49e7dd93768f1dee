# SPDX-License-Identifier: Apache-2.0
"""The accounts of each virtual machine's own kernel over the measured window."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from strata.plan.model import Plan
from strata.results.events import Events
from strata.units import NS_PER_MS, SECTOR_BYTES

# Places in /sys/block/DISK/stat, each with its unit in the account (Documentation/block/stat.rst).
_DISK_FIELDS = {
    "reads": (0, 1),
    "read_bytes": (2, SECTOR_BYTES),
    "read_ns": (3, NS_PER_MS),
    "writes": (4, 1),
    "write_bytes": (6, SECTOR_BYTES),
    "write_ns": (7, NS_PER_MS),
    "discards": (11, 1),
    "discard_ns": (14, NS_PER_MS),
    "flushes": (15, 1),
}
_PROCESSOR = "processor"
_Accounts = dict[str, dict[str, int]]


def machine_accounts(plan: Plan, events: Events) -> dict[str, _Accounts]:
    """By machine: the account of its ``disk``, and its applications' requests by type of filesystem."""
    return {
        machine: {name: account for name, account in accounts.items() if name != _PROCESSOR}
        for machine, accounts in _changes(plan, events).items()
    }


def machine_counts(plan: Plan, events: Events) -> Iterator[dict[str, int]]:
    """Each machine's counts of its programs in ``/proc/strata_cpu``; the lab has taken over all others."""
    return (accounts.get(_PROCESSOR, {}) for accounts in _changes(plan, events).values())


def _changes(plan: Plan, events: Events) -> dict[str, _Accounts]:
    readings: dict[str, list[_Accounts]] = {}
    for step in plan.steps_for("machine-accounts"):
        if step.purpose is not None and (text := events.output(step.id)):
            readings.setdefault(step.purpose.layer or "", []).append(_parsed(text))
    return {
        machine: {name: _change(before.get(name, {}), account) for name, account in after.items()}
        for machine, pair in readings.items()
        for before, after in pairwise(pair)
    }


def _parsed(text: str) -> _Accounts:
    disk, *others = text.splitlines()
    counters = [int(word) for word in disk.split()]
    found = {"disk": {name: counters[place] * unit for name, (place, unit) in _DISK_FIELDS.items()}}
    for words in map(str.split, others):
        # A filesystem's line begins with its device and type.
        kind, counts = (words[1], words[2:]) if len(words) > 2 else (_PROCESSOR, words)
        account = found.setdefault(kind, {})
        for name, value in zip(counts[::2], counts[1::2], strict=True):
            account[name] = account.get(name, 0) + int(value)
    return found


def _change(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: value - before.get(name, 0) for name, value in after.items()}
