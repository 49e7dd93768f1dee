# SPDX-License-Identifier: Apache-2.0
"""``strata new``: skeletons of what the project is extended by."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from strata.cli.application import Application, examples
from strata.cli.output import notes
from strata.durable import write_durably
from strata.errors import StudyError
from strata.lab import project_root
from strata.plan.catalogue import catalogue
from strata.printable import json_text
from strata.spec.names import is_kebab, kebab_remedy

new = Application(no_args_is_help=True)


class Joint(StrEnum):
    """What a layer stands on, or gives."""

    BLOCK = "block"
    FILESYSTEM = "filesystem"
    POOL = "pool"


def register(app: typer.Typer) -> None:
    """Add the command group to the application."""
    app.add_typer(new, name="new")


@new.callback(epilog=examples("strata new layer vdo --requires block --provides block"))
def group() -> None:
    """Write the skeleton of a new storage layer."""


@new.command(epilog=examples("strata new layer vdo --requires block --provides block"))
def layer(
    name: Annotated[
        str, typer.Argument(help="The layer's name in study files.", metavar="NAME", show_default=False)
    ],
    requires: Annotated[Joint, typer.Option(help="What it stands on.")] = Joint.BLOCK,
    provides: Annotated[Joint, typer.Option(help="What it offers to the layer above.")] = Joint.BLOCK,
    as_json: Annotated[bool, typer.Option("--json", help="Which file was written, as JSON.")] = False,
) -> None:
    """Write the skeleton of a storage layer.

    The conformance tests then say what is missing.
    """
    if not is_kebab(name):
        raise StudyError(f'"{name}" is not in kebab case', place="NAME", remedy=kebab_remedy(name))
    path = project_root() / "src" / "strata" / "layers" / f"{name.replace('-', '_')}.py"
    if name in catalogue().layers or path.exists():
        raise StudyError(f'there is a layer "{name}" already', place=str(path), remedy="take another name")
    write_durably(path, skeleton(name, requires, provides).encode())
    if as_json:
        print(json_text({"wrote": str(path)}))
        return
    for line in _next_steps(name, path):
        notes().print(Text(line), soft_wrap=True)


def skeleton(name: str, requires: str, provides: str) -> str:
    """The text of a layer's file."""
    # Templates take a moment to load, which no other command should pay.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    templates = Environment(  # noqa: S701  it makes Python, in which nothing is escaped
        loader=PackageLoader("strata.cli", "skeletons"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    class_name = "".join(word.capitalize() for word in name.split("-"))
    return templates.get_template("layer.py.j2").render(
        name=name, class_name=class_name, requires=requires, provides=provides
    )


def _next_steps(name: str, path: Path) -> list[str]:
    return [
        f"wrote {path}",
        "Next:",
        "  1. make it real: its keys, its steps, what `strata check` must refuse (CONTRIBUTING.md shows one)",
        f"  2. a section ### `{name}` with every key in docs/reference/study-file.md",
        f'  3. a case "layer-{name}" in tests/golden_studies.py, then: pytest tests/golden --update-golden',
        f"  4. pytest tests/conformance -k {name}",
    ]
