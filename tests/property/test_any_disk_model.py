# SPDX-License-Identifier: Apache-2.0
"""The disk model on any drive and any list of I/O."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from kernel_model import Geometry
from strata.lab.model import READ, ModelledDisk


@st.composite
def geometries(draw: st.DrawFn, least_per_track: int = 16) -> Geometry:
    zones = draw(st.integers(1, 5))
    per_track = sorted(
        draw(st.lists(st.integers(least_per_track, 4000), min_size=zones, max_size=zones)), reverse=True
    )
    tracks = draw(st.lists(st.integers(40, 3000), min_size=zones, max_size=zones))
    rotation_ns = draw(st.integers(2_000_000, 20_000_000))
    intercept = draw(st.floats(1e5, 3e6))
    return Geometry(
        rotation_ns=rotation_ns,
        track_skew_ns=draw(st.integers(0, rotation_ns // 3)),
        overhead_ns=draw(st.integers(0, 1_000_000)),
        write_settle_ns=draw(st.integers(0, 1_000_000)),
        window=draw(st.integers(1, 32)),
        wait_limit_ns=draw(st.integers(0, 500_000_000)),
        zones=tuple(zip(tracks, per_track, strict=True)),
        seek=(intercept, draw(st.floats(0, 2e7)), draw(st.floats(0.05, 1))),
    )


@examples(30)
@given(geometries(least_per_track=400), st.integers(0, 2**32 - 1))
def test_mean_random_read_at_depth_1(geometry: Geometry, seed: int) -> None:
    """Within 1 %: with 100 000 reads, five standard errors or more on every drive.

    The mean rotational wait is half a turn but for half a sector's width, so no tracks of a few sectors.
    """
    sectors = np.random.default_rng(seed).integers(0, geometry.capacity_sectors - 8, 100_000)
    trace = ModelledDisk(geometry.text()).closed_loop(READ, sectors, 8, depth=1)
    assert trace.latency_ns.mean() == pytest.approx(geometry.mean_random_read_ns(8), rel=0.01)


@examples(50)
@given(geometries(), st.integers(0, 2**32 - 1), st.integers(1, 32))
def test_no_command_waits_much_longer_than_the_limit(geometry: Geometry, seed: int, depth: int) -> None:
    """Of four commands one is the oldest that is over the limit, and fewer than the depth are older."""
    rng = np.random.default_rng(seed)
    sectors = rng.integers(0, geometry.capacity_sectors - 8, 3000)
    disk = ModelledDisk(geometry.text())
    trace = disk.closed_loop(rng.integers(0, 2, 3000), sectors, 8, depth=depth)
    serve = [trace.part(name) for name in ("seek_ns", "rotation_ns", "transfer_ns")]
    longest = int(np.sum(serve, axis=0).max()) + geometry.overhead_ns
    assert int(trace.latency_ns.max()) <= geometry.wait_limit_ns + 4 * (depth + 1) * longest


@examples(30)
@given(geometries(), st.integers(0, 2**32 - 1))
def test_throughput_never_falls_with_depth(geometry: Geometry, seed: int) -> None:
    """No deeper queue is slower by more than what chance explains: four standard errors of batch means."""
    sectors = np.random.default_rng(seed).integers(0, geometry.capacity_sectors - 8, 10_000)
    patient = Geometry(**{**geometry.__dict__, "wait_limit_ns": 10**12})
    previous, previous_error = np.inf, 0.0
    for depth in (1, 4, 16, 32):
        trace = ModelledDisk(patient.text()).closed_loop(READ, sectors, 8, depth=depth)
        batch = np.diff(np.sort(trace.complete_ns)[499::500].astype(np.int64), prepend=0) / 500
        error = float(batch.std(ddof=1)) / len(batch) ** 0.5
        assert batch.mean() < previous + 4 * (error**2 + previous_error**2) ** 0.5
        previous, previous_error = float(batch.mean()), error


@examples(200)
@given(st.text(alphabet="=\n,#0123456789abcdefghijklmnopqrstuvwxyz_", max_size=300))
def test_junk_is_refused_not_obeyed(text: str) -> None:
    with pytest.raises(ValueError, match="line"):
        ModelledDisk(text)
