# SPDX-License-Identifier: Apache-2.0
"""Common to `strata list layers` and `strata list workloads`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from strata.cli.output import stdout
from strata.diagnostics.described_keys import Key
from strata.diagnostics.registry import Registry
from strata.errors import StudyError


def chosen(what: str, name: str | None, known: Registry[Any]) -> list[str]:
    """The one name, or all known ones. Raises StudyError."""
    if name is not None and name not in known:
        raise StudyError(f'there is no {what} "{name}"', place=what.upper(), remedy=known.nearest(name))
    return [name] if name else [*known]


def print_head(name: str, summary: str, text: str) -> None:
    stdout().print(Text.assemble((name, "bold"), f"  {summary}\n"))
    if text:
        stdout().print(Padding(Text(text), (0, 0, 1, 2)))


def print_entry(name: str, detail: str, meaning: str) -> None:
    stdout().print(Text.assemble(name, (detail, "dim")), soft_wrap=True)
    stdout().print(Padding(Text(meaning, "dim"), (0, 0, 0, 6)))


def print_keys(keys: Sequence[Key], allowed: Mapping[str, Mapping[str, tuple[str, ...]]]) -> None:
    """The keys of a table, and the options of other programs that some of them may hold."""
    stdout().print("\n[bold]keys[/bold]" if keys else "\nno keys")
    for key in keys:
        default = "must be given" if key.default is None else f"default: {key.default}"
        print_entry(f"  {key.name}  ", f"{key.takes}; {default}".replace("`", ""), key.description)
    for title, forms in allowed.items():
        stdout().print(f"\n[bold]what may be given as {escape(title)}[/bold]")
        for meaning, names in forms.items():
            stdout().print(Padding(Text(", ".join(names)), (0, 0, 0, 2)))
            stdout().print(Padding(Text(meaning, "dim"), (0, 0, 0, 6)))
