# SPDX-License-Identifier: Apache-2.0
"""The report's charts show values of any range, and describe them in words."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from strata.model.histogram import empty_histogram, encode, record
from strata.report import charts, svg
from strata.report.charts import account_words, over_time
from strata.report.device_plot import Axis, Line, plot
from strata.report.palette import PARTS, stack_colours
from strata.results.record import Throughput
from strata.statistics import curve as times
from strata.statistics.curve import CURVE, Shape, percentile_band, shape_of
from strata.statistics.level import Distribution, distribution_of
from strata.statistics.summary import Series, Summary, summarize

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


def ends_of(d: str) -> tuple[float, float]:
    """The start and the end of a bar's outline."""
    start = float(re.match(r"M([\d.]+)", d)[1])  # type: ignore[index]
    straight, curve = re.search(r"h([\d.]+)q([\d.]+)", d).groups()  # type: ignore[union-attr]
    return start, start + float(straight) + float(curve)


def summaries(values: dict[str, list[float]]) -> dict[str, Summary]:
    return {stack: summarize(Series(dict(enumerate(each, 1)))) for stack, each in values.items()}


def names(count: int) -> dict[str, list[float]]:
    return {f"stack-{number}": [100.0 + number, 101.0 + number, 99.0 + number] for number in range(count)}


@pytest.mark.parametrize("count", [1, 2, 8, 20])
def test_bars_show_every_stack_once_with_its_seeds(count: int) -> None:
    given = names(count)
    drawing = charts.bars(summaries(given), "1/s", "operations per second", stack_colours(list(given)))

    shown = texts(drawing)
    for stack in given:
        assert shown.count(stack) == 1
        assert f"{stack} 1" in drawing.alternative
        seeds = [each for each in group_of(drawing, stack).iter("path") if each.get("d", "").endswith("h0")]
        assert len(seeds) == 3


def test_bars_are_as_long_as_their_values() -> None:
    given = {"a": [100.0], "b": [50.0], "c": [25.0]}
    drawing = charts.bars(summaries(given), "1/s", "rate", stack_colours(list(given)))

    lengths = []
    for stack in given:
        d = next(
            each.get("d", "") for each in group_of(drawing, stack).iter("path") if "q" in each.get("d", "")
        )
        start, stop = ends_of(d)
        lengths.append(stop - start)

    assert lengths[0] / lengths[1] == pytest.approx(2, rel=0.01)
    assert lengths[0] / lengths[2] == pytest.approx(4, rel=0.01)


def test_the_axis_of_bars_has_the_unit() -> None:
    given = {"a": [12.4e6], "b": [3.1e6]}
    colours = stack_colours(list(given))

    assert "ms" in texts(charts.bars(summaries(given), "ns", "latency", colours))
    assert "MiB/s" in texts(charts.bars(summaries({"a": [2.0**23]}), "B/s", "bytes per second", colours))


@pytest.mark.parametrize(
    "values",
    [
        {"a": [0.0, 0.0, 0.0], "b": [0.0, 0.0, 0.0]},
        {"a": [1.0], "b": [1e9]},
        {"a": [1e-9, 2e-9, 1e-9]},
        {"a": [5.0]},
        {"a" * 80: [1.0, 2.0, 3.0], "b": [2.0, 2.0, 2.0]},
        {"<&\"'>": [1.0], "ä" * 60: [2.0]},
    ],
)
def test_bars_can_be_drawn_of_anything(values: dict[str, list[float]]) -> None:
    drawing = charts.bars(summaries(values), "1/s", "rate", stack_colours(list(values)))

    root = parsed(drawing)
    width = float(root.get("viewBox", "").split()[2])
    for each in root.iter("text"):
        assert -1 <= float(each.get("x", 0)) <= width
    for stack in values:
        assert stack in drawing.alternative


def test_a_name_that_is_too_long_is_shortened_in_its_middle_and_whole_in_a_tool_tip() -> None:
    long = "ext4_on_" + "very_" * 12 + "thin_lvm"
    drawing = charts.bars(summaries({long: [1.0], "b": [2.0]}), "1/s", "rate", stack_colours([long, "b"]))

    (shown,) = (each for each in parsed(drawing).iter("text") if "…" in (each.text or ""))
    start, _, end = (shown.text or "").partition("…")
    assert long.startswith(start)
    assert long.endswith(end)
    assert shown.find("title").text == long  # type: ignore[union-attr]


