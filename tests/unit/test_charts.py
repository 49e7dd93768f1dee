# SPDX-License-Identifier: Apache-2.0
"""The report's charts show values of any range, and describe them in words."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from strata.model.histogram import empty_histogram, encode, record
from strata.report import charts, svg
from strata.report.charts import Piece, account_words, over_time
from strata.report.palette import PARTS, stack_colours
from strata.report.xy import BANDS_MAX, HALF_PX, Axis, Line, tick_text, xy_chart
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


def texts(drawing: svg.Drawing) -> list[str]:
    return [each.text or "" for each in parsed(drawing).iter("text")]


def group_of(drawing: svg.Drawing, stack: str) -> ET.Element:
    (found,) = (each for each in parsed(drawing).iter("g") if each.get("data-stack") == stack)
    return found


def lines_of(drawing: svg.Drawing, stack: str) -> list[ET.Element]:
    return [path for path in group_of(drawing, stack).iter("path") if path.get("fill") == "none"]


def summaries(values: dict[str, list[float]]) -> dict[str, MetricSummary]:
    return {stack: summarize(Series(dict(enumerate(each, 1)))) for stack, each in values.items()}


def bars_of(values: dict[str, list[float]], unit: str = "1/s") -> svg.Drawing:
    return charts.bars(summaries(values), unit, "rate", stack_colours(list(values)))


def test_bars_show_every_stack_once_with_its_seeds_as_long_as_its_value() -> None:
    values = {f"stack-{number}": [100.0 * number] * 3 for number in range(1, 21)}
    drawing = bars_of(values)

    lengths: list[float] = []
    for stack in values:
        assert texts(drawing).count(stack) == 1
        assert f"{stack} {len(lengths) + 1}00" in drawing.alternative.replace(",", "")
        paths = [each.get("d", "") for each in group_of(drawing, stack).iter("path")]
        assert sum(d.endswith("h0") for d in paths) == 3
        straight, curve = re.search(r"h([\d.]+)q([\d.]+)", " ".join(paths)).groups()  # type: ignore[union-attr]
        lengths.append(float(straight) + float(curve))
    assert [length / lengths[-1] for length in lengths] == pytest.approx(
        [number / 20 for number in range(1, 21)], abs=0.001
    )
    assert "ms" in texts(bars_of({"a": [12.4e6]}, "ns"))


def test_bars_can_be_drawn_of_anything() -> None:
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


def test_long_names_stand_in_two_lines_or_are_shortened_in_their_middle() -> None:
    names = [f"zfs-recordsize-{size}kib-compression-off" for size in (8, 128)]
    shown = texts(bars_of({name: [1.0] for name in names}))
    assert {"zfs-recordsize-", "8kib-compression-off", "128kib-compression-off"} <= set(shown)

    long = "ext4_on_" + "very_" * 12 + "thin_lvm"
    (cut,) = (each for each in parsed(bars_of({long: [1.0]})).iter("text") if "…" in (each.text or ""))
    start, _, end = (cut.text or "").partition("…")
    assert long.startswith(start)
    assert long.endswith(end)
    assert cut.find("title").text == long  # type: ignore[union-attr]


def curve(stack: str, level_ns: float) -> Line:
    points = [(float(p), level_ns * (1 - math.log10(1 - p / 100))) for p in CURVE]
    return Line(stack, points, [(p, value * 0.9, value * 1.1) for p, value in points])


def test_every_line_is_named_once_in_a_look_of_its_own_and_names_do_not_touch() -> None:
    for count in (1, 3, BANDS_MAX, 20):
        curves = [curve(f"stack-{number}", 5e6 + number * 1e4) for number in range(count)]
        drawing = charts.latencies(curves, "latency", stack_colours([line.name for line in curves]))

        heights, looks = [], set()
        for line in curves:
            (path,) = lines_of(drawing, line.name)
            looks.add((path.get("stroke"), path.get("stroke-dasharray")))
            (label,) = group_of(drawing, line.name).iter("text")
            assert label.text == line.name
            heights.append(float(label.get("y", 0)))
        heights.sort()
        assert len(looks) == count
        assert all(after - before >= 14 for before, after in itertools.pairwise(heights))
        assert 0 < heights[0] < heights[-1] < drawing.height_px or count == 1
        # Of more, the bands would cover one another.
        assert drawing.svg.count("fill-opacity") == (count if count <= BANDS_MAX else 0)


def places(drawing: svg.Drawing, name: str) -> list[tuple[float, float]]:
    """The places of a line's points, in pixels."""
    (path,) = lines_of(drawing, name)
    numbers = [float(each) for each in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", path.get("d", ""))]
    steps = zip(numbers[::2], numbers[1::2], strict=True)
    return list(itertools.accumulate(steps, lambda at, by: (at[0] + by[0], at[1] + by[1])))


def test_axes_place_points_by_their_kind() -> None:
    colours = stack_colours(["a"])
    log = Axis(kind="log")
    decades = xy_chart([Line("a", [(1, 1), (10, 1000), (100, 10)])], log, log, "t", colours)
    (x0, y0), (x1, y1), (x2, y2) = places(decades, "a")
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert (y0 - y1) == pytest.approx(3 * (y0 - y2), abs=0.3)

    nines = Axis(kind="nines", low=90.0, high=99.99)
    tails = xy_chart([Line("a", [(90, 1), (99, 3), (99.9, 2), (99.99, 4)])], nines, Axis(), "t", colours)
    xs = [x for x, _ in places(tails, "a")]
    steps = [after - before for before, after in itertools.pairwise(xs)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)

    plain = xy_chart([Line("a", [(0, 0), (3, 7), (4, 3.5)])], Axis(), Axis(), "t", colours)
    assert "8" in texts(plain), "the largest value can be read off"
    (x0, y0), (x1, y1), (x2, y2) = places(plain, "a")
    assert (x1 - x0) == pytest.approx(3 * (x2 - x1), abs=0.3)
    assert (y0 - y1) == pytest.approx(2 * (y0 - y2), abs=0.3)


def test_a_chart_leaves_out_points_that_a_logarithmic_axis_cannot_show() -> None:
    model, theory = Line("model", [(0.0, 1.0), (1.0, 2.0), (1e6, 1e9)]), Line("theory", [(1.0, 3.0)])
    lines = [model, replace(theory, style="theory")]
    x, y = Axis("requests", "log"), Axis("latency in µs", "log")
    drawing = xy_chart(lines, x, y, "curve", stack_colours(["model", "theory"]), width=HALF_PX, legend=True)

    assert {"requests", "latency in µs", "model", "theory"} <= set(texts(drawing))
    assert len(places(drawing, "model")) == 2
    nothing = xy_chart([Line("none", [(0.0, 1.0)])], x, y, "curve", stack_colours(["none"]))
    assert (nothing.svg, nothing.width_px) == ("", 0)


def test_a_chart_of_one_value_can_be_drawn() -> None:
    for axis in (Axis(), Axis(kind="log"), Axis(low=3.0, high=3.0), Axis(unit="B/s")):
        parsed(xy_chart([Line("a", [(3.0, 3.0)])], axis, axis, "one", stack_colours(["a"])))
    parsed(xy_chart([Line("a", [(0.0, 0.0)])], Axis(), Axis(unit="1/s"), "zero", stack_colours(["a"])))


def test_steps_hold_their_value_until_the_next_point_and_a_limit_spans_the_chart() -> None:
    line = Line("a", [(0.0, 0.0), (1.0, 10.0)], style="steps")
    drawing = xy_chart([line], Axis(), Axis(), "steps", stack_colours(["a"]), limit=5.0)

    (_, y0), (x1, y1), (x2, y2) = places(drawing, "a")
    assert y0 == y1
    assert x1 == x2
    (level,) = (path for path in parsed(drawing).iter("path") if path.get("stroke-dasharray") == "7 3")
    height = float(re.match(r"M[\d.]+ ([\d.]+)", level.get("d", ""))[1])  # type: ignore[index]
    assert height == pytest.approx((y0 + y2) / 2, abs=0.2)


def test_an_axis_reaches_around_its_values() -> None:
    for low, high in ((1.0, 1e9), (250.0, 260.0), (1e6, 1e6), (3e3, 3e12)):
        ticks = svg.log_ticks(low, high)
        assert ticks[0] <= low <= high <= ticks[-1]
        assert 3 <= len(ticks) <= 14
        assert ticks == sorted(set(ticks))
        drawing = charts.latencies([Line("a", [(50.0, low), (99.0, high)])], "latency", stack_colours(["a"]))
        assert tick_text(ticks[0]) in texts(drawing)
    for high in (1e-6, 0.3, 1.0, 8.0, 97.0, 39_000.0, 3e12):
        ticks = svg.linear_ticks(0, high)
        assert 2 <= len(ticks) <= 8
        assert ticks[0] == 0
        assert ticks[-1] <= high * (1 + 1e-9)
        assert f"{ticks[1]:.0e}"[0] in "125"


def test_nothing_is_drawn_where_a_number_is_none() -> None:
    with pytest.raises(ValueError, match="no place"):
        svg.px(float("nan"))


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


def test_distributions_have_a_row_per_stack_and_say_their_medians() -> None:
    shape = HistogramShape((1e6, 2e6, 4e6), (0.25, 0.75), 2.5e6, 3.9e6)
    for count in (1, 20):
        shapes = {f"stack-{number}": shape for number in range(count)}
        drawing = charts.distributions(shapes, "latency", stack_colours(list(shapes)))
        for stack in shapes:
            assert stack in texts(drawing)
            assert len(list(group_of(drawing, stack).iter("path"))) == 3
            assert f"{stack} median 2.5 ms, 99th percentile 3.9 ms" in drawing.alternative
    single = shape_of(histograms([1_000_000] * 50))
    assert single is not None
    parsed(charts.distributions({"a": single}, "latency", stack_colours(["a"])))


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


def test_throughput_is_drawn_once_per_stack() -> None:
    for rates, count in itertools.product(
        ([0.0, 0.0, 0.0], [100.0, 900.0, 100.0], [1e9, 1.0, 5.0], [7.0, 7.0]), (1, 4, 5, 20)
    ):
        seeds = [throughput(rates), throughput(rates[::-1])]
        series = {f"stack-{number}": times.over_time(seeds) for number in range(count)}
        drawing = over_time(series, "throughput over time", stack_colours(list(series)))

        for stack in series:
            assert texts(drawing).count(stack) == 1
            assert len(lines_of(drawing, stack)) == 1
            assert group_of(drawing, stack).find("path[@fill-opacity]") is not None
        assert {"per second", "seconds from the start of the measured window"} <= set(texts(drawing))


def test_one_seed_has_no_band() -> None:
    series = {"a": times.over_time([throughput([1.0, 2.0])])}
    drawing = over_time(series, "throughput", stack_colours(["a"]))

    assert "fill-opacity" not in drawing.svg
    assert "one seed" in account_words(series)
    assert "a 1.50 /s on average, from 1.00 /s to 2.00 /s" in drawing.alternative


def test_stacked_bars_have_pieces_in_proportion() -> None:
    colour, ink = PARTS["seek"], PARTS["idle"]
    bars = {
        stack: [Piece("seek", share, colour, ink), Piece("idle", 1 - share, ink)]
        for stack, share in {"a": 0.25, "b": 0.5}.items()
    }
    for unit, factor in (("share", 1), ("ns", 1e9)):
        scaled = {
            stack: [replace(piece, length=piece.length * factor, ink=None) for piece in pieces]
            for stack, pieces in bars.items()
        }
        drawing = charts.stacked_bars(scaled, unit, "parts")
        for stack, pieces in bars.items():
            boxes = [each.get("d", "") for each in group_of(drawing, stack).iter("path")]
            widths = [float(re.search(r"h([\d.]+)v", d)[1]) for d in boxes]  # type: ignore[index]
            assert widths[0] / sum(widths) == pytest.approx(pieces[0].length, abs=0.002)
            starts = [float(re.match(r"M([\d.]+)", d)[1]) for d in boxes]  # type: ignore[index]
            assert starts[1] - starts[0] == pytest.approx(widths[0], abs=0.2)
    assert "25 %" in texts(charts.stacked_bars(bars, "share", "parts"))
    assert "1.00 s" in texts(charts.stacked_bars(scaled, "ns", "parts"))
    assert "seek</text>" in "".join(charts.legend({"seek": colour}, 0, 0))
    parsed(charts.stacked_bars({"a": [Piece("seek", 0.0, colour)]}, "ns", "nothing"))


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
