# SPDX-License-Identifier: Apache-2.0
"""A flash drive: SATA, NVMe, or 3D XPoint, which needs neither map nor cleaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strata.spec.device_kinds.parameter import (
    CAPACITY,
    QUEUE_DEPTH,
    Expected,
    Parameter,
    Parameters,
    Require,
    number,
)

PAGE_TYPES: Final = ("lower", "middle", "upper", "top")
"""The pages of a word line, by the bit that they hold of each cell: one of SLC, four of QLC."""

PRECONDITIONS: Final = {"none": 0, "steady": 1, "filled": 2}
"""What a study can say of a drive's state at its start."""

_US: Final = 1e6


def _times(what: str, needed: str) -> dict[str, Expected]:
    times = {}
    for kind in PAGE_TYPES:
        meaning = f"time to {what} {'an' if kind == 'upper' else 'a'} {kind} page"
        if kind == needed:
            times[f"page_{what}_time_{kind}"] = Expected(meaning, "us", 0.001, _US)
        else:
            times[f"page_{what}_time_{kind}"] = Expected(f"{meaning}; 0: none", "us", 0, _US, default=0)
    return times


PARAMETERS: Final[Mapping[str, Expected]] = {
    "capacity": CAPACITY,
    "over_provisioning": Expected("cells above the capacity, as a part of it", "%", 0.1, 1000),
    "dies": Expected("dies that work at the same time, planes taken as one", "1", 1, 512, whole=True),
    "channels": Expected("channels between the dies and the controller", "1", 1, 64, whole=True),
    "page_size": Expected("what a die reads or programs at once", "KiB", 0.5, 1024),
    "mapping_unit": Expected("unit of the map", "KiB", 0.5, 64, default=4),
    "pages_per_block": Expected("pages that a die erases at once", "1", 1, 65_536, whole=True),
    **_times("read", "lower"),
    **_times("program", "lower"),
    "erase_time": Expected("time to erase a block", "ms", 0, 1000),
    "program_suspend_time": Expected("until a read interrupts a program; 0: never", "us", 0, _US, default=0),
    "erase_suspend_time": Expected("until a read interrupts an erase; 0: never", "us", 0, _US, default=0),
    "link_rate": Expected("data rate to the host", "MB/s", 1, 100_000),
    "link_rate_write": Expected("the same from the host; 0: equal", "MB/s", 0, 100_000, default=0),
    "link_duplex": Expected("1: both directions at once (PCIe)", "1", 0, 1, whole=True, default=0),
    "channel_rate": Expected("data rate of a channel; 0: never the limit", "MB/s", 0, 100_000, default=0),
    "command_time": Expected("time of the link that a command takes", "us", 0, 10_000),
    "interface_latency_read": Expected("firmware and interface, of a read", "us", 0, 10_000),
    "interface_latency_write": Expected("firmware and interface, of other commands", "us", 0, 10_000),
    "write_buffer": Expected("data that are complete before they are programmed", "MiB", 0.01, 65_536),
    "power_loss_protection": Expected("1: nothing acknowledged is lost", "1", 0, 1, whole=True),
    "flush_time": Expected("what a flush takes besides the programs", "us", 0, _US),
    "flush_queued": Expected("0: waits for all, and all wait (SATA)", "1", 0, 1, whole=True, default=0),
    "fua": Expected("1: takes writes that are to be durable", "1", 0, 1, whole=True, default=0),
    "discard": Expected("1: takes discards (TRIM)", "1", 0, 1, whole=True, default=1),
    "slc_cache": Expected("data that is programmed fast before it is folded", "GiB", 0, 4096, default=0),
    "slc_program_time": Expected("time to program a page of it", "us", 0, _US, default=0),
    "slc_idle_time": Expected("idleness after which it is folded", "ms", 0, _US, default=0),
    "in_place": Expected("1: overwrites in place (3D XPoint)", "1", 0, 1, whole=True, default=0),
    "precondition": Expected("at the start: 0 empty, 1 steady, 2 filled", "1", 0, 2, whole=True, default=0),
    "hardware_queues": Expected(
        "submission queues; more than one: no I/O scheduler (the lab has one CPU)",
        "1",
        1,
        128,
        whole=True,
        default=1,
    ),
    "queue_depth": QUEUE_DEPTH,
}


def precondition(state: str) -> Parameter:
    """The parameter for a state that a study asks for: one of `PRECONDITIONS`."""
    return Parameter(value=PRECONDITIONS[state], unit="1", source="the study", estimate=False)


def page_times(parameters: Parameters, what: str) -> list[float]:
    """The times in microseconds to ``read`` or ``program`` each type of page that the drive has."""
    values = [number(parameters, f"page_{what}_time_{kind}") for kind in PAGE_TYPES]
    return [value for value in values if value]


def check(parameters: Parameters, require: Require) -> None:
    """The relations between the parameters that the driver needs."""
    page, unit = number(parameters, "page_size") * 1024, number(parameters, "mapping_unit") * 1024
    for name, size in (("page_size", page), ("mapping_unit", unit)):
        require(
            size == int(size) and int(size) & (int(size) - 1) == 0,
            name,
            "this is not a power of two of bytes",
            "take 4 KiB, 16 KiB and so on; of dies with several planes, the planes' pages together",
        )
    require(
        unit <= page <= 64 * unit,
        "page_size",
        "a page does not hold 1 to 64 mapping units",
        "change page_size or mapping_unit",
    )
    for what in ("read", "program"):
        for kind, before in zip(PAGE_TYPES[1:], PAGE_TYPES, strict=False):
            require(
                number(parameters, f"page_{what}_time_{kind}") == 0
                or number(parameters, f"page_{what}_time_{before}") > 0,
                f"page_{what}_time_{kind}",
                f"there is no {before} page",
                f"state page_{what}_time_{before}, too",
            )
    require(
        number(parameters, "channels") <= number(parameters, "dies"),
        "channels",
        "there are more channels than dies",
        "a die is on one channel",
    )
    require(
        number(parameters, "write_buffer") * 1024 * 1024 >= 2 * page,
        "write_buffer",
        "the buffer holds less than two pages",
        "raise it, or lower page_size",
    )
    require(
        number(parameters, "slc_cache") == 0 or number(parameters, "slc_program_time") > 0,
        "slc_program_time",
        "an SLC cache needs the time to program its pages",
        "state it, or leave slc_cache out",
    )
    require(
        number(parameters, "in_place") == 0 or page == unit,
        "in_place",
        "pages that are overwritten in place must be mapping units",
        "set page_size to mapping_unit",
    )
