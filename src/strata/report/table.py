# SPDX-License-Identifier: Apache-2.0
"""One table for a terminal, a page, Markdown, CSV, Parquet and JSON.

Its cells are values, whose kind the column has. For people (`terminal`, `html`, `markdown`) they become
quantities with units, for programs (`csv_text`, `parquet`, `objects`) plain numbers.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from markupsafe import Markup, escape
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from strata.fitted import Fitted, Head
from strata.report.spans import PIECES, STYLES, Mark, Tone, as_html, as_markdown, as_rich, escaped, plain
from strata.units import format_value

_NOTHING: Final = "–"
_TEXTS: Final = frozenset({"text", "stack", "workload"})
_TYPES: Final = {**dict.fromkeys(_TEXTS, "VARCHAR"), "truth": "BOOLEAN", "count": "BIGINT"}
_BAR: Final = re.compile(r"(?<!\\)\|")


class Written(str):
    """Markdown, not to be escaped."""

    __slots__ = ()


@dataclass(frozen=True)
class Cell:
    """A value with a unit or tone other than its column's, or a remark, set dim below or behind it.

    The value of a column of text may be a `strata.report.spans.Text`.
    """

    value: Any
    unit: str = ""
    tone: Tone = ""
    remark: str = ""


@dataclass(frozen=True)
class Column:
    """A column of text, truths or numbers; text is set from the left, everything else from the right.

    The unit is ``text``, ``stack`` or ``workload`` (its name), ``truth``, ``count``, ``figure`` (a number as
    text), or one of numbers for `strata.units.format_value`.
    """

    title: str
    unit: str = "text"
    name: str = ""  # the key in data, if other than the title
    meaning: str = ""  # for readers of the data
    is_stack: bool = False  # the heading is a stack's name
    width: int | None = None  # the width in a terminal where there is room, in characters
    tone: Tone = ""  # of the cells without their own
    is_whole: bool = False  # its text is never folded in a terminal
    is_detail: bool = False  # a terminal leaves it out

    @property
    def key(self) -> str:
        return self.name or self.title

    @property
    def sql_type(self) -> str:
        """Its type in DuckDB."""
        return _TYPES.get(self.unit, "DOUBLE")

    @property
    def is_left(self) -> bool:
        return self.unit in _TEXTS


@dataclass(frozen=True)
class Table:
    """Rows of values under headings; ``note`` qualifies the title, ``name`` is the key in data."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    note: str = ""
    is_headed: bool = True
    name: str = ""


def columns(*titles: str | tuple[str, str] | tuple[str, str, str]) -> tuple[Column, ...]:
    """Columns by their titles, or by titles, units and keys in data."""
    return tuple(Column(each) if isinstance(each, str) else Column(*each) for each in titles)


def facts(rows: Iterable[tuple[Any, Any]]) -> Table:
    """A name and a value in each row, without headings; values that are empty text are left out."""
    shown = [row for row in rows if row[1] != ""]
    return Table((Column("", tone="dim", is_whole=True), Column("")), shown, is_headed=False)


def _cell(value: Any, column: Column) -> Cell:
    return value if isinstance(value, Cell) else Cell(value, tone=column.tone)


def _text(cell: Cell, column: Column) -> Any:
    """The text of a cell, for people."""
    value, unit = cell.value, cell.unit or column.unit
    if value is None:
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (str, tuple, *PIECES)):
        return value
    if unit in _TEXTS or unit == "figure":
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"{value:,}" if unit == "count" else format_value(value, unit)


def terminal(table: Table, *, indent: int = 0) -> RenderableType:
    """For a terminal of any width."""
    heads = [
        Head(
            column.title,
            is_left=column.is_left,
            is_whole=column.is_whole or not (column.is_left or index == 0),
            wanted=column.width or 0,
        )
        for index, column in enumerate(table.columns)
        if not column.is_detail
    ]
    rows = [
        [_rich(*each) for each in zip(row, table.columns, strict=True) if not each[1].is_detail]
        for row in table.rows
    ]
    made = Fitted(heads, rows, is_headed=table.is_headed)
    body = Padding(made, (0, 0, 0, indent)) if indent else made
    if not table.title:
        return body
    return Group(Text.assemble((table.title, "bold"), (f"  {table.note}" if table.note else "", "dim")), body)


def _rich(value: Any, column: Column) -> Text:
    if isinstance(value, Text):
        return value
    cell = _cell(value, column)
    tone: Tone = cell.tone or ("dim" if cell.value is None else "")
    text = as_rich(_text(cell, column), STYLES.get(tone, ""))
    return text.append(f"\n{cell.remark}", style="dim") if cell.remark else text


