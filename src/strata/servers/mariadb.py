# SPDX-License-Identifier: Apache-2.0
"""A private MariaDB server: its data and temporary files are in the folder ``mariadb`` on the stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from strata.servers.database import ROLE, START_LIMIT_NS, STOP_LIMIT_NS, DatabaseServer, setting_text
from strata.servers.mariadb_settings import SETTINGS
from strata.spec.allowed import Forms
from strata.spec.page_cache import dropped, synced
from strata.spec.step import LOAD_USER, Step

DATABASE: Final = "sbtest"
"""The database of the workloads' tables; sysbench's own default."""

_SETTINGS: Final[dict[str, str]] = {
    # MariaDB's own default, stated because it decides how much is read from the disk.
    "innodb_buffer_pool_size": "128M",
    "default_time_zone": "+00:00",
}
_SOCKET: Final = "the server listens on a private socket only: leave it out"
_FOLDER: Final = "its folders are on the measured stack: leave it out"
_LOG: Final = "the server's log goes to the trial's events: leave it out"
_SUPERUSER: Final = "root"
_PREFIXES: Final = ("skip_", "loose_", "enable_", "disable_", "maximum_")


@dataclass(frozen=True)
class MariadbServer(DatabaseServer):
    """MariaDB with its own defaults, but for a private socket without network and TLS, and the connections.

    InnoDB's defaults are those of the manual: every commit is flushed (``innodb_flush_log_at_trx_commit=1``),
    pages are written twice (``innodb_doublewrite``), files are opened with O_DIRECT, the redo log has 96 MiB,
    and there is no binary log.
    """

    tools: ClassVar[tuple[str, ...]] = ("install", "mariadb", "mariadb-install-db", "mariadbd")
    title: ClassVar[str] = "MariaDB"
    # Debian's package of the programs makes no user, and mariadbd does not run as root.
    user: ClassVar[str] = LOAD_USER
    empty_bytes: ClassVar[int] = 512 << 20
    owned: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("socket", "networking", "bind_address", "port", "extra_port"), _SOCKET),
        **dict.fromkeys(("datadir", "tmpdir", "innodb_data_home_dir", "innodb_log_group_home_dir"), _FOLDER),
        **dict.fromkeys(("innodb_undo_directory", "innodb_tmpdir", "pid_file", "chroot"), _FOLDER),
        **dict.fromkeys(("log_error", "console", "syslog"), _LOG),
        **dict.fromkeys(
            ("user", "basedir", "defaults_file", "defaults_extra_file", "bootstrap", "ssl", "grant_tables"),
            "Strata starts the server itself: leave it out",
        ),
        "max_connections": "it follows from the number of threads: leave it out",
        "default_time_zone": "every trial runs in UTC: leave it out",
    }
    allowed: ClassVar[Forms] = SETTINGS

    @classmethod
    def owned_remedy(cls, name: str) -> str | None:
        """The same, with the abbreviations and prefixes that mariadbd understands."""
        plain = name
        for prefix in _PREFIXES:
            plain = plain.removeprefix(prefix)
        if name in SETTINGS or not plain:
            return None
        return next((remedy for owned, remedy in cls.owned.items() if owned.startswith(plain)), None)

    @property
    def private_folder(self) -> str:
        return f"{self.context.scratch_path}/mariadb"

    @property
    def socket(self) -> str:
        return f"{self.private_folder}/socket"

    @property
    def client_environment(self) -> dict[str, str]:
        return {"MYSQL_UNIX_PORT": self.socket, "TMPDIR": self.private_folder}

    @property
    def _folders(self) -> tuple[str, str, str]:
        """The folder on the stack, and in it the data and, as in a PostgreSQL cluster, temporary files."""
        folder = f"{self.context.mount_path}/mariadb"
        return folder, f"{folder}/data", f"{folder}/temporary"

    @property
    def _options(self) -> list[str]:
        given = {name: setting_text(value, true="ON", false="OFF") for name, value in self.settings.items()}
        return [f"--{name.replace('_', '-')}={value}" for name, value in {**_SETTINGS, **given}.items()]

    def steps(self) -> list[Step]:
        """Folders, system tables, server, an empty database and its user, who has no right to files."""
        return [
            self.folders(*self._folders, self.private_folder),
            self._system_tables(),
            self._server(),
            self.sql(
                "database",
                "Create the database, and the user of the load",
                f"CREATE DATABASE {DATABASE}; CREATE USER {ROLE}@localhost; "
                f"GRANT ALL ON {DATABASE}.* TO {ROLE}@localhost",
                user=_SUPERUSER,
            ),
        ]

    def client_words(self, user: str = ROLE) -> tuple[str, ...]:
        """The command of the client ``mariadb`` for this server, and for the load's user its database."""
        words = (*self._client(user), "--batch")
        return (*words, f"--database={DATABASE}") if user == ROLE else words

    def _client(self, user: str) -> tuple[str, ...]:
        return ("mariadb", "--no-defaults", "--skip-ssl", f"--socket={self.socket}", f"--user={user}")

    def sql(self, name: str, title: str, statement: str, *, user: str = ROLE) -> Step:
        words = (*self.client_words(user), f"--execute={statement}")
        return self.prepare(name, title, *words, time_limit_ns=STOP_LIMIT_NS)

    def _system_tables(self) -> Step:
        return self.prepare(
            "cluster",
            "Create the data folder with its system tables",
            *("mariadb-install-db", "--no-defaults", f"--datadir={self._folders[1]}"),
            # Clients on the private socket are root without a password.
            *("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"),
            *self._options,
            time_limit_ns=2 * START_LIMIT_NS,
        )

    def restart(self, number: int) -> list[Step]:
        """Stop the server, drop the caches, start it again: for the ``number``th time in the window.

        The page cache must be empty, too, because not every filesystem lets InnoDB bypass it by O_DIRECT.
        """
        previous = f"{self.prefix}-server" if number == 1 else f"{self.prefix}-server-{number}"
        stop_id, title = f"{self.prefix}-stop-{number}", "Stop the server; write back what is dirty"
        stopped = synced(self.context, stop_id, "measure", title)
        started = {
            "id": f"{self.prefix}-server-{number + 1}",
            "phase": "measure",
            "title": "Start the MariaDB server anew, with an empty buffer",
        }
        return [
            stopped.model_copy(update={"takes_down": (previous,)}),
            dropped(self.context, f"{self.prefix}-forget-{number}", "measure"),
            self._server().model_copy(update=started),
        ]

    def _server(self) -> Step:
        _, data, temporary = self._folders
        return self.service(
            *("mariadbd", "--no-defaults", f"--datadir={data}", f"--tmpdir={temporary}"),
            *(f"--socket={self.socket}", f"--pid-file={self.private_folder}/pid", "--skip-networking"),
            # With TLS it would make a key and a certificate at each start.
            *("--skip-ssl", f"--max-connections={self.connections}", *self._options),
            # Debian's package of the clients has no mariadb-admin.
            ready=(*self._client(_SUPERUSER), "--execute=DO 0"),
            # An orderly shutdown: end the sessions, write what is dirty, exit.
            stop_signal="TERM",
        )
