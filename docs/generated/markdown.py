# SPDX-License-Identifier: Apache-2.0
"""The little Markdown that the generated pages are written in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from strata.report.table import Table, Written, columns, markdown

_ROLE = re.compile(r"``([^`]+)``")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; without rows nothing."""
    return markdown(Table(columns(*head), [[Written(each) for each in row] for row in rows]))


def code(text: object) -> str:
    """Something as it is typed; of nothing: nothing."""
    return f"`{text}`" if str(text) else ""


def codes(texts: Iterable[object]) -> str:
    """Several of these."""
    return ", ".join(code(each) for each in texts)


def block(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{language}\n{text.strip()}\n```\n\n"


def prose(text: str) -> str:
    """A docstring's text, whose code is in double quotes, as Markdown; paragraphs are kept."""
    paragraphs = [" ".join(each.split()) for each in _ROLE.sub(r"`\1`", text).split("\n\n")]
    return "\n\n".join(_plain(each) for each in paragraphs if each)


def _plain(paragraph: str) -> str:
    """Outside of code nothing is meant as markup: ``*`` and ``<part>`` stand for themselves."""
    pieces = re.split(r"(`[^`]*`)", paragraph)
    return "".join(
        each if each.startswith("`") else re.sub(r"([*_<>\[\]\\])", r"\\\1", each) for each in pieces
    )
