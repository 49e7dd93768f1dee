# SPDX-License-Identifier: Apache-2.0
"""Tables of a study's own for the databases' loads: SQL in the study, or a dump beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.model.duties import CostsRealTime
from strata.model.find import OpenLoop
from strata.model.stack import space_diagnostics
from strata.model.step import Step, literal
from strata.model.workload import InputKind
from strata.servers.database import DatabaseServer
from strata.servers.postgresql import PostgresqlServer
from strata.workloads.keys import key

CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_INPUT: Final = "dump"
_FILE: Final = "init.sql"
# Of a plain dump, and of a custom one, whose table of contents is not compressed; both before all data.
_EXTENSION: Final = re.compile(r"CREATE EXTENSION (?:IF NOT EXISTS )?\"?([a-z][a-z0-9_-]{0,62})\"?")
_DATA: Final = re.compile(r"^(?:COPY|INSERT INTO) ", re.MULTILINE)


class OwnTables(CostsRealTime, OpenLoop):
    """The base of workloads whose tables a study can make itself."""

    input_kind: ClassVar[InputKind] = "file"

    script_text: StrictStr | None = None
    init_text: StrictStr | None = key(
        None,
        "SQL that makes the tables and their data instead of the load's own, for a script of one's own; the "
        "server's client reads it as the load's role, and it has no backslashes. :scale (pgbench) and :rows "
        "(sysbench) are set",
        "CREATE TABLE item AS SELECT id, repeat('x', 100) AS content "
        "FROM generate_series(1, 100000 * :scale) AS id;",
    )
    init: StrictStr | None = key(
        None,
        "The same from a file beside the study, such as a dump by pg_dump (plain or custom), mariadb-dump or "
        "mysqldump; owners, privileges and definers are left out. The client that reads it can run programs: "
        "on a host it needs --allow-commands",
        "dump.sql",
    )

    extensions: list[Annotated[StrictStr, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]] = key(
        [],
        "The extensions of PostgreSQL that these tables need, made before them; those of `init` are read "
        "from the dump. A cell is skipped where the machine lacks one",
        ["pg_trgm"],
    )

    @classmethod
    def with_texts(cls, table: dict[str, Any], read: Callable[..., str]) -> None:
        if isinstance(table.get("init"), str) and "extensions" not in table:
            with suppress(Diagnostic):  # `read_inputs` says it of a file that cannot be read
                found = _EXTENSION.findall(_DATA.split(read("init", table["init"], whole=False))[0])
                if named := sorted({*found} - {"plpgsql"}):
                    table["extensions"] = named

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(f"postgresql:{name}" for name in self.extensions)

    @property
    def fill_bytes_per_real_s(self) -> float:
        return 50_000_000  # by a server: measured with pgbench and sysbench on ten rotating disks, 30 to 60

    @property
    def needs_permission(self) -> bool:
        return self.init is not None

    @property
    def has_own_script(self) -> bool:
        return self.script_text is not None

    @property
    def has_own_tables(self) -> bool:
        return self.init is not None or self.init_text is not None

    def inputs(self) -> Mapping[str, str]:
        return {} if self.init is None else {_INPUT: self.init}

    def input_diagnostics(
        self, sizes_bytes: Mapping[str, Mapping[str, int]], capacity_bytes: int
    ) -> Iterable[Diagnostic]:
        size_bytes = sum(sizes_bytes.get(_INPUT, {}).values())
        yield from space_diagnostics("the dump's data", size_bytes, capacity_bytes, key="init")

    def table_diagnostics(self, scripts: str) -> Iterator[Diagnostic]:
        """Mistakes of the tables, where ``scripts`` names the load's own."""
        given = [name for name in ("init_text", "init") if getattr(self, name) is not None]
        if len(given) == 2:
            yield Diagnostic("the tables are made twice", remedy="keep init or init_text", key="init")
        if given and not self.has_own_script:
            cause = f"the built-in scripts need {scripts}'s own tables"
            yield Diagnostic(cause, remedy="add script_text", key=given[0])
        text = self.init_text
        if text is not None and (not text.strip() or CONTROL.search(text)):
            remedy = "write SQL, with no control characters but tabs and line breaks"
            yield Diagnostic("this is no SQL", remedy=remedy, key="init_text")
        if text is not None and "\\" in text:
            # Any would begin a command of the client, which can run programs.
            cause, remedy = "the SQL has a backslash", "leave it out; chr(92) is one"
            yield Diagnostic(cause, remedy=remedy, key="init_text")

    def make_tables(
        self, server: DatabaseServer, name: str, values: Mapping[str, int], limit_ns: int
    ) -> list[Step]:
        """The steps that make them; the last is called ``name``."""
        path = server.script_path(_FILE)
        if self.init is not None:
            path = server.script_path("content")
            tar = ("tar", "--extract", f"--directory={server.private_folder}", f"--file=${{input-{_INPUT}}}")
            # The file may lie where only root can read.
            got = [server.prepare("init", "Unpack the dump", *tar, user="root")]
            title = f"Leave out {server.left_out} of a dump"
            plain = ("sh", "-euc", literal(server.of_dump), "sh", path)
            got.append(server.prepare("dump", title, *plain, time_limit_ns=limit_ns))
            path += ".sql"
        else:
            text = literal(self.init_text or "")
            got = [server.prepare("init", "Write the SQL of the tables", "tee", path, stdin=text)]
        if self.extensions and isinstance(server, PostgresqlServer):
            # Many of them only a superuser may make.
            made = [f'CREATE EXTENSION IF NOT EXISTS "{each}" CASCADE' for each in self.extensions]
            title = "Make the extensions of the tables"
            got.append(server.superuser_sql("extensions", title, *made, time_limit_ns=limit_ns))
        argv = server.reads(path, values)
        title = "Create and fill the tables"
        return [*got, server.prepare(name, title, *argv, time_limit_ns=limit_ns)]
