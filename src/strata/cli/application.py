# SPDX-License-Identifier: Apache-2.0
"""Common to all commands: ``--quiet``, permissions, completion, the end by signals; and import on use."""

from __future__ import annotations

import functools
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from keyword import iskeyword
from types import FrameType, ModuleType
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_group

from strata.cli.output import is_quiet, set_quiet
from strata.cli.parameters import AllowInput, AllowKernelSource, OnCluster, Quiet, literal
from strata.cli.tree import COMMANDS_OF_GROUPS, HIDDEN, refuse_renamed
from strata.working import working

INTERRUPTED_EXIT: Final = 130
EXAMPLES_TITLE: Final = "Examples"
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_AGAIN_S: Final = 0.1

# Commands that are named while they print nothing; the others ask or wait for somebody.
_NAMED: Final = frozenset(
    {
        *(
            "advise",
            "bisect",
            "calibrate",
            "capabilities",
            "check",
            "claims",
            "compare",
            "explain",
            "export",
            "gate",
            "history",
            "plan",
        ),
        *("query", "report", "run", "sensitivity", "show", "trace", "validate"),
    }
)

Function = TypeVar("Function", bound=Callable[..., Any])


def examples(*lines: str, title: str = EXAMPLES_TITLE) -> str:
    """A command's epilogue with examples; `strata.cli.man` parses it for manual pages and documentation."""
    shown = literal("\n".join(lines))
    return f"[bold]{title}[/bold]\n{shown}"


class OnceCommand(TyperCommand):
    """A command that refuses an option given twice, of which only the last would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = [] if ctx.resilient_parsing else self.make_parser(ctx).parse_args(args=[*args])[2]
        for each in given:
            takes_one = isinstance(each, TyperOption) and not (each.multiple or each.is_flag)
            if takes_one and given.count(each) > 1:
                cause = "it is given twice, and takes one value"
                raise typer.BadParameter(cause, ctx=ctx, param_hint=f"'{each.opts[0]}'")
        return super().parse_args(ctx, args)


class Application(typer.Typer):
    """A typer application whose commands have the common options, and show their docstring's examples."""

    def __init__(self, **given: Any) -> None:
        super().__init__(rich_markup_mode="rich", pretty_exceptions_enable=False, **given)

    def command(self, *words: Any, **given: Any) -> Callable[[Function], Function]:
        return partial(_add, super().command, *words, cls=OnceCommand, **given)

    def callback(self, **given: Any) -> Callable[[Function], Function]:
        return partial(_add, super().callback, **given)


def _add(register: Callable[..., Any], *words: Any, **given: Any) -> Any:
    *names, function = words
    text, _, shown = inspect.cleandoc(function.__doc__ or "").partition("\n\nExamples:\n")
    if shown:
        given["epilog"] = examples(*(line.strip() for line in shown.splitlines()))
    register(*names, **given)(_with_common(function, text))
    return function


def _named(command: str) -> AbstractContextManager[None]:
    """Name a command's work while it prints nothing."""
    return working(f"strata {command}") if command in _NAMED else nullcontext()


def lazy_group(overview: Mapping[str, Mapping[str, str]], package: str) -> type[TyperGroup]:
    """A group that imports a command's module only when the command is run.

    The module of this name in the package has, by the name of the command, either its function or an
    `Application` with commands of its own. A folder's commands are modules likewise, and its docstring is
    the help of the group.

    Args:
        overview: The commands' summaries by panel and name; ``--help`` and completion need no more.
        package: The folder of the commands' modules, such as ``strata.cli``.
    """
    panels = {name: panel for panel, summaries in overview.items() for name in summaries}

    class LazyGroup(TyperGroup):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            for panel, summaries in overview.items():
                for name, summary in summaries.items():
                    shown: dict[str, Any] = {"rich_help_panel": panel, "hidden": panel == HIDDEN}
                    self.add_command(TyperCommand(name, help=summary, **shown))

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            if ctx.parent is None:
                refuse_renamed(args)
            name, command, rest = super().resolve_command(ctx, args)
            if name is None or command is None:
                return name, command, rest
            named = name.replace("-", "_") + ("_" if iskeyword(name) else "")
            with _named(name):  # what a command needs may take seconds to load on a busy machine
                module = import_module(f"{package}.{named}")
            shown: dict[str, Any] = {"rich_help_panel": panels[name], "hidden": command.hidden}
            application = Application()
            if name in COMMANDS_OF_GROUPS and ctx.parent is None:
                application.add_typer(_folder(module), name=name, **shown)
            elif isinstance(declared := getattr(module, named), typer.Typer):
                application.add_typer(declared, name=name, **shown)
            else:
                application.command(name, **shown)(declared)
            return name, get_group(application).commands[name], rest

    return LazyGroup


def _folder(package: ModuleType) -> Application:
    """The group of the commands of a folder."""
    group = package.__name__.rpartition(".")[2]
    overview = COMMANDS_OF_GROUPS[group]
    application = Application(cls=lazy_group(overview, package.__name__), no_args_is_help=True)

    def described() -> None:
        pass

    described.__doc__ = package.__doc__
    application.callback()(described)
    return application


def _with_common(function: Callable[..., Any], text: str) -> Callable[..., Any]:
    """Wrap a command's function, with the help text's paragraphs on one line each.

    ``--quiet`` is added, for a study the caller's permissions, and to ``--jobs`` its alternative.
    """
    signature = inspect.signature(function, eval_str=True)
    if "quiet" in signature.parameters:
        return function
    common: dict[str, tuple[Any, Any]] = {"quiet": (False, Quiet)}
    if "study" in signature.parameters:
        common |= {"allow_input": (None, AllowInput), "allow_kernel_source": (False, AllowKernelSource)}
    if "jobs" in signature.parameters:
        common["cluster"] = (None, OnCluster)

    @functools.wraps(function)
    def carried_out(*words: Any, quiet: bool, **given: Any) -> Any:
        # The option may stand after the group or after its command.
        set_quiet(is_quiet() or quiet)
        if "allow_input" in common:
            from strata.model.consent import give_consent  # noqa: PLC0415  only where there is a study

            give_consent(given.pop("allow_input"), kernel_source=given.pop("allow_kernel_source"))
        if "cluster" in common and (where := given.pop("cluster")) is not None:
            from strata.execution.cluster.connection import Cluster  # noqa: PLC0415

            if given["jobs"] is not None:
                raise typer.BadParameter("a cluster's workers have jobs of their own", param_hint="--jobs")
            given["jobs"] = Cluster(where)
        name = function.__name__
        try:
            with _named(name):
                return function(*words, **given)
        except KeyboardInterrupt:
            print("strata: interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED_EXIT) from None

    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (default, annotation) in common.items()
    ]
    carried_out.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *more]
    )
    carried_out.__doc__ = "\n\n".join(" ".join(each.split()) for each in literal(text).split("\n\n"))
    annotations = {name: each.annotation for name, each in signature.parameters.items()}
    carried_out.__annotations__ = annotations | {name: each for name, (_, each) in common.items()}
    return carried_out


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn deadly signals into `SystemExit`, to tidy up. One that `nohup` made be ignored stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    if _loads_extension(frame):
        main = threading.main_thread().ident
        threading.Timer(_AGAIN_S, signal.pthread_kill, [main, number]).start()
        return
    raise SystemExit(128 + number)


def _loads_extension(frame: FrameType | None) -> bool:
    """Whether a module in C++ is being loaded, such as DuckDB's: it forgets an exception, or aborts."""
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), ExtensionFileLoader):
            return True
        frame = frame.f_back
    return False
