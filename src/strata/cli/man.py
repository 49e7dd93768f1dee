# SPDX-License-Identifier: Apache-2.0
"""``strata man``: the manual pages, one per command, written from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

import typer

from strata.cli.application import examples
from strata.cli.output import notes, print_json
from strata.cli.reference import EXIT_CODES, Command, Parameter, command_tree, walk
from strata.durable import make_folder, write_durably

_DEFAULT: Final = Path("build/man")
_CODE: Final = re.compile(r"`([^`]+)`")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "man",
        epilog=examples(
            "strata man",
            "man -l build/man/strata-run.1",
            "sudo strata man --output /usr/local/share/man/man1",
        ),
    )(man)


def man(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write into.")
    ] = _DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="The names of the files, as JSON.")] = False,
) -> None:
    """Write the manual pages, one per command."""
    output = output.resolve()
    make_folder(output)
    wrote = []
    root = command_tree()
    for command in walk(root):
        path = output / f"{page_name(command)}.1"
        write_durably(path, manual_page(command, root).encode())
        wrote.append(str(path))
    if as_json:
        print_json({"wrote": wrote})
    else:
        notes().print(f"wrote {len(wrote)} pages; the first: man -l {wrote[0]}", soft_wrap=True)


def page_name(command: Command) -> str:
    """The page's name without its section, as man is asked for it: ``strata-lab-build``."""
    return "-".join(command.words)


def manual_page(command: Command, root: Command) -> str:
    """A command's page in roff with the macros of man(7)."""
    name = page_name(command)
    lines = [
        '.\\" Written by `strata man` from the command line itself.',
        f'.TH "{name.upper()}" 1 "" "Strata {version("strata")}" "Strata"',
        '.SH "NAME"',
        f"{_text(name)} \\- {_text(command.summary)}",
        '.SH "SYNOPSIS"',
        f".B {_text(command.name)}",
        _text(command.usage.removeprefix(command.name).strip()),
    ]
    if command.description:
        lines += ['.SH "DESCRIPTION"', *_paragraphs(command.description)]
    if command.commands:
        lines += _overview(command)
    for title, parameters in (("ARGUMENTS", command.arguments), ("OPTIONS", command.options)):
        if parameters:
            lines += [f'.SH "{title}"', *(line for each in parameters for line in _parameter(each))]
    if command.examples:
        lines += ['.SH "EXAMPLES"', ".nf", *(_text(line) for line in command.examples), ".fi"]
    lines += [
        '.SH "EXIT STATUS"',
        *(line for each in EXIT_CODES for line in _item(str(each.code), each.meaning)),
    ]
    lines += ['.SH "SEE ALSO"', _see_also(command, root)]
    return "\n".join(lines) + "\n"


def _overview(group: Command) -> Iterator[str]:
    yield '.SH "COMMANDS"'
    panel = ""
    for each in group.commands:
        if each.panel != panel:
            panel = each.panel
            yield f'.SS "{_text(panel)}"'
        yield from _item(each.words[-1], each.summary)


def _parameter(each: Parameter) -> list[str]:
    said = each.help
    if each.default:
        said += f" Default: {each.default}."
    if each.repeatable and not each.is_argument and "repeat" not in said:
        said += " May be repeated."
    value = f" {each.value}" if each.value and not each.is_argument else ""
    return _item(f"{', '.join(each.names)}{value}", said)


def _item(term: str, text: str) -> list[str]:
    return [".TP", f".B {_text(term)}", _text(text)]


def _paragraphs(paragraphs: Sequence[str]) -> Iterator[str]:
    for each in paragraphs:
        yield ".PP"
        yield _text(each)


def _see_also(command: Command, root: Command) -> str:
    """The page above it and those below it; of the overview all."""
    pages = [page_name(each) for each in command.commands]
    above = [each for each in walk(root) if command in each.commands]
    return ", ".join(f"\\fB{_text(name)}\\fR(1)" for name in [*(page_name(each) for each in above), *pages])


def _text(text: str) -> str:
    """Text as roff takes it literally; what Markdown marks as code is bold."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    marked = _CODE.sub(r"\\fB\1\\fR", plain)
    return f"\\&{marked}" if marked.startswith((".", "'")) else marked
