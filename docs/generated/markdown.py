# SPDX-License-Identifier: Apache-2.0
"""The Markdown of the generated pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import BaseModel

from strata.report.table import Table, Written, columns, markdown

_ROLE: Final = re.compile(r"``([^`]+)``")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown, or nothing without rows."""
    return markdown(Table(columns(*head), [[Written(each) for each in row] for row in rows]))


def code(text: object) -> str:
    """Text as typed; empty text stays empty."""
    return f"`{text}`" if str(text) else ""


def codes(texts: Iterable[object]) -> str:
    """Several of them, separated by commas."""
    return ", ".join(code(each) for each in texts)


def keys_table(model: type[BaseModel]) -> str:
    """The keys of a table of a file, by their descriptions."""
    rows = [
        (code(info.alias or name), "yes" if info.is_required() else "", prose(f"{info.description}."))
        for name, info in model.model_fields.items()
    ]
    return table(("Key", "Required", "Meaning"), rows)


def allowed_table(forms: Mapping[str, Sequence[str]]) -> str:
    """The options of another program, by the meaning of their values."""
    return table(("Option", "Takes"), [(codes(names), prose(meaning)) for meaning, names in forms.items()])


def block(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{language}\n{text.strip()}\n```\n\n"


def prose(text: str) -> str:
    """A docstring, whose code is in double backticks, as Markdown; paragraphs are kept."""
    paragraphs = [" ".join(each.split()) for each in _ROLE.sub(r"`\1`", text).split("\n\n")]
    return "\n\n".join(_plain(each) for each in paragraphs if each)


def _plain(paragraph: str) -> str:
    """Escape markup outside of code: ``*`` and ``<part>`` stand for themselves."""
    pieces = re.split(r"(`[^`]*`)", paragraph)
    return "".join(
        each if each.startswith("`") else re.sub(r"([*_<>\[\]\\])", r"\\\1", each) for each in pieces
    )
