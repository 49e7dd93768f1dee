# SPDX-License-Identifier: Apache-2.0
"""The content of a modelled disk, on any drive and under any list of I/O, against a model in Python.

The streams run end to end, model and content joined as in the driver. test_sanitized_content.py runs them
on a library with sanitizers, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import content_model as cm
from content_model import BLOCK, SECTOR, FullDisk, Io, Pattern, Store
from examples import examples
from strata.devices.device import find_device
from strata.devices.faults import IgnoresFlush
from strata.lab.disk import driver_config
from strata.lab.model import DISCARD, FLUSH, FUA, READ, WRITE

SECTORS = 4096
STORE_BYTES = 16 << 20
DEVICES = (
    *("null", "wd-re4-500gb", "generic-desktop-hdd", "generic-smr-hdd", "generic-sata-ssd"),
    *("generic-nvme-consumer", "generic-nvme-data-centre", "generic-cloud-general-purpose"),
    *("controller-bbwc-raid10-4x-wd-re4-500gb", "controller-bbwc-raid5-6x-generic-nearline-hdd"),
)
LIAR = "generic-desktop-hdd"
CAPACITY = SECTORS * SECTOR


def text_of(name: str, *, lies: bool = False) -> str:
    device = find_device(name)
    if lies:
        device = replace(device, faults=(IgnoresFlush(),))
    return driver_config(device, name="sda", backing_fd=0, capacity_bytes=CAPACITY, seed=5)


def key_of(text: str, key: str, default: int) -> int:
    values = [line.split("=")[1] for line in text.splitlines() if line.startswith(f"{key}=")]
    return int(values[0]) if values else default


@dataclass
class Unit:
    """A unit that is never torn: every content it has had, and from which on a cut may leave it."""

    versions: list[bytes]
    floor: int = 0


@dataclass
class Reference:
    """The contents that a disk may have, derived from the commands and their completions alone."""

    unit_sectors: int
    volatile: bool
    content: bytearray = field(default_factory=lambda: bytearray(CAPACITY))
    units: dict[int, Unit] = field(default_factory=dict)
    # By sequence: the version of each unit that the write made, whether it is FUA; and what was acknowledged.
    written: dict[int, tuple[dict[int, int], bool]] = field(default_factory=dict)
    flushes: dict[int, list[int]] = field(default_factory=dict)
    acknowledged: list[int] = field(default_factory=list)
    outstanding: set[int] = field(default_factory=set)

    def touched(self, io: Io) -> range:
        return range(io.sector // self.unit_sectors, -(-(io.sector + io.sectors) // self.unit_sectors))

    def unit(self, index: int) -> Unit:
        size = self.unit_sectors * SECTOR
        return self.units.setdefault(index, Unit([bytes(self.content[index * size : (index + 1) * size])]))

    def submit(self, io: Io, sequence: int) -> None:
        assert sequence not in self.outstanding
        self.outstanding.add(sequence)
        if io.op == FLUSH:
            self.flushes[sequence] = list(self.acknowledged)
        if io.op not in (WRITE, DISCARD):
            return
        before = [self.unit(index) for index in self.touched(io)]
        start, size = io.sector * SECTOR, io.sectors * SECTOR
        self.content[start : start + size] = io.content if io.op == WRITE else bytes(size)
        versions = {}
        unit_bytes = self.unit_sectors * SECTOR
        for index, unit in zip(self.touched(io), before, strict=True):
            unit.versions.append(bytes(self.content[index * unit_bytes : (index + 1) * unit_bytes]))
            versions[index] = len(unit.versions) - 1
        if io.op == DISCARD:
            self.durable(versions)
        else:
            self.written[sequence] = (versions, bool(io.flags & FUA))

    def durable(self, versions: dict[int, int]) -> None:
        for index, version in versions.items():
            self.units[index].floor = max(self.units[index].floor, version)

    def complete(self, sequence: int) -> None:
        self.outstanding.remove(sequence)  # a second completion, or one of nothing, fails here
        for earlier in self.flushes.pop(sequence, ()):
            self.durable(self.written[earlier][0])
        if sequence in self.written:
            self.acknowledged.append(sequence)
            if not self.volatile or self.written[sequence][1]:
                self.durable(self.written[sequence][0])

    def violations(self, found: bytes) -> list[int]:
        """The units whose content a cut must not leave."""
        size = self.unit_sectors * SECTOR
        wrong = [
            index
            for index, unit in self.units.items()
            if found[index * size : (index + 1) * size] not in unit.versions[unit.floor :]
        ]
        untouched = [
            index
            for index in range(CAPACITY // size)
            if index not in self.units and any(found[index * size : (index + 1) * size])
        ]
        return wrong + untouched


@dataclass(frozen=True)
class Stream:
    device: str
    commands: list[tuple[int, Io]]  # each with the gap before it in ns
    piece: int
    cut_after_ns: int
    seed: int


MADE: dict[int, Callable[[int], bytes]] = {
    3: cm.drawn_block,
    4: lambda stamp: cm.drawn_block(stamp, 50),
    5: lambda stamp: cm.drawn_block(stamp, stamp % 101, 1 + stamp * 1009 % BLOCK),
    6: cm.fio_block,
    7: lambda stamp: cm.fio_block(stamp, 1 + stamp * 1009 % BLOCK),
}

PACKED = 8


def packed_block(stamp: int, size: int) -> bytes:
    """Content of which the library's compressor, which drops zeros at the end, keeps ``size`` bytes."""
    return (hashlib.shake_128(b"%d" % stamp).digest(max(size, 2) - 1) + b"\1").ljust(BLOCK, b"\0")


