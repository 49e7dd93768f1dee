# SPDX-License-Identifier: Apache-2.0
"""A folder of exported files, which of them may be overwritten, and the report in short as Markdown."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from strata.advice.asked import advise_on_all, answer_of
from strata.errors import ResultError
from strata.files import explained, make_folder, open_plain, read_plain, refuse_link, write_durably
from strata.printable import JSON_FORMAT, json_text
from strata.report.data import TABLES, study_data
from strata.report.document import Figure
from strata.report.figures import figures, to_svg
from strata.report.report import Report, check_reportable
from strata.report.sections import document
from strata.report.spans import escaped
from strata.report.svg import to_png
from strata.report.table import csv_text, parquet
from strata.results.capabilities import Capabilities
from strata.statistics.study import StudyResults

# A folder with an export.json of another version is not written to.
MANIFEST_VERSION: Final = 1
MANIFEST: Final = "export.json"

Format = Literal["markdown", "csv", "parquet", "json", "svg", "png"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
_SUFFIXES: Final = {".md" if each == "markdown" else f".{each}": each for each in FORMATS}


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
    before = earlier(target)
    if not force:
        _refuse_changed(target, before, chosen)
    written = []
    make_folder(target)
    for path, content in _files(results, chosen, reference, capabilities):
        # Not durably: that takes ten times as long for a hundred figures, and they can be exported again.
        make_folder((target / path).parent)
        write_durably(target / path, content, wait=False)
        kind = _SUFFIXES[Path(path).suffix]
        written.append(Exported(path, kind, len(content), hashlib.sha256(content).hexdigest()))
    kept = _without_stale(target, before, written, chosen)
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
    drawn = [*figures(results, reference)] if wanted & {"svg", "png"} else []
    if "markdown" in wanted:
        report = Report(results, capabilities, advise_on_all(results, capabilities), reference)
        links = _links(drawn, "svg" if "svg" in wanted else "png")
        yield "report.md", (document(report).markdown() + links).encode()
    asked = answer_of(results, capabilities) if wanted & {"csv", "parquet"} else None
    for name, declared in TABLES.items() if wanted & {"csv", "parquet"} else ():
        if not declared.is_exported:
            continue
        table = declared.of(results, asked)
        if "csv" in wanted:
            yield f"{name}.csv", csv_text(table).encode()
        if "parquet" in wanted:
            yield f"{name}.parquet", parquet(table)
    if "json" in wanted:
        data = {"format": JSON_FORMAT, **study_data(results, capabilities)}
        yield "study.json", f"{json_text(data, indent=1)}\n".encode()
    for figure in drawn:
        svg = to_svg(figure)
        if "svg" in wanted:
            yield f"figures/{figure.name}.svg", svg.encode()
        if "png" in wanted:
            yield f"figures/{figure.name}.png", to_png(svg)


def _links(drawn: Sequence[Figure], suffix: str) -> str:
    lines = [f"- [{escaped(each.full_title)}](figures/{each.name}.{suffix})" for each in drawn]
    return "\n".join(["", "## Figures", "", *lines, ""]) if drawn else ""


def earlier(target: Path) -> dict[str, str]:
    """The hashes of an earlier export's files, by path. Raises ResultError for a folder of other files."""
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


def _refuse_changed(target: Path, before: dict[str, str], formats: Sequence[Format]) -> None:
    changed = [
        name
        for name, sha256 in before.items()
        if _SUFFIXES[Path(name).suffix] in formats
        and (target / name).is_file()
        and _sha256(target / name) != sha256
    ]
    if changed:
        more = f" and {len(changed) - 1} more files were" if len(changed) > 1 else " was"
        raise ResultError(
            f"{changed[0]}{more} changed since the export",
            place=str(target),
            remedy="name another folder, or overwrite the changes with --force",
        )


def _sha256(path: Path) -> str:
    with os.fdopen(open_plain(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _without_stale(
    target: Path, before: dict[str, str], written: Sequence[Exported], formats: Sequence[Format]
) -> dict[str, str]:
    """The earlier export's files of other formats, which stay; stale ones of these formats are removed."""
    paths = {each.path for each in written}
    kept = {}
    for name, sha256 in before.items():
        if _SUFFIXES[Path(name).suffix] not in formats:
            kept[name] = sha256
        elif name not in paths:
            with explained(target / name, "remove the file"):
                refuse_link((target / name).parent)
                (target / name).unlink(missing_ok=True)
    return kept
