# SPDX-License-Identifier: Apache-2.0
"""The server of `strata serve`: on 127.0.0.1 and nowhere else."""

from __future__ import annotations

import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn

from strata.errors import ToolError
from strata.serve.app import application

ADDRESS: Final = "127.0.0.1"
_PATIENCE_S: Final = 3  # streams of events end within one poll; this is for connections that still hang


def bound(port: int) -> socket.socket:
    """A socket that listens on this machine alone; port 0 is any free one. Raises ToolError."""
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise ToolError(
            "another program listens there" if taken else f"cannot listen there: {error.strerror}",
            place=f"{ADDRESS}:{port}",
            remedy="choose another one with --port, or leave it out for a free one",
        ) from error


def serve(roots: list[Path], listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve results folders until a signal ends it; ``ready`` is called when pages can be requested.

    Raises:
        KeyboardInterrupt: When Ctrl-C has ended it, after all connections are closed.
    """
    stopping = [False]
    config = uvicorn.Config(
        application(roots, stopping=lambda: stopping[0]),
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE_S,
    )
    _Server(config, ready, stopping).run(sockets=[listening])


class _Server(uvicorn.Server):
    """A server that reports when it is up, and when it is to end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], stopping: list[bool]) -> None:
        super().__init__(config)
        self._ready = ready
        self._stopping = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End also when the terminal closes, unless `nohup` started the program."""
        before = signal.getsignal(signal.SIGHUP)
        in_main = threading.current_thread() is threading.main_thread()
        with super().capture_signals():
            if in_main and before is not signal.SIG_IGN:
                signal.signal(signal.SIGHUP, self.handle_exit)
            try:
                yield
            finally:
                if in_main:
                    signal.signal(signal.SIGHUP, before)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stopping[0] = True
        super().handle_exit(sig, frame)
