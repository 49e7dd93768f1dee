# SPDX-License-Identifier: Apache-2.0
"""The command line as data, for the manual pages and the documentation's reference."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import typer
from rich.text import Text
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from strata.cli.application import INTERRUPTED_EXIT
from strata.errors import LabError, PlanError, ResultError, RunError, StrataError, ToolError


class ExitCode(NamedTuple):
    code: int
    meaning: str


EXIT_CODES: Final = (
    ExitCode(0, "done, and where a verdict was asked for, it is good"),
    ExitCode(
        StrataError.exit_code,
        "the verdict is bad (compare, validate, lab power-cut), or something else failed",
    ),
    ExitCode(PlanError.exit_code, "a mistake in the command, or in a study or device file"),
    ExitCode(ToolError.exit_code, "a program, a package or a privilege is missing"),
    ExitCode(LabError.exit_code, "the lab could not be built, or did not boot"),
    ExitCode(RunError.exit_code, "a trial failed; the others have their results"),
    ExitCode(ResultError.exit_code, "a results folder cannot be read or written"),
    ExitCode(INTERRUPTED_EXIT, "interrupted (Ctrl-C); what was finished is kept"),
)


@dataclass(frozen=True)
class Parameter:
    """An argument or an option."""

    names: tuple[str, ...]  # of an option ("--output", "-o"); of an argument its name in the usage
    is_argument: bool
    required: bool
    repeatable: bool
    value: str  # such as DIR or <int>; empty for a switch
    choices: tuple[str, ...]
    default: str  # as the help shows it
    help: str  # with Markdown's `code`


@dataclass(frozen=True)
class Command:
    """A command, or a group of commands."""

    words: tuple[str, ...]  # ("strata", "lab", "build")
    panel: str  # of the overview of `strata --help`; empty below a group
    summary: str  # one line, without a full stop
    description: tuple[str, ...]  # further paragraphs, with Markdown's `code`
    usage: str  # the first line of `--help`, without "Usage:"
    arguments: tuple[Parameter, ...]
    options: tuple[Parameter, ...]
    examples: tuple[str, ...]
    commands: tuple[Command, ...]

    @property
    def name(self) -> str:
        return " ".join(self.words)


def command_tree(app: typer.Typer | None = None) -> Command:
    """The whole command line of an application, by default Strata's, without hidden commands."""
    from strata.cli import app as own  # noqa: PLC0415  which imports this module's command

    root = get_command(app or own)
    return _command(root, typer.Context(root, info_name="strata", **root.context_settings), ("strata",))


def walk(command: Command) -> Iterator[Command]:
    """A command and all commands below it, in the order of the overview."""
    yield command
    for each in command.commands:
        yield from walk(each)


def _command(command: Any, context: typer.Context, words: tuple[str, ...]) -> Command:
    summary, *description = _paragraphs(command.help or "")
    shown = [each for each in command.get_params(context) if not getattr(each, "hidden", False)]
    options = tuple(_parameter(each, context) for each in shown if isinstance(each, TyperOption))
    below = []
    if isinstance(command, TyperGroup):
        for name in command.list_commands(context):
            found = command.resolve_command(context, [name])[1]
            if found is not None and not found.hidden:
                inner = typer.Context(found, parent=context, info_name=name)
                below.append(_command(found, inner, (*words, name)))
    return Command(
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


def _parameter(parameter: Any, context: typer.Context) -> Parameter:
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
    return Parameter(
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
