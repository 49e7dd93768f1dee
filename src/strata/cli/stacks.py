# SPDX-License-Identifier: Apache-2.0
"""``strata stacks``: the stacks of a study, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from strata.cli.output import print_json, print_wrote
from strata.cli.parameters import AsJson, OnlyStacks, StudyFile, option
from strata.console import Terminal
from strata.plan.catalogue import catalogue
from strata.spec.load import load_study
from strata.spec.study import chosen_stacks

_LINE: Final = 1000


def stacks(
    study: StudyFile,
    stack: OnlyStacks = None,
    svg: Annotated[Path | None, option("Draw each stack into DIR/NAME.svg.", "--svg", "DIR")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw the stacks of a study, level by level.

    What each level is, what it gives, and how it is aligned to what is below it.

    Examples:
        strata stacks studies/layers.toml
        strata stacks studies/layers.toml --stack ext4-lvm --svg drawings
    """
    # Templates take a moment to load.
    from strata.files import write_page  # noqa: PLC0415
    from strata.report import stack as drawings  # noqa: PLC0415

    read = load_study(study, catalogue())
    drawn = [drawings.draw(read, name) for name in chosen_stacks(read, stack)]
    if as_json:
        print_json([each.plain() for each in drawn])
    elif svg is None:
        # A level is one line in a narrow terminal, too: rich would cut it.
        console = Terminal(highlight=False, width=_LINE)
        for each in drawn:
            console.print(drawings.text_tree(each))
    if svg is not None:
        for each in drawn:
            path = svg / f"{each.name}.svg"
            write_page(path, drawings.svg(each))
            print_wrote(path)