def content_of(kind: int, stamp: int, sectors: int) -> bytes:
    """Content that tells which command wrote it: random-looking, of a pattern, or what can be packed."""
    size = sectors * SECTOR
    if kind == 1:
        return bytes(size)
    if kind == 2:
        return (stamp.to_bytes(8, "little") * (size // 8 + 1))[:size]
    if kind == PACKED:
        return b"".join(packed_block(stamp + at, stamp * 577 % 2200) for at in range(size // BLOCK + 1))[
            :size
        ]
    if kind in MADE:
        return (MADE[kind](stamp) * (size // BLOCK + 1))[:size]
    return hashlib.shake_128(b"%d" % stamp).digest(size)


@st.composite
def streams(draw: st.DrawFn, devices: tuple[str, ...] = DEVICES, most: int = 40) -> Stream:
    commands = []
    for stamp in range(1, draw(st.integers(1, most)) + 1):
        op = draw(st.sampled_from([READ, WRITE, WRITE, WRITE, WRITE, FLUSH, DISCARD]))
        gap_ns = draw(st.one_of(st.just(0), st.integers(0, 100_000), st.integers(0, 40_000_000)))
        sectors = 0 if op == FLUSH else draw(st.one_of(st.integers(1, 40), st.sampled_from([8, 16, 64, 128])))
        # Few places, so that writes meet; half of them aligned, as filesystems' are.
        at = draw(st.integers(0, 40)) * 8 + draw(st.one_of(st.just(0), st.integers(0, 7)))
        content = content_of(draw(st.integers(0, 10)), stamp, sectors) if op == WRITE else b""
        flags = FUA if op == WRITE and draw(st.integers(0, 5)) == 0 else 0
        commands.append((gap_ns, Io(op, 0 if op == FLUSH else at, sectors, flags, content)))
    return Stream(
        draw(st.sampled_from(devices)),
        commands,
        draw(st.sampled_from([512, 1536, 4096, 65_536])),
        draw(st.one_of(st.just(0), st.integers(0, 20_000_000))),
        draw(st.integers(0, 2**32)),
    )


def follow(disk: FullDisk, reference: Reference, until_ns: int) -> None:
    while disk.next_ns <= until_ns:
        for sequence, _ in disk.take(disk.next_ns):
            reference.complete(sequence)


def run(stream: Stream, disk: FullDisk, reference: Reference) -> int:
    """Play the stream; returns the time of its end."""
    now_ns = 0
    for gap_ns, io in stream.commands:
        now_ns += gap_ns
        follow(disk, reference, now_ns)
        sequence, read = disk.submit(now_ns, io, stream.piece)
        if sequence == -1:  # the queue is full: the driver would wait
            continue
        assert sequence > 0
        if io.op == READ:
            start = io.sector * SECTOR
            assert read == bytes(reference.content[start : start + len(read)])
        reference.submit(io, sequence)
    return now_ns


def joined(stream: Stream, *, lies: bool = False) -> tuple[FullDisk, Reference, Store]:
    text = text_of(stream.device, lies=lies)
    store = Store(STORE_BYTES)
    unit_bytes = key_of(text, "atomic_unit_bytes", key_of(text, "physical_block_bytes", 512))
    volatile = bool(key_of(text, "volatile_cache", 0))
    return FullDisk(text, store), Reference(unit_bytes // SECTOR, volatile), store


def after_a_cut(stream: Stream, *, lies: bool = False) -> list[int]:
    disk, reference, store = joined(stream, lies=lies)
    end_ns = run(stream, disk, reference) + stream.cut_after_ns
    follow(disk, reference, end_ns)
    disk.cut(end_ns, stream.seed)
    found = disk.content(0, SECTORS)
    disk.save()
    disk.close()
    again = FullDisk(text_of(stream.device), store)
    assert again.load() == cm.LOADED
    assert again.content(0, SECTORS) == found
    return reference.violations(found)


@examples(100)
@given(streams())
def test_every_request_completes_once_and_reads_return_the_last_write(stream: Stream) -> None:
    disk, reference, _ = joined(stream)
    run(stream, disk, reference)
    follow(disk, reference, cm.NEVER - 1)
    assert not reference.outstanding
    assert disk.content(0, SECTORS) == bytes(reference.content)


@examples(150)
@given(streams())
def test_a_cut_leaves_what_is_durable_and_nothing_that_was_never_written(stream: Stream) -> None:
    assert after_a_cut(stream) == []


def test_a_drive_that_lies_about_flushes_is_found_out() -> None:
    """The test above can fail: acknowledged flushes that did nothing leave older content than they may."""
    found: list[Stream] = []

    @settings(max_examples=50, database=None)
    @given(streams(devices=(LIAR,)))
    def search(stream: Stream) -> None:
        if after_a_cut(stream, lies=True):
            found.append(stream)

    search()
    assert len(found) >= 3


@examples(100)
@given(streams(), st.data())
def test_what_no_mark_has_made_durable_may_go_and_what_one_has_stays(
    stream: Stream, data: st.DataObject
) -> None:
    """Marks at will, of any range and age, also with times in the future: only the content is tested here."""
    text = text_of("null").replace("atomic_unit_bytes", "#") + "atomic_unit_bytes=4096\n"
    disk, reference = FullDisk(text, Store(STORE_BYTES), options=cm.ARMED | cm.OWN_MARKS), Reference(8, True)
    cut_ns = len(stream.commands) * 10
    for index, (_, io) in enumerate(stream.commands):
        now_ns = 10 * index
        sequence, _ = disk.submit(now_ns, replace(io, flags=0), stream.piece)
        reference.submit(replace(io, flags=0), sequence)
        disk.take(now_ns)
        for _ in range(data.draw(st.integers(0, 1))):
            first = data.draw(st.integers(0, 400))
            sectors = data.draw(st.one_of(st.integers(1, 100), st.just(SECTORS - first)))
            upto = data.draw(st.integers(1, sequence))
            at_ns = now_ns + data.draw(st.sampled_from([0, 0, 5, 35, 10**6]))
            disk.mark(first, sectors, upto, at_ns)
            if at_ns <= cut_ns:
                for earlier, (versions, _) in reference.written.items():
                    if earlier <= upto:
                        marked = {
                            unit: version
                            for unit, version in versions.items()
                            if unit * 8 < first + sectors and first < (unit + 1) * 8
                        }
                        reference.durable(marked)
    report = disk.cut(cut_ns, stream.seed)
    assert report.open == report.kept + report.lost + report.torn
    assert reference.violations(disk.content(0, SECTORS)) == []


@settings(max_examples=20)
@given(streams(), st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_cut_is_a_function_of_its_seed(stream: Stream, one: int, other: int) -> None:
    contents = []
    for seed in (one, one, other):
        disk, reference, _ = joined(stream)
        end_ns = run(stream, disk, reference)
        disk.cut(end_ns, seed)
        contents.append(disk.content(0, SECTORS))
    assert contents[0] == contents[1]


KEYS = st.integers(0, 2**64 - 1)
SIZES = st.one_of(st.just(BLOCK), st.integers(16, BLOCK))


@given(KEYS, KEYS, st.integers(0, 100), SIZES)
def test_what_the_programs_write_is_recognised(key: int, seed: int, percent: int, size: int) -> None:
    known = [
        cm.drawn_block(key, percent, size),
        cm.fio_block(seed | 1, BLOCK),
        key.to_bytes(8, "little") * (BLOCK // 8),
        bytes(BLOCK),
    ]
    for block in known:
        found = Pattern.of(block)
        assert found is not None
        assert found.block() == block
    # Where fio ended cannot be seen if its last byte happens to be zero, as of one block in 256.
    size = max(size, 32)
    part = cm.fio_block(seed | 1, size)
    assert Pattern.of(part) is not None or part[size - 1] == 0


@examples(300)
@given(
    st.one_of(
        st.builds(cm.drawn_block, KEYS, st.integers(0, 100), SIZES),
        st.builds(cm.fio_block, KEYS, SIZES),
        st.builds(lambda word: word.to_bytes(8, "little") * (BLOCK // 8), KEYS),
    ),
    st.lists(st.tuples(st.integers(0, BLOCK - 1), st.binary(min_size=1, max_size=40)), max_size=3),
)
def test_whatever_is_recognised_is_made_again_to_the_last_byte(
    block: bytes, changes: list[tuple[int, bytes]]
) -> None:
    spoilt = bytearray(block)
    for at, change in changes:
        spoilt[at : at + len(change)] = change
    changed = bytes(spoilt[:BLOCK])

    found = Pattern.of(changed)

    assert found is None or found.block() == changed


@given(KEYS, st.integers(2, 511), st.integers(1, 255))
def test_one_wrong_byte_is_not_overlooked(key: int, word: int, flip: int) -> None:
    for block in (cm.drawn_block(key, 50), cm.fio_block(key | 1), key.to_bytes(8, "little") * 512):
        spoilt = bytearray(block)
        spoilt[word * 8 + 3] ^= flip
        assert Pattern.of(bytes(spoilt)) is None


@pytest.mark.parametrize("kind", [1, 2, *MADE])
def test_patterns_take_no_room(kind: int) -> None:
    store = Store(STORE_BYTES)
    disk = FullDisk(text_of("null"), store)
    content = content_of(kind, 77, 2048)
    disk.submit(0, Io(WRITE, 0, 2048, 0, content))
    assert store.written_bytes == 0
    assert disk.content(0, 2048) == content


def test_room_that_is_no_longer_needed_is_used_again() -> None:
    store = Store(STORE_BYTES)
    disk = FullDisk(text_of("null"), store)
    disk.submit(0, Io(WRITE, 0, 512, 0, content_of(0, 1, 512)))
    first = store.end_bytes
    for turn in range(1, 8):
        disk.submit(turn, Io(DISCARD, 512 * (turn - 1), 512))
        disk.submit(turn, Io(WRITE, 512 * turn, 512, 0, content_of(0, turn, 512)))
        assert disk.content(512 * turn, 512) == content_of(0, turn, 512)
    assert store.end_bytes == first


def test_what_is_packed_takes_an_eighth_a_quarter_or_half_and_its_room_is_used_again() -> None:
    store, base = Store(STORE_BYTES), Store(STORE_BYTES)
    FullDisk(text_of("null"), base).submit(0, Io(WRITE, 0, 8, 0, content_of(0, 1, 8)))
    start, blocks = base.end_bytes - BLOCK, SECTORS * SECTOR // BLOCK
    disk, ends = FullDisk(text_of("null"), store), []
    for turn, size in enumerate((510, 1022, 2046, 2047, 2046, 1022, 510)):  # and two bytes with their number
        wanted = [packed_block(turn * blocks + at, size) for at in range(blocks)]
        for at, content in enumerate(wanted):
            disk.submit(turn, Io(WRITE, at * 8, 8, 0, content))
            disk.take(turn)
        assert [disk.content(at * 8, 8) for at in range(blocks)] == wanted
        assert disk.content(9, 3) == b"".join(wanted)[9 * SECTOR : 12 * SECTOR]
        ends.append((store.end_bytes - start) / BLOCK / blocks)
    assert ends[0] == pytest.approx(1 / 8, rel=0.01)
    assert ends[1] - ends[0] == pytest.approx(1 / 4, rel=0.01)  # an eighth that is free is no quarter
    assert ends[2] - ends[1] == pytest.approx(1 / 2, rel=0.01)
    assert ends[3] <= 2  # not packed any more
    assert len({*ends[3:]}) == 1


def test_the_content_of_a_lab_that_was_killed_is_refused() -> None:
    store = Store(STORE_BYTES)
    first = FullDisk(text_of("null"), store)
    assert first.load() == cm.NEW
    first.close()
    assert FullDisk(text_of("null"), store).load() == cm.UNFINISHED


def test_bad_sectors_fail_until_they_are_written_and_corrupt_ones_change() -> None:
    faults = "fault=unreadable,8,8\nfault=corrupt,32,8,100\nfault=gone,1000\n"
    disk = FullDisk(text_of("null") + faults, Store(STORE_BYTES))
    content = content_of(0, 9, 64)
    disk.submit(0, Io(WRITE, 16, 48, 0, content[: 48 * SECTOR]))
    assert disk.submit(1, Io(READ, 0, 16))[0] == cm.UNREADABLE
    disk.submit(2, Io(WRITE, 8, 8, 0, content[: 8 * SECTOR]))
    assert disk.submit(3, Io(READ, 0, 16))[1][8 * SECTOR :] == content[: 8 * SECTOR]
    good = disk.submit(99, Io(READ, 32, 8))[1]
    bad = disk.submit(100, Io(READ, 32, 8))[1]
    assert good == content[16 * SECTOR : 24 * SECTOR]
    assert all(one != other for one, other in zip(good, bad, strict=True))
    assert disk.submit(101, Io(READ, 32, 8), piece=512)[1] == bad
    disk.submit(102, Io(WRITE, 32, 4, 0, content[: 4 * SECTOR]))
    half = disk.submit(103, Io(READ, 32, 8))[1]
    assert half == content[: 4 * SECTOR] + bad[4 * SECTOR :]
    assert disk.submit(1000, Io(FLUSH))[0] == cm.GONE
