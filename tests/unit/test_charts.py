# SPDX-License-Identifier: Apache-2.0
"""The report's charts show values of any range, and describe them in words."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from golden_text import Golden
from strata.model.histogram import empty_histogram, encode, record
from strata.report import charts, svg
from strata.report.charts import Piece, account_words, over_time
from strata.report.palette import PARTS, stack_colours
from strata.report.xy import BANDS_MAX, HALF_PX, Axis, Line, xy_chart
from strata.results.record import Throughput
from strata.statistics import curve as times
from strata.statistics.curve import CURVE, HistogramShape, percentile_band, shape_of
from strata.statistics.level import Distribution, distribution_of
from strata.statistics.summary import MetricSummary, Series, summarize

S = 1_000_000_000


def parsed(drawing: svg.Drawing) -> ET.Element:
    """The drawing as XML, which every number in it must allow."""
    assert "nan" not in drawing.svg.lower()
    assert "inf" not in re.sub(r">[^<]*<", "><", drawing.svg).lower()
    return ET.fromstring(drawing.svg)


def summaries(values: dict[str, list[float]]) -> dict[str, MetricSummary]:
    return {stack: summarize(Series(dict(enumerate(each, 1)))) for stack, each in values.items()}


def bars_of(values: dict[str, list[float]], unit: str = "1/s") -> svg.Drawing:
    return charts.bars(summaries(values), unit, "rate", stack_colours(list(values)))


def curve(stack: str, level_ns: float) -> Line:
    points = [(float(p), level_ns * (1 - math.log10(1 - p / 100))) for p in CURVE]
    return Line(stack, points, [(p, value * 0.9, value * 1.1) for p, value in points])


def histograms(*seeds: list[int]) -> Distribution:
    encoded = {}
    for seed, values in enumerate(seeds, 1):
        histogram = empty_histogram()
        for value in values:
            record(histogram, value)
        encoded[seed] = encode(histogram)
    return distribution_of(encoded)


def draws(seed: int, count: int, scale: float = 1e6) -> list[int]:
    rng = np.random.default_rng(seed)
    return [int(value) for value in rng.lognormal(0, 0.7, count) * scale]


def test_the_curve_of_merged_histograms_has_the_percentiles_of_hdrhistogram() -> None:
    seeds = [draws(number, 5000) for number in range(3)]
    merged = HdrHistogram(1, 3600 * S, 3)
    for value in itertools.chain.from_iterable(seeds):
        merged.record_value(value)

    found = percentile_band(histograms(*seeds))

    assert len(found.points) > 50
    for percentile, latency_ns in found.points:
        assert latency_ns == merged.get_value_at_percentile(percentile)
    assert found.points[-1][0] <= 100 * (1 - 10 / 15_000)


def test_the_band_of_a_curve_holds_every_seed_and_ends_where_a_seed_has_too_few_values() -> None:
    seeds = [draws(1, 5000), draws(2, 5000, 2e6), draws(3, 300)]
    found = percentile_band(histograms(*seeds))

    for percentile, lowest, highest in found.band:
        each = [percentile_band(histograms(values)).points for values in seeds]
        at = [dict(points)[percentile] for points in each]
        # Of a scaled histogram a percentile may lie in the neighbouring bin.
        assert (lowest, highest) == pytest.approx((min(at), max(at)), rel=0.01)
    assert found.band[-1][0] <= 100 * (1 - 10 / 300)
    assert percentile_band(histograms(seeds[0])).band == ()


def test_a_histogram_over_ratios_counts_every_value_in_its_bin() -> None:
    values = draws(4, 4000)
    shape = shape_of(histograms(values))

    assert shape is not None
    assert sum(shape.shares) == pytest.approx(1)
    for low, high, share in zip(shape.edges, shape.edges[1:], shape.shares, strict=False):
        # A recorded value is known to a thousandth.
        inside = sum(low * 1.001 < value <= high * 0.999 for value in values) / len(values)
        around = sum(low * 0.999 < value <= high * 1.001 for value in values) / len(values)
        assert inside - 1e-9 <= share <= around + 1e-9
    assert shape.p99 is not None
    assert shape_of(histograms(values[:500])).p99 is None  # type: ignore[union-attr]


def throughput(
    rates: list[float], *, source: str = "load", unit: str = "1/s", tenant: str | None = None
) -> Throughput:
    return Throughput.model_validate(
        {"source": source, "unit": unit, "interval_ns": S, "rates": tuple(rates), "tenant": tenant}
    )


def test_throughput_over_time_is_the_mean_of_the_seeds_within_what_they_range_between() -> None:
    found = times.over_time([throughput([10, 20, 30]), throughput([20, 20, 0, 50])])

    assert found.mean.tolist() == [15, 20, 15]
    assert found.low.tolist() == [10, 20, 0]
    assert found.high.tolist() == [20, 20, 30]
    assert found.n == 2


def test_a_long_window_is_shown_in_longer_intervals_and_loses_nothing() -> None:
    rates = [float(number) for number in range(600)]
    found = times.over_time([throughput(rates)])

    assert len(found.mean) <= times.INTERVALS_MAX
    assert found.interval_ns == 5 * S
    assert found.mean.sum() * 5 == pytest.approx(sum(rates))


class Kept:
    """A record, of which the throughput alone is asked."""

    def __init__(self, *each: Throughput) -> None:
        self.throughput = each


def test_the_loads_own_account_comes_before_that_of_the_disks() -> None:
    load, disks = throughput([1.0]), throughput([9.0], source="disks", unit="B/s")
    found = times.throughputs({"a": [Kept(load, disks)], "b": [Kept(load, disks)]})  # type: ignore[list-item]

    assert [{stack: each.source for stack, each in series.items()} for series in found] == [
        {"a": "load", "b": "load"}
    ]


def test_disks_are_shown_where_no_load_counts_and_never_in_two_units() -> None:
    requests, volume = (throughput([9.0], source="disks", unit=unit) for unit in ("1/s", "B/s"))
    stacks = {"a": [Kept(requests)], "b": [Kept(volume)], "c": [Kept(volume)], "d": [Kept()]}
    (found,) = times.throughputs(stacks)  # type: ignore[arg-type]

    assert {stack: each.unit for stack, each in found.items()} == {"b": "B/s", "c": "B/s"}
    assert "as the disks saw it" in account_words(found)
    assert times.throughputs({"d": [Kept()]}) == []  # type: ignore[list-item]


def test_each_tenants_load_has_a_chart_of_its_own() -> None:
    record = Kept(throughput([1.0], tenant="mail"), throughput([2.0], tenant="web"))
    found = times.throughputs({"a": [record]})  # type: ignore[list-item]

    assert [series["a"].tenant for series in found] == ["mail", "web"]


def test_a_thinned_line_stays_within_half_a_pixel_of_its_points() -> None:
    rng = np.random.default_rng(1)
    points = [(float(x), 100 + 40 * math.sin(x / 30) + float(rng.normal(0, 0.1))) for x in range(700)]
    kept = svg.thinned(points)

    assert len(kept) < len(points) / 3
    xs, ys = zip(*kept, strict=True)
    for x, y in points:
        assert abs(float(np.interp(x, xs, ys)) - y) < 0.5


def test_a_path_returns_to_where_it_was_drawn() -> None:
    points = [(0.04, 0.0), (10.26, -3.5), (10.26, 7.0), (0.0, 0.1)]
    d = svg.path(points)
    x, y = map(float, re.match(r"M(-?[\d.]+) (-?[\d.]+)", d).groups())  # type: ignore[union-attr]
    numbers = [float(each) for each in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", d.partition("l")[2])]
    found = [(x, y)]
    for dx, dy in zip(numbers[::2], numbers[1::2], strict=True):
        x, y = x + dx, y + dy
        found.append((x, y))

    assert found == [pytest.approx((round(a, 1), round(b, 1)), abs=1e-6) for a, b in points]


def xy(points: Sequence[tuple[float, float]], x: Axis, y: Axis, **given: Any) -> svg.Drawing:
    return xy_chart([Line("a", points, **given.pop("line", {}))], x, y, "t", stack_colours(["a"]), **given)


def rated(*seeds: list[float], stacks: int = 1) -> svg.Drawing:
    found = times.over_time([throughput(each) for each in seeds])
    series = {f"stack-{number}": found for number in range(stacks)}
    return over_time(series, "throughput over time", stack_colours(list(series)))


def latencies(count: int) -> svg.Drawing:
    curves = [curve(f"stack-{number}", 5e6 + number * 1e4) for number in range(count)]
    return charts.latencies(curves, "latency", stack_colours([line.name for line in curves]))


def drawings() -> Iterator[tuple[str, svg.Drawing]]:
    """A small one of each kind and form."""
    yield "bars in proportion", bars_of({f"stack-{n}": [100.0 * n, 101.0 * n] for n in (1, 2, 10)})
    yield "bars of times", bars_of({"a": [12.4e6], "zfs-recordsize-128kib-compression-off": [1e6]}, "ns")
    yield "a long name", bars_of({"ext4_on_" + "very_" * 12 + "thin_lvm": [1.0]})
    yield "curves with their bands", latencies(3)
    yield "curves too many for bands, with names apart", latencies(BANDS_MAX + 1)
    yield "logarithmic axes", xy([(1, 1), (10, 1000), (100, 10)], Axis(kind="log"), Axis(kind="log"))
    nines = Axis(kind="nines", low=90.0, high=99.99)
    yield "an axis of nines", xy([(90, 1), (99, 3), (99.9, 2), (99.99, 4)], nines, Axis())
    yield "plain axes", xy([(0, 0), (3, 7), (4, 3.5)], Axis(), Axis())
    yield "steps and a limit", xy([(0, 0), (1, 10)], Axis(), Axis(), line={"style": "steps"}, limit=5.0)
    lines = [
        Line("model", [(0.0, 1.0), (1.0, 2.0), (1e6, 1e9)]),
        Line("theory", [(1.0, 3.0)], style="theory"),
    ]
    axes, colours = (
        (Axis("requests", "log"), Axis("latency in µs", "log")),
        stack_colours(["model", "theory"]),
    )
    yield "no zero on a logarithmic axis", xy_chart(lines, *axes, "t", colours, width=HALF_PX, legend=True)
    shapes = {name: HistogramShape((1e6, 2e6, 4e6), (0.25, 0.75), 2.5e6, 3.9e6) for name in "ab"}
    yield "distributions", charts.distributions(shapes, "latency", stack_colours(list(shapes)))
    yield "throughput", rated([100.0, 900.0, 100.0], [90.0, 800.0, 300.0], stacks=2)
    yield "throughput of one seed", rated([1.0, 2.0])
    for unit, factor in (("share", 1.0), ("ns", 1e9)):
        pieces = {
            stack: [
                Piece("seek", part * factor, PARTS["seek"], PARTS["idle"]),
                Piece("idle", (1 - part) * factor, PARTS["idle"]),
            ]
            for stack, part in {"a": 0.25, "b": 0.5, "none": 0.0}.items()
        }
        yield f"stacked bars in {unit}", charts.stacked_bars(pieces, unit, "parts")


def test_charts_are_drawn_as_they_were_looked_at(golden: Golden) -> None:
    lines: list[str] = []
    for name, drawing in drawings():
        parsed(drawing)
        lines += [f"# {name}", drawing.alternative, drawing.svg.replace("><", ">\n<"), ""]
    golden("charts.txt", "\n".join(lines))


def test_anything_can_be_drawn_and_nothing_lies_outside() -> None:
    for values in (
        {"a": [0.0, 0.0, 0.0], "b": [0.0, 0.0, 0.0]},
        {"a": [1.0], "b": [1e9]},
        {"a": [1e-9, 2e-9, 1e-9]},
        {"a" * 80: [1.0, 2.0, 3.0], "b": [2.0, 2.0, 2.0]},
        {"<&\"'>": [1.0], "ä" * 60: [2.0]},
    ):
        drawing = bars_of(values)
        for each in parsed(drawing).iter("text"):
            assert -1 <= float(each.get("x", 0)) <= drawing.width_px
        assert all(stack in drawing.alternative for stack in values)
    for axis in (Axis(), Axis(kind="log"), Axis(low=3.0, high=3.0), Axis(unit="B/s")):
        parsed(xy([(3.0, 3.0)], axis, axis))
    parsed(xy([(0.0, 0.0)], Axis(), Axis(unit="1/s")))
    assert xy([(0.0, 1.0)], Axis(kind="log"), Axis(kind="log")).svg == ""
    for rates in ([0.0, 0.0, 0.0], [1e9, 1.0, 5.0], [7.0, 7.0]):
        parsed(rated(rates, rates[::-1], stacks=20))
    single = shape_of(histograms([1_000_000] * 50))
    assert single is not None
    parsed(charts.distributions({"a": single}, "latency", stack_colours(["a"])))
    with pytest.raises(ValueError, match="no place"):
        svg.px(float("nan"))


def test_an_axis_reaches_around_its_values() -> None:
    for low, high in ((1.0, 1e9), (250.0, 260.0), (1e6, 1e6), (3e3, 3e12)):
        ticks = svg.log_ticks(low, high)
        assert ticks[0] <= low <= high <= ticks[-1]
        assert 3 <= len(ticks) <= 14
        assert ticks == sorted(set(ticks))
    for high in (1e-6, 0.3, 1.0, 8.0, 97.0, 39_000.0, 3e12):
        ticks = svg.linear_ticks(0, high)
        assert 2 <= len(ticks) <= 8
        assert ticks[0] == 0
        assert ticks[-1] <= high * (1 + 1e-9)
        assert f"{ticks[1]:.0e}"[0] in "125"
