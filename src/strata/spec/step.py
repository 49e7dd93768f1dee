# SPDX-License-Identifier: Apache-2.0
"""The steps that layers and workloads are compiled to, and that the agent executes."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from strata.units import NS_PER_MS, NS_PER_S

Phase = Literal["build", "prepare", "warmup", "measure", "inspect"]
"""Build the stack; prepare the workload; warm up; the measured window; look at what it left behind."""

OUTPUT_LIMIT_BYTES: Final = 16 << 20


def literal(text: str) -> str:
    """``text`` for a step's argv, environment or stdin, where a dollar sign would begin a variable."""
    return text.replace("$", "$$")


class Command(BaseModel):
    """One program to run.

    ``argv``, ``environment``, ``cwd`` and ``stdin`` may hold ``${variable}``s, which the agent
    replaces by what the runner bound them to; ``$$`` is a literal dollar sign.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    argv: tuple[str, ...] = Field(min_length=1)
    environment: dict[str, str] = {}
    user: str = "root"
    cwd: str = "/"
    stdin: str | None = None
    time_limit_ns: Annotated[int, Field(gt=0)] = 120 * NS_PER_S
    expect_exit: tuple[int, ...] = (0,)


class Collect(BaseModel):
    """Files to ship with the events once a step has ended: a path or a glob, sorted and concatenated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    path: str


class Step(Command):
    """One explicit step of a plan. ``id`` is unique in its plan, in kebab case.

    A background step is a service: it is started, ``ready`` is polled until it exits 0, and it is
    stopped at teardown. Its ``time_limit_ns`` is the time until it is ready; it then runs as long as the
    plan. ``undo`` runs at teardown, in reverse order, for every step that was started.
    """

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    phase: Phase
    title: str
    destroys: tuple[str, ...] = ()
    background: bool = False
    ready: Command | None = None
    ready_interval_ns: int = 100 * NS_PER_MS
    stop_signal: str = "TERM"
    stop_limit_ns: int = 60 * NS_PER_S
    collect: tuple[Collect, ...] = ()
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES
    undo: Command | None = None
