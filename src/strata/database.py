# SPDX-License-Identifier: Apache-2.0
"""DuckDB in memory, for Parquet files and strangers' patterns: no extension is loaded, no network reached."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Final, TypeVar

import duckdb

# A large study takes a tenth of this. A damaged file or a careless query that needs more is refused.
_MEMORY_LIMIT: Final = "2GiB"

_LOOK_S: Final = 0.1
_Found = TypeVar("_Found")


@contextmanager
def offline_connection(*, threads: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory that fetches nothing; one thread keeps the order of rows."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "memory_limit": _MEMORY_LIMIT,
        "temp_directory": "",  # it would be made in the folder that the user happens to be in
    }
    if threads is not None:
        settings["threads"] = threads
    connection = duckdb.connect(":memory:", config=settings)
    try:
        yield connection
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # DuckDB has this in place of a signal's exception
            raise KeyboardInterrupt from error
        raise
    finally:
        connection.close()


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], _Found]) -> _Found:
    """What ``work`` on a connection returns or raises; a signal's exception ends it at once.

    DuckDB lets no handler of Python's run while it works, so that happens in another thread.
    """
    done: Future[_Found] = Future()

    def carry_out() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # raised by `result`
            done.set_exception(error)

    Thread(target=carry_out, daemon=True).start()
    try:
        while not done.done():
            wait([done], _LOOK_S)
    except BaseException:
        while not done.done():  # an interruption between two parts of the work is forgotten
            connection.interrupt()
            wait([done], _LOOK_S)
        raise
    return done.result()


def table_file(path: Path) -> str:
    """The name of one file for DuckDB, which takes names for patterns: ``a[1]`` would read ``a1``."""
    return glob.escape(str(path))


def found_by(pattern: str, text: str) -> list[str]:
    """The text of a pattern's first group in each of its matches; ``^`` and ``$`` match at lines.

    The engine is RE2: its time grows with the text, whatever the pattern. Python's may never end. Raises
    ValueError for a pattern that RE2 does not take, such as one that looks ahead.
    """
    with offline_connection(threads=1) as connection:
        try:
            row = connection.execute(
                "SELECT regexp_extract_all(?, ?, 1)", [text, f"(?m){pattern}"]
            ).fetchone()
        except duckdb.Error as error:
            raise ValueError(str(error).partition("Error: ")[2].partition(": (?m)")[0]) from error
    return [each for each in (row[0] if row else ()) if each is not None]
