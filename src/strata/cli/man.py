# SPDX-License-Identifier: Apache-2.0
"""``strata man``: the manual pages, and the command line as data, from which they are written."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.text import Text
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from strata import __version__
from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.output import notes, print_json
from strata.cli.parameters import AsJson, option
from strata.errors import LabError, PlanError, ResultError, RunError, StrataError, ToolError
from strata.files import make_folder, write_durably

_CODE: Final = re.compile(r"`([^`]+)`")


def man(
    output: Annotated[Path, option("The folder to write into.", "--output", "-o", "DIR")] = Path("build/man"),
    as_json: AsJson = False,
) -> None:
    """Write the manual pages, one per command.

    Examples:
        strata man
        man -l build/man/strata-run.1
        sudo strata man --output /usr/local/share/man/man1
    """
    output = output.resolve()
    make_folder(output)
    wrote = []
    root = command_tree()
    for command in walk(root):
        path = output / f"{page_name(command)}.1"
        write_durably(path, manual_page(command, root).encode())
        wrote.append(str(path))
    if as_json:
        print_json(wrote=wrote)
    else:
        notes().print(f"wrote {len(wrote)} pages; the first: man -l {wrote[0]}", soft_wrap=True)


def page_name(command: ManualPage) -> str:
    return "-".join(command.words)


def manual_page(command: ManualPage, root: ManualPage) -> str:
    """A command's page in roff with the macros of man(7)."""
    name = page_name(command)
    above = [each for each in walk(root) if command in each.commands]
    pages = (f"{page_name(each)}(1)" for each in (*above, *command.commands))
    sections = {
        "NAME": [_text(f"{name} - {command.summary}")],
        "SYNOPSIS": [_text(command.usage)],
        "DESCRIPTION": [line for each in command.description for line in (".PP", _text(each))],
        "COMMANDS": _items((each.words[-1], each.summary) for each in command.commands),
        "ARGUMENTS": _items(map(_parameter_words, command.arguments)),
        "OPTIONS": _items(map(_parameter_words, command.options)),
        "EXAMPLES": [".nf", *map(_text, command.examples), ".fi"] if command.examples else [],
        "EXIT STATUS": _items((str(each.code), each.meaning) for each in EXIT_CODES),
        "SEE ALSO": [_text(", ".join(pages))],
    }
    head = f'.TH "{name.upper()}" 1 "" "Strata {__version__}" "Strata"'
    lines = ['.\\" Written by `strata man` from the command line itself.', head]
    for title, content in sections.items():
        lines += [f'.SH "{title}"', *content] if content else []
    return "\n".join(lines) + "\n"


def _parameter_words(each: CommandParameter) -> tuple[str, str]:
    """The names and the value of a parameter, and everything that is said of it."""
    said = each.help
    if each.default:
        said += f" Default: {each.default}."
    if each.repeatable and not each.is_argument and "repeat" not in said:
        said += " May be repeated."
    value = f" {each.value}" if each.value and not each.is_argument else ""
    return f"{', '.join(each.names)}{value}", said


