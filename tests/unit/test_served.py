# SPDX-License-Identifier: Apache-2.0
"""The server of a modelled disk against volumes of one latency; a socket is the kernel's end of FUSE."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernel_model import Geometry
from strata.devices.device import find_device
from strata.errors import ToolError
from strata.lab.model import ModelledDisk
from strata.runners import served as runners_served
from strata.runners.served import DiskServer, served_disk, served_root
from volume_texts import MS, network_text

_SIZE = 1 << 20
_LATENCY_NS = 20 * MS
# linux/fuse.h: the opcodes, and what follows a message's head.
_READ, _WRITE, _FSYNC, _FALLOCATE, _UNKNOWN = 15, 16, 20, 43, 4000
_HEAD, _MOVE, _RANGE = struct.Struct("=IIQQIIIHH"), struct.Struct("=QQIIQII"), struct.Struct("=QQQII")
_PUNCH = 3


class Kernel:
    """The other end of the connection: sends requests, and takes answers with their times."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._asked, self.sent_ns = end, 0, dict[int, int]()

    def send(self, opcode: int, body: bytes = b"") -> int:
        self._asked += 1
        self.sent_ns[self._asked] = time.monotonic_ns()
        length = _HEAD.size + len(body)
        self._end.send(_HEAD.pack(length, opcode, self._asked, 1, 0, 0, 0, 0, 0) + body)
        return self._asked

    def read(self, offset: int, size: int = 4096) -> int:
        return self.send(_READ, _MOVE.pack(0, offset, size, 0, 0, 0, 0))

    def write(self, offset: int, content: bytes) -> int:
        return self.send(_WRITE, _MOVE.pack(0, offset, len(content), 0, 0, 0, 0) + content)

    def answer(self) -> tuple[int, int, bytes, int]:
        """The request that it belongs to, the error, the data, and how long it took."""
        message = self._end.recv(1 << 16)
        length, error, asked = struct.unpack_from("=IiQ", message)
        assert length == len(message)
        return asked, error, message[16:], time.monotonic_ns() - self.sent_ns[asked]


@contextmanager
def served(
    *, text: str = "", lead_ns: int | None = 0, writable: bool = True, **changed: object
) -> Iterator[tuple[Kernel, DiskServer]]:
    """A volume that takes 20 ms for everything; with no lead it is not live."""
    disk = ModelledDisk(text or network_text(latency_ns=_LATENCY_NS, capacity_bytes=_SIZE, **changed))
    memory = os.memfd_create("store")
    os.ftruncate(memory, _SIZE)
    store = memory if writable else os.open(f"/proc/self/fd/{memory}", os.O_RDONLY)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = DiskServer(disk, its.detach(), store)
    if lead_ns is not None:
        server.go_live(lead_ns)
    with ours:
        yield Kernel(ours), server
    server.join()


def test_an_answer_comes_when_the_model_has_it_and_what_exceeds_its_queue_waits() -> None:
    with served(queue_depth=2) as (kernel, server):
        began_ns, after_ns = time.monotonic_ns(), []
        for block in range(5):
            kernel.read(block * 4096)
            after_ns.append(time.monotonic_ns() - began_ns)
        answers = [kernel.answer() for _ in range(5)]

    assert [asked for asked, *_ in answers] == [1, 2, 3, 4, 5]
    for (_, error, data, taken_ns), rounds, sent_ns in zip(answers, (1, 1, 2, 2, 3), after_ns, strict=True):
        assert (error, data) == (0, bytes(4096))
        assert taken_ns >= rounds * _LATENCY_NS - sent_ns, "the first was sent this much earlier"
    counts = server.counts()
    assert counts.requests == {"read": 5, "write": 0, "flush": 0, "discard": 0}
    assert (counts.bytes["read"], counts.model_ns["read"]) == (5 * 4096, _LATENCY_NS)


def test_the_way_to_the_server_is_part_of_the_latency_and_what_it_exceeds_is_late() -> None:
    for lead_ns, least_ns, late_ns in ((15 * MS, 5 * MS, 0), (30 * MS, 0, 10 * MS)):
        with served(lead_ns=lead_ns) as (kernel, server):
            kernel.read(0)
            kernel.answer()
            time.sleep(0.05)  # the model's time begins with it: nothing can arrive earlier
            kernel.read(0)
            assert kernel.answer()[-1] >= least_ns
        assert server.counts().late_ns_max >= late_ns


def test_before_it_is_live_it_takes_no_time_of_the_model() -> None:
    with served(lead_ns=None) as (kernel, server):
        kernel.read(0)
        assert kernel.answer()[:3] == (1, 0, bytes(4096))
    assert set(server.counts().requests.values()) == {0}


def test_what_is_written_is_read_until_it_is_discarded() -> None:
    with served(lead_ns=None, discard=1) as (kernel, _):
        kernel.write(8192, b"x" * 4096)
        assert kernel.answer()[:3] == (1, 0, struct.pack("=II", 4096, 0))
        kernel.read(8192)
        assert kernel.answer()[2] == b"x" * 4096
        kernel.send(_FALLOCATE, _RANGE.pack(0, 8192, 4096, _PUNCH, 0))
        assert kernel.answer()[1] == 0
        kernel.read(8192)
        assert kernel.answer()[2] == bytes(4096)
        kernel.read(_SIZE - 512)
        assert kernel.answer()[2] == bytes(512), "the disk ends there"


def test_only_a_volatile_cache_takes_time_to_flush() -> None:
    flushed = {}
    for cached in (0, 1):
        text = Geometry().text(write_cache_bytes=cached << 20, write_cache_extents=8, volatile_cache=cached)
        with served(text=text) as (kernel, server):
            kernel.send(_FSYNC, bytes(16))
            assert kernel.answer()[1] == 0
        flushed[cached] = server.counts().requests["flush"]
    assert flushed == {0: 0, 1: 1}


def test_what_cannot_be_kept_or_is_not_known_fails() -> None:
    with served(writable=False) as (kernel, server):
        kernel.write(0, b"x" * 512)
        assert kernel.answer()[1] < 0
        kernel.send(_UNKNOWN)
        assert kernel.answer()[1] < 0
        kernel.send(_FALLOCATE, _RANGE.pack(0, 0, 4096, _PUNCH, 0))
        assert kernel.answer()[1] < 0, "the volume knows no discards"
    assert server.counts().failed == 1


def test_a_machine_without_fuse_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path))
    monkeypatch.setattr(runners_served, "_DEV_FUSE", tmp_path / "fuse")
    with pytest.raises(ToolError, match="the kernel has no FUSE"), served_disk(find_device("null")):
        pass
    assert [*served_root().iterdir()] == []
