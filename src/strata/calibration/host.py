# SPDX-License-Identifier: Apache-2.0
"""What measurements show of the host they were made on, instead of the drive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from strata.datasheet.fio_results import MeasuredCell
from strata.units import NS_PER_S
from strata.words import grouped

_EQUAL: Final = 0.02
_SATA_3_MB_PER_S: Final = (175.0, 240.0)
"""4-KiB requests through SATA at 3 Gb/s: 300 MB/s less what frames and commands take."""
_ASLEEP: Final = 1.1  # one request at a time takes no longer than several
_AWAKE_NS: Final = 1e6  # against a request as long as this, waking a processor takes nothing


def host_notes(cells: Sequence[MeasuredCell], *, is_flash: bool) -> Iterator[str]:
    """Ceilings: rates that are equal at all depths above some."""
    for (rw, block), series in _series(cells).items():
        deepest = series[-1]
        equal = [each for each in series if abs(each.iops / deepest.iops - 1) < _EQUAL]
        if not is_flash or len(equal) < 2 or equal != series[-len(equal) :]:
            continue
        mb_per_s = deepest.iops * block / 1e6
        is_sata = _SATA_3_MB_PER_S[0] < mb_per_s < _SATA_3_MB_PER_S[1] and block <= 8192
        what = "as of SATA at 3 Gb/s" if is_sata else "of the drive, its link or the host's controller"
        yield (
            f"{rw}: the rate is the same, {deepest.iops:,.0f}/s, from depth {equal[0].pattern.depth} on: "
            f"a ceiling {what}"
        )


def without_sleep(cells: Sequence[MeasuredCell]) -> list[MeasuredCell]:
    """The cells, marked where a processor that slept made one request at a time slower than several."""
    slow = {
        id(series[0]): f"the host slept: one request took {own / least:.2f} times as long as one of several"
        for series in _series(cells).values()
        if series[0].pattern.depth == 1 and len(series) > 1
        for own, least in [(_middle_ns(series[0]), min(map(_middle_ns, series[1:])))]
        if own > _ASLEEP * least and own < _AWAKE_NS
    }
    return [replace(each, limit=slow.get(id(each), "")) for each in cells]


def _middle_ns(cell: MeasuredCell) -> float:
    return cell.latencies_ns.get(50.0) or cell.pattern.depth * NS_PER_S / cell.iops


def _series(cells: Sequence[MeasuredCell]) -> dict[tuple[str, int], list[MeasuredCell]]:
    """Cells that differ in their depth only, by it."""
    plain = (each for each in cells if each.pattern.is_pure and not each.pattern.flush_every)
    found = grouped(((each.pattern.rw, each.pattern.block_bytes), each) for each in plain)
    return {key: sorted(series, key=lambda each: each.pattern.depth) for key, series in found.items()}
