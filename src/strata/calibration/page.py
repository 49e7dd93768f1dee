# SPDX-License-Identifier: Apache-2.0
"""A calibration as blocks: measured beside modelled, values with their origin, what is least sure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from strata import __version__
from strata.calibration.calibrate import Calibrated, ComparedCell, load_title
from strata.datasheet.measure import Curve, Picture
from strata.report.device_plot import draw
from strata.report.document import Block, Bullets, Figure, Fold, Group, Paragraph, Section
from strata.report.table import Cell, Table, columns
from strata.report.templates import document_page
from strata.units import NS_PER_MS, significant
from strata.words import grouped

_MEASURED: Final = "measured"


def cells_table(found: Calibrated) -> Table:
    """Each measured cell with the calibrated model's figures."""
    heads = columns(
        "load",
        ("measured", "1/s"),
        ("model", "1/s"),
        ("p50", "ns"),
        ("model p50", "ns"),
        ("p99", "ns"),
        ("model p99", "ns"),
        "in nine of ten",
    )
    rows = [_row(each) for each in found.cells]
    counts = found.within
    said = "; ".join(
        f"{name}: {good} of {every} rates within 15 %" for name, (good, every) in counts.items() if every
    )
    return Table(heads, rows, "Measured and modelled", said)


def _row(each: ComparedCell) -> list[object]:
    measured, shown = each.measured, each.modelled
    p50, p99 = (measured.latencies_ns.get(percent) for percent in (50.0, 99.0))
    return [
        load_title(measured.pattern),
        measured.iops,
        Cell(shown.iops, tone="" if each.is_near else "doubt"),
        p50,
        shown.latencies_ns[50.0],
        p99,
        Cell(shown.latencies_ns[99.0], tone="" if each.has_near_tail else "doubt"),
        _surety(each),
    ]


def _surety(each: ComparedCell) -> str:
    if each.fitted or each.interval is None:
        return "fitted" if each.fitted else "predicted"
    return " – ".join(map(significant, each.interval))


def values_table(found: Calibrated) -> Table:
    """Each value with a range: what the measurements say of it."""
    heads = columns("parameter", ("value", "figure"), ("in nine of ten cases", "figure"), "from")
    rows = [
        (
            each.name,
            f"{significant(each.value)} {each.unit}",
            " to ".join(map(significant, each.interval)),
            _MEASURED if each.is_measured else f"the class, {found.class_name}",
        )
        for each in sorted(found.values, key=lambda each: -each.gain)
    ]
    return Table(heads, rows, "Values")


def blocks(found: Calibrated) -> Iterator[Block]:
    """The calibration for a terminal, and below it for a page."""
    past = f", {found.state}" * (found.device.kind == "flash")
    yield Paragraph(f"{found.name} is fitted as {found.class_name}{past}.", "lead")
    yield cells_table(found)
    every = values_table(found)
    yield replace(every, rows=[row for row in every.rows if row[-1] == _MEASURED])
    if found.notes:
        yield Bullets(list(found.notes))
    if found.unsure:
        load, low, high = found.unsure[0]
        rates = f"{significant(low)} to {significant(high)} per second in nine of ten cases"
        yield Paragraph(f"The load it would predict worst: {load}, {rates}.")


def render(found: Calibrated) -> str:
    """One page that needs no network: curves of rates and percentiles over depth, then the tables."""
    title = f"{found.name}, calibrated"
    figures = (
        Figure(f"{name}-{number}", picture.title, "", draw(picture))
        for name, pictures in _pictures(found).items()
        for number, picture in enumerate(pictures)
    )
    tried = Table(
        columns("class", ("misfit", "figure")), [(n, significant(cost)) for n, cost in found.tried], "Classes"
    )
    sections = [
        Section("curves", "Curves", [Group(figures, "pair")]),
        Section("values", "All values", [Group([values_table(found)], "wrapped")]),
        Section("classes", "Classes that were tried", [Fold("By misfit", [tried])]),
    ]
    made = (f"Made by Strata {__version__} with `strata calibrate`.",)
    facts = "; ".join(
        f"{load}: {significant(low)} to {significant(high)}/s" for load, low, high in found.unsure[:3]
    )
    first = Section("cells", "Measured and modelled", [Group(list(blocks(found)), "wrapped")])
    return document_page(
        title,
        kicker="calibration",
        heading=title,
        facts=f"Least sure: {facts}. ",
        blocks=[first, *sections],
        made=made,
    )


def _pictures(found: Calibrated) -> dict[str, list[Picture]]:
    """For each load with several depths: rates, and the median and 99th percentile, over depth."""
    keyed = (
        (f"{load.rw}-{load.block_bytes}{f'-in-{load.job}' * (not load.is_pure)}", c)
        for c in found.cells
        for load in [c.measured.pattern]
    )
    made = {}
    for name, cells in grouped(keyed).items():
        if len(cells) > 1:
            made[name] = [_picture(name, cells, "per second"), _picture(name, cells, "ms")]
    return made


def _picture(name: str, cells: list[ComparedCell], unit: str) -> Picture:
    def points(side: str, percent_: float) -> tuple[tuple[float, float], ...]:
        chosen = ((float(c.measured.pattern.depth), getattr(c, side)) for c in cells)
        if not percent_:
            return tuple((depth, cell.iops) for depth, cell in chosen)
        found = ((depth, cell.latencies_ns.get(percent_)) for depth, cell in chosen)
        return tuple((depth, value / NS_PER_MS) for depth, value in found if value)

    kinds = [("", 0.0)] if unit == "per second" else [(" p50", 50.0), (" p99", 99.0)]
    curves = [
        Curve(f"{side}{suffix}", points(side, p), "dots" if side == "measured" else "line")
        for suffix, p in kinds
        for side in ("measured", "modelled")
    ]
    shown = tuple(each for each in curves if each.points)
    return Picture(f"{name} ({unit})", "depth", unit, shown, x_log=True, y_log=True)
