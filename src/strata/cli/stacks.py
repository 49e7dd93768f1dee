# SPDX-License-Identifier: Apache-2.0
"""``strata stacks``: the stacks of a study, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from strata.cli.application import examples
from strata.cli.output import notes, print_json
from strata.console import Terminal
from strata.plan.catalogue import catalogue
from strata.spec.load import load_study
from strata.spec.study import chosen_stacks

_LINE: Final = 1000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "stacks",
        epilog=examples(
            "strata stacks studies/layers.toml",
            "strata stacks studies/layers.toml --stack ext4-lvm --svg drawings",
        ),
    )(stacks)


def stacks(
    study: Annotated[Path, typer.Argument(help="A study file.", metavar="STUDY", show_default=False)],
    stack: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this stack; may be repeated.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="DIR", help="Draw each stack into DIR/NAME.svg.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The levels as JSON.")] = False,
) -> None:
    """Draw the stacks of a study, level by level.

    What each level is, what it gives, and how it is aligned to what is below it.
    """
    # Templates take a moment to load, which no other command should pay.
    from strata.durable import write_page  # noqa: PLC0415
    from strata.report import stack as drawings  # noqa: PLC0415

    read = load_study(study, catalogue())
    wanted = chosen_stacks(read, stack)
    drawn = [drawings.draw(read, name) for name in wanted]
    if as_json:
        print_json([each.plain() for each in drawn])
    elif svg is None:
        # A level is one line, however narrow the terminal: rich would cut what it cannot fit.
        console = Terminal(highlight=False, width=_LINE)
        for each in drawn:
            console.print(drawings.text_tree(each))
    for each in drawn if svg is not None else ():
        assert svg is not None
        path = svg / f"{each.name}.svg"
        write_page(path, drawings.svg(each))
        notes().print(f"wrote {path}", soft_wrap=True)
