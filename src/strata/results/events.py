# SPDX-License-Identifier: Apache-2.0
"""Reading events.jsonl, the agent's account of a trial (docs/reference/event-format.md)."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from strata.errors import ResultError
from strata.files import open_plain
from strata.model.step import RESTART, Phase, Step, Window
from strata.model.workload import Outputs, StepOutput

EVENT_VERSION: Final = 1

# The agent cuts output into chunks of 32 KiB. The file itself has no limit: a load may log for days.
LINE_BYTES_MAX: Final = 16 << 20
_REMEDY: Final = "the file was changed after it was written; run the trial again with `strata run --fresh`"


class _Event(BaseModel):
    """An event of the agent. Fields that are not declared are left alone: a later agent may add some."""

    model_config = ConfigDict(frozen=True)

    monotonic_ns: int = 0


class Ending(_Event):
    """The end of a step or a command; times in nanoseconds of the runner's time domain."""

    step: str
    outcome: str  # ok, failed, timeout, signalled, spawn_error, interrupted
    exit_code: int | None = None
    signal: str | None = None
    duration_ns: int = 0
    output_truncated: bool = False
    error: str | None = None
    left_running: tuple[str, ...] = ()


class Sample(_Event):
    """One reading of the monitors. ``at`` is ``interval``, ``step_start`` or ``step_end``."""

    at: str = "interval"
    step: str | None = None
    disks: dict[str, dict[str, int]] = {}
    memory: dict[str, int] = {}
    cpu: dict[str, int] = {}


class AccountReading(_Event):
    """The cumulative account of a modelled disk, or of the requests to a filesystem since its mount.

    ``at`` is ``step_start`` or ``step_end``.
    """

    step: str
    at: str
    name: str = Field("", validation_alias=AliasChoices("disk", "filesystem", "name"))
    account: dict[str, int]


class MeanFigure(BaseModel):
    """A mean with the half of its 95 % interval."""

    mean: float
    half_width: float
    drift: float = 0.0


class Look(BaseModel):
    """How well a window is known by its first ``intervals``."""

    intervals: int
    operations: MeanFigure
    latency_ns_p99: MeanFigure


class Precision(_Event):
    """How well a step's window is known, and whether it was ended for that; see `Step.until`."""

    step: str
    known: bool
    look: Look | None = None


class AgentStart(_Event):
    """The agent's first event; ``trial`` and ``runner`` are None without a readable plan and bindings."""

    agent_version: str
    plan_sha256: str
    trial: str | None
    runner: str | None
    kernel: dict[str, str]


class AgentEnd(_Event):
    outcome: str  # ok, failed, interrupted, bad_plan
    failed_step: str | None = None
    reason: str | None = None
    left_behind: tuple[str, ...] = ()


class _StepStart(_Event):
    step: str
    phase: Phase
    argv: tuple[str, ...]


_MODELS: Final[dict[str, TypeAdapter[Any]]] = {
    "agent_start": TypeAdapter(AgentStart),
    "agent_end": TypeAdapter(AgentEnd),
    "sample": TypeAdapter(Sample),
    "disk_account": TypeAdapter(AccountReading),
    "filesystem_account": TypeAdapter(AccountReading),
    "processor_account": TypeAdapter(AccountReading),
    "precision": TypeAdapter(Precision),
    "step_start": TypeAdapter(_StepStart),
    "step_end": TypeAdapter(Ending),
    "undo_end": TypeAdapter(Ending),
}
_ONCE: Final = {"agent_start": "start", "agent_end": "end"}
_LISTS: Final = {
    "sample": "samples",
    "disk_account": "accounts",
    "filesystem_account": "filesystems",
    "processor_account": "processor",
    "precision": "precisions",
}


@dataclass
class StepRun:
    """One step as it was carried out. ``ending`` is None when the agent died before the step ended."""

    step: str
    phase: Phase
    argv: tuple[str, ...]
    started_ns: int
    ended_ns: int | None = None
    ending: Ending | None = None


