# SPDX-License-Identifier: Apache-2.0
"""``strata serve``: studies in a browser, while they run and afterwards."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from strata.cli.output import notes
from strata.cli.parameters import OpenIt, argument, option
from strata.errors import ResultError
from strata.results.store import one_folder
from strata.serve.app import ADDRESS, bound
from strata.serve.app import serve as serve_folders


def serve(
    results: Annotated[
        list[Path] | None,
        argument("Results folders, or folders that hold some. Default: results/.", "RESULTS"),
    ] = None,
    port: Annotated[int | None, option("Where. Default: a free one.", "PORT", min=1, max=65535)] = None,
    open_it: OpenIt = False,
) -> None:
    """Watch studies in a browser, while they run and afterwards.

    The page follows a running study: its progress, the time left, its charts as they fill in. It is served
    to this machine alone (127.0.0.1), changes nothing and takes no lock, so a run can begin and end
    meanwhile. Ctrl-C ends it.

    Examples:
        strata serve --open
        strata serve results/quickstart --port 8080
        strata serve results/ /srv/results/
    """
    roots = results or [Path("results")]
    for root in roots:
        if not root.is_dir():
            given = "give a results folder, or one that holds some; `strata run` makes them in results/"
            remedy = one_folder(str(root)) or given
            raise ResultError("there is no such folder", place=str(root), remedy=remedy)
    listening = bound(port or 0)
    address = f"http://{ADDRESS}:{listening.getsockname()[1]}/"

    def ready() -> None:
        print(address, flush=True)
        notes().print(Text("Ctrl-C ends it."))
        if open_it:
            typer.launch(address)

    # In the background of a shell, the signal ends the server without a KeyboardInterrupt.
    with contextlib.suppress(KeyboardInterrupt):
        serve_folders(roots, listening, ready)
    notes().print(Text("ended"))
