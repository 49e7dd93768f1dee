# SPDX-License-Identifier: Apache-2.0
"""``strata man``: the manual pages, one per command, written from the command line itself."""

from __future__ import annotations

import re
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Annotated, Final

import typer

from strata.cli.output import notes, print_json
from strata.cli.parameters import AsJson
from strata.cli.reference import EXIT_CODES, Command, Parameter, command_tree, walk
from strata.files import make_folder, write_durably

_CODE: Final = re.compile(r"`([^`]+)`")


EXAMPLES: Final = (
    "strata man",
    "man -l build/man/strata-run.1",
    "sudo strata man --output /usr/local/share/man/man1",
)


def man(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write into.")
    ] = Path("build/man"),
    as_json: AsJson = False,
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
    """The page's name without its section: ``strata-lab-build``."""
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
        paragraphs = [(".PP", _text(each)) for each in command.description]
        lines += ['.SH "DESCRIPTION"', *chain(*paragraphs)]
    panel = ""
    lines += ['.SH "COMMANDS"'] if command.commands else []
    for each in command.commands:
        lines += [f'.SS "{_text(each.panel)}"'] if each.panel != panel else []
        panel = each.panel
        lines += _item(each.words[-1], each.summary)
    for title, parameters in (("ARGUMENTS", command.arguments), ("OPTIONS", command.options)):
        lines += [f'.SH "{title}"'] if parameters else []
        for parameter in parameters:
            lines += _parameter(parameter)
    if command.examples:
        lines += ['.SH "EXAMPLES"', ".nf", *(_text(line) for line in command.examples), ".fi"]
    lines += ['.SH "EXIT STATUS"']
    for code in EXIT_CODES:
        lines += _item(str(code.code), code.meaning)
    others = [each for each in walk(root) if command in each.commands]  # the page above; then those below
    pages = [page_name(each) for each in (*others, *command.commands)]
    lines += ['.SH "SEE ALSO"', ", ".join(f"\\fB{_text(page)}\\fR(1)" for page in pages)]
    return "\n".join(lines) + "\n"


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


def _text(text: str) -> str:
    """Text escaped for roff; Markdown code becomes bold."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    marked = _CODE.sub(r"\\fB\1\\fR", plain)
    return f"\\&{marked}" if marked.startswith((".", "'")) else marked
