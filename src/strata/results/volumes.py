# SPDX-License-Identifier: Apache-2.0
"""The account of a disk, divided among the filesystems of a stack and its partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from strata.model.stack import Volume
from strata.results.record import VolumeUse
from strata.traces.attribution import completed, shares_of
from strata.traces.kinds import OPS
from strata.traces.table import Records, Trace
from strata.units import SECTOR_BYTES

_COUNTS = {"reads": "read", "writes": "write", "flushes": "flush", "discards": "discard"}
_BYTES = {"read_bytes": "read", "write_bytes": "write"}


def volume_uses(
    volumes: Mapping[str, Volume],
    disks: Mapping[str, Mapping[str, int]],
    trace: Trace | None,
    window_ns: tuple[int, int] | None,
) -> dict[str, VolumeUse]:
    """The use of each disk and partition over the measured window, given the disks' accounts.

    Partitions are told apart by the trace's addresses. A flush has none: it counts for the partition whose
    write was complete last before it, since a filesystem flushes after its own writes. What comes before any
    write counts for the disk itself. Without a trace a divided disk is left out.
    """
    found: dict[str, VolumeUse] = {}
    for disk, account in disks.items():
        names = [name for name, each in volumes.items() if each.part.disk == disk]
        if names == [disk]:
            kept = {key: account[key] for key in (*_COUNTS, *_BYTES, "busy_ns") if key in account}
            found[disk] = VolumeUse(filesystem=volumes[disk].filesystem, disk=disk, account=kept)
        elif names and trace is not None and window_ns is not None and disk in trace.disks:
            found |= _divided(disk, {name: volumes[name] for name in names}, trace.of_disk(disk), window_ns)
    return found


def _divided(
    disk: str, volumes: Mapping[str, Volume], records: Records, window_ns: tuple[int, int]
) -> Iterator[tuple[str, VolumeUse]]:
    done, (served, shares_ns) = completed(records, window_ns), shares_of(records, window_ns)
    owners, owners_served = _owners(volumes, done, records), _owners(volumes, served, records)
    for index, (name, filesystem) in enumerate(
        [(disk, ""), *((n, v.filesystem) for n, v in volumes.items())]
    ):
        mine = done[owners == index]
        account = {key: int((mine["op"] == OPS.index(op)).sum()) for key, op in _COUNTS.items()}
        for key, op in _BYTES.items():
            sectors = mine["sectors"][mine["op"] == OPS.index(op)].astype(np.int64)
            account[key] = int(sectors.sum()) * SECTOR_BYTES
        account["busy_ns"] = round(float(shares_ns[owners_served == index].sum()))
        if index or any(account.values()):
            yield name, VolumeUse(filesystem=filesystem, disk=disk, account=account)


def _owners(volumes: Mapping[str, Volume], records: Records, whole: Records) -> np.ndarray:
    """The number of each request's volume, from 1 on; 0: none. ``whole`` has all requests of the disk."""
    owners = _by_address(volumes, records)
    flushes = records["op"] == OPS.index("flush")
    writes = whole[whole["op"] == OPS.index("write")]
    writes = writes[np.argsort(writes["complete_ns"], kind="stable")]
    before = np.searchsorted(writes["complete_ns"], records["arrival_ns"][flushes], side="right")
    owners[flushes] = np.concatenate([[0], _by_address(volumes, writes)])[before]
    return owners


def _by_address(volumes: Mapping[str, Volume], records: Records) -> np.ndarray:
    owners = np.zeros(len(records), np.intp)
    at = records["sector"].astype(np.int64) * SECTOR_BYTES
    for number, (_, (first, size)) in enumerate(((n, v.part[1:]) for n, v in volumes.items()), 1):
        owners[(at >= first) & (at < first + size)] = number
    return owners
