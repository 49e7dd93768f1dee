# SPDX-License-Identifier: Apache-2.0
"""What blocks say: all of them in a row, their texts, their tables by title."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strata.report.document import Block, Bullets, Fold, Group, Heading, Item, Note, Paragraph, Section, Terms
from strata.report.report import Report
from strata.report.sections import sections
from strata.report.spans import Text, plain
from strata.report.table import Table


def walked(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks, and the blocks within them."""
    for block in blocks:
        yield block
        within: Iterable[Block] = ()
        if isinstance(block, (Note, Fold, Group, Section)):
            within = block.blocks
        elif isinstance(block, (Bullets, Terms)):
            items = block.items if isinstance(block, Bullets) else [meaning for _, meaning in block.rows]
            within = [inner for item in items if isinstance(item, Item) for inner in item.blocks]
        yield from walked(within)


def texts(blocks: Iterable[Block]) -> list[str]:
    """The texts of paragraphs, headings, lists and terms, without form."""
    found: list[str] = []
    for block in walked(blocks):
        match block:
            case Paragraph(text) | Heading(text):
                found.append(plain(text))
            case Bullets(items):
                found += [_text(item) for item in items]
            case Terms(rows):
                found += [f"{plain(name)}: {_text(meaning)}" for name, meaning in rows]
    return found


def _text(item: Text | Item) -> str:
    return plain(item.text if isinstance(item, Item) else item)


def tables(blocks: Iterable[Block]) -> dict[str, Table]:
    return {block.title: block for block in walked(blocks) if isinstance(block, Table)}


def section(report: Report, name: str) -> Section | None:
    return next((each for each in sections(report) if each.name == name), None)
