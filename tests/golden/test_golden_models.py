# SPDX-License-Identifier: Apache-2.0
"""What each disk model does with one mixed stream of commands: its times by part, and its account.

A change of a model shows here in every form that it touches; the laws that models obey are tested in
tests/unit and tests/property.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flash_texts import GIB, MIB, Drive
from golden_text import Golden
from kernel_model import Geometry
from strata.lab.model import DISCARD, FLUSH, FUA, READ, WRITE, ModelledDisk, part_names
from volume_texts import MS, controller_text, network_lines, network_text, slow_member

FLASH: dict[str, tuple[Drive, dict[str, object]]] = {
    "fresh": (Drive(), {}),
    "filled": (Drive(), {"precondition": 2}),
    "steady": (Drive(capacity_bytes=64 * MIB), {"precondition": 1}),
    "used": (Drive(capacity_bytes=64 * MIB), {"precondition": 3, "used_filled_ppm": 750_000,
        "used_scattered_ppm": 500_000, "used_collected_ppm": 500_000}),
    "protected": (Drive(volatile_cache=0), {"precondition": 2}),
    "NVMe": (Drive(read_ns=(40_000, 60_000, 110_000)),
        {"flush_queued": 1, "link_duplex": 1, "precondition": 2}),
    "cache off": (Drive(), {"write_through": 1}),
    "suspending": (Drive(dies=1), {"channels": 1, "program_suspend_ns": 30_000, "precondition": 2}),
    "slow channels": (Drive(), {"channel_bytes_per_s": 50_000_000, "link_write_bytes_per_s": 200_000_000}),
    "in place": (Drive(page_bytes=4096, volatile_cache=0), {"in_place": 1}),
    "SLC": (Drive(program_ns=(1_500_000,)),
        {"slc_bytes": 4 * MIB, "slc_program_ns": 300_000, "slc_idle_ns": MS}),
    "tails": (Drive(), {"precondition": 2, "read_retry_ppm": 100_000, "read_retry_again_ppm": 200_000,
        "read_retry_ns": 30_000, "read_spread_ppm": 100_000, "housekeeping_interval_ns": 100 * MS,
        "housekeeping_ns": 2 * MS, "refresh_page_ns": 10 * MS}),
    "bursts": (Drive(capacity_bytes=64 * MIB), {"precondition": 1, "cleaning_burst_bytes": 512 * 1024}),
    "lying": (Drive(), {"fault": "ignores-flush"}),
    "slow for a while": (Drive(), {"fault": "slow,0,500000000,300", "precondition": 2}),
}  # fmt: skip


def texts() -> Iterator[tuple[str, str]]:
    """Descriptions of disks, by what is special about them."""
    yield "rotating", Geometry().text()
    yield "rotating, served in order", Geometry(window=1).text()
    yield "rotating, with a short limit of waiting", Geometry(window=32, wait_limit_ns=50 * MS).text()
    for name, (drive, changed) in FLASH.items():
        yield f"flash, {name}", drive.text(**changed)
    yield "network", network_text(link_bytes_per_s=100 * MIB, unit_bytes=16_384)
    yield "network, with a rate", network_text(buckets=["operations_bucket=500,100,1"])
    member = slow_member(capacity_bytes=4 * GIB)
    for level, data in (("single", 4), ("raid0", 4), ("raid10", 2), ("raid5", 3), ("raid6", 2)):
        size = {} if level == "single" else {"capacity_sectors": data * GIB // 512}
        yield f"controller, {level}", controller_text(member, level=level, **size)
        dead = controller_text(network_lines(latency_ns=5 * MS), level=level, battery=0, **size)
        yield f"controller, {level} with a dead battery", dead
    yield "controller, full", controller_text(member, cache_bytes=MIB, interval_ns=20_000)


def behaviour(text: str) -> Iterator[str]:
    """A mixed stream, a pause, and reads one at a time."""
    draw, disk = np.random.default_rng(1), ModelledDisk(text)
    count, span = 2000, 48 * MIB // 4096
    ops = draw.choice([READ, WRITE, WRITE, WRITE, FLUSH, DISCARD], count, p=[0.4, 0.2, 0.2, 0.14, 0.04, 0.02])
    near = np.where(draw.random(count) < 0.5, np.arange(count) * 2, draw.integers(0, span, count))
    lengths = np.where(draw.random(count) < 0.1, 256, np.where(draw.random(count) < 0.1, 3, 8))
    places, lengths = np.where(ops == FLUSH, 0, near * 8), np.where(ops == FLUSH, 0, lengths)
    takes_fua = "fua=1" in text
    flags = np.where((ops == WRITE) & (draw.random(count) < 0.05) & takes_fua, FUA, 0)
    mixed = disk.closed_loop(ops, places, lengths, depth=8, flags=flags)
    disk.advance(disk.now_ns + 3_000_000_000)
    alone = disk.closed_loop(READ, draw.integers(0, span, 200) * 8, 8, depth=1)
    for name, trace in (("mixed", mixed), ("alone", alone)):
        parts = {part: int(trace.part(part).sum()) for part in part_names()}
        yield f"{name}: {trace.duration_ns} ns, {int(trace.latency_ns.max())} at most; {_known(parts)}"
    yield f"account: {_known(disk.account())}"


def _known(values: dict[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value)


def test_each_model_does_with_a_stream_what_it_did(golden: Golden) -> None:
    lines = (line for name, text in texts() for line in (f"# {name}", *behaviour(text), ""))
    golden("models.txt", "\n".join(lines))
