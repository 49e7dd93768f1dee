# SPDX-License-Identifier: Apache-2.0
"""DuckDB in memory, which everything here that reads or writes Parquet uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb


@contextmanager
def offline_connection(*, threads: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory: everything that is needed is built in, nothing is ever fetched.

    Args:
        threads: One keeps the order of rows; None leaves it to DuckDB.
    """
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    if threads is not None:
        settings["threads"] = threads
    connection = duckdb.connect(":memory:", config=settings)
    try:
        yield connection
    finally:
        connection.close()
