# SPDX-License-Identifier: Apache-2.0
"""What all commands share: ``--quiet``, completion, an end by Ctrl-C; and their import on use."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from strata.cli.complete import COMPLETERS
from strata.cli.output import ask_quiet, is_quiet

INTERRUPTED_EXIT: Final = 130
EXAMPLES_TITLE: Final = "Examples"

Function = TypeVar("Function", bound=Callable[..., Any])
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result and errors, nothing else.")]


def examples(*lines: str, title: str = EXAMPLES_TITLE) -> str:
    """A command's epilogue with examples, a line each.

    `strata.cli.reference` parses it for the manual pages and the documentation.
    """
    shown = "\n".join(lines)
    if "[" in shown:
        from rich.markup import escape  # noqa: PLC0415  most examples do without, and rich loads slowly

        shown = escape(shown)
    return f"[bold]{title}[/bold]\n{shown}"


class Application(typer.Typer):
    """A typer application that gives every command the shared behaviour.

    Attributes:
        panel: The panel of the overview for commands registered from now on.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(rich_markup_mode="rich", pretty_exceptions_enable=False, **given)
        self.panel: str | None = None

    def command(self, *words: Any, **given: Any) -> Callable[[Function], Function]:
        """Like typer's, adding ``--quiet``, completion of values, and a place in the overview."""
        given.setdefault("rich_help_panel", self.panel)
        register = super().command(*words, **given)

        def add(function: Function) -> Function:
            register(_with_common(function))
            return function

        return add

    def callback(self, **given: Any) -> Callable[[Function], Function]:
        """Like typer's, for a group that does something by itself."""
        register = super().callback(**given)

        def add(function: Function) -> Function:
            register(_with_common(function))
            return function

        return add

    def add_typer(self, typer_instance: typer.Typer, **given: Any) -> None:
        """Like typer's, adding a place in the overview."""
        given.setdefault("rich_help_panel", self.panel)
        super().add_typer(typer_instance, **given)


def lazy_group(overview: Mapping[str, Mapping[str, str]]) -> type[TyperGroup]:
    """A root group that imports a command's module only when the command is run.

    Args:
        overview: The commands' summaries by panel and name; ``--help`` and completion need no more.
    """
    panels = {name: panel for panel, summaries in overview.items() for name in summaries}

    class LazyGroup(TyperGroup):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            for panel, summaries in overview.items():
                for name, summary in summaries.items():
                    self.add_command(TyperCommand(name, help=summary, rich_help_panel=panel))

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            name, command, rest = super().resolve_command(ctx, args)
            if name is None or command is None:
                return name, command, rest
            application = Application()
            application.panel = panels[name]
            import_module(f"strata.cli.{name}").register(application)
            return name, get_group(application).commands[name], rest

    return LazyGroup


def _with_common(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command's function, adding ``--quiet``."""
    signature = inspect.signature(function, eval_str=True)
    if "quiet" in signature.parameters:
        return function
    for parameter in signature.parameters.values():
        _complete(parameter.annotation)

    @functools.wraps(function)
    def carried_out(*words: Any, quiet: bool, **given: Any) -> Any:
        # A group comes before its command, and either may have been asked.
        ask_quiet(is_quiet() or quiet)
        try:
            return function(*words, **given)
        except KeyboardInterrupt:
            print("strata: interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED_EXIT) from None

    more = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    carried_out.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), more]
    )
    carried_out.__doc__ = _unwrapped(function.__doc__ or "")
    annotations = {name: each.annotation for name, each in signature.parameters.items()}
    carried_out.__annotations__ = {**annotations, "quiet": Quiet}
    return carried_out


def _unwrapped(text: str) -> str:
    """Paragraphs on one line each: terminals have other widths than the source."""
    return "\n\n".join(" ".join(each.split()) for each in inspect.cleandoc(text).split("\n\n"))


def _complete(annotation: Any) -> None:
    """Complete a parameter according to its metavar."""
    for stated in getattr(annotation, "__metadata__", ()):
        metavar = getattr(stated, "metavar", None)
        if metavar is not None and stated.autocompletion is None:
            stated.autocompletion = COMPLETERS.get(metavar)
