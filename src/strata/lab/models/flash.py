# SPDX-License-Identifier: Apache-2.0
"""From a flash drive's parameters to the integers of ``kernel/disk/flash.c``."""

from __future__ import annotations

from typing import Final

from strata.lab.models.integers import nearest
from strata.spec.device import Device
from strata.spec.device_kinds.flash import page_times
from strata.units import NS_PER_MS, NS_PER_US

_BYTES_PER_MB: Final = 1_000_000
_PPM_PER_PERCENT: Final = 10_000

_SCALED: Final = (
    ("page_bytes", "page_size", 1 << 10),
    ("mapping_unit_bytes", "mapping_unit", 1 << 10),
    ("spare_ppm", "over_provisioning", _PPM_PER_PERCENT),
    ("erase_ns", "erase_time", NS_PER_MS),
    ("program_suspend_ns", "program_suspend_time", NS_PER_US),
    ("erase_suspend_ns", "erase_suspend_time", NS_PER_US),
    ("link_bytes_per_s", "link_rate", _BYTES_PER_MB),
    ("link_write_bytes_per_s", "link_rate_write", _BYTES_PER_MB),
    ("channel_bytes_per_s", "channel_rate", _BYTES_PER_MB),
    ("command_ns", "command_time", NS_PER_US),
    ("interface_read_ns", "interface_latency_read", NS_PER_US),
    ("interface_write_ns", "interface_latency_write", NS_PER_US),
    ("buffer_bytes", "write_buffer", 1 << 20),
    ("flush_ns", "flush_time", NS_PER_US),
    ("slc_bytes", "slc_cache", 1 << 30),
    ("slc_program_ns", "slc_program_time", NS_PER_US),
    ("slc_idle_ns", "slc_idle_time", NS_PER_MS),
)
_COUNTS: Final = (
    *("dies", "channels", "pages_per_block", "link_duplex", "flush_queued", "in_place", "precondition"),
    *("discard", "hardware_queues"),
)


def driver_lines(device: Device, capacity_sectors: int, queue_depth: int) -> list[str]:
    """The driver's keys of a flash drive of which the first ``capacity_sectors`` are used.

    The driver scales the map to the used part, with the drive's own share of spare room. With power-loss
    protection there is nothing volatile, so the block layer sends neither flushes nor FUA. A unit of the
    map is never torn: it is in its old place or in its new one.
    """
    volatile = not device.number("power_loss_protection")
    return [
        *(f"{key}={nearest(device.number(name) * scale)}" for key, name, scale in _SCALED),
        *(f"{name}={int(device.number(name))}" for name in _COUNTS),
        *(f"{what}_ns=" + ",".join(map(str, _times_ns(device, what))) for what in ("read", "program")),
        f"volatile_cache={int(volatile)}",
        f"fua={int(volatile and device.number('fua') > 0)}",
        f"atomic_unit_bytes={nearest(device.number('mapping_unit') * 1024)}",
    ]


def _times_ns(device: Device, what: str) -> list[int]:
    return [max(1, nearest(time * NS_PER_US)) for time in page_times(device.parameters, what)]
