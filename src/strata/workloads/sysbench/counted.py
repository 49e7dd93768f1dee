# SPDX-License-Identifier: Apache-2.0
"""Counting the transactions of sysbench that a power cut took, by thread.

In a trial whose power is cut, each transaction also updates a row of its thread, and when its commit has
returned, the thread notes the number outside the stack. Other sessions cannot say what is acknowledged:
InnoDB shows them a transaction before its log is flushed.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from strata.model.step import Step
from strata.model.survival import CountsAcknowledged, Kept
from strata.model.workload import Outputs, WorkloadContext, unreadable
from strata.servers.database import DatabaseServer
from strata.workloads.initial import OwnTables

LEGACY: Final = "legacy-"
STATEMENT: Final = re.compile(r"\S[^;]*;\s*\n")
_READING: Final = (
    *("oltp_read_only", "oltp_point_select", "select_random_points", "select_random_ranges"),
    *("legacy-read-only", "legacy-simple", "legacy-nontrx-select"),
)
_COMMITTING: Final = ("oltp_read_write", "oltp_write_only", "legacy-complex")
"""The scripts that begin and commit transactions; the other ones that write have one statement each."""
_KEEPING: Final = (
    *(*_COMMITTING, "oltp_update_index", "oltp_update_non_index"),
    *("legacy-nontrx-update-key", "legacy-nontrx-update-nokey"),
)
"""The scripts that leave the number of rows as it is."""
_COUNTED: Final = "CREATE TABLE strata_counted (thread INT PRIMARY KEY, n BIGINT NOT NULL)"
_ROWS: Final = "SELECT '{table}', COUNT(*), SUM(LENGTH(c)) FROM {table}"
_COUNTED_ID: Final = "sysbench-left"
_ROWS_ID: Final = "sysbench-rows"
_COUNT_FORM: Final = re.compile(r"(\d{1,5})[ |\t](\d{1,18})")


class CountedTransactions(OwnTables, CountsAcknowledged):
    """The base of `SysbenchOltp`: counts acknowledged transactions, and after a power cut the lost ones."""

    if TYPE_CHECKING:
        script: str
        tables: int
        rows: int

    @abstractmethod
    def server_of(self, context: WorkloadContext) -> DatabaseServer:
        """The server of its tables."""

    @property
    @abstractmethod
    def prepare_limit_ns(self) -> int:
        """The time in which all rows can be written or read."""

    @property
    def table_names(self) -> list[str]:
        is_legacy = self.script.startswith(LEGACY)
        return ["sbtest"] if is_legacy else [f"sbtest{number + 1}" for number in range(self.tables)]

    def _is_counted(self, context: WorkloadContext) -> bool:
        return context.is_cut and self.uncounted is None

    def counting_script(self, server: DatabaseServer) -> str:
        """The part of a script that counts; empty where nothing is counted."""
        if not self._is_counted(server.context):
            return ""
        has_commit = self.script_text is not None or self.script in _COMMITTING
        # Relative to the scratch folder, in which clients run: variables are not known to a script.
        given = {"COUNTED_FOLDER": f'"{server.folder}"', "HAS_COMMIT": str(has_commit).lower()}
        values = "".join(f"local {name} = {value}\n" for name, value in given.items())
        return f"do\n{values}{lua('sysbench_counted.lua')}end\n"

    def counting_table(self, server: DatabaseServer) -> list[Step]:
        if not self._is_counted(server.context):
            return []
        title = "Make the table in which each thread counts its transactions"
        return [server.prepare("counted", title, *server.asks(_COUNTED))]

    @property
    def uncounted(self) -> str | None:
        if self.script_text is not None:
            *_, last = STATEMENT.findall(f"{self.script_text}\n")
            is_ended = last.strip().rstrip(";").strip().upper() == "COMMIT"
            return None if is_ended else "a transaction of one's own is counted if it ends in COMMIT"
        return f"{self.script} writes nothing" if self.script in _READING else None

    def acknowledged(self, context: WorkloadContext) -> Step:
        server = self.server_of(context)
        files = ("find", server.private_folder, "-name", "counted-*", "-exec", "cat", "{}", "+")
        title = "Read which transactions the threads know to be acknowledged"
        return server.client(id="acknowledged", phase="measure", title=title, argv=files)

    def recovered(self, context: WorkloadContext, said: str) -> list[Step]:
        questions = {_COUNTED_ID: ("Read the threads' counts", "SELECT thread, n FROM strata_counted")}
        if not self.has_own_tables:
            rows = [_ROWS.format(table=name) for name in self.table_names]
            questions[_ROWS_ID] = ("Read all rows", " UNION ALL ".join(rows))
        return self.server_of(context).asked_after_cut(questions, self.prepare_limit_ns)

    def kept(self, said: str, outputs: Outputs) -> Kept:
        noted = _by_thread("acknowledged", said)
        if not noted:
            raise unreadable("acknowledged", "no thread has counted its transactions", said)
        acknowledged = sum(noted.values())
        if _COUNTED_ID not in outputs.steps:
            return Kept(acknowledged, acknowledged)
        left = _by_thread(_COUNTED_ID, outputs.step(_COUNTED_ID).stdout)
        lost = sum(max(count - left.get(thread, 0), 0) for thread, count in noted.items())
        return Kept(acknowledged, lost, self._row_damage(outputs))

    def _row_damage(self, outputs: Outputs) -> str:
        """The tables that have another number of rows, under scripts whose transactions keep it."""
        if _ROWS_ID not in outputs.steps or self.has_own_tables or self.script_text is not None:
            return ""
        if self.script not in _KEEPING:
            return ""
        lines = [line.replace("|", "\t").split("\t") for line in outputs.step(_ROWS_ID).stdout.splitlines()]
        wrong = [f"{line[0]} has {line[1]}" for line in lines if line[1:] and line[1] != str(self.rows)]
        return f"of tables with {self.rows} rows, {', '.join(wrong)}" if wrong else ""


def _by_thread(step_id: str, text: str) -> dict[int, int]:
    """The numbers of transactions in lines of a thread and its number."""
    found = [_COUNT_FORM.fullmatch(line) for line in text.strip().splitlines()]
    if None in found:
        raise unreadable(step_id, "the count of transactions is of another form", text)
    return {int(each[1]): int(each[2]) for each in found if each is not None}


def lua(name: str) -> str:
    """One of Strata's scripts."""
    return files("strata.workloads").joinpath("scripts", name).read_text(encoding="utf-8")
