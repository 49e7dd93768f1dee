# SPDX-License-Identifier: Apache-2.0
"""From a volume in the network's parameters to the integers of ``kernel/disk/network.c``."""

from __future__ import annotations

import functools
from decimal import Context, Decimal
from statistics import NormalDist
from typing import Final

from strata.lab.models.integers import nearest
from strata.spec.device import Device
from strata.units import NS_PER_MS, SECTOR_BYTES

_OCTAVES: Final = 16
_STEPS: Final = 8
_MIB: Final = 1 << 20
_TOKENS_MAX: Final = 1 << 32
# Decimal arithmetic rounds exp correctly everywhere, which the C library's does not promise.
_EXACT: Final = Context(prec=28)


def driver_lines(device: Device, capacity_sectors: int, queue_depth: int) -> list[str]:
    """The driver's keys of a volume in the network of which the first ``capacity_sectors`` are used."""
    sectors_per_mib = _MIB // SECTOR_BYTES
    lines = [
        *_buckets(device, "operation", "operations_bucket", 1, 1),
        *_buckets(device, "byte", "sectors_bucket", sectors_per_mib, 1024 * sectors_per_mib),
        f"unit_bytes={nearest(device.number('operation_size_max') * 1024)}",
        f"link_bytes_per_s={min(nearest(device.number('link_rate') * _MIB), 1 << 34)}",
    ]
    for op in ("read", "write"):
        table = latency_table(device.number(f"{op}_latency_median"), device.number("latency_sigma"))
        lines.append(f"{op}_latency_ns=" + ",".join(map(str, table)))
    return lines


def _buckets(device: Device, what: str, key: str, rate_scale: int, credit_scale: int) -> list[str]:
    """One bucket at the sustained rate; if credits can be saved up, a second one that limits the burst."""
    rate = device.number(f"{what}_rate") * rate_scale
    capacity = device.number(f"{what}_credits") * credit_scale
    if not capacity:
        return [_shallow(device, key, rate)]
    initial = device.number(f"{what}_credits_initial") * credit_scale
    burst = device.number(f"{what}_burst_rate") * rate_scale
    return [
        f"{key}={_tokens(rate)},{_tokens(capacity)},{min(nearest(initial), _TOKENS_MAX)}",
        _shallow(device, key, burst),
    ]


def _shallow(device: Device, key: str, rate: float) -> str:
    held = _tokens(rate * device.number("token_interval") / 1000)
    return f"{key}={_tokens(rate)},{held},{held}"


def _tokens(number: float) -> int:
    return min(max(1, nearest(number)), _TOKENS_MAX)


def tail_probability(index: int) -> float:
    """What lies beyond point ``index`` of 128 on one side of the median: the grid of the driver."""
    octave, step = divmod(index, _STEPS)
    return float(2.0 ** -(octave + 1) - step * 2.0 ** -(octave + 5))


def latency_table(median_ms: float, sigma: float) -> list[int]:
    """257 quantiles in ns of a lognormal distribution, ascending, on the driver's grid."""
    median_ns = Decimal(nearest(median_ms * NS_PER_MS))
    upper = [_EXACT.exp(_EXACT.multiply(Decimal(str(sigma)), z)) for z in _deviations()]
    factors = [_EXACT.divide(1, factor) for factor in upper[:0:-1]] + upper
    return [int(_EXACT.multiply(median_ns, factor).to_integral_value()) for factor in factors]


@functools.cache
def _deviations() -> list[Decimal]:
    """The normal distribution's quantiles from the median up, in nine digits: beyond, machines may differ."""
    normal = NormalDist()
    points = range(_OCTAVES * _STEPS + 1)
    return [Decimal(f"{-normal.inv_cdf(tail_probability(j)):.9f}") for j in points]
