# SPDX-License-Identifier: Apache-2.0
"""The output of commands: results to standard output, everything else to standard error.

Rich, pydantic and the lab load slowly, so each is imported by the function that needs it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from strata.errors import StudyError
from strata.printable import printable
from strata.working import keep_quiet, working

if TYPE_CHECKING:
    from rich.console import Console

    from strata.actions.run import Listener
    from strata.lab.progress import SetupProgress

_options = {"quiet": False}


def set_quiet(quiet: bool) -> None:
    """Say whether the command prints only its result and errors."""
    _options["quiet"] = quiet
    keep_quiet(quiet)


def is_quiet() -> bool:
    return _options["quiet"]


def _console(*, stderr: bool = False, quiet: bool = False) -> Console:
    from strata.console import Terminal  # noqa: PLC0415

    return Terminal(stderr=stderr, highlight=False, quiet=quiet)


def stdout() -> Console:
    """The console of results: standard output."""
    return _console()


def notes() -> Console:
    """The console of progress, "wrote …" and next steps: standard error, nothing with ``--quiet``."""
    return _console(stderr=True, quiet=is_quiet())


def warnings() -> Console:
    """The console of messages that also appear with ``--quiet``: standard error."""
    return _console(stderr=True)


def setup_progress() -> SetupProgress:
    """For parts of the lab that are built before a command can begin."""
    from strata.lab.progress import SILENCE, console_progress  # noqa: PLC0415

    return SILENCE if is_quiet() else console_progress()


def listener() -> Listener:
    """Whoever looks at the terminal follows an action."""
    from strata.actions.run import Listener  # noqa: PLC0415

    @contextmanager
    def counting(description: str, total: int | None) -> Iterator[Callable[[str], None]]:
        with task_bar(description, total) as update:
            yield lambda text: update(advance=1, description=text)

    def say(text: str) -> None:
        notes().print(text, markup=False, soft_wrap=True)

    def warn(text: str) -> None:
        warnings().print(text, style="red", markup=False, soft_wrap=True)

    return Listener(notes(), setup_progress(), counting, say, warn)


def print_json(record: object = None, **named: object) -> None:
    """Print the version of the format, a record's fields, and further records by name, as one JSON object."""
    from strata.printable import JSON_FORMAT, json_text, plain  # noqa: PLC0415

    fields = {} if record is None else plain(record)
    print(json_text({"format": JSON_FORMAT, **fields, **named}, indent=2))


def print_text(text: str) -> None:
    """Print text that ends with a newline, such as CSV and Markdown."""
    print(printable(text), end="")


def print_wrote(path: Path) -> None:
    notes().print(f"wrote {path}", soft_wrap=True, markup=False)


def refuse_both(**options: bool) -> None:
    """Raise StudyError if more than one form of output, such as ``json``, is asked for."""
    if sum(options.values()) > 1:
        place = ", ".join(f"--{name}" for name in options)
        raise StudyError("only one form of output can be printed", place=place, remedy="give one of them")


@contextmanager
def task_bar(description: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A progress bar that disappears at its end, and the function that updates it.

    Without a terminal it is a line for each advance, and before the first one that the work is going on.
    """
    from rich import progress as rich  # noqa: PLC0415

    console = notes()
    if not console.is_terminal:
        done = itertools.count(1)

        def said(*, advance: int = 0, description: str = description, **_: object) -> None:
            if advance:
                number = f"{next(done)}/{total}" if total else f"{next(done)}"
                console.print(f"[{number}] {description}", markup=False, soft_wrap=True)

        with working(description):
            yield said
        return
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn())
    left = (rich.MofNCompleteColumn(), rich.TimeRemainingColumn())
    with rich.Progress(*columns, *left, console=console, transient=True) as progress:
        yield partial(progress.update, progress.add_task(description, total=total))
