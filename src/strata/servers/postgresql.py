# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL server: its cluster is the folder ``pgdata`` on the stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from strata.servers.database import ROLE, START_LIMIT_NS, DatabaseServer, setting_text
from strata.servers.postgresql_settings import SETTINGS
from strata.spec.allowed import Forms
from strata.spec.step import Step

_SETTINGS: Final[dict[str, str]] = {
    "listen_addresses": "",
    "unix_socket_directories": "",  # filled in below
    # Huge pages depend on the machine.
    "huge_pages": "off",
    "shared_buffers": "128MB",
    # A leader that builds an index waits for its workers in a loop without a system call (PostgreSQL 17's
    # WaitForParallelWorkersToAttach). Virtual time stands still meanwhile, so a worker never gets its disk.
    "max_parallel_maintenance_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_LOG: Final = "the server's log goes to the trial's events: leave it out"
_SUPERUSER: Final = "postgres"
DATABASE: Final = "postgres"
"""The database of the workloads' tables."""


@dataclass(frozen=True)
class PostgresqlServer(DatabaseServer):
    """PostgreSQL with its own defaults, but for a private socket, the connections and the settings above.

    A superuser's SQL can run programs and read files (``COPY ... TO PROGRAM``), so loads have a role without
    these rights.
    """

    tools: ClassVar[tuple[str, ...]] = ("initdb", "install", "pg_isready", "postgres", "psql")
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
    allowed: ClassVar[Forms] = SETTINGS

    @property
    def private_folder(self) -> str:
        return f"{self.context.scratch_path}/postgres"

    @property
    def client_environment(self) -> dict[str, str]:
        return {"PGHOST": self.private_folder, "PGUSER": ROLE, "PGDATABASE": DATABASE}

    @property
    def _data(self) -> str:
        return f"{self.context.mount_path}/pgdata"

    def steps(self) -> list[Step]:
        """Folders, cluster, server, the role of the load."""
        return [
            self.folders(self._data, self.private_folder),
            self._cluster(),
            self._server(),
            self.superuser_sql(
                "role",
                "Create the role of the load, which owns the database",
                f"CREATE ROLE {ROLE} LOGIN",
                f"ALTER DATABASE {DATABASE} OWNER TO {ROLE}",
                time_limit_ns=START_LIMIT_NS,
            ),
        ]

    def superuser_sql(self, name: str, title: str, *statements: str, time_limit_ns: int) -> Step:
        """A step of preparation that executes Strata's own statements as the superuser."""
        psql = ("psql", "--no-psqlrc", "--quiet", f"--username={_SUPERUSER}")
        commands = (f"--command={each}" for each in statements)
        return self.prepare(name, title, *psql, *commands, time_limit_ns=time_limit_ns)

    def checkpoint(self, time_limit_ns: int) -> Step:
        title = "Write a checkpoint, so that the load starts from a clean one"
        return self.superuser_sql("checkpoint", title, "CHECKPOINT", time_limit_ns=time_limit_ns)

    def _cluster(self) -> Step:
        return self.prepare(
            "cluster",
            "Create the database cluster",
            *("initdb", f"--pgdata={self._data}", f"--username={_SUPERUSER}", "--auth=trust"),
            *("--no-locale", "--encoding=UTF8", "--no-instructions"),
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
