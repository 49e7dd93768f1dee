# SPDX-License-Identifier: Apache-2.0
"""``strata stacks``: the stacks of a study, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from rich.text import Text

from strata.cli.output import print_json, print_wrote
from strata.cli.parameters import AsJson, OnlyStacks, StudyFile, chosen_stacks, option
from strata.console import Terminal
from strata.plan.catalogue import catalogue
from strata.printable import plain
from strata.reading.load import load_study

_LINE: Final = 1000


def stacks(
    study: StudyFile,
    stack: OnlyStacks = None,
    svg: Annotated[Path | None, option("Draw each stack into DIR/NAME.svg.", "--svg", "DIR")] = None,
    commands: Annotated[
        bool, option("The commands that build them on a real machine; nothing is run.", "--commands")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Draw the stacks of a study, level by level.

    What each level is, what it gives, and how it is aligned to what is below it; then, of all stacks, their
    capacity, price, memory and what a lost disk or power failure takes, by their declarations.

    Examples:
        strata stacks studies/layers.toml
        strata stacks studies/home-server.toml --stack hdds --commands
        strata stacks studies/layers.toml --stack ext4-lvm --svg drawings
    """
    # Templates take a moment to load.
    from strata.files import write_page  # noqa: PLC0415
    from strata.report import stack as drawings  # noqa: PLC0415
    from strata.report.stack_facts import facts_of, facts_table  # noqa: PLC0415
    from strata.report.table import terminal  # noqa: PLC0415

    read = load_study(study, catalogue())
    drawn = [drawings.draw(read, name) for name in chosen_stacks(read, stack)]
    facts = [each for each in facts_of(read, None) if each.stack in [one.name for one in drawn]]
    if as_json:
        print_json([each.plain() | {"facts": plain(one)} for each, one in zip(drawn, facts, strict=True)])
    elif commands:
        print("\n\n".join("\n".join([f"# {each.name}", *each.commands]) for each in drawn))
    elif svg is None:
        # A level is one line in a narrow terminal, too: rich would cut it.
        console = Terminal(highlight=False, width=_LINE)
        for each in drawn:
            console.print(drawings.text_tree(each))
        console.print(Text(), terminal(facts_table(facts)))
    if svg is not None:
        for each in drawn:
            path = svg / f"{each.name}.svg"
            write_page(path, drawings.svg(each))
            print_wrote(path)