def test_long_names_that_differ_in_their_middle_are_told_apart_in_two_lines() -> None:
    names = [f"zfs-recordsize-{size}kib-compression-off" for size in (8, 128)]
    drawing = charts.bars(summaries({name: [1.0] for name in names}), "1/s", "rate", stack_colours(names))

    texts = [each.text for each in parsed(drawing).iter("text")]
    assert {"zfs-recordsize-", "8kib-compression-off", "128kib-compression-off"} <= set(texts)


def curve(stack: str, level_ns: float, *, last: float = 99.99, band: bool = False) -> charts.Curve:
    points = [(float(p), level_ns * (1 + svg_nines(p))) for p in CURVE if p <= last]
    spread = [(p, value * 0.9, value * 1.1) for p, value in points] if band else []
    return charts.Curve(stack, points, spread)


def svg_nines(percentile: float) -> float:
    return -math.log10(1 - percentile / 100)


@pytest.mark.parametrize("count", [1, 3, 8, 20])
def test_latencies_have_a_line_per_stack_and_labels_that_do_not_touch(count: int) -> None:
    curves = [curve(f"stack-{number}", 5e6 + number * 1e4) for number in range(count)]
    drawing = charts.latencies(curves, "latency", stack_colours([each.stack for each in curves]))

    heights = []
    for each in curves:
        group = group_of(drawing, each.stack)
        assert len([path for path in group.iter("path") if path.get("fill") == "none"]) == 1
        (label,) = group.iter("text")
        assert label.text == each.stack
        heights.append(float(label.get("y", 0)))
    heights.sort()
    assert all(after - before >= 14 for before, after in itertools.pairwise(heights))
    bottom = float(parsed(drawing).get("viewBox", "").split()[3])
    assert heights[-1] < bottom


def test_bands_are_drawn_as_long_as_they_can_be_distinguished() -> None:
    few = [curve(f"s{number}", 5e6, band=True) for number in range(3)]
    many = [curve(f"s{number}", 5e6, band=True) for number in range(charts.BANDS_MAX + 1)]

    assert (
        charts.latencies(few, "latency", stack_colours([c.stack for c in few])).svg.count("fill-opacity") == 3
    )
    assert "fill-opacity" not in charts.latencies(many, "latency", stack_colours([c.stack for c in many])).svg


def test_stacks_of_one_colour_have_lines_of_different_patterns() -> None:
    stacks = [f"s{number}" for number in range(20)]
    drawing = charts.latencies([curve(s, 5e6) for s in stacks], "latency", stack_colours(stacks))

    looks = set()
    for stack in stacks:
        (path,) = (each for each in group_of(drawing, stack).iter("path") if each.get("fill") == "none")
        looks.add((path.get("stroke"), path.get("stroke-dasharray")))
    assert len(looks) == len(stacks)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1e9), (250.0, 260.0), (1e6, 1e6), (3e3, 3e12)])
def test_an_axis_of_latencies_reaches_around_its_values(low: float, high: float) -> None:
    ticks = svg.log_ticks(low, high)

    assert ticks[0] <= low <= high <= ticks[-1]
    assert 3 <= len(ticks) <= 14
    assert ticks == sorted(set(ticks))
    points = [(50.0, low), (99.0, high)]
    drawing = charts.latencies([charts.Curve("a", points)], "latency", stack_colours(["a"]))
    assert charts.tick_text(ticks[0]) in texts(drawing)


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


@pytest.mark.parametrize("count", [1, 20])
def test_distributions_have_a_row_per_stack_and_say_their_medians(count: int) -> None:
    shape = Shape((1e6, 2e6, 4e6), (0.25, 0.75), 2.5e6, 3.9e6)
    shapes = {f"stack-{number}": shape for number in range(count)}
    drawing = charts.distributions(shapes, "latency", stack_colours(list(shapes)))

    for stack in shapes:
        assert stack in texts(drawing)
        assert len(list(group_of(drawing, stack).iter("path"))) == 3
        assert f"{stack} median 2.5 ms, 99th percentile 3.9 ms" in drawing.alternative


