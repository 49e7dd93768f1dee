# SPDX-License-Identifier: Apache-2.0
"""The web application of `strata serve`: it reads results folders, and answers this machine's browser alone.

Another site could name this server as its own by DNS (rebinding), or show it in a frame. So it answers only
to this machine's names, forbids frames, and changes nothing on any request.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import json
import re
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strata.errors import StrataError, ToolError
from strata.serve.pages import Pages
from strata.serve.watch import LOOK_INTERVAL_S, Watch, find_watches

HOSTS: Final = ("127.0.0.1", "localhost")
_UNFRAMED: Final = "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    + _UNFRAMED,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
_SERVED_SCRIPT: Final = resources.files("strata.serve").joinpath("static", "serve.js").read_text("utf-8")
_SCRIPT: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
# Resend the state after this many silent polls: the page may have missed charts that took a while.
_SILENT_LOOKS_MAX: Final = 5


@dataclass
class ServedSite:
    """The studies that are served, and their pages."""

    roots: list[Path]  # results folders, and folders that hold results folders
    stopping: Callable[[], bool] = lambda: False  # whether the server is to end, with all streams of events
    look_interval_s: float = LOOK_INTERVAL_S  # between polls of a folder
    clock: Callable[[], float] = time.monotonic  # for the age of a poll, and for the time left
    _known: dict[Path, Watch] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pages: Pages = field(default_factory=Pages)

    def application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self._overview),
                Route("/events", self._overview_events),
                Route("/serve.css", lambda _: Response(self._pages.style, media_type="text/css")),
                Route("/serve.js", lambda _: Response(_SERVED_SCRIPT, media_type="text/javascript")),
                Route("/study/{key}/", self._study),
                Route("/study/{key}/events", self._study_events),
                Route("/study/{key}/results", self._results),
                Route("/study/{key}/report", self._report),
                Route("/study/{key}/trial/{trial}", self._trial),
            ],
            middleware=[
                Middleware(_Guarded),
                Middleware(TrustedHostMiddleware, allowed_hosts=[*HOSTS], www_redirect=False),
            ],
            exception_handlers={
                HTTPException: self._refused,
                StrataError: self._failed,
                OSError: self._failed,
            },
        )

    def _watches(self) -> dict[str, Watch]:
        with self._lock:
            return find_watches(self.roots, self._known, self.clock)

    def _watch(self, request: Request) -> Watch:
        """The study of an address, which is looked up and never made into a path."""
        watch = self._watches().get(request.path_params["key"])
        if watch is None:
            raise HTTPException(404, "There is no such study here.")
        return watch

    def _overview(self, request: Request) -> Response:
        return HTMLResponse(self._pages.overview([each.now() for each in self._watches().values()]))

    async def _overview_events(self, request: Request) -> Response:
        def said() -> dict[str, str]:
            return {"html": self._pages.overview_part([each.now() for each in self._watches().values()])}

        return self._followed("overview", said)

    def _study(self, request: Request) -> Response:
        return HTMLResponse(self._pages.study(self._watch(request)))

    async def _study_events(self, request: Request) -> Response:
        watch = await run_in_threadpool(self._watch, request)

        def said() -> dict[str, str]:
            now = watch.now()
            return {"html": self._pages.progress_part(now), "version": now.version}

        return self._followed("progress", said)

    def _results(self, request: Request) -> Response:
        version, html = self._pages.results_part(self._watch(request))
        return HTMLResponse(html, headers={"X-Strata-Version": version})

    def _report(self, request: Request) -> Response:
        watch = self._watch(request)
        try:
            page = self._pages.report(watch)
        except StrataError as error:
            text = self._pages.diagnostic("There is no report yet", str(error))
            return HTMLResponse(text, status_code=404)
        return HTMLResponse(page, headers={"Content-Security-Policy": _policy_of_report(page)})

    def _trial(self, request: Request) -> Response:
        if (page := self._pages.trial(self._watch(request), request.path_params["trial"])) is None:
            raise HTTPException(404, "The study has no such trial.")
        return HTMLResponse(page)

    def _followed(self, name: str, said: Callable[[], dict[str, str]]) -> Response:
        """Server-sent events: the result of ``said`` whenever it has changed."""

        async def events() -> AsyncIterator[str]:
            last, silent = None, 0
            while not self.stopping():
                now = await run_in_threadpool(said)
                silent += 1
                if now != last or silent > _SILENT_LOOKS_MAX:
                    last, silent = now, 0
                    yield f"event: {name}\ndata: {json.dumps(now)}\n\n"
                await asyncio.sleep(self.look_interval_s)

        return StreamingResponse(events(), media_type="text/event-stream")

    def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        html = self._pages.diagnostic(_TITLES.get(error.status_code, "Refused"), error.detail)
        return HTMLResponse(html, status_code=error.status_code, headers=error.headers)

    def _failed(self, request: Request, error: Exception) -> Response:
        """Report a folder that cannot be read now, such as one removed meanwhile."""
        return HTMLResponse(self._pages.diagnostic("This cannot be read now", str(error)), status_code=503)


_TITLES: Final = {404: "Not found", 405: "Nothing can be changed here"}


def _policy_of_report(page: str) -> str:
    """The policy of the report, which is one file: exactly its own scripts may run."""
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in _SCRIPT.findall(page)
    ]
    scripts = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; {_UNFRAMED}"


class _Guarded:
    """Adds headers against other sites to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)


def application(roots: list[Path], **more: Any) -> Starlette:
    return ServedSite(roots, **more).application()


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
    """Serve until a signal ends it, by KeyboardInterrupt; ``ready`` is called when pages can be requested."""
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
