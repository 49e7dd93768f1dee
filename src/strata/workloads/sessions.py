# SPDX-License-Identifier: Apache-2.0
"""Loads with sessions: warm-up and measured window are one process, so that the window begins with warm ones.

The process is a service that ends by itself. It is started for the warm-up, and the measured window is a wait
beside it: what the load counts is cut at the window's ends, where the disks' accounts are read, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strata.model.step import OUTPUT_LIMIT_BYTES, Command, Step, Until
from strata.model.workload import Outputs, unreadable
from strata.servers.database import DatabaseServer
from strata.units import NS_PER_MS, NS_PER_S
from strata.workloads.keys import window_title

TOOLS: Final = ("date", "sleep", "true")
_LINE_BYTES: Final = 512  # more than a load prints in a second
_READY_INTERVAL_NS: Final = 10 * NS_PER_MS


def load_id(prefix: str) -> str:
    return f"{prefix}-load"


def spanning_steps(
    server: DatabaseServer,
    argv: Sequence[str],
    *,
    who: str,
    warmup_ns: int,
    duration_ns: int,
    slack_ns: int,
    ready: Sequence[str] = (),
    until: Until | None = None,
    end_by: Sequence[str] = (),
    telling: Sequence[str] = (),
    **fields: Any,
) -> list[Step]:
    """The load ``argv`` of a server's clients, which must run as long as warm-up and window together.

    The warm-up begins when ``ready`` succeeds, by default at once; ``fields`` are further ones of the load's
    step, `load_id`. At the end of the measured window it has ``slack_ns`` to end. With ``until`` the window
    may end earlier, and ``end_by`` then ends the load; ``telling`` tells its intervals beside it.
    """
    prefix = server.prefix

    def waiting(name: str, phase: str, time_ns: int, title: str, until: Until | None = None) -> Step:
        limit_ns = time_ns + slack_ns
        argv = ("sleep", f"{time_ns // NS_PER_S}")
        return server.client(
            id=f"{prefix}-{name}", phase=phase, title=title, argv=argv, time_limit_ns=limit_ns, until=until
        )

    asked = Command(argv=tuple(ready), user=server.user, cwd=server.context.scratch_path) if ready else None
    load = server.client(
        id=load_id(prefix),
        phase="warmup",
        title=f"Start the load of {who}, for warm-up and measured window",
        argv=tuple(argv),
        background=True,
        ready=asked,
        ready_interval_ns=_READY_INTERVAL_NS,
        **{"stop_signal": None, **fields},
        stop_limit_ns=slack_ns,
        output_limit_bytes=max(OUTPUT_LIMIT_BYTES, (warmup_ns + duration_ns) // NS_PER_S * _LINE_BYTES),
    )
    title = "Note when the measured window begins"
    begin = server.client(id=f"{prefix}-begin", phase="measure", title=title, argv=("date", "+%s%N"))
    beside = [_telling(server, telling)] if telling else []
    return [
        load,
        *beside,
        waiting("warmup", "warmup", warmup_ns, window_title("warmup", warmup_ns)),
        begin,
        waiting(
            "measure", "measure", duration_ns, f"{window_title('measure', duration_ns)} with {who}", until
        ),
        *_ending(server, [*beside, load], end_by),
    ]


def _telling(server: DatabaseServer, argv: Sequence[str]) -> Step:
    return server.client(
        id=f"{server.prefix}-telling",
        phase="warmup",
        title="Tell the intervals of the load",
        argv=tuple(argv),
        background=True,
        ready=Command(argv=("true",), user=server.user, cwd=server.context.scratch_path),
        stop_signal="KILL",
    )


def _ending(server: DatabaseServer, services: Sequence[Step], end_by: Sequence[str]) -> list[Step]:
    end = server.client(
        id=f"{server.prefix}-end",
        phase="inspect",
        title="Wait for the end of the load",
        argv=("true",),
        takes_down=tuple(each.id for each in services),
    )
    if not end_by:
        return [end]
    told = server.client(
        id=f"{server.prefix}-told", phase="measure", title="End the load", argv=tuple(end_by)
    )
    return [told, end]


def window_begin_ns(outputs: Outputs, prefix: str) -> int:
    """When the measured window began, since the epoch by the clock of the load's machine."""
    text = outputs.step(f"{prefix}-begin").stdout
    try:
        return int(text)
    except ValueError:
        raise unreadable(f"{prefix}-begin", "date printed no number of nanoseconds", text) from None
