# SPDX-License-Identifier: Apache-2.0
"""``strata clean``: remove what killed runs left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.cli.application import examples
from strata.cli.output import notes, print_json
from strata.errors import ResultError, ToolError
from strata.execution.agenda import discard_unfinished
from strata.lab.folder import remove_stale, run_root
from strata.printable import printable
from strata.results.store import ResultsFolder
from strata.runners.leftovers import Journal


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("clean", epilog=examples("strata clean", "sudo strata clean results/quickstart"))(clean)


def clean(
    results: Annotated[
        list[Path] | None,
        typer.Argument(help="Results folders. Default: those in results/.", metavar="RESULTS"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="What was removed, as JSON.")] = False,
) -> None:
    """Remove what killed runs left behind. Results are kept.

    That is what is still mounted or attached, attempts without a result, and folders of labs.
    """
    removed = [f"deleted {path}" for path in remove_stale(run_root())]
    for path in results if results else _default_folders():
        removed += clean_results(path, asked=bool(results))
    if as_json:
        print_json({"removed": removed})
        return
    for line in removed:
        typer.echo(printable(line))
    if not removed:
        notes().print("nothing was left behind")


def clean_results(path: Path, *, asked: bool = True) -> list[str]:
    """Remove what runs into one results folder left behind.

    Args:
        path: The folder.
        asked: Whether the user named it; else a folder that is in use is passed over.

    Returns:
        What was removed, a line each.

    Raises:
        ResultError: If it holds no results, or a run is using it.
        ToolError: If root is needed.
        RunError: If something cannot be removed.
    """
    folder = ResultsFolder.open(path)
    try:
        with folder.lock():
            removed = Journal(path).clean()
            for trial in folder.trials():
                count = discard_unfinished(folder, trial)
                removed += [f"deleted {count} unfinished attempt(s) at {trial}"] if count else []
    except PermissionError as error:
        raise ToolError(
            f"not permitted: {error.strerror}", place=str(path), remedy="run `strata clean` as root"
        ) from error
    except ResultError:
        if asked:
            raise
        return [f"{path} is in use, and was left alone"]
    return removed


def _default_folders() -> list[Path]:
    return [path.parent for path in sorted(Path("results").glob("*/study.json"))]
