# SPDX-License-Identifier: Apache-2.0
"""The account of a disk divided by filesystem and partition."""

from __future__ import annotations

from dataclasses import replace

from strata.explanation.analysis import DiskTime, Explanation
from strata.explanation.tables import tables
from strata.model.layer import StackPart
from strata.model.stack import Volume
from strata.results.volumes import volume_uses
from strata.units import MIB
from traces import MS, request, trace

NOTHING = dict.fromkeys(("reads", "writes", "flushes", "discards", "read_bytes", "write_bytes", "busy_ns"), 0)
NOBODY = Explanation(
    trial_id="home.oltp.s1",
    stack="home",
    workload="oltp",
    workload_title="",
    time_domain="virtual",
    window_ns=100 * MS,
    operation=None,
    operations=0,
    disks=(),
    layers=(),
    syncs=None,
    left_out=None,
)


def test_a_disks_time_is_divided_by_partition_and_a_flush_is_of_the_last_that_wrote() -> None:
    volumes = {
        "disk0.data": Volume("data", StackPart("disk0", MIB, 8 * MIB)),
        "disk0.wal": Volume("wal", StackPart("disk0", 9 * MIB, MIB)),
    }
    data = request(0, sector=2048, seek=6 * MS)
    wal = [request((10 + 5 * n) * MS, sector=18432 + 8 * n, rotation=2 * MS) for n in range(3)]
    first = request(0, kind="flush", sectors=0, flush=1 * MS)
    data["arrival_ns"], data["complete_ns"] = 2 * MS, 8 * MS
    found = trace(first, data, *wal, request(30 * MS, kind="flush", sectors=0, flush=4 * MS))

    used = volume_uses(volumes, {"disk0": {"writes": 4}}, found, (0, 100 * MS))

    accounts = {name: each.account for name, each in used.items()}
    assert accounts["disk0.data"] == {**NOTHING, "writes": 1, "write_bytes": 4096, "busy_ns": 6 * MS}
    wrote = {"writes": 3, "write_bytes": 12288, "flushes": 1}
    assert accounts["disk0.wal"] == {**NOTHING, **wrote, "busy_ns": 10 * MS}
    assert accounts["disk0"] == {**NOTHING, "flushes": 1, "busy_ns": 1 * MS}
    disk = DiskTime("disk0", {}, busy_ns=20 * MS, idle_ns=0, work_ns={}, kinds=(), traced=None)
    explained = replace(NOBODY, disks=(disk,), volumes=used, applications={"disk0.wal": {"syncs": 3}})
    shown = next(each for each in tables(explained) if each.title == "By filesystem")
    assert [(*row[:3], row[-1]) for row in shown.rows] == [
        ("(none)", "disk0", 0.05, None),
        ("data", "disk0.data", 0.3, None),
        ("wal", "disk0.wal", 0.5, 3),
    ]


def test_a_filesystem_on_a_disk_of_its_own_has_that_disks_account() -> None:
    volumes = {
        "disk0": Volume("stack", StackPart("disk0", 0, MIB)),
        "log": Volume("wal", StackPart("log", 0, MIB)),
    }
    accounts = {"disk0": {"writes": 4, "busy_ns": 9}, "log": {"writes": 7, "flushes": 2, "seek_ns": 3}}

    used = volume_uses(volumes, accounts, None, None)

    assert used["log"].filesystem == "wal"
    assert used["log"].account == {"writes": 7, "flushes": 2}
    assert used["disk0"].account == {"writes": 4, "busy_ns": 9}