def test_a_distribution_of_one_value_can_be_drawn() -> None:
    shape = shape_of(histograms([1_000_000] * 50))
    assert shape is not None
    parsed(charts.distributions({"a": shape}, "latency", stack_colours(["a"])))


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


@pytest.mark.parametrize("count", [1, 4, 5, 20])
@pytest.mark.parametrize("rates", [[0.0, 0.0, 0.0], [100.0, 900.0, 100.0], [1e9, 1.0, 5.0], [7.0]])
def test_throughput_is_drawn_once_per_stack(count: int, rates: list[float]) -> None:
    series = {
        f"stack-{number}": times.over_time([throughput(rates), throughput(rates[::-1])])
        for number in range(count)
    }
    drawing = over_time(series, "throughput over time", stack_colours(list(series)))

    shown = texts(drawing)
    for stack in series:
        assert shown.count(stack) == 1
        group = group_of(drawing, stack)
        assert len([path for path in group.iter("path") if path.get("fill") == "none"]) == 1
        assert len([path for path in group.iter("path") if path.get("fill-opacity")]) == 1
    assert "per second" in shown
    assert "seconds from the start of the measured window" in shown


def test_one_seed_has_no_band() -> None:
    series = {"a": times.over_time([throughput([1.0, 2.0])])}
    drawing = over_time(series, "throughput", stack_colours(["a"]))

    assert "fill-opacity" not in drawing.svg
    assert "one seed" in account_words(series)


def test_shares_fill_the_window() -> None:
    shares = {"a": {"seek": 0.25, "idle": 0.75}, "b": {"seek": 0.5, "idle": 0.5}}
    drawing = charts.shares(shares, "where the disks' time went")

    for stack in shares:
        boxes = [each.get("d", "") for each in group_of(drawing, stack).iter("path")]
        widths = [float(re.search(r"h([\d.]+)v", d)[1]) for d in boxes]  # type: ignore[index]
        assert widths[0] / sum(widths) == pytest.approx(shares[stack]["seek"], abs=0.002)
    assert "seek" not in texts(drawing)
    assert "seek" in texts(charts.shares(shares, "shares", legend=True))


def test_shares_of_every_part_can_be_drawn() -> None:
    parsed(charts.shares({"a": dict.fromkeys(PARTS, 1 / len(PARTS))}, "shares", legend=True))


def test_a_plot_shows_its_axes_and_leaves_out_what_a_logarithmic_one_cannot() -> None:
    lines = [Line("model", [(0.0, 1.0), (1.0, 2.0), (1e6, 1e9)]), Line("theory", [(1.0, 3.0)], "theory")]
    drawing = plot(lines, Axis("requests", log=True), Axis("latency in µs", log=True), "curve")

    shown = texts(drawing)
    assert {"requests", "latency in µs", "model", "theory"} <= set(shown)
    assert "from 2" in drawing.alternative
    parsed(drawing)
    assert plot([Line("none", [(0.0, 1.0)])], Axis("x", log=True), Axis("y"), "curve").svg == ""


def test_steps_hold_their_value_until_the_next_point() -> None:
    drawing = plot([Line("a", [(0.0, 0.0), (1.0, 10.0)], "steps")], Axis("x"), Axis("y"), "steps")

    (path,) = (each for each in parsed(drawing).iter("path") if each.get("fill") == "none")
    dx, dy = re.findall(r"l(-?[\d.]+) ?(-?[\d.]+)", path.get("d", ""))[0]
    assert float(dx) > 0
    assert float(dy) == 0


@pytest.mark.parametrize("high", [1e-6, 0.3, 1.0, 8.0, 97.0, 39_000.0, 3e12])
def test_ticks_are_round_numbers_within_their_range(high: float) -> None:
    ticks = svg.linear_ticks(0, high)

    assert 2 <= len(ticks) <= 8
    assert ticks[0] == 0
    assert ticks[-1] <= high * (1 + 1e-9)
    assert f"{ticks[1]:.0e}"[0] in "125"


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
