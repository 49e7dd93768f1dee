# SPDX-License-Identifier: Apache-2.0
"""The base of the private database servers: steps, clients, settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from pydantic import StrictBool, StrictFloat, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.model.allowed import Forms, pair_diagnostics
from strata.model.duties import HasServer
from strata.model.stack import space_diagnostics
from strata.model.step import Command, Purpose, Step, literal
from strata.model.workload import WorkloadContext
from strata.units import NS_PER_MS, NS_PER_S, parse_duration

Setting = StrictStr | StrictInt | StrictFloat | StrictBool
"""The value of a server's setting in a study file."""

START_LIMIT_NS: Final = 300 * NS_PER_S
"""The time until a server must be ready, recovery after a crash included."""
STOP_LIMIT_NS: Final = 600 * NS_PER_S  # the time of an orderly shutdown, which writes all dirty data
OFF: Final = ("off", "0", "false", "no")
ROLE: Final = "workload"
"""The role of the load's sessions. It owns its database and has no further rights."""


@dataclass(frozen=True)
class DatabaseServer(ABC):
    """A workload's own server, with its data on the measured stack and its socket in the private folder."""

    left_out: ClassVar[str]  # the parts of a dump that belong to the machine that it was made on
    of_dump: ClassVar[str]  # shell: from the dump $1 the SQL $1.sql without them
    tools: ClassVar[tuple[str, ...]]  # the programs that `steps` run, without those of clients
    title: ClassVar[str]
    folder: ClassVar[str]
    user: ClassVar[str]  # the user of server and clients, who owns the data
    empty_bytes: ClassVar[int]
    """An estimate of the space for a server without tables and the logs of its first load."""
    owned: ClassVar[Mapping[str, str]]  # the settings that are given already, each with a remedy
    allowed: ClassVar[Forms]  # the settings that a study may give
    kind: ClassVar[str]  # its name in a stack's settings
    risky: ClassVar[Mapping[str, Mapping[str, str]]]
    """The values of settings that give durability away, with what a power cut may then do."""
    tearing: ClassVar[tuple[str, ...]]  # those that do no harm where pages are written whole
    period: ClassVar[tuple[str, str, int] | None] = None
    """Its own work at an interval: the name, the setting, and the setting's default in ns."""

    prefix: str  # the beginning of its steps' ids
    context: WorkloadContext  # the workload's
    connections: int  # the sessions that it must allow
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """The settings that differ from the server's defaults."""
    log_place: str | None = (
        None  # the filesystem of its log; None, or one that the stack lacks: with the data
    )

    @property
    def log_folder(self) -> str | None:
        """The folder of its log on a filesystem of its own."""
        return self.folder_at(self.log_place, "log")

    def folder_at(self, place: str | None, purpose: str) -> str | None:
        """Its folder on the stack's filesystem of this name; None: the stack has none of that name."""
        mount = self.context.places.get(place or "")
        return f"{mount}/{self.folder}-{purpose}" if mount else None

    @abstractmethod
    def steps(self) -> list[Step]:
        """Make its folders and its data, and start it."""

    @abstractmethod
    def reads(self, path: str, values: Mapping[str, int]) -> tuple[str, ...]:
        """The client's command that executes a file of SQL as `ROLE`, with these numbers as its variables."""

    @abstractmethod
    def asks(self, sql: str) -> tuple[str, ...]:
        """The client's command that executes SQL as `ROLE`, and prints the rows without headings."""

    @property
    def private_folder(self) -> str:
        """The folder of its socket, outside the measured stack; its user may write there."""
        return f"{self.context.scratch_path}/{self.folder}"

    @property
    @abstractmethod
    def client_environment(self) -> dict[str, str]:
        """The variables by which clients find it, by default as `ROLE`."""

    def started_again(self) -> list[Step]:
        """The steps that bring it up on the data that it has, after the machine started anew."""
        return [step for step in self.steps() if step.again or step.background]

    def asked_after_cut(self, questions: Mapping[str, tuple[str, str]], time_limit_ns: int) -> list[Step]:
        """Bring it up on what a power cut left, and ask: titles and SQL by the ids of their steps."""
        asked = [
            self.client(
                id=name, phase="prepare", title=title, argv=self.asks(sql), time_limit_ns=time_limit_ns
            )
            for name, (title, sql) in questions.items()
        ]
        verify = {"purpose": Purpose(what="verify")}
        return [step.model_copy(update=verify) for step in (*self.started_again(), *asked)]

    def client(self, **fields: object) -> Step:
        """A step that runs as `user` in the trial's private folder."""
        own = {"user": self.user, "environment": self.client_environment, "cwd": self.context.scratch_path}
        return Step.model_validate({**own, **fields})

    def prepare(self, name: str, title: str, *argv: str, **fields: object) -> Step:
        return self.client(id=f"{self.prefix}-{name}", phase="prepare", title=title, argv=argv, **fields)

    def script_path(self, name: str) -> str:
        return f"{self.private_folder}/{name}"

    def script(self, name: str, text: str) -> Step:
        stdin = literal(text if text.endswith("\n") else f"{text}\n")
        return self.prepare(
            "script", "Write the script", "tee", self.script_path(name), stdin=stdin, again=True
        )

    def service(self, *argv: str, ready: tuple[str, ...], stop_signal: str) -> Step:
        """The step that starts the server with ``argv``; a client's command ``ready`` succeeds when it is up.

        ``stop_signal`` makes it write dirty data and exit.
        """
        asked = Command(
            argv=ready,
            environment=self.client_environment,
            user=self.user,
            cwd=self.context.scratch_path,
            time_limit_ns=30 * NS_PER_S,
        )
        return self.prepare(
            "server",
            f"Start the {self.title} server",
            *argv,
            background=True,
            ready=asked,
            ready_interval_ns=100 * NS_PER_MS,
            time_limit_ns=START_LIMIT_NS,
            stop_signal=stop_signal,
            stop_limit_ns=STOP_LIMIT_NS,
        )

    def folders(self, *paths: str) -> Step:
        return Step(
            id=f"{self.prefix}-folders",
            phase="prepare",
            title="Make the folders of the database and of its socket",
            argv=("install", "-d", "-o", self.user, "-m", "0700", *paths),
            cwd=self.context.scratch_path,
            again=True,
        )

    @classmethod
    def diagnostics(cls, settings: Mapping[str, Setting]) -> Iterable[Diagnostic]:
        """Refuse settings that Strata gives itself or that are not listed."""
        given = {name: value for name, value in settings.items() if cls.owned_remedy(name) is None}
        for name in settings.keys() - given.keys():
            remedy = cls.owned_remedy(name)
            yield Diagnostic(f'the setting "{name[:60]}" is given already', remedy=remedy, key="settings")
        yield from pair_diagnostics(f"setting of {cls.title}", given, cls.allowed, key="settings")

    @classmethod
    def periods_ns(cls, settings: Mapping[str, Setting]) -> Mapping[str, int]:
        """The intervals of its own work with these settings, by the name of the work."""
        if cls.period is None:
            return {}
        name, setting, default_ns = cls.period
        text = str(settings.get(setting, ""))
        try:
            return {name: parse_duration(f"{text}s" if text.isdigit() else text)}
        except ValueError:  # not given, or in days, which no window reaches either
            return {name: default_ns}

    @classmethod
    def power_risks(cls, settings: Mapping[str, Setting], *, whole_blocks: bool) -> Iterable[str]:
        """The settings by which a power failure takes what the server acknowledged, each with the effect."""
        for name, effects in cls.risky.items():
            value = setting_text(settings.get(name, ""), true="on", false="off").lower()
            if value in effects and not (whole_blocks and name in cls.tearing):
                yield f"{cls.title}: {name} = {value}: {effects[value]}"

    @classmethod
    def owned_remedy(cls, name: str) -> str | None:
        """The remedy for a setting that is given already; None for all others."""
        return cls.owned.get(name)


def setting_text(value: Setting, *, true: str, false: str) -> str:
    return (true if value else false) if isinstance(value, bool) else literal(str(value))


class ServerLoad(HasServer):
    """The base of the workloads with a server of their own."""

    @property
    @abstractmethod
    def server_type(self) -> type[DatabaseServer]: ...

    @property
    def server_kind(self) -> str:
        return self.server_type.kind

    @property
    def periods_ns(self) -> Mapping[str, int]:
        return self.server_type.periods_ns(self.settings)

    def power_risks(self, *, whole_blocks: bool) -> Iterable[str]:
        return self.server_type.power_risks(self.settings, whole_blocks=whole_blocks)

    def server_diagnostics(self, data_bytes: int, capacity_bytes: int, key: str) -> Iterable[Diagnostic]:
        """The mistakes of the settings, and data of a ``key`` that do not fit beside an empty server."""
        yield from self.server_type.diagnostics(self.settings)
        needed_bytes = data_bytes + self.server_type.empty_bytes
        yield from space_diagnostics("tables and logs", needed_bytes, capacity_bytes, key=key)
