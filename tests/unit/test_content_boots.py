# SPDX-License-Identifier: Apache-2.0
"""One disk image in several boots: what it takes of the host, and what of it is refused."""

from __future__ import annotations

import ctypes
import random

from content_model import BLOCK, FullDisk, Io, Store
from strata.lab.model import DISCARD, WRITE

NEW, LOADED, OTHER = 0, 1, 3
TEXT = "name=sda\ncapacity_sectors=65536\nbacking_fd=0\nmodel=null\n"
MAP = BLOCK
KINDS = MAP + BLOCK


def noise(seed: int) -> bytes:
    return random.Random(seed).randbytes(BLOCK)


def at_once(disk: FullDisk, io: Io) -> None:
    assert disk.submit(0, io)[0] >= 0
    disk.take(0)


def store(disk: FullDisk, blocks: range) -> None:
    for block in blocks:
        at_once(disk, Io(WRITE, block * 8, 8, 0, noise(block)))


def boot(on: Store) -> tuple[FullDisk, int]:
    disk = FullDisk(TEXT, on)
    return disk, disk.load()


def shut_down(disk: FullDisk) -> None:
    disk.save()
    disk.close()


def test_room_that_a_boot_frees_is_used_by_the_next_one() -> None:
    on = Store(64 << 20)
    ends = []
    for turn in range(6):
        disk, state = boot(on)
        assert state == (LOADED if turn else NEW)
        kept = range(100)
        written = range(1000 * (turn + 1), 1000 * (turn + 1) + 50)
        if not turn:
            store(disk, kept)
        store(disk, written)
        for block in kept:
            assert disk.content(block * 8, 8) == noise(block)
        at_once(disk, Io(DISCARD, written.start * 8, len(written) * 8))
        shut_down(disk)
        ends.append(on.end_bytes)
    assert len(set(ends)) == 1


def test_what_is_packed_outlives_a_boot_and_the_rests_of_slots_are_used() -> None:
    def half(block: int) -> bytes:
        return noise(block)[:1500].ljust(BLOCK, b"\0")

    on = Store(64 << 20)
    disk, _ = boot(on)
    for block in range(101):  # the last one leaves half a slot
        at_once(disk, Io(WRITE, block * 8, 8, 0, half(block)))
    at_once(disk, Io(DISCARD, 0, 80))
    shut_down(disk)
    slots = -(-on.end_bytes // BLOCK)
    disk, state = boot(on)
    assert state == LOADED
    assert all(disk.content(block * 8, 8) == half(block) for block in range(10, 101))
    at_once(disk, Io(WRITE, 300 * 8, 8, 0, half(300)))
    store(disk, range(200, 205))  # five whole slots, of ten halves
    assert -(-on.end_bytes // BLOCK) == slots
    assert disk.content(300 * 8, 8) == half(300)


def test_a_damaged_index_is_refused() -> None:
    for offset, damage in (
        (KINDS + 1, (105).to_bytes(1, "little")),  # the second eighth of the first block's slot
        (KINDS, b"\xff"),  # a kind that there is not
        (KINDS + 4096, (3).to_bytes(8, "little")),  # the first block's slot: one that was never taken
        (KINDS + 4096, (1).to_bytes(8, "little")),  # the second block's
        (24, (1 << 40).to_bytes(8, "little")),  # more slots than blocks
        (24, (0).to_bytes(8, "little")),
    ):
        on = Store(64 << 20)
        disk, _ = boot(on)
        store(disk, range(3))
        shut_down(disk)
        memory = ctypes.cast(on.handle, ctypes.POINTER(ctypes.c_void_p))[0]
        assert memory is not None
        ctypes.memmove(memory + offset, damage, len(damage))

        disk, state = boot(on)

        disk.close()
        assert state == OTHER
