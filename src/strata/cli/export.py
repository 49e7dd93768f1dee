# SPDX-License-Identifier: Apache-2.0
"""``strata export``: a study's results for articles and other programs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strata.cli.application import examples
from strata.cli.output import notes, print_json
from strata.errors import ResultError
from strata.results.store import ResultsFolder

if TYPE_CHECKING:
    from strata.report.exports.folder import Exported

_FORMATS = ("markdown", "csv", "parquet", "json", "svg", "png")


def _complete_format(incomplete: str) -> list[str]:
    return [name for name in _FORMATS if name.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "export",
        epilog=examples(
            "strata export results/quickstart",
            "strata export results/quickstart --format csv --format parquet -o numbers",
            "strata export results/quickstart --format svg --reference xfs -o article",
            "strata export results/quickstart --json | jq -r '.files[].path'",
        ),
    )(export)


def export(
    results: Annotated[Path, typer.Argument(help="Folder that `strata run` wrote.", metavar="RESULTS")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The folder to write to; RESULTS/export without it."),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            help=f"{', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}; may be repeated; all without it.",
            metavar="FORMAT",
            autocompletion=_complete_format,
        ),
    ] = None,
    *,
    reference: Annotated[
        str | None,
        typer.Option(help="The stack that the heat map compares to; the first without it.", metavar="STACK"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite files that were changed since they were exported.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write tables and figures for articles and other programs.

    report.md is the report in short. trials.csv and cells.csv, the same as Parquet and in study.json, hold
    every value and what the statistics make of them. figures/ holds each chart as SVG and PNG, named by
    workload and metric. What was exported before is replaced, other files are not touched.
    """
    # NumPy and DuckDB take a second to load, which no other command should pay.
    from strata.report.exports import folder as exports  # noqa: PLC0415
    from strata.results.capabilities import read_capabilities  # noqa: PLC0415
    from strata.statistics.study import gather  # noqa: PLC0415

    unknown = [name for name in formats or () if name not in exports.FORMATS]
    if unknown:
        raise ResultError(
            f'there is no format "{unknown[0]}"',
            place="--format",
            remedy=f"there are: {', '.join(exports.FORMATS)}",
        )
    source = ResultsFolder.open(results)
    target = output if output is not None else source.safe_path("export")
    exports.check_target(target)
    chosen: Any = formats or exports.FORMATS
    written = exports.export(
        gather(source),
        target,
        chosen,
        reference=reference,
        capabilities=read_capabilities(source),
        force=force,
    )
    if as_json:
        plain = {"folder": str(target), "files": [asdict(each) for each in written]}
        print_json(plain)
        return
    _tell(target, written)


def _tell(target: Path, written: list[Exported]) -> None:
    """A line for each format."""
    for kind in _FORMATS:
        those = [each for each in written if each.format == kind]
        if those:
            size = sum(each.bytes for each in those)
            some = those[0].path if len(those) == 1 else f"{len(those)} files, such as {those[0].path}"
            notes().print(f"{kind}: {some}; {size:,} bytes", soft_wrap=True)
    notes().print(f"wrote {target}", soft_wrap=True)
