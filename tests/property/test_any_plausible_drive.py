# SPDX-License-Identifier: Apache-2.0
"""Every plausible drive of every bundled device can be made, works, and keeps what its model promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.devices.device import Device, bundled_devices, find_device
from strata.devices.plausible import plausible_drive
from strata.lab.disk import driver_config
from strata.lab.model import FLUSH, WRITE, ModelledDisk
from strata.model.design import SEED_MAX

_USED_BYTES = 1 << 28
_OPS = np.array([0, WRITE] * 10 + [FLUSH])


def works(drive: Device, seed: int) -> bool:
    text = driver_config(drive, name="sda", backing_fd=3, capacity_bytes=_USED_BYTES, seed=seed)
    blocks = np.arange(len(_OPS), dtype=np.uint64) * 8000
    done = ModelledDisk(text).closed_loop(
        _OPS, np.where(_OPS == FLUSH, 0, blocks), (_OPS != FLUSH) * 8, depth=1
    )
    return bool((done.sum_ns == done.latency_ns).all())


@pytest.mark.parametrize("name", bundled_devices())
@given(seed=st.integers(0, SEED_MAX))
def test_a_drawn_drive_lies_in_its_ranges_and_works(name: str, seed: int) -> None:
    device = find_device(name)
    drive = plausible_drive(device, seed)

    ranged = {key for key, each in device.parameters.items() if each.low is not None}
    assert set(drive.drawn) == ranged
    for key in ranged:
        low, high = device.parameters[key].low, device.parameters[key].high
        assert low is not None
        assert high is not None
        # The seek to the next track follows the intercept, and bands are whole blocks.
        assert drive.number(key) <= high * 1.001
        assert drive.number(key) >= low * 0.999 or key == "seek_track_to_track"
    assert drive.capacity_bytes == device.capacity_bytes
    assert works(drive, seed)
