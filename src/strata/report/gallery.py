# SPDX-License-Identifier: Apache-2.0
"""The index of a gallery: published cells by device, stack, workload and kernel, and the page of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from pydantic import TypeAdapter

from strata.model.metric import metric_title
from strata.report.document import Block, Code, Paragraph, Section
from strata.report.spans import Amount, Link, said
from strata.report.table import Table, columns
from strata.report.templates import document_page
from strata.results.shared import is_url, record_name
from strata.statistics.interval import Interval
from strata.statistics.study import StudyResults
from strata.words import counted, listed


@dataclass(frozen=True)
class GalleryCell:
    """A published cell by its first headline; ``records`` are the places of its trials' records."""

    study: str
    device: str
    stack: str
    workload: str
    kernel: str
    metric: str
    value: float
    unit: str
    low: float | None
    high: float | None
    seeds: int
    records: tuple[str, ...]


CELLS: Final = TypeAdapter(tuple[GalleryCell, ...])


def gallery_cells(results: StudyResults) -> Iterator[GalleryCell]:
    """The cells that have a valid result, in the study's order."""
    snapshot = results.snapshot
    for (stack, workload), cell in results.cells.items():
        if not cell.records:
            continue
        kind = results.metrics(workload)[0]
        found = results.summaries(workload, kind.name).get(stack)
        if found is None:
            continue
        used = [snapshot.devices[name] for name in snapshot.stacks[stack].devices or snapshot.devices]
        records = cell.records.values()
        yield GalleryCell(
            study=snapshot.name,
            device=listed([*dict.fromkeys(each.title or each.model for each in used)]),
            stack=snapshot.stacks[stack].title or stack,
            workload=snapshot.workloads[workload].title or workload,
            kernel=listed([*dict.fromkeys(each.versions.kernel for each in records)]),
            metric=metric_title(kind),
            value=found.estimate,
            unit=kind.unit,
            low=found.interval.low if found.interval else None,
            high=found.interval.high if found.interval else None,
            seeds=len(records),
            records=tuple(record_name(each) for each in records),
        )


def gallery_page(cells: Sequence[GalleryCell], url: str) -> str:
    """The index by device, workload, stack and kernel; reports and studies lie beside it."""
    ordered = sorted(cells, key=lambda each: (each.device, each.workload, each.stack, each.kernel))
    studies = sorted({each.study for each in cells})
    return document_page(
        "Measured storage stacks",
        kicker="gallery",
        heading="Measured storage stacks",
        facts=f"{counted(len(studies), 'study', 'studies')}, {counted(len(cells), 'cell')}.",
        blocks=[
            *(
                Section(f"device-{number}", device, [_table(group)])
                for number, (device, group) in enumerate(groupby(ordered, lambda each: each.device), 1)
            ),
            Section("again", "Check it, and run it again", [*_again(studies, url)]),
        ],
    )


def _table(cells: Iterable[GalleryCell]) -> Table:
    rows = []
    for each in cells:
        ends = None if each.low is None or each.high is None else Interval(each.low, each.high)
        report = Link(each.study, f"reports/{each.study}.html")
        measured = (Amount(each.value, each.unit, ends).text, each.seeds, report)
        rows.append((each.workload, each.stack, each.kernel, each.metric, *measured))
    heads = columns("workload", "stack", "kernel", "metric", ("value (95 % interval)", "figure"))
    return Table((*heads, *columns(("seeds", "count"), "report")), rows)


def _again(studies: Sequence[str], url: str) -> Iterator[Block]:
    links = [Link(name, f"reports/{name}.toml") for name in studies]
    yield Paragraph(said("The studies: {}.", [part for link in links for part in (link, ", ")][:-1]))
    yield Paragraph(
        "The first command takes the records from here, each checked by its hash, and measures nothing that "
        "is published. With `--fresh` it measures again, and says which record differs from the published "
        "one: on the same lab none does. `index.json` has the cells with the places of their records."
    )
    name, place = studies[0] if studies else "STUDY", url if is_url(url) else "PLACE"
    yield Code(
        f"strata run {name}.toml --store {place}\n"
        f"strata run {name}.toml --store {place} --fresh --results results/again\n"
        f"strata compare '{place}#{name}' results/mine",
        "sh",
    )
