# SPDX-License-Identifier: Apache-2.0
"""The state of a disk's model over an orderly power-off, and over a cut of the power."""

from __future__ import annotations

import ctypes
import random
import re
from dataclasses import dataclass, replace

import pytest

from content_model import LOADED, NEW, FullDisk, Io, Store
from strata.devices.device import find_device
from strata.devices.kinds import flash
from strata.lab.disk import driver_config
from strata.lab.model import DISCARD, FLUSH, READ, WRITE

GIB = 1 << 30
STORE_BYTES = 512 << 20


@dataclass(frozen=True)
class Drive:
    """A device of which a part is used, and whether the model has a state that outlives the power."""

    device: str
    capacity_bytes: int
    remembers: bool
    precondition: str | None = None
    write_cache: bool = True

    @property
    def text(self) -> str:
        device = find_device(self.device)
        if self.precondition is not None:
            given = flash.precondition(self.precondition)
            device = replace(device, parameters={**device.parameters, "precondition": given})
        device = replace(device, write_cache=self.write_cache)
        text = driver_config(device, name="sda", backing_fd=0, capacity_bytes=self.capacity_bytes, seed=7)
        return re.sub(r"(_bucket=\d+),\d+,\d+", r"\1,3000,3000", text)  # credits that end soon


DRIVES = [
    Drive("generic-desktop-hdd", 4 * GIB, remembers=False),
    Drive("generic-smr-hdd", 60 * GIB, remembers=True),
    Drive("generic-sata-ssd", GIB, remembers=True),
    Drive("generic-sata-ssd", GIB, remembers=True, precondition="steady"),
    Drive("generic-sata-ssd", GIB, remembers=True, precondition="fresh"),
    Drive("generic-nvme-data-centre", GIB, remembers=True, precondition="filled"),
    Drive("generic-nvme-data-centre", GIB, remembers=True, write_cache=False),
    Drive("intel-p4800x-375gb", GIB, remembers=False),
    Drive("aws-ebs-gp2", 4 * GIB, remembers=True),
    Drive("controller-bbwc-raid5-6x-generic-nearline-hdd", 4 * GIB, remembers=False),
    Drive("null", GIB, remembers=False),
]


def load(disk: FullDisk, drive: Drive, seed: int, count: int) -> list[int]:
    """The times of random commands, one after the other, in a part of the drive that they overwrite."""
    draw, now_ns, times = random.Random(seed), 0, []
    blocks = min(drive.capacity_bytes // 4096, 150_000) - 64
    for number in range(count):
        op = draw.choices((WRITE, READ, DISCARD, FLUSH), (20, 4, 1, 1))[0]
        sectors = 0 if op == FLUSH else 8 * draw.choice((1, 1, 2, 32))
        content = bytes([number % 7]) * (512 * sectors) if op == WRITE else b""
        sector = 0 if op == FLUSH else 8 * draw.randrange(blocks)
        assert disk.submit(now_ns, Io(op, sector, sectors, 0, content))[0] >= 0
        done = disk.take(now_ns)
        while not done and drive.device != "null":
            done = disk.take(disk.next_ns)
        times.append(done[-1][1] - now_ns if done else 0)
        now_ns += times[-1]
    return times


def content_of(store: Store) -> bytes:
    memory = ctypes.cast(store.handle, ctypes.POINTER(ctypes.c_void_p))[0]
    assert memory is not None
    return ctypes.string_at(memory, store.end_bytes)


@pytest.mark.parametrize("drive", DRIVES, ids=lambda each: f"{each.device}-{each.precondition}")
def test_a_drive_goes_on_where_an_orderly_power_off_left_it(drive: Drive) -> None:
    store = Store(STORE_BYTES)
    disk = FullDisk(drive.text, store, options=0)
    assert disk.load() == NEW
    count = 400 if "hdd" in drive.device and not drive.remembers else 2500
    before = load(disk, drive, 1, count)
    disk.power_off()
    saved = content_of(store)

    disk = FullDisk(drive.text, store, options=0)
    assert disk.load() == LOADED
    assert disk.flash_problem is None
    disk.power_off()
    assert content_of(store) == saved  # nothing was lost on the way, and nothing happened

    disk = FullDisk(drive.text, store, options=0)
    assert disk.load() == LOADED
    after = load(disk, drive, 1, count)
    assert disk.flash_problem is None
    assert (after != before) == drive.remembers


def test_a_state_after_a_cut_of_the_power_begins_anew() -> None:
    drive = DRIVES[2]
    store = Store(STORE_BYTES)
    for turn in range(2):
        disk = FullDisk(drive.text, store, options=0)
        disk.load()
        times = load(disk, drive, 1, 2000)
        if not turn:
            first = times
            disk.save()
            disk.close()
    assert times == first


def test_the_state_of_another_drive_is_refused() -> None:
    store = Store(STORE_BYTES)
    disk = FullDisk(DRIVES[2].text, store, options=0)
    disk.load()
    load(disk, DRIVES[2], 1, 100)
    disk.power_off()

    disk = FullDisk(DRIVES[5].text, store, options=0)

    assert disk.load() == -22
