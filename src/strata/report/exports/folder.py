# SPDX-License-Identifier: Apache-2.0
"""A folder of exported files, and which of them may be overwritten."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from strata.advice.advise import advise_on_all
from strata.errors import ResultError
from strata.files import explained, make_folder, read_plain, refuse_link, write_durably
from strata.report.data import cells_table, export_plain, trials_table
from strata.report.exports.markdown import to_markdown
from strata.report.figures import figures, to_svg
from strata.report.selection import check_reportable
from strata.report.svg import to_png
from strata.report.table import csv_text, parquet
from strata.results.capabilities import Capabilities
from strata.statistics.study import StudyResults

# A folder with an export.json of another version is not written to.
MANIFEST_VERSION: Final = 1
MANIFEST: Final = "export.json"

Format = Literal["markdown", "csv", "parquet", "json", "svg", "png"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
_SUFFIXES: Final[dict[str, Format]] = {
    ".md": "markdown",
    ".csv": "csv",
    ".parquet": "parquet",
    ".json": "json",
    ".svg": "svg",
    ".png": "png",
}


@dataclass(frozen=True)
class Exported:
    """A file that was written, by its path in the folder."""

    path: str
    format: Format
    bytes: int
    sha256: str


def export(
    results: StudyResults,
    target: Path,
    formats: Iterable[Format] = FORMATS,
    *,
    reference: str | None = None,
    capabilities: Capabilities | None = None,
    force: bool = False,
) -> list[Exported]:
    """Write a study's tables, texts and figures into a folder, which may be new.

    An earlier export's files of the same formats are replaced or removed, with ``force`` even changed ones.

    Raises:
        ResultError: If there is no valid result, the folder holds other files than an export's or changed
            ones, or it cannot be written.
    """
    target = target.resolve()
    check_reportable(results, reference)
    chosen = [each for each in FORMATS if each in set(formats)]
    earlier = _earlier(target)
    if not force:
        _refuse_changed(target, earlier, chosen)
    written = []
    make_folder(target)
    for path, content in _files(results, chosen, reference, capabilities):
        # Not durably: that takes ten times as long for a hundred figures, and they can be exported again.
        make_folder((target / path).parent)
        write_durably(target / path, content, wait=False)
        kind = _SUFFIXES[Path(path).suffix]
        written.append(Exported(path, kind, len(content), hashlib.sha256(content).hexdigest()))
    kept = _without_stale(target, earlier, written, chosen)
    manifest = {
        "export_version": MANIFEST_VERSION,
        "study": results.snapshot.name,
        "files": kept | {each.path: each.sha256 for each in written},
    }
    write_durably(target / MANIFEST, (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode())
    return written


def _files(
    results: StudyResults, formats: Sequence[Format], reference: str | None, capabilities: Capabilities | None
) -> Iterator[tuple[str, bytes]]:
    wanted = set(formats)
    if "markdown" in wanted:
        advice = advise_on_all(results, capabilities)
        yield "report.md", to_markdown(results, capabilities, advice)
    if wanted & {"csv", "parquet", "json"}:
        tables = {"trials": trials_table(results), "cells": cells_table(results)}
        for name, table in tables.items():
            if "csv" in wanted:
                yield f"{name}.csv", csv_text(table).encode()
            if "parquet" in wanted:
                yield f"{name}.parquet", parquet(table)
        if "json" in wanted:
            text = json.dumps(export_plain(results, **tables), indent=1, ensure_ascii=False)
            yield "study.json", f"{text}\n".encode()
    for figure in figures(results, reference) if wanted & {"svg", "png"} else ():
        drawn = to_svg(figure)
        if "svg" in wanted:
            yield f"figures/{figure.name}.svg", drawn.encode()
        if "png" in wanted:
            yield f"figures/{figure.name}.png", to_png(drawn)


def check_target(target: Path) -> None:
    """Raise ResultError if an export may not be written to a folder, before the results are read."""
    _earlier(target)


def _earlier(target: Path) -> dict[str, str]:
    """The hashes of an earlier export's files, by path."""
    with explained(target, "use the folder"):
        if target.exists() and not target.is_dir():
            raise ResultError("it is a file", place=str(target), remedy="name a folder, which may be new")
        if not target.exists() or not any(target.iterdir()):
            return {}
        manifest = target / MANIFEST
        if not manifest.exists():
            raise ResultError(
                "the folder holds files that are not an export's",
                place=str(target),
                remedy="name a new folder, or that of an earlier export",
            )
        return _read(manifest)


def _read(manifest: Path) -> dict[str, str]:
    try:
        plain: Any = json.loads(read_plain(manifest))
        files = plain["files"] if plain["export_version"] == MANIFEST_VERSION else None
    except (ValueError, KeyError, TypeError):
        files = None
    if not isinstance(files, dict) or not all(_is_inside(name) for name in files):
        raise ResultError(
            "it is not a list of exported files that this version of Strata knows",
            place=str(manifest),
            remedy="name a new folder",
        )
    return {str(name): str(sha256) for name, sha256 in files.items()}


def _is_inside(name: str) -> bool:
    """Whether an export can have written a file of this name; others are never touched."""
    parts = Path(name).parts
    return Path(name).suffix in _SUFFIXES and (len(parts) == 1 or (len(parts) == 2 and parts[0] == "figures"))


def _refuse_changed(target: Path, earlier: dict[str, str], formats: Sequence[Format]) -> None:
    changed = [
        name
        for name, sha256 in earlier.items()
        if _SUFFIXES[Path(name).suffix] in formats
        and (target / name).is_file()
        and hashlib.sha256(read_plain(target / name)).hexdigest() != sha256
    ]
    if changed:
        more = f" and {len(changed) - 1} more files were" if len(changed) > 1 else " was"
        raise ResultError(
            f"{changed[0]}{more} changed since the export",
            place=str(target),
            remedy="name another folder, or overwrite the changes with --force",
        )


def _without_stale(
    target: Path, earlier: dict[str, str], written: Sequence[Exported], formats: Sequence[Format]
) -> dict[str, str]:
    """The earlier export's files of other formats, which stay; stale ones of these formats are removed."""
    paths = {each.path for each in written}
    kept = {}
    for name, sha256 in earlier.items():
        if _SUFFIXES[Path(name).suffix] not in formats:
            kept[name] = sha256
        elif name not in paths:
            with explained(target / name, "remove the file"):
                refuse_link((target / name).parent)
                (target / name).unlink(missing_ok=True)
    return kept
