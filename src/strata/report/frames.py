# SPDX-License-Identifier: Apache-2.0
"""The tables of a study's results for notebooks: Arrow, and pandas and Polars on Arrow's own memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from strata.errors import optional
from strata.report.data import TABLES
from strata.report.document import Document
from strata.report.query import derived_tables
from strata.report.table import Table
from strata.results.store import ResultsFolder
from strata.words import counted

_SHOWN_ROWS: Final = 10


@dataclass(frozen=True)
class ResultTable:
    """A table of a study's results, read from its Parquet file when it is first used."""

    name: str
    folder: ResultsFolder = field(repr=False)

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``. Raises ToolError without pyarrow."""
        return self._arrow

    @cached_property
    def _arrow(self) -> Any:
        parquet = optional("pyarrow.parquet", "a table in Arrow's memory")
        with derived_tables(self.folder) as place:
            return parquet.read_table(place / f"{self.name}.parquet")

    def to_polars(self) -> Any:
        """A ``polars.DataFrame`` whose numbers lie in Arrow's memory. Raises ToolError without Polars."""
        return optional("polars", "a Polars frame").from_arrow(self._arrow)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` whose columns are Arrow's. Raises ToolError without pandas."""
        pandas = optional("pandas", "a pandas frame")
        return self._arrow.to_pandas(types_mapper=pandas.ArrowDtype)

    def _repr_html_(self) -> str:
        first = self._arrow.slice(0, _SHOWN_ROWS)
        rows = zip(*(column.to_pylist() for column in first.columns), strict=True)
        note = f"{counted(self._arrow.num_rows, 'row')}, each {TABLES[self.name].about}"
        return Document([Table(TABLES[self.name].columns, [*rows], self.name, note)])._repr_html_()
