# SPDX-License-Identifier: Apache-2.0
"""Whole distributions of latency against theory, by their demerit figure."""

from __future__ import annotations

import numpy as np

from strata.datasheet.formulas import seek_ns
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import Curve, Picture, Subject
from strata.devices.device import Device, find_device
from strata.devices.kinds.mechanism import mechanism
from strata.lab.model import READ
from strata.seeds import derive_seed
from strata.units import NS_PER_MS, NS_PER_US
from strata.validation.measured import Floats, demerit
from strata.validation.subject import RE4, Found, ModelCheck, near, points, subject, within

_PERCENTILES = np.concatenate([np.linspace(0.5, 99.5, 100), [99.9]])
_BLOCK_SECTORS = 8
_VOLUME = "aws-ebs-gp3"
_MICRON = "micron-7300-1920gb"
_MICRON_MODES_US = (88.0, 116.0, 165.0)


@subject(
    "latency",
    "Latency distributions",
    """The demerit figure is the root mean square horizontal distance of two cumulative distributions, as a
part of the mean (Ruemmler and Wilkes, 1994). Against real drives, published models reach 0.5 to 4 %. Here
the other distribution is theory: for a rotating disk, seeks between two random blocks plus a uniformly
distributed angle, drawn independently of the model; for a network volume without slow phases and tail
the lognormal distribution of its parameters. The same function takes measurements (<code>strata lab validate
--measured</code>). A TLC flash drive reads its three kinds of page in three times, which were measured on
the Micron 7300.""",
)
def latency(quick: bool) -> Found:
    count = 8_000 if quick else 40_000
    drive, volume = find_device(RE4), find_device(_VOLUME)
    subjects = Subject(drive), Subject(volume).with_values({"slow_share": 0, "read_tail_share": 0})
    model = {each.device.name: _model_ns(each, count) for each in subjects}
    theory = {RE4: _rotating_ns(drive, count), _VOLUME: _lognormal_ns(volume, count)}
    checks: list[ModelCheck] = []
    for name, found in model.items():
        figure = 100 * demerit(found, theory[name])
        checks.append(within(f"{name}: demerit figure against theory", figure, 0.0, 1.5, "%"))
    for percentile in (1, 50, 99):
        at, wanted = (float(np.percentile(times[RE4], percentile)) / NS_PER_MS for times in (model, theory))
        checks.append(near(f"{RE4}: {percentile}th percentile", at, wanted, 0.03, "ms"))
    for mode, measured in zip(_modes_us(count), _MICRON_MODES_US, strict=True):
        checks.append(near(f"{_MICRON}: mode of reads", mode, measured, 0.05, "µs"))
    return checks, [_picture(each, model[each.name], theory[each.name]) for each in (drive, volume)]


def _model_ns(drive: Subject, count: int) -> Floats:
    return drive.random(READ, depth=1, count=count).latency_ns.astype(np.float64)


def _rotating_ns(device: Device, count: int) -> Floats:
    """Overhead, the seek between two random blocks, a random angle, and the transfer of 4 KiB."""
    disk = mechanism(device)
    rng = np.random.default_rng(derive_seed(1, "latency", "theory"))
    firsts = np.array([zone.first_sector for zone in disk.zones])
    lengths = np.array([zone.sectors_per_track for zone in disk.zones])
    tracks = np.array([zone.first_track for zone in disk.zones])
    sectors = rng.integers(0, disk.sectors, (2, count))
    zones = np.searchsorted(firsts, sectors, side="right") - 1
    places = tracks[zones] + (sectors - firsts[zones]) // lengths[zones]
    distances = np.abs(places[0] - places[1])
    seeks = np.array([seek_ns(disk, float(d)) if d else 0.0 for d in distances])
    transfer = _BLOCK_SECTORS * disk.rotation_ns / lengths[zones[1]]
    crossing = rng.random(count) < (_BLOCK_SECTORS - 1) / lengths[zones[1]]
    turned = rng.random(count) * disk.rotation_ns
    times: Floats = disk.overhead_ns + seeks + turned + transfer + crossing * disk.track_skew_ns
    return times


def _lognormal_ns(device: Device, count: int) -> Floats:
    rng = np.random.default_rng(derive_seed(1, "latency", "lognormal"))
    median_ns = device.number("read_latency_median") * NS_PER_MS
    return median_ns * np.exp(device.number("latency_sigma") * rng.standard_normal(count))


def _modes_us(count: int) -> list[float]:
    """The medians of the thirds of the TLC drive's latencies: one for each type of page."""
    latencies = np.sort(_model_ns(sheet_of(find_device(_MICRON)).readable(), count)) / NS_PER_US
    return [float(np.median(third)) for third in np.array_split(latencies, len(_MICRON_MODES_US))]


def _picture(device: Device, model: Floats, theory: Floats) -> Picture:
    def curve(values: Floats) -> tuple[tuple[float, float], ...]:
        return points(np.percentile(values, _PERCENTILES) / NS_PER_MS, _PERCENTILES)

    title, y = f"Random 4-KiB reads, {device.name}", "% of the requests took no longer"
    curves = Curve("theory", curve(theory), "theory"), Curve("model", curve(model))
    return Picture(title, "latency, ms", y, curves)
