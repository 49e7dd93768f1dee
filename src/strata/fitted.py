# SPDX-License-Identifier: Apache-2.0
"""A table that fits a terminal of any width without breaking a word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_GAP: Final = 2  # between columns
_INDENT: Final = 2  # of what belongs to a row, where the rows are blocks of lines


@dataclass(frozen=True)
class Head:
    """A column's heading, and how its cells are set.

    Attributes:
        is_left: Its cells begin at the left; else they end at the right, as numbers do.
        is_whole: The first line of a cell is not folded; others are, between words.
        wanted: Its width in characters, where there is room: several tables are then aligned.
    """

    title: str
    is_left: bool = True
    is_whole: bool = False
    wanted: int = 0


@dataclass(frozen=True)
class Fitted:
    """Rows under headings.

    The columns are as wide as their text, or fold it between words. If even that is too wide, each row
    becomes a block below the first heading: its first cell, then a line for each other cell with its heading.
    """

    heads: Sequence[Head]
    rows: Sequence[Sequence[Text]]
    is_headed: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self.widths(options.max_width)
        if widths is not None:
            yield self._table(widths)
        else:
            yield from self._blocks(options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        wanted = sum(self._natural) + _GAP * (len(self.heads) - 1)
        return Measurement(min(wanted, options.max_width), min(wanted, options.max_width))

    def widths(self, available: int) -> list[int] | None:
        """The columns' widths; None if no widths keep all words whole."""
        least, natural = self._least, self._natural
        free = available - sum(least) - _GAP * (len(least) - 1)
        if free < 0:
            return None
        # Columns that need little more than their words get it first: fewer are folded.
        found = list(least)
        wanting = sorted(range(len(least)), key=lambda index: natural[index] - least[index])
        for done, index in enumerate(wanting):
            more = min(natural[index] - least[index], free // (len(wanting) - done))
            found[index] += more
            free -= more
        return found

    @property
    def _least(self) -> list[int]:
        """The width of each column's longest part that is not folded."""
        return [
            max(
                _longest(titled.title.split()),
                *(_unfolded(text, is_whole=head.is_whole) for text in texts),
                0,
            )
            for head, titled, texts in zip(self.heads, self._titled, self._texts, strict=True)
        ]

    @property
    def _natural(self) -> list[int]:
        return [
            max(head.wanted, *(_longest(each.splitlines()) for each in (titled.title, *texts)))
            for head, titled, texts in zip(self.heads, self._titled, self._texts, strict=True)
        ]

    @property
    def _texts(self) -> list[list[str]]:
        """The texts of each column."""
        return [[row[index].plain for row in self.rows] for index in range(len(self.heads))]

    @property
    def _titled(self) -> Sequence[Head]:
        return self.heads if self.is_headed else [Head("")] * len(self.heads)

    def _table(self, widths: Sequence[int]) -> Table:
        made = Table(
            box=None, pad_edge=False, show_header=self.is_headed, header_style="dim", padding=(0, _GAP, 0, 0)
        )
        for head, width in zip(self.heads, widths, strict=True):
            made.add_column(
                Text(head.title), justify="left" if head.is_left else "right", overflow="fold", width=width
            )
        for row in self.rows:
            made.add_row(*row)
        return made

    def _blocks(self, available: int) -> Iterator[Text | Padding]:
        within = available - _INDENT
        if self._titled[0].title:
            yield Text(self._titled[0].title, "dim")
        for row in self.rows:
            yield row[0]
            cells = [
                (Text(head.title, "dim"), cell)
                for head, cell in zip(self._titled[1:], row[1:], strict=True)
                if cell.plain
            ]
            if not cells:
                continue
            label = Head("", is_whole=True)
            beside = Fitted([label, Head("")], cells, is_headed=False)
            if beside.widths(within) is not None:
                yield Padding(beside, (0, 0, 0, _INDENT))
                continue
            for title, cell in cells:
                yield Padding(title, (0, 0, 0, _INDENT))
                yield Padding(cell, (0, 0, 0, 2 * _INDENT))


def _longest(parts: Sequence[str]) -> int:
    return max(map(cell_len, parts), default=0)


def _unfolded(text: str, *, is_whole: bool) -> int:
    first, _, others = text.partition("\n")
    return _longest([*([first] if is_whole else first.split()), *others.split()])
