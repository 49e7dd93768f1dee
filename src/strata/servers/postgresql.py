# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL server: its cluster is the folder ``pgdata`` on the stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from strata.servers.database import START_LIMIT_NS, DatabaseServer, setting_text
from strata.spec.step import Step

_SETTINGS: Final[dict[str, str]] = {
    "listen_addresses": "",
    "unix_socket_directories": "",  # filled in below
    # Huge pages are a matter of the machine, not of the study.
    "huge_pages": "off",
    "shared_buffers": "128MB",
    # A leader that builds an index waits for its workers in a loop without a system call (PostgreSQL 17's
    # WaitForParallelWorkersToAttach). In virtual time, which stands still meanwhile, a worker that waits for
    # a disk then never comes.
    "max_parallel_maintenance_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_LOG: Final = "the server's log goes to the trial's events: leave it out"


@dataclass(frozen=True)
class PostgresqlServer(DatabaseServer):
    """PostgreSQL with its own defaults, but for a private socket, the connections and the settings above."""

    tools: ClassVar[tuple[str, ...]] = ("initdb", "install", "pg_isready", "postgres")
    title: ClassVar[str] = "PostgreSQL"
    user: ClassVar[str] = "postgres"
    empty_bytes: ClassVar[int] = 1 << 30
    owned: ClassVar[Mapping[str, str]] = {
        "listen_addresses": "the server listens on a private socket only: leave it out",
        "unix_socket_directories": "the socket is in the trial's private folder: leave it out",
        "data_directory": "the data folder is on the measured stack: leave it out",
        "port": "the socket is private, so any port will do: leave it out",
        "max_connections": "it follows from the number of clients: leave it out",
        "log_destination": _LOG,
        "logging_collector": _LOG,
    }

    @property
    def private_folder(self) -> str:
        """The folder of the socket."""
        return f"{self.context.scratch_path}/postgres"

    @property
    def client_environment(self) -> dict[str, str]:
        """What libpq reads."""
        return {"PGHOST": self.private_folder, "PGUSER": "postgres", "PGDATABASE": "postgres"}

    @property
    def _data(self) -> str:
        return f"{self.context.mount_path}/pgdata"

    def steps(self) -> list[Step]:
        """Folders, cluster, server."""
        return [self.folders(self._data, self.private_folder), self._cluster(), self._server()]

    def checkpoint(self, time_limit_ns: int) -> Step:
        """Write all that is dirty, so that the load starts from a clean checkpoint."""
        return self.client(
            id=f"{self.prefix}-checkpoint",
            phase="prepare",
            title="Write a checkpoint, so that the load starts from a clean one",
            argv=("psql", "--no-psqlrc", "--quiet", "--command=CHECKPOINT"),
            time_limit_ns=time_limit_ns,
        )

    def _cluster(self) -> Step:
        return self.client(
            id=f"{self.prefix}-cluster",
            phase="prepare",
            title="Create the database cluster",
            argv=(
                "initdb",
                f"--pgdata={self._data}",
                "--username=postgres",
                "--auth=trust",
                "--no-locale",
                "--encoding=UTF8",
                "--no-instructions",
            ),
            time_limit_ns=2 * START_LIMIT_NS,
        )

    def _server(self) -> Step:
        settings = {**_SETTINGS, "unix_socket_directories": self.private_folder}
        settings["max_connections"] = str(self.connections)
        for name, value in self.settings.items():
            settings[name] = setting_text(value, true="true", false="false")
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return self.service(
            "postgres",
            *("-D", self._data, *options),
            ready=("pg_isready", "--quiet", "--timeout=5"),
            # Fast shutdown: end the sessions, write a checkpoint, exit.
            stop_signal="INT",
        )