def _items(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [line for term, text in rows for line in (".TP", f".B {_text(term)}", _text(text))]


def _text(text: str) -> str:
    """Text escaped for roff; Markdown code becomes bold."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    marked = _CODE.sub(r"\\fB\1\\fR", plain)
    return f"\\&{marked}" if marked.startswith((".", "'")) else marked


class ExitCode(NamedTuple):
    code: int
    meaning: str


EXIT_CODES: Final = (
    ExitCode(0, "done, and where a verdict was asked for, it is good"),
    ExitCode(
        StrataError.exit_code,
        "the verdict is bad (compare, gate, claims, validate, lab power-cut), or something else failed",
    ),
    ExitCode(PlanError.exit_code, "a mistake in the command, or in a study, claims or device file"),
    ExitCode(ToolError.exit_code, "a program, a package or a privilege is missing"),
    ExitCode(LabError.exit_code, "the lab could not be built, or did not boot"),
    ExitCode(RunError.exit_code, "a trial failed; the others have their results"),
    ExitCode(ResultError.exit_code, "a results folder cannot be read or written"),
    ExitCode(INTERRUPTED_EXIT, "interrupted (Ctrl-C); what was finished is kept"),
)


@dataclass(frozen=True)
class CommandParameter:
    names: tuple[str, ...]  # of an option ("--output", "-o"); of an argument its name in the usage
    is_argument: bool
    required: bool
    repeatable: bool
    value: str  # such as DIR or <int>; empty for a switch
    choices: tuple[str, ...]
    default: str  # as the help shows it
    help: str  # with Markdown's `code`


@dataclass(frozen=True)
class ManualPage:
    words: tuple[str, ...]  # ("strata", "lab", "build")
    panel: str  # of the overview of `strata --help`; empty below a group
    summary: str  # one line, without a full stop
    description: tuple[str, ...]  # further paragraphs, with Markdown's `code`
    usage: str  # the first line of `--help`, without "Usage:"
    arguments: tuple[CommandParameter, ...]
    options: tuple[CommandParameter, ...]
    examples: tuple[str, ...]
    commands: tuple[ManualPage, ...]

    @property
    def name(self) -> str:
        return " ".join(self.words)


def command_tree(*, hidden: bool = False) -> ManualPage:
    """Strata's whole command line; also its hidden commands, or without them."""
    from strata.cli import app  # noqa: PLC0415  which imports this module's command

    root = get_command(app)
    context = typer.Context(root, info_name="strata", **root.context_settings)
    return _command(root, context, ("strata",), hidden=hidden)


def walk(command: ManualPage) -> Iterator[ManualPage]:
    """A command and all commands below it, in the order of the overview."""
    yield command
    for each in command.commands:
        yield from walk(each)


def _command(command: Any, context: typer.Context, words: tuple[str, ...], *, hidden: bool) -> ManualPage:
    summary, *description = _paragraphs(command.help or "")
    shown = [each for each in command.get_params(context) if not getattr(each, "hidden", False)]
    options = tuple(_parameter(each, context) for each in shown if isinstance(each, TyperOption))
    below = []
    if isinstance(command, TyperGroup):
        for name in command.list_commands(context):
            found = command.resolve_command(context, [name])[1]
            if found is not None and (hidden or not found.hidden):
                inner = typer.Context(found, parent=context, info_name=name)
                below.append(_command(found, inner, (*words, name), hidden=hidden))
    return ManualPage(
        words=words,
        panel=getattr(command, "rich_help_panel", None) or "",
        summary=summary.removesuffix("."),
        description=tuple(description),
        usage=" ".join([*words, *command.collect_usage_pieces(context)]),
        arguments=tuple(_parameter(each, context) for each in shown if not isinstance(each, TyperOption)),
        options=options,
        examples=_examples(command.epilog or ""),
        commands=tuple(below),
    )


def _parameter(parameter: Any, context: typer.Context) -> CommandParameter:
    is_option = isinstance(parameter, TyperOption)
    takes = parameter.type_descriptor
    is_switch = is_option and parameter.is_flag
    choices = tuple(str(getattr(each, "value", each)) for each in takes.choices or ())
    shown = parameter.show_default
    default = parameter._extract_default_help_str(ctx=context)  # typer has it for its own help alone
    text = (
        parameter._get_default_string(
            ctx=context, show_default_is_str=isinstance(shown, str), default_value=default
        )
        if isinstance(shown, str) or (shown and default is not None)
        else ""
    )
    value = "" if is_switch else parameter.metavar or parameter.display_type(context)
    return CommandParameter(
        names=tuple(sorted(parameter.opts, key=len, reverse=True)) if is_option else (value,),
        is_argument=not is_option,
        required=parameter.required,
        repeatable=getattr(parameter, "multiple", False) or parameter.nargs == -1,
        value=value,
        choices=choices,
        default=text,
        help=_plain(parameter.help or ""),
    )


def _paragraphs(text: str) -> list[str]:
    found = [" ".join(each.split()) for each in _plain(inspect.cleandoc(text)).split("\n\n")]
    return [each for each in found if each] or [""]


def _examples(epilogue: str) -> tuple[str, ...]:
    _title, *lines = _plain(inspect.cleandoc(epilogue)).split("\n\n")[0].splitlines() or [""]
    return tuple(lines)


def _plain(text: str) -> str:
    return Text.from_markup(text).plain
