# SPDX-License-Identifier: Apache-2.0
"""``strata lab clean``: remove what killed runs left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.cli.output import notes, print_json
from strata.cli.parameters import AsJson, argument
from strata.errors import ResultError, ToolError
from strata.lab.folder import remove_stale, run_root
from strata.printable import printable
from strata.results.store import ResultsFolder
from strata.runners.leftovers import Journal
from strata.runners.served import clean_served


def clean(
    results: Annotated[list[Path] | None, argument("Default: the folders in results/.", "RESULTS")] = None,
    as_json: AsJson = False,
) -> None:
    """Remove what killed runs left behind. Results are kept.

    These are mounts, attached devices, served disks, attempts without a result, and folders of labs.

    Examples:
        strata lab clean
        sudo strata lab clean results/quickstart
    """
    removed = [*(f"deleted {path}" for path in remove_stale(run_root())), *clean_served()]
    for path in results or [each.parent for each in sorted(Path("results").glob("*/study.json"))]:
        removed += _clean_results(path, asked=bool(results))
    if as_json:
        print_json(removed=removed)
        return
    for line in removed:
        typer.echo(printable(line))
    if not removed:
        notes().print("nothing was left behind")


def _clean_results(path: Path, *, asked: bool) -> list[str]:
    """A line for each leftover removed from a folder. A run that uses it is an error if the user asked."""
    folder = ResultsFolder.open(path)
    try:
        with folder.lock():
            removed = Journal(path).clean()
            names = {identity: trial for trial, identity in folder.study().trials.items()}
            for identity in folder.store.identities():
                if count := folder.store.discard_unfinished(identity):
                    trial = names.get(identity, "a trial of an earlier version of the study")
                    removed.append(f"deleted {count} unfinished attempt(s) at {trial}")
    except PermissionError as error:
        raise ToolError(
            f"not permitted: {error.strerror}", place=str(path), remedy="run `strata lab clean` as root"
        ) from error
    except ResultError:
        if asked:
            raise
        return [f"{path} is in use, and was left alone"]
    return removed
