# SPDX-License-Identifier: Apache-2.0
"""DuckDB in memory, for Parquet files: it loads no extension and reaches no network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import duckdb

# A large study takes a tenth of this. A damaged file or a careless query that needs more is refused.
_MEMORY_LIMIT: Final = "2GiB"


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
    finally:
        connection.close()
