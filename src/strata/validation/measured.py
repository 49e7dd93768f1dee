# SPDX-License-Identifier: Apache-2.0
"""A real drive's latencies, from fio or a list, against the model under the same load: the demerit figure.

Ruemmler and Wilkes (IEEE Computer 27(3), 1994) draw both cumulative distributions and take the root mean
square of their horizontal distance, as a part of the real mean::

    sqrt(integral over p of (Q_model(p) - Q_real(p))^2) / mean_real

Published models: 3.9 % (Kotz and others, HP 97560), 0.5 to 2.0 % (DiskSim 4.0 with extracted parameters);
configurations made of data sheets alone are much worse.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strata.datasheet.fio_results import parse_block_bytes
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import PATTERNS, Pattern, measure
from strata.devices.device import Device
from strata.errors import ResultError
from strata.files import read_plain
from strata.lab.model import READ
from strata.units import NS_PER_MS
from strata.validation.subject import ExaminedSubject, within

Floats = npt.NDArray[np.float64]


def demerit(
    model_latencies: Any, real_latencies: Any, *, model_counts: Any = None, real_counts: Any = None
) -> float:
    """The demerit figure, exactly: 0 for equal distributions, 0.01 for 1 %.

    Latencies are in any order, but of one unit; counts are of each value, for values of a histogram. Raises
    ValueError if there are no values, or the real ones have no positive mean.
    """
    model, model_ends = _quantiles(model_latencies, model_counts)
    real, real_ends = _quantiles(real_latencies, real_counts)
    ends = np.union1d(model_ends, real_ends)
    widths = np.diff(ends, prepend=0.0)
    middles = ends - widths / 2
    apart = model[_at(model_ends, middles)] - real[_at(real_ends, middles)]
    mean = float(np.sum(real * np.diff(real_ends, prepend=0.0)))
    if mean <= 0:
        raise ValueError("the real latencies have no positive mean")
    return float(np.sqrt(np.sum(widths * apart**2))) / mean


def _quantiles(values: Any, counts: Any) -> tuple[Floats, Floats]:
    array = np.asarray(values, np.float64).ravel()
    weights = np.ones(len(array)) if counts is None else np.asarray(counts, np.float64).ravel()
    if not len(array) or len(array) != len(weights) or weights.sum() <= 0 or weights.min() < 0:
        raise ValueError("a distribution needs values, and a count for each of them")
    order = np.argsort(array, kind="stable")
    ends = np.cumsum(weights[order]) / weights.sum()
    ends[-1] = 1.0
    return array[order], ends


def _at(ends: Floats, probabilities: Floats) -> npt.NDArray[np.intp]:
    return np.minimum(np.searchsorted(ends, probabilities, side="left"), len(ends) - 1)


_COUNT: Final = 20_000
_GOOD_PERCENT: Final = 10.0
_BYTES_MAX: Final = 256 << 20
_NO_LATENCIES: Final = "there are no latencies in it"
_TEXT: Final = """Latencies that were measured on a real drive against those of the model under the same
load: one pattern, block size and queue depth, over the whole device. Published models of disks reach a
demerit figure of 0.5 to 4 % after their parameters were extracted from the drive; from a data sheet alone,
up to some tens."""


@dataclass(frozen=True)
class RealLatencies:
    """One measurement of a real drive: each latency, or bin of a histogram, with its count."""

    name: str
    pattern: Pattern
    latencies_ns: Floats
    counts: npt.NDArray[np.int64]


def read_measured(file: Path) -> list[RealLatencies]:
    """Read the output of ``fio --output-format=json+``, whose jobs state ``rw``, ``bs`` and ``iodepth``.

    Or ``{"rw": "randread", "bs": 4096, "iodepth": 1, "latencies_ns": [...]}``. Raises ResultError.
    """
    try:
        content = json.loads(read_plain(file, _BYTES_MAX, follow=True))
        jobs = content.get("jobs", [content])
        shared = content.get("global options", {})
        return [_read_job({**shared, **job.get("job options", job)}, job) for job in jobs]
    except OSError as error:
        cause = f"it cannot be read: {error.strerror}"
        raise ResultError(cause, place=str(file), remedy="name the file that fio wrote") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultError(
            f"this is not a measurement: {_in_words(error)}",
            place=str(file),
            remedy="write it with `fio --output-format=json+`, one rw, bs and iodepth a job",
        ) from error


def _in_words(error: Exception) -> str:
    match error:
        case json.JSONDecodeError():
            return f"it is not JSON (line {error.lineno})"
        case UnicodeDecodeError():
            return "it is not text"
        case KeyError():
            return f'there is no "{error.args[0]}" in it'
    return _NO_LATENCIES if str(error) == _NO_LATENCIES else "it is JSON of another form"


def _read_job(options: Mapping[str, Any], job: Mapping[str, Any]) -> RealLatencies:
    pattern = str(options.get("rw") or options["readwrite"])
    if pattern not in PATTERNS:
        raise KeyError(f"rw={'|'.join(PATTERNS)}")
    operation, _ = PATTERNS[pattern]
    if "latencies_ns" in job:
        latencies = np.asarray(job["latencies_ns"], np.float64)
        counts = np.ones(len(latencies), np.int64)
    else:
        side = job["read" if operation == READ else "write"]
        # All asynchronous engines report the device's own time.
        bins = (side.get("clat_ns") or side["lat_ns"])["bins"]
        latencies = np.array([float(value) for value in bins])
        counts = np.array([int(count) for count in bins.values()], np.int64)
    if not len(latencies) or counts.sum() <= 0:
        raise ValueError(_NO_LATENCIES)
    block_bytes = parse_block_bytes(str(options.get("bs", options.get("blocksize", 4096))))
    name, depth = str(job.get("jobname", pattern)), int(options.get("iodepth", 1))
    return RealLatencies(name, Pattern(pattern, block_bytes, depth), latencies, counts)


def compare(device: Device, measured: RealLatencies) -> ExaminedSubject:
    latencies = model_ns(device, measured.pattern)
    figure = 100 * demerit(latencies, measured.latencies_ns, real_counts=measured.counts)
    real_ms = float(np.average(measured.latencies_ns, weights=measured.counts)) / NS_PER_MS
    model_ms = float(latencies.mean()) / NS_PER_MS
    load = f"{measured.pattern.rw}, {measured.pattern.block_bytes} B, depth {measured.pattern.depth}"
    note = f"measured: {real_ms:.4g} ms over {int(measured.counts.sum()):,} requests"
    checks = (
        within(f"{load}: demerit figure", figure, 0.0, _GOOD_PERCENT, unit="%", soft=True),
        within(f"{load}: mean", model_ms, 0.9 * real_ms, 1.1 * real_ms, unit="ms", soft=True, note=note),
    )
    return ExaminedSubject("measured", f"{device.name} against {measured.name}", _TEXT, checks)


def model_ns(device: Device, pattern: Pattern) -> Floats:
    """The model's latencies under a load. Raises ResultError if it refuses the load."""
    subject = sheet_of(device).readable()
    if pattern.depth > device.queue_depth or not pattern.fits(subject):
        raise ResultError(
            f"{device.name} does not take {pattern.block_bytes} bytes at queue depth {pattern.depth}",
            remedy=f"its queue depth is {device.queue_depth}",
        )
    return measure(subject, subject.open(), pattern, _COUNT).latency_ns.astype(np.float64)
