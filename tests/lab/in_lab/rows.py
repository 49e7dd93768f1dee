# SPDX-License-Identifier: Apache-2.0
"""Runs in the lab: rows whose content tells what it must be, and what a cut of the power has left of them.

    rows.py work NOTES SEED EPOCH WORKERS CUT_AFTER_US
    rows.py verify NOTES SEED EPOCH WORKERS

Each worker has a session of its own and sends one transaction of one row after the other; when COMMIT has
returned it makes a note. What transaction N does follows from seed, epoch, worker and N. The one after the
last noted may have happened or not. The server is found by the environment, as psql finds it.
"""

from __future__ import annotations

import os
import sys
import time

from notes import EPOCHS_KEPT, Dice, Notes, cut_power_unless_failed, start

UPKEEP_EVERY = 10
UPKEEP = ["VACUUM rows", "CHECKPOINT", "VACUUM rows", "REINDEX TABLE rows"]
PSQL = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]

Rows = dict[int, tuple[int, str]]
"""Version and body by number."""

# The heap and its indexes must tell the same. pg_amcheck looks at all relations, after a chain's last cut.
CHECKS = (
    "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;",
    "SELECT 'sum', count(*), sum(version), sum(hashtext(body)) FROM rows WHERE version >= 0;",
    "RESET ALL; SET enable_seqscan = off; SET enable_bitmapscan = off;",
    "SELECT 'sum', count(*), sum(version), sum(hashtext(body)) FROM rows WHERE version >= 0;",
    "SELECT bt_index_check(indexrelid, true) FROM pg_index WHERE indrelid = 'rows'::regclass;",
    "SELECT 'heap', * FROM verify_heapam('rows');",
)


class Session:
    """psql as a coprocess."""

    def __init__(self) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        if os.fork() == 0:
            os.dup2(theirs_in, 0)
            os.dup2(theirs_out, 1)
            os.execvp(PSQL[0], PSQL)
        os.close(theirs_in)
        os.close(theirs_out)
        self._input, self._output = ours_out, os.fdopen(ours_in)

    def send(self, statement: str) -> str:
        """Returns the line of output that follows, when the statement is committed."""
        os.write(self._input, statement.encode() + b"\n")
        answer = self._output.readline()
        if not answer:
            raise OSError("psql has ended")
        return answer


def body(*key: int) -> str:
    """A text that says where it belongs."""
    return (" ".join(map(str, key)) + ";") * (1 + Dice(*key).below(60))


def transaction(rows: Rows, seed: int, epoch: int, worker: int, number: int) -> tuple[str, Rows]:
    """The statement of a transaction, and the rows after it."""
    dice = Dice(seed, epoch, worker, number)
    after = dict(rows)
    kind = dice.below(10) if len(rows) > 4 else 0
    chosen = sorted(rows)[dice.below(len(rows))] if rows else 0
    text = body(seed, epoch, worker, number)
    where = f"WHERE epoch = {epoch} AND worker = {worker} AND number = {chosen} RETURNING number;"
    if kind < 6:
        after[number] = (number, text)
        return (
            f"INSERT INTO rows VALUES ({epoch}, {worker}, {number}, {number}, '{text}') RETURNING number;",
            after,
        )
    if kind < 9:
        after[chosen] = (number, text)
        return f"UPDATE rows SET version = {number}, body = '{text}' {where}", after
    del after[chosen]
    return f"DELETE FROM rows {where}", after


def work_of(notes: Notes, seed: int, epoch: int, worker: int) -> None:
    """One worker, until the power is cut."""
    session = Session()
    if worker == 0:  # old rows go, so that there is always something to vacuum
        session.send(f"DELETE FROM rows WHERE epoch <= {epoch - EPOCHS_KEPT}; SELECT 1;")
    rows: Rows = {}
    number = 0
    while True:
        number += 1
        statement, rows = transaction(rows, seed, epoch, worker, number)
        session.send(statement)
        notes.acknowledge(epoch, worker, number)
        if worker == 0 and number % UPKEEP_EVERY == 0:
            session.send(f"{UPKEEP[number // UPKEEP_EVERY % len(UPKEEP)]}; SELECT 1;")


def work(notes: Notes, seed: int, epoch: int, workers: int, cut_after_us: int) -> None:
    for worker in range(workers):
        start(work_of, notes, seed, epoch, worker)
    time.sleep(cut_after_us / 1e6)
    cut_power_unless_failed()


def query(*statements: str) -> tuple[int, list[list[str]]]:
    """psql's exit status and its output by line and column; a failure goes to standard error, too."""
    output, theirs = os.pipe()
    process = os.fork()
    if process == 0:
        os.dup2(theirs, 1)
        os.execvp(PSQL[0], [*PSQL, *(word for statement in statements for word in ("-c", statement))])
    os.close(theirs)
    with os.fdopen(output) as file:
        lines = [line.rstrip("\n").split("|") for line in file]
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), lines


def differences(found: Rows, wanted: Rows) -> list[str]:
    return [
        f"row {number} is {found.get(number)}, should be {wanted.get(number)}"
        for number in sorted(found.keys() | wanted.keys())
        if found.get(number) != wanted.get(number)
    ]


def verify(notes: Notes, seed: int, epoch: int, workers: int) -> int:
    """Everything that was acknowledged before this epoch; returns the exit status."""
    first = max(0, epoch - EPOCHS_KEPT)
    select = f"SELECT 'row', epoch, worker, number, version, body FROM rows WHERE epoch >= {first};"
    status, lines = query(select, *CHECKS)
    damage = complaints(status, lines)
    found: dict[tuple[int, int], Rows] = {}
    for kind, *columns in lines:
        if kind == "row":
            past, worker, number, version = map(int, columns[:4])
            found.setdefault((past, worker), {})[number] = (version, columns[4])
    operations = 0
    for past in range(first, epoch):
        for worker in range(workers):
            last = max(0, notes.acknowledged(past, worker))
            operations += last
            rows: Rows = {}
            for number in range(1, last + 1):
                rows = transaction(rows, seed, past, worker, number)[1]
            following = transaction(rows, seed, past, worker, last + 1)[1]
            seen = found.pop((past, worker), {})
            if seen not in (rows, following):
                damage += [f"epoch {past}, worker {worker}: {each}" for each in differences(seen, rows)]
    damage += [f"epoch and worker {key}: nobody sent these rows" for key in found]
    print(f"verified {operations}")
    print("\n".join(line[:400] for line in damage[:20]))
    return 1 if damage else 0


def complaints(status: int, lines: list[list[str]]) -> list[str]:
    """The damage that PostgreSQL itself finds in its heap and indexes."""
    sums = [line for line in lines if line[0] == "sum"]
    damage = [" | ".join(line) for line in lines if line[0] == "heap"]
    if status:
        damage.append("a query has failed, see standard error")
    elif sums[0] != sums[1]:
        damage.append(f"a sequential scan finds {sums[0]}, an index scan {sums[1]}")
    return damage


def main(mode: str, notes: str, *numbers: str) -> int:
    arguments = list(map(int, numbers))
    if mode == "verify":
        return verify(Notes(notes), *arguments)
    work(Notes(notes), *arguments)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
