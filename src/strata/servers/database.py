# SPDX-License-Identifier: Apache-2.0
"""What every private server of a database has: its steps, its clients, its settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from pydantic import StrictBool, StrictFloat, StrictInt, StrictStr

from strata.spec.allowed import Forms, pair_diagnostics
from strata.spec.names import Diagnostic
from strata.spec.step import Command, Step, literal
from strata.spec.workload import WorkloadContext
from strata.units import NS_PER_MS, NS_PER_S

Setting = StrictStr | StrictInt | StrictFloat | StrictBool
"""The value of a server's setting, as it stands in a study file."""

START_LIMIT_NS: Final = 300 * NS_PER_S
"""The time until a server must be ready, which recovery after an earlier crash would be part of."""
STOP_LIMIT_NS: Final = 600 * NS_PER_S
"""The time that an orderly end may take: all that is dirty is written."""
ROLE: Final = "workload"
"""The role whose sessions put the load on a server. It owns its database and has no rights besides."""


@dataclass(frozen=True)
class DatabaseServer(ABC):
    """A server of a workload's own. Its data are on the measured stack, its socket in the private folder.

    Attributes:
        prefix: What the ids of its steps begin with.
        context: The workload's.
        connections: How many sessions it must allow.
        settings: Of the server's configuration file, over its own defaults.
    """

    tools: ClassVar[tuple[str, ...]]
    """The programs that `steps` run, without those of clients."""
    title: ClassVar[str]
    user: ClassVar[str]
    """The user whom the data belong to and whom server and clients run as."""
    empty_bytes: ClassVar[int]
    """What a server without tables, and the logs of its first load, take on the stack: an estimate."""
    owned: ClassVar[Mapping[str, str]]
    """The settings that are given already, each with what to do instead."""
    allowed: ClassVar[Forms]
    """The settings that a study may give."""

    prefix: str
    context: WorkloadContext
    connections: int
    settings: Mapping[str, Setting] = field(default_factory=dict)

    @abstractmethod
    def steps(self) -> list[Step]:
        """Make its folders and its data, and start it."""

    @property
    @abstractmethod
    def private_folder(self) -> str:
        """Its folder that is not on the measured stack; its user may write there."""

    @property
    @abstractmethod
    def client_environment(self) -> dict[str, str]:
        """What tells clients where it is, and that they are `ROLE` unless they say otherwise."""

    def client(self, **fields: object) -> Step:
        """A step that runs as the user whom the server's data belong to, in the trial's private folder."""
        return Step.model_validate(
            {
                "user": self.user,
                "environment": self.client_environment,
                "cwd": self.context.scratch_path,
                **fields,
            }
        )

    def script_path(self, name: str) -> str:
        """Where `script` puts a script of that name."""
        return f"{self.private_folder}/{name}"

    def script(self, name: str, text: str) -> Step:
        """The step that writes a script for a client."""
        return self.client(
            id=f"{self.prefix}-script",
            phase="prepare",
            title="Write the script",
            argv=("tee", self.script_path(name)),
            stdin=literal(text if text.endswith("\n") else f"{text}\n"),
        )

    def service(self, *argv: str, ready: tuple[str, ...], stop_signal: str) -> Step:
        """The step that starts the server, and that ends it when it is undone.

        Args:
            argv: The server's.
            ready: A client's, which succeeds as soon as the server serves.
            stop_signal: What lets it write what is dirty, and exit.
        """
        asked = Command(
            argv=ready,
            environment=self.client_environment,
            user=self.user,
            cwd=self.context.scratch_path,
            time_limit_ns=30 * NS_PER_S,
        )
        return self.client(
            id=f"{self.prefix}-server",
            phase="prepare",
            title=f"Start the {self.title} server",
            argv=argv,
            background=True,
            ready=asked,
            ready_interval_ns=100 * NS_PER_MS,
            time_limit_ns=START_LIMIT_NS,
            stop_signal=stop_signal,
            stop_limit_ns=STOP_LIMIT_NS,
        )

    def folders(self, *paths: str) -> Step:
        """The step that makes folders which belong to the server's user alone."""
        return Step(
            id=f"{self.prefix}-folders",
            phase="prepare",
            title="Make the folders of the database and of its socket",
            argv=("install", "-d", "-o", self.user, "-m", "0700", *paths),
            cwd=self.context.scratch_path,
        )

    @classmethod
    def diagnostics(cls, settings: Mapping[str, Setting]) -> Iterable[Diagnostic]:
        """The settings that Strata gives itself, and those that are not listed."""
        given = {name: value for name, value in settings.items() if cls.owned_remedy(name) is None}
        for name in settings.keys() - given.keys():
            remedy = cls.owned_remedy(name)
            yield Diagnostic(f'the setting "{name[:60]}" is given already', remedy=remedy, key="settings")
        yield from pair_diagnostics(f"setting of {cls.title}", given, cls.allowed, key="settings")

    @classmethod
    def owned_remedy(cls, name: str) -> str | None:
        """What to do instead of giving a setting that is given already; None for all others."""
        return cls.owned.get(name)


def setting_text(value: Setting, *, true: str, false: str) -> str:
    """A setting's value as it stands on a server's command line."""
    if isinstance(value, bool):
        return true if value else false
    return literal(str(value))
