# SPDX-License-Identifier: Apache-2.0
"""A volume in the network: token buckets, then a latency that is drawn, in slow phases longer."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from decimal import Context, Decimal
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar, Final

from strata.devices.kind import PPM_PER_PERCENT, DeviceKind, nearest, parameter_table, spread_table
from strata.diagnostics.names import Diagnostic
from strata.units import NS_PER_MS, SECTOR_BYTES

if TYPE_CHECKING:
    from strata.devices.device import Device
    from strata.devices.provisioning import ProvisionedMachine

_TOKENS_MAX: Final = 1 << 32  # the largest bucket of the driver
_SECTORS_PER_MIB: Final = (1 << 20) // SECTOR_BYTES
_SLOW_MS_MAX: Final = 10**9  # between slow phases, the driver's limit
_TAIL_TIMES_MAX: Final = 1000  # the driver's limit
_MACHINE_INTERVAL_MS: Final = 100  # depth of a machine's buckets: an estimate, as that of volumes
_OCTAVES: Final = 16
_STEPS: Final = 8
# Decimal arithmetic rounds exp correctly everywhere, which the C library's does not promise.
_EXACT: Final = Context(prec=28)


class Network(DeviceKind):
    """A volume in the network."""

    name = "network"
    title = "Volumes in the network"
    introduction = "Token buckets, then a drawn latency with a tail, which slow phases multiply."
    # The largest rates are the driver's: 2^34 bytes/s.
    parameters: ClassVar = parameter_table("""
        capacity                   int 2^20..2^60 B  addressable bytes, a multiple of 512
        read_latency_median        0..1000 ms        median of a read's way there and back, no waiting
        write_latency_median       0..1000 ms        median of a write's way there and back, no waiting
        latency_sigma              0..1.5            standard deviation of the latency's natural logarithm
        read_tail_share            0..50 % = 0       part of the reads in the latency's second mode; 0: none
        read_tail_latency          0..10000 ms = 0   median of these reads
        write_tail_share           0..50 % = 0       part of the writes in the latency's second mode; 0: none
        write_tail_latency         0..10000 ms = 0   median of these writes
        operation_rate             1..1e7 1/s        operations that it sustains
        operation_burst_rate       0..1e7 1/s = 0    the same while credits last; 0: none
        operation_credits          0..2^32 = 0       operations that can be saved up for bursts
        operation_credits_initial  0..2^32 = 0       of those, at the start
        operation_size_max         0.5..2^20 KiB     a larger I/O counts as several operations [unit_bytes]
        byte_rate                  0.01..2^14 MiB/s  data that it sustains
        byte_burst_rate            0..2^14 MiB/s = 0  the same while credits last; 0: none
        byte_credits               0..2047 GiB = 0   data that can be saved up for bursts
        byte_credits_initial       0..2047 GiB = 0   of those, at the start
        token_interval             0.001..60000 ms   depth of a bucket without credits
        link_rate                  0..2^14 MiB/s = 0  rate to all volumes; 0: not a limit [link_bytes_per_s]
        slow_share                 0..50 % = 0       share of the time with a longer latency; 0: none
        slow_length_mean           1..60000 ms = 1000  mean length of such a phase
        slow_factor                1..100 = 5        the latency's factor in it
        queue_depth                int 1..1024       commands that the device holds at once
    """)

    spreads: ClassVar = spread_table("""
        capacity, operation_rate, byte_rate, operation_size_max  fixed  as bought, and the provider's rule
        operation_burst_rate, operation_credits, operation_credits_initial  fixed  the provider's rule
        byte_burst_rate, byte_credits, byte_credits_initial, link_rate  fixed  the provider's rule
        read_latency_median, write_latency_median  0.6..1.7  providers promise single-digit ms; measured
                                                medians are 0.4 to 1 ms
        latency_sigma  0.5..2  99 % of the I/Os within 1.4 to 4 times the median
        read_tail_share, write_tail_share  0.1..2  a few in a thousand to a few in a hundred, as measured
        read_tail_latency  0.4..2  of volumes of the class [read_tail_share]
        write_tail_latency  0.4..2  of volumes of the class [write_tail_share]
        token_interval  0.1..10  not published
        slow_share  0..2  a promise of 99 % of the time leaves none to twice as much
        slow_length_mean  0.1..10  long against an I/O, short against a trial [slow_share]
        slow_factor  0.4..4  2 to 20 times [slow_share]
        queue_depth  fixed  more than its rates can fill
    """)

    def diagnostics(self, device: Device) -> Iterable[Diagnostic]:
        for what in ("operation", "byte"):
            credits, burst = device.number(f"{what}_credits"), device.number(f"{what}_burst_rate")
            if (credits > 0) != (burst > 0):
                cause = f"credits and {what}_burst_rate belong together"
                yield Diagnostic(cause, key=f"{what}_credits", remedy="state both, or leave both out")
            if 0 < burst <= device.number(f"{what}_rate"):
                cause = f"the burst is not faster than {what}_rate"
                remedy = "a volume that sustains as much needs no credits: leave them out"
                yield Diagnostic(cause, key=f"{what}_burst_rate", remedy=remedy)
            if device.number(f"{what}_credits_initial") > credits:
                cause = "there are more credits at the start than it can save up"
                yield Diagnostic(cause, key=f"{what}_credits_initial", remedy=f"at most {what}_credits")

        for op in ("read", "write"):
            median, tail = device.number(f"{op}_latency_median"), device.number(f"{op}_tail_latency")
            if device.number(f"{op}_tail_share") and not 0 < median <= tail <= _TAIL_TIMES_MAX * median:
                cause = f"{op}s of the tail take less than the other ones, or {_TAIL_TIMES_MAX} times as long"
                remedy = f"state more than {op}_latency_median, or leave {op}_tail_share out"
                yield Diagnostic(cause, key=f"{op}_tail_latency", remedy=remedy)

        share = device.number("slow_share")
        if share > 0 and device.number("slow_length_mean") > share * _SLOW_MS_MAX / 100:
            cause = "slow phases of this length and share are more than eleven days apart"
            yield Diagnostic(cause, key="slow_share", remedy="raise it, or 0 for none")

    def driver_lines(self, device: Device, capacity_sectors: int, queue_depth: int) -> list[str]:
        sigma = device.number("latency_sigma")
        tables = {op: latency_table(device.number(f"{op}_latency_median"), sigma) for op in ("read", "write")}
        return [
            *super().driver_lines(device, capacity_sectors, queue_depth),
            *_buckets(device, "operation", "operations_bucket", 1, 1),
            *_buckets(device, "byte", "sectors_bucket", _SECTORS_PER_MIB, 1024 * _SECTORS_PER_MIB),
            *_machine_buckets(device.machine),
            *(f"{op}_latency_ns=" + ",".join(map(str, table)) for op, table in tables.items()),
            *(line for op in tables for line in _tail(device, op)),
            *_slow_phases(device),
        ]


def _tail(device: Device, op: str) -> list[str]:
    share = nearest(device.number(f"{op}_tail_share") * PPM_PER_PERCENT)
    if not share:
        return []
    times = device.number(f"{op}_tail_latency") / device.number(f"{op}_latency_median")
    return [f"{op}_tail_ppm={share}", f"{op}_tail_percent={nearest(100 * times)}"]


def _slow_phases(device: Device) -> list[str]:
    share, length_ns = device.number("slow_share"), nearest(device.number("slow_length_mean") * NS_PER_MS)
    if not share:
        return []
    interval_ns = max(2 * length_ns, nearest(length_ns * 100 / share))
    factor = nearest(device.number("slow_factor") * 100)
    return [
        f"slow_interval_ns={interval_ns}",
        f"slow_length_ns={length_ns}",
        f"slow_factor_percent={factor}",
    ]


def _buckets(device: Device, what: str, key: str, rate_scale: int, credit_scale: int) -> list[str]:
    """A bucket at the sustained rate, and with credits a second one that limits the burst."""

    def shallow(rate: float) -> str:
        held = _tokens(rate * device.number("token_interval") / 1000)
        return f"{key}={_tokens(rate)},{held},{held}"

    rate = device.number(f"{what}_rate") * rate_scale
    capacity = device.number(f"{what}_credits") * credit_scale
    if not capacity:
        return [shallow(rate)]
    initial = min(nearest(device.number(f"{what}_credits_initial") * credit_scale), _TOKENS_MAX)
    burst = device.number(f"{what}_burst_rate") * rate_scale
    return [f"{key}={_tokens(rate)},{_tokens(capacity)},{initial}", shallow(burst)]


def _machine_buckets(machine: ProvisionedMachine) -> list[str]:
    """The buckets of the lab's one machine, which all its volumes share."""
    limits = {
        "machine_operations_bucket": machine.iops,
        "machine_sectors_bucket": machine.bytes_per_s and machine.bytes_per_s / SECTOR_BYTES,
    }
    stated = {key: limit for key, limit in limits.items() if limit is not None}
    lines = ["machine=1"] if stated else []
    for key, rate in stated.items():
        held = _tokens(rate * _MACHINE_INTERVAL_MS / 1000)
        lines.append(f"{key}={_tokens(rate)},{held},{held}")
    return lines


def _tokens(number: float) -> int:
    return min(max(1, nearest(number)), _TOKENS_MAX)


def tail_probability(index: int) -> float:
    """The probability beyond point ``index`` of 128 on one side of the median, on the driver's grid."""
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
