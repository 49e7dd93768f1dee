# SPDX-License-Identifier: Apache-2.0
"""Publishing results: records into a store, and static pages beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from strata.actions.sharing import absolute, shareable
from strata.errors import ResultError
from strata.printable import json_text
from strata.report.gallery import CELLS, GalleryCell, gallery_cells, gallery_page
from strata.report.page import render
from strata.report.report import Report
from strata.results.record import StudySnapshot
from strata.results.shared import SharedStore
from strata.results.store import ResultsFolder
from strata.working import working

INDEX: Final = "index.json"


@dataclass(frozen=True)
class Published:
    """What a gallery holds now, and the number of records that were given to it."""

    url: str
    studies: tuple[str, ...]
    cells: tuple[GalleryCell, ...]
    records: int


def publish(results: Sequence[Path], url: str, traces: bool = False) -> Published:
    """Add studies to a gallery, which may be new; a study of the same name and text is replaced.

    Raises ResultError for results that cannot be read or reported, another study of a name, and a store that
    cannot be used. A host's records are its own: only its reports are published.
    """
    store = SharedStore(absolute(url), traces)
    reports = [(ResultsFolder.open(path), Report.read(ResultsFolder.open(path))) for path in results]
    names = [report.results.snapshot.name for _, report in reports]
    if twice := next((name for name in names if names.count(name) > 1), None):
        cause = f'two of the results are of a study "{twice}"'
        raise ResultError(cause, place=url, remedy="publish them into two places, or merge them")
    there = _cells_there(store, url)
    for _, report in reports:
        _refuse_other(store, report.results.snapshot, url)
    records = 0
    for (folder, report), name in zip(reports, names, strict=True):
        snapshot = report.results.snapshot
        with working(f"publishing {name}"):
            records += _put(store, folder, report)
            store.write(f"reports/{name}.toml", snapshot.text.encode())
            store.write(f"reports/{name}.html", render(report).encode())
        there = (*(cell for cell in there if cell.study != name), *gallery_cells(report.results))
    store.write(INDEX, f"{json_text(CELLS.dump_python(there), indent=1)}\n".encode())
    store.write("index.html", gallery_page(there, url).encode())
    return Published(url, tuple(dict.fromkeys(cell.study for cell in there)), there, records)


def _put(store: SharedStore, folder: ResultsFolder, report: Report) -> int:
    """Give the records of the lab to the store, with the study that names them; returns their number."""
    labs = {}
    for attempt, record in shareable(folder):
        store.put(attempt.path)
        labs[record.spec_sha256] = record.fingerprint
    if labs:
        store.put_study(report.results.snapshot, labs)
    return len(labs)


def _cells_there(store: SharedStore, url: str) -> tuple[GalleryCell, ...]:
    content = store.read(INDEX)
    try:
        return () if content is None else CELLS.validate_json(content)
    except ValidationError as error:
        raise ResultError(
            "it is no index of a gallery", place=f"{url.rstrip('/')}/{INDEX}", remedy="name another place"
        ) from error


def _refuse_other(store: SharedStore, snapshot: StudySnapshot, url: str) -> None:
    text = store.read(f"reports/{snapshot.name}.toml")
    if text is not None and text != snapshot.text.encode():
        cause = f'the gallery has another study "{snapshot.name}"'
        raise ResultError(cause, place=url, remedy="give the study another name, or name another place")