@dataclass
class Events:
    """A trial's events, read and sorted by kind.

    Attributes:
        sha256: Hash of the file's bytes.
        prepared_sha256: Hash of the events of the boot that prepared the disks, if it was another one.
        truncated: The last line was cut: the agent or its machine was killed.
        start: None when the agent wrote nothing.
        end: None when the agent did not come to its end.
        steps: By step id, in the order in which they were started; ``undo_ns`` has their undos' durations.
        first_ns: Monotonic time of the first event; ``last_ns`` of the last.
        epoch_ns: The time since the epoch at the monotonic clock's zero, by the first event.
    """

    path: Path
    sha256: str
    prepared_sha256: str | None = None
    truncated: bool = False
    start: AgentStart | None = None
    end: AgentEnd | None = None
    steps: dict[str, StepRun] = field(default_factory=dict)
    undo_failures: list[str] = field(default_factory=list)
    undo_ns: dict[str, int] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    accounts: list[AccountReading] = field(default_factory=list)
    filesystems: list[AccountReading] = field(default_factory=list)
    processor: list[AccountReading] = field(default_factory=list)
    precisions: list[Precision] = field(default_factory=list)
    first_ns: int = 0
    last_ns: int = 0
    epoch_ns: int = 0
    _streams: dict[tuple[str, str], bytearray] = field(default_factory=dict)
    _files: dict[tuple[str, str], bytearray] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.end is not None

    def output(self, step: str, stream: str = "stdout") -> str:
        return self._streams.get((step, stream), b"").decode("utf-8", errors="replace")

    def words(self, step: str) -> str:
        """A step's error output; without any its standard output or its files."""
        files = (self._files[key].decode("utf-8", errors="replace") for key in self._files if key[0] == step)
        said = (self.output(step, "stderr"), self.output(step), *files)
        return next((text for text in said if text.strip()), "")

    def streams(self) -> Iterator[tuple[str, str, str]]:
        for step, stream in self._streams:
            yield step, stream, self.output(step, stream)

    def outputs(self, steps: Iterable[Step] = ()) -> Outputs:
        """The output of every step that ended, for a workload's ``metrics``; ``steps`` say whose they are."""
        files: dict[str, dict[str, str]] = {}
        for (step, name), content in self._files.items():
            files.setdefault(step, {})[name] = content.decode("utf-8", errors="replace")
        found = {
            name: StepOutput(
                stdout=self.output(name),
                stderr=self.output(name, "stderr"),
                files=files.get(name, {}),
                started_ns=run.started_ns,
                duration_ns=run.ending.duration_ns,
                undo_ns=self.undo_ns.get(name, 0),
                exit_code=run.ending.exit_code,
                left_running=run.ending.left_running,
            )
            for name, run in self.steps.items()
            if run.ending is not None
        }
        tenants: dict[tuple[str, Window], dict[str, StepOutput]] = {}
        for name, owner in ((step.id, step.owner) for step in steps):
            if owner is not None and name in found:
                tenants.setdefault((owner.tenant, owner.window), {})[owner.id] = found[name]
        return Outputs(found, tenants)

    def window_ns(self, steps: Iterable[str]) -> tuple[int, int] | None:
        """From the start of the first to the end of the last of ``steps``; None when none has ended."""
        runs = [self.steps[step] for step in steps if step in self.steps]
        ends = [run.ended_ns for run in runs if run.ended_ns is not None]
        return (min(run.started_ns for run in runs), max(ends)) if ends else None


def joined(first: Events, second: Events) -> Events:
    """The events of a trial in two boots, as if the second had gone on where the first ended.

    Times are those of the second boot; those of the first lie before its start. Of the first boot its steps
    are kept, with their outputs and the disks' accounts, but not the samples.
    """
    end_ns = first.last_ns
    steps = {
        name: replace(
            run,
            started_ns=run.started_ns - end_ns,
            ended_ns=None if run.ended_ns is None else run.ended_ns - end_ns,
        )
        for name, run in first.steps.items()
    }
    restart = StepRun(RESTART, "prepare", (), 0, 0, Ending(step=RESTART, outcome="ok"))
    return replace(
        second,
        prepared_sha256=first.sha256,
        steps={**steps, RESTART: restart, **second.steps},
        undo_failures=first.undo_failures + second.undo_failures,
        undo_ns={**first.undo_ns, **second.undo_ns},
        accounts=first.accounts + second.accounts,
        filesystems=first.filesystems + second.filesystems,
        processor=first.processor + second.processor,
        first_ns=first.first_ns - end_ns,
        _streams={**first._streams, **second._streams},
        _files={**first._files, **second._files},
    )


