# SPDX-License-Identifier: Apache-2.0
"""``strata serve``: studies in a browser, while they run and afterwards."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from strata.cli.application import examples
from strata.cli.output import notes
from strata.errors import ResultError

_DEFAULT: Final = Path("results")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "serve",
        epilog=examples(
            "strata serve --open",
            "strata serve results/quickstart --port 8080",
            "strata serve results/ /srv/results/",
        ),
    )(serve)


def serve(
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Results folders, or folders that hold some. Default: results/.",
            metavar="RESULTS",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, metavar="PORT", help="Where. Default: a free one.")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Watch studies in a browser, while they run and afterwards.

    The page follows a running study: how far it is, the time left, its charts as they fill in. It is served
    to this machine alone (127.0.0.1), and nothing can be changed by it. It takes no lock, so that a run can
    begin and end meanwhile. Ctrl-C ends it.
    """
    # The web server takes a moment to load, which no other command should pay.
    from strata.serve.server import ADDRESS, bound  # noqa: PLC0415
    from strata.serve.server import serve as serve_folders  # noqa: PLC0415

    roots = results or [_DEFAULT]
    for root in roots:
        if not root.is_dir():
            raise ResultError(
                "there is no such folder",
                place=str(root),
                remedy="give a results folder, or one that holds some; `strata run` makes them in results/",
            )
    listening = bound(port or 0)
    address = f"http://{ADDRESS}:{listening.getsockname()[1]}/"

    def ready() -> None:
        print(address, flush=True)
        notes().print(Text("Ctrl-C ends it."))
        if open_it:
            typer.launch(address)

    # Where a shell has put it into the background, the signal ends the server without being an interrupt.
    with contextlib.suppress(KeyboardInterrupt):
        serve_folders(roots, listening, ready)
    notes().print(Text("ended"))
