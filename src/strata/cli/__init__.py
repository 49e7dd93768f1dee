# SPDX-License-Identifier: Apache-2.0
"""The command line. A command's module is imported when the command is run."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated

import typer

from strata import __version__
from strata.cli.application import Application, ended_by_signals, examples, lazy_group
from strata.cli.output import set_quiet
from strata.cli.parameters import Quiet, option
from strata.cli.tree import COMMANDS_BY_PANEL
from strata.errors import StrataError
from strata.printable import printable, suppress_gone

app = Application(
    name="strata",
    cls=lazy_group(COMMANDS_BY_PANEL, "strata.cli"),
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"strata {__version__}")
        raise typer.Exit


@app.callback(
    epilog=examples(
        "strata ask home --use home-server        # from a question to an answer",
        "strata run studies/quickstart.toml       # measure three filesystems",
        "strata show results/quickstart           # which is faster, how sure that is",
        title="To begin",
    )
    + "\n\nEvery command has its own --help. Exit codes: 0 done, 1 a bad verdict, 2 a mistake in the "
    "command or the study, 3 something is missing on this machine, 4 the lab failed, 5 a trial failed, "
    "6 results cannot be read or written, 130 interrupted."
)
def root(
    quiet: Quiet = False,
    # Its callback reads it.
    shown_version: Annotated[
        bool, option("Print the version.", "--version", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Which storage stack should hold this workload, on these disks?"""
    set_quiet(quiet)


def main() -> None:
    """Run the command line; an error that the user can act on ends it in two lines, not a traceback."""
    _open_standard()
    try:
        with ended_by_signals():
            code = app(standalone_mode=False) or 0
        _flush()
    except StrataError as error:
        _end(f"strata: {error}", error.exit_code)
    except typer.TyperException as error:
        _end(_mistake(error), error.exit_code)
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. Discard buffered output.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(StrataError.exit_code)
    except UnicodeEncodeError as error:
        place = printable(str(error.object))[:200]
        _end(f"strata: {place}: this is no text\n  rename what has that name", StrataError.exit_code)
    except OSError as error:
        from strata.files import refused  # noqa: PLC0415  it loads pydantic

        # No caller explained this error. Even so, a full disk must not cause a traceback.
        _end(f"strata: {refused(error, 'go on', kind=StrataError)}", StrataError.exit_code)
    else:
        sys.exit(code)


def _open_standard() -> None:
    """Reopen standard streams that the caller closed (``>&-``); output would go to the next file opened."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _end(text: str, code: int) -> None:
    with suppress(BrokenPipeError):
        _flush()
        if text:
            with suppress_gone(sys.stderr):
                print(printable(text), file=sys.stderr, flush=True)
    sys.exit(code)


def _flush() -> None:
    with suppress_gone(sys.stdout):
        sys.stdout.flush()


def _mistake(error: typer.TyperException) -> str:
    cause = error.format_message().strip().removesuffix(".").replace(": Value error, ", ": ")
    context = getattr(error, "ctx", None)
    place = context.command_path if context is not None else "strata"
    if not cause:  # a group without a command, which has printed its help
        return ""
    return f"{place}: {cause[:1].lower()}{cause[1:]}\n  `{place} --help` lists what it takes"
