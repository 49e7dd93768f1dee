# SPDX-License-Identifier: Apache-2.0
"""``strata export``: a study's results for articles and other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from strata.cli.output import notes, print_json, print_wrote
from strata.cli.parameters import AsJson, FromResults, option
from strata.errors import ResultError
from strata.report import export as exports
from strata.results.findings import read_capabilities
from strata.results.store import ResultsFolder
from strata.statistics.study import gather
from strata.units import format_size

_FORMATS = ("markdown", "csv", "parquet", "json", "svg", "png")


def export(
    results: FromResults,
    output: Annotated[Path | None, option("The folder. Default: RESULTS/export.", "--output", "-o")] = None,
    formats: Annotated[
        list[str] | None,
        option(
            f"{', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}; may be repeated; all without it.",
            "--format",
            "FORMAT",
            autocompletion=lambda incomplete: [name for name in _FORMATS if name.startswith(incomplete)],
        ),
    ] = None,
    *,
    reference: Annotated[
        str | None, option("The heat map's reference. Default: the study's.", "STACK")
    ] = None,
    force: Annotated[bool, option("Overwrite exported files that were changed since.", "--force")] = False,
    as_json: AsJson = False,
) -> None:
    """Write tables and figures for articles and other programs.

    report.md is the report in short. trials.csv, metrics.csv, cells.csv and others hold every value and its
    statistics, as do Parquet files and study.json. figures/ holds each chart as SVG and PNG, named by
    workload and metric.
    Files of an earlier export are replaced, other files are not touched.

    Examples:
        strata export results/quickstart
        strata export results/quickstart --format csv --format parquet -o numbers
        strata export results/quickstart --format svg --reference xfs -o article
        strata export results/quickstart --json | jq -r '.files[].path'
    """
    if unknown := [name for name in formats or () if name not in exports.FORMATS]:
        raise ResultError(
            f'there is no format "{unknown[0]}"',
            place="--format",
            remedy=f"there are: {', '.join(exports.FORMATS)}",
        )
    source = ResultsFolder.open(results)
    target = output if output is not None else source.safe_path("export")
    exports.earlier(target)  # refuse it before the results are read
    chosen: Any = formats or exports.FORMATS
    known = read_capabilities(source)
    written = exports.export(
        gather(source), target, chosen, reference=reference, capabilities=known, force=force
    )
    if as_json:
        print_json(folder=target, files=written)
        return
    for kind in _FORMATS:
        if files := [each for each in written if each.format == kind]:
            size = sum(each.bytes for each in files)
            some = files[0].path if len(files) == 1 else f"{len(files)} files, such as {files[0].path}"
            notes().print(f"{kind}: {some}; {format_size(size)}", soft_wrap=True)
    print_wrote(target)