def html(table: Table, mark: Mark = escape, *, label: str = "") -> Markup:
    """For a page: ``mark`` sets a stack's name, ``label`` is read aloud."""
    head = Markup("").join(
        _heading(column, mark, first=not index) for index, column in enumerate(table.columns)
    )
    caption = Markup("")
    if table.title:
        note = Markup(" <span>{}</span>").format(table.note) if table.note else ""
        caption = Markup("<caption>{}{}</caption>\n").format(table.title, note)
    return Markup(
        '<div class="table" role="group" aria-label="{}">\n'
        "<table>\n{}{}<tbody>\n{}</tbody>\n</table>\n</div>\n"
    ).format(
        label or table.title or "Numbers",
        caption,
        Markup("<thead><tr>{}</tr></thead>\n").format(head) if table.is_headed else "",
        Markup("").join(_html_row(row, table.columns, mark) for row in table.rows),
    )


def _heading(column: Column, mark: Mark, *, first: bool) -> Markup:
    if column.is_stack:
        return Markup('<th scope="col" data-stack="{}">{}</th>').format(column.title, mark(column.title))
    text = Markup(' class="text"') if column.is_left and not first else ""
    return Markup('<th scope="col"{}>{}</th>').format(text, column.title)


def _html_row(row: Sequence[Any], heads: Sequence[Column], mark: Mark) -> Markup:
    cells, row_of = [], Markup("")
    for index, (value, column) in enumerate(zip(row, heads, strict=True)):
        cell = _cell(value, column)
        shown = _text(cell, column)
        words = shown if isinstance(shown, Markup) else as_html(shown, mark)
        if column.unit in {"stack", "workload"}:
            row_of += Markup(' data-{}="{}"').format(column.unit, shown)
            words = mark(shown) if column.unit == "stack" and cell.value is not None else words
        elif cell.tone == "code":
            words = Markup('<code class="hash">{}</code>').format(words)
        remark = Markup("<small>{}</small>").format(as_html(cell.remark, mark)) if cell.remark else ""
        kinds = [*(["text"] if column.is_left and index else []), *([f"is-{cell.tone}"] if cell.tone else [])]
        attributes = Markup(' class="{}"').format(" ".join(kinds)) if kinds else Markup("")
        if column.is_stack:
            attributes += Markup(' data-stack="{}"').format(column.title)
        element = 'th scope="row"' if not index else "td"
        cells.append(
            Markup(f"<{element}{{}}>{{}}{{}}</{element[:2]}>").format(attributes, words, remark)  # noqa: S704
        )
    return Markup("<tr{}>{}</tr>\n").format(row_of, Markup("").join(cells))


def markdown(table: Table) -> str:
    """For an article or a ticket: the title, the table and an empty line, or nothing without rows."""
    if not table.rows:
        return ""
    title = f"{table.title}{f'; {table.note}' if table.note else ''}.\n\n" if table.title else ""
    heads = [each.title if table.is_headed else "" for each in table.columns]
    lines = [map(_markdown_text, heads), (":--" if each.is_left else "--:" for each in table.columns)]
    for row in table.rows:
        lines.append(_markdown_cell(value, column) for value, column in zip(row, table.columns, strict=True))
    return title + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def _markdown_cell(value: Any, column: Column) -> str:
    cell = _cell(value, column)
    words = _markdown_text(_text(cell, column))
    if cell.tone in {"best", "better", "worse", "strong"} and words:
        words = f"**{words}**"
    return f"{words} ({escaped(cell.remark)})" if cell.remark else words


def _markdown_text(words: Any) -> str:
    if isinstance(words, Written):
        return " ".join(words.replace("|", "\\|").split())
    return _BAR.sub(r"\\|", as_markdown(words))


def _data(value: Any) -> Any:
    value = value.value if isinstance(value, Cell) else value
    return plain(value) if isinstance(value, (tuple, *PIECES)) else value


def objects(table: Table) -> list[dict[str, Any]]:
    """For JSON: an object for each row, its keys the columns' names."""
    keys = [each.key for each in table.columns]
    return [dict(zip(keys, map(_data, row), strict=True)) for row in table.rows]


def csv_text(table: Table) -> str:
    """Comma-separated, with a header; numbers have all their digits, unknown values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(each.key for each in table.columns)
    for row in table.rows:
        values = map(_data, row)
        writer.writerow(str(value).lower() if isinstance(value, bool) else value for value in values)
    return text.getvalue()


def parquet(table: Table) -> bytes:
    """A Parquet file, in the order of the rows; its bytes are the same with one version of DuckDB."""
    from strata.database import offline_connection, table_file  # noqa: PLC0415  DuckDB takes half a second to load

    with TemporaryDirectory(prefix="strata-export-") as folder, offline_connection(threads=1) as connection:
        lines, file = Path(folder) / "rows.jsonl", Path(folder) / "table.parquet"
        lines.write_text("".join(json.dumps(row) + "\n" for row in objects(table)), encoding="utf-8")
        types = {column.key: column.sql_type for column in table.columns}
        found = connection.read_json(table_file(lines), format="newline_delimited", columns=types)
        found.write_parquet(str(file))
        return file.read_bytes()
