# SPDX-License-Identifier: Apache-2.0
"""A Dask cluster of processes that can be killed; as root of network namespaces with a cache each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_DASK = (sys.executable, "-m", "dask")
_BRIDGE = "strata-br0"
_NET = "10.77.37"
# Starts a program that the system call seccomp is denied to, by a filter: of its number 317 in x86-64's list.
WITHOUT_SECCOMP = """\
import ctypes, os, struct, sys
code = ((0x20, 0, 0, 0), (0x15, 0, 1, 317), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000))
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filter)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == libc.prctl(22, 2, program, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""
CLIENT = f"{_NET}.1"
PORT = 8786


@dataclass
class ClusterWorld:
    """A scheduler and workers; ``machines`` are network namespaces with an address each."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = PORT
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"tcp://{self.host}:{self.port}"

    def start_scheduler(self) -> None:
        options = ("--host", self.host, "--port", str(self.port), "--no-dashboard", "--no-show")
        self.scheduler = self._start("scheduler", (*_DASK, "scheduler", *options), {})

    def start_worker(self, cache: Path, prefix: Sequence[str] = (), host: str = "127.0.0.1") -> None:
        number = len(self.workers)
        options = ("--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--no-dashboard", "--host", host)
        argv = (*prefix, *_DASK, "worker", self.address, *options, "--name", f"worker-{number}")
        self.workers.append(self._start(f"worker-{number}", argv, {"STRATA_CACHE": str(cache)}))

    def _start(self, name: str, argv: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                argv, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **environment}
            )

    def end(self) -> None:
        for process in filter(None, [*self.workers, self.scheduler]):
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def network(count: int) -> Iterator[list[tuple[str, ...]]]:
    """Network namespaces with the addresses after `CLIENT`; gives the words that run a program in each."""
    _ip("link", "add", _BRIDGE, "type", "bridge")
    names = [f"strata-m{number}" for number in range(1, count + 1)]
    try:
        _ip("addr", "add", f"{CLIENT}/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        for number, name in enumerate(names, start=2):
            outside, inside = f"{name}-o", f"{name}-i"
            _ip("netns", "add", name)
            _ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name)
            _ip("link", "set", outside, "master", _BRIDGE, "up")
            for words in (
                ("addr", "add", f"{_NET}.{number}/24", "dev", inside),
                ("link", "set", inside, "up"),
                ("link", "set", "lo", "up"),
            ):
                _ip("-n", name, *words)
        yield [("ip", "netns", "exec", name) for name in names]
    finally:
        for name in names:
            subprocess.run(("ip", "netns", "del", name), check=False, stderr=subprocess.DEVNULL)
        _ip("link", "del", _BRIDGE)


def slow_down(name: str, rate: str) -> None:
    """Limit the rate at which a network namespace sends and is sent to."""
    limit = ("root", "tbf", "rate", rate, "burst", "64k", "latency", "400ms")
    for prefix, link in ((("ip", "netns", "exec", name), f"{name}-i"), ((), f"{name}-o")):
        subprocess.run((*prefix, "tc", "qdisc", "add", "dev", link, *limit), check=True)


def _ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True)


def wait_for(what: str, holds: object, limit_s: float = 600) -> None:
    end_s = time.monotonic() + limit_s
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end_s, f"{what} did not come within {limit_s:g} s"
        time.sleep(0.2)