def read_events(path: Path) -> Events:
    """Read an attempt's events; a last line that is cut, as a killed agent leaves it, is tolerated.

    Raises ResultError if the file cannot be read, a line is not an event, lines are missing, or the format is
    of another version.
    """
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            return _read_lines(path, file)
    except OSError as error:
        cause = f"the events cannot be read: {error.strerror}"
        raise ResultError(cause, place=str(path), remedy="run the trial again with `strata run`") from error


def _read_lines(path: Path, file: BinaryIO) -> Events:
    events, digest = Events(path=path, sha256=""), hashlib.sha256()
    expected_seq: int | None = None
    for number in itertools.count(1):
        line = file.readline(LINE_BYTES_MAX)
        if not line:
            break
        digest.update(line)
        try:
            expected_seq = _take_line(events, line, number, expected_seq)
        except ResultError:
            if line.endswith(b"\n") or len(line) == LINE_BYTES_MAX:
                raise
            events.truncated = True
    events.sha256 = digest.hexdigest()
    return events


def _take_line(events: Events, line: bytes, number: int, expected_seq: int | None) -> int:
    place = f"{events.path}:{number}"
    try:
        event = json.loads(line)
        if not isinstance(event, dict):
            raise TypeError("not an object")
        seq = int(event["seq"])
        if expected_seq is not None and seq != expected_seq:
            raise ResultError(f"event {expected_seq} is missing", place=place, remedy=_REMEDY)
        _take(events, event)
    except KeyError as error:
        raise ResultError(f"the event lacks {error}", place=place, remedy=_REMEDY) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ResultError(f"not an event: {where}: {first['msg']}", place=place, remedy=_REMEDY) from error
    # JSON, UTF-8, numbers, base64; thousands of brackets exhaust the JSON parser's stack.
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ResultError(f"not an event: {error}", place=place, remedy=_REMEDY) from error
    return seq + 1


def _take(events: Events, event: dict[str, Any]) -> None:
    now_ns, kind = int(event["monotonic_ns"]), event["type"]
    if kind == "agent_start" and event["event_version"] != EVENT_VERSION:
        raise ResultError(
            f"the events are of version {event['event_version']}, this Strata reads version {EVENT_VERSION}",
            place=str(events.path),
            remedy="use the Strata that wrote them, or run the trial again with `strata run --fresh`",
        )
    found: Any = _MODELS[kind].validate_python(event) if kind in _MODELS else None
    if kind in _ONCE:
        setattr(events, _ONCE[kind], found)
    elif kind in _LISTS:
        getattr(events, _LISTS[kind]).append(found)
    elif kind == "step_start":
        events.steps[found.step] = StepRun(found.step, found.phase, found.argv, started_ns=now_ns)
    elif kind == "step_end":
        run = events.steps[found.step]
        run.ended_ns, run.ending = now_ns, found
    elif kind == "undo_end":
        # An undo that failed within the plan is tried again at the end: both count.
        events.undo_ns[found.step] = events.undo_ns.get(found.step, 0) + found.duration_ns
        events.undo_failures += [found.step] if found.outcome != "ok" else []
    elif kind == "output":
        events._streams.setdefault((event["step"], event["stream"]), bytearray()).extend(_content(event))
    elif kind == "file":
        events._files.setdefault((event["step"], event["name"]), bytearray()).extend(_content(event))
    # A later agent may add a kind of event within this version.
    if events.last_ns == 0 and events.first_ns == 0:
        events.first_ns, events.epoch_ns = now_ns, int(event["realtime_ns"]) - now_ns
    events.last_ns = now_ns


def _content(event: dict[str, Any]) -> bytes:
    encoded = event.get("base64")
    if encoded is None:
        text: str = event["text"]
        return text.encode("utf-8", errors="surrogatepass")
    return base64.b64decode(encoded, validate=True)  # binascii.Error is a ValueError
