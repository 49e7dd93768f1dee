# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from results_factory import STACKS, good_log, make_study, plan_of, snapshot_of, store_trial

from strata.errors import ResultError
from strata.model.histogram import decode, empty_histogram, encode, record
from strata.model.metric import Metric
from strata.model.trial import TrialKey
from strata.results.store import ResultsFolder
from strata.statistics.comparison import CellSeries, MetricKind, compare, judge
from strata.statistics.curve import percentile_band
from strata.statistics.level import MeanLevel, PercentileLevel, distribution_of
from strata.statistics.study import gather
from strata.statistics.summary import Series, summarize


def series(*values: float) -> Series:
    return Series(dict(enumerate(values, start=1)))


def encoded(*latencies_ns: int) -> str:
    histogram = empty_histogram()
    for latency_ns in latencies_ns:
        record(histogram, latency_ns)
    return encode(histogram)


def test_the_mean_over_seeds_is_geometric() -> None:
    summary = summarize(series(100, 400))

    assert summary.estimate == pytest.approx(200)
    assert summary.method == "geometric mean"
    assert (summary.n, summary.minimum, summary.maximum) == (2, 100, 400)


def test_values_that_have_no_geometric_mean_get_an_arithmetic_one() -> None:
    summary = summarize(series(0, 3, 3))

    assert summary.estimate == pytest.approx(2)
    assert summary.method == "arithmetic mean"


def test_many_resamples_at_once_give_what_each_gives_alone() -> None:
    rng = np.random.default_rng(7)
    seeds = {seed: [int(each) for each in rng.gamma(2, 1e7, size=300)] for seed in (1, 2, 3)}
    distribution = distribution_of({seed: encoded(*values) for seed, values in seeds.items()})
    weights = np.array([[1, 1, 1], [3, 0, 0], [0, 2, 1], [0, 0, 3]])

    for percentile in (1.0, 50.0, 99.0, 99.9, 100.0):
        expected = []
        for row in weights:
            drawn = [value for seed, times in zip(seeds, row, strict=True) for value in seeds[seed] * times]
            expected.append(decode(encoded(*drawn)).get_value_at_percentile(percentile))
        assert distribution.percentiles(percentile, weights).tolist() == expected


def test_percentiles_are_taken_from_merged_histograms_not_averaged() -> None:
    # 1000 fast requests in one seed, 10 slow ones in the other: the mean of both p99 would be 505 ms. The
    # seed that stalled counts as much as the other one, although it counted fewer requests.
    fast, slow = encoded(*[10_000_000] * 1000), encoded(*[1_000_000_000] * 10)
    whole = Series({1: 10e6, 2: 1000e6}, percentile=99.0, histograms={1: fast, 2: slow})

    summary = summarize(whole)

    assert summary.method == "merged histogram"
    assert summary.estimate == pytest.approx(1000e6, rel=1e-3)
    assert distribution_of({1: fast, 2: slow}).total == 1010
    assert summarize(replace(whole, percentile=49.0)).estimate == pytest.approx(10e6, rel=1e-3)
    assert summarize(replace(whole, percentile=51.0)).estimate == pytest.approx(1000e6, rel=1e-3)


def test_a_curve_ends_where_fewer_than_ten_values_lie_beyond() -> None:
    curve = percentile_band(distribution_of({1: encoded(*range(1_000_000, 2_000_000, 1000))}))

    assert max(percentile for percentile, _ in curve.points) == pytest.approx(99.0)


def test_a_histogram_that_cannot_be_decoded_is_an_error_with_a_remedy() -> None:
    with pytest.raises(ResultError, match="cannot be decoded"):
        summarize(Series({1: 1.0}, percentile=99.0, histograms={1: "HISTnonsense"}))


def test_histograms_without_values_are_an_error_with_a_remedy() -> None:
    with pytest.raises(ResultError, match="hold no values"):
        summarize(Series({1: 1.0}, percentile=99.0, histograms={1: encode(empty_histogram())}))


def test_a_latency_of_0_counts_as_the_histograms_unit() -> None:
    zeros = empty_histogram()
    zeros.record_value(0, 100)
    found = summarize(Series(dict.fromkeys((1, 2, 3), 0.0), 99.0, dict.fromkeys((1, 2, 3), encode(zeros))))

    assert (found.estimate, found.interval) == (1.0, None)


def test_a_merged_percentile_is_not_compared_with_a_mean_of_percentiles() -> None:
    for others in ((1, 2, 3), (4, 5, 6)):
        texts = {seed: encoded(*range(1000 * seed, 3000 * seed, 10)) for seed in (1, 2, 3)}
        values = {seed: decode(text).get_value_at_percentile(99.0) for seed, text in texts.items()}
        whole = Series(values, 99.0, texts)
        partial = Series(dict(zip(others, values.values(), strict=True)), 99.0, {others[0]: texts[1]})
        assert isinstance(whole.level([1, 2, 3]), PercentileLevel)
        assert isinstance(partial.level([*others]), MeanLevel)

        found = compare(whole, partial)

        assert found is not None
        assert found.ratio == pytest.approx(1.0)


def test_the_gain_has_an_interval_however_wide_it_is() -> None:
    wild = Series({1: 1e-300, 2: 1.0, 3: 1e300})
    kind = MetricKind("latency_ns", "ns", "lower", headline=True)
    one = Series(dict.fromkeys((1, 2, 3), 1.0))

    found = judge(kind, CellSeries("w", "a", wild), CellSeries("w", "b", one))

    assert found is not None
    assert found.gain_interval is not None
    assert found.verdict == "undecided"


def test_a_ratio_pairs_the_seeds_that_both_have() -> None:
    ratio = compare(Series({1: 200.0, 2: 300.0, 3: 400.0, 4: 1.0}), Series({1: 100.0, 2: 150.0, 3: 200.0}))
    assert ratio is not None
    assert ratio.interval is not None

    # Each seed doubles, however far the seeds are from each other: pairing leaves no doubt.
    assert ratio.n == 3
    assert [ratio.interval.low, ratio.ratio, ratio.interval.high] == pytest.approx([2, 2, 2])


def test_stacks_without_a_common_seed_are_compared_without_pairs() -> None:
    ratio = compare(Series({1: 1.0}), Series({2: 1.0}))
    assert ratio is not None

    assert (ratio.paired, ratio.n, ratio.interval) == (False, 1, None)


def test_an_invalid_trial_is_left_out_of_its_cell(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "results")
    folder.attempts(TrialKey("xfs", "oltp", 2))[0].result_path.unlink()

    results = gather(folder)

    assert sorted(results.cells["xfs", "oltp"].records) == [1, 3]
    assert results.ranking("oltp", results.metrics("oltp")[0]) == ["xfs", "ext4", "btrfs"]
    assert [kind.name for kind in results.leading("oltp")] == ["transactions_per_s", "latency_ns_p99"]


def test_of_several_tenants_each_ones_rate_and_headline_latency_are_shown_and_no_more(tmp_path: Path) -> None:
    shown = ["aggregate_operations_per_s", "a_operations_per_s", "a_pass_latency_ns_p99", "a_relative_speed"]
    left_out = ["a_open_latency_ns_p99", "a_operations"]
    folder = ResultsFolder.create(tmp_path / "results", snapshot_of({"ext4": 100.0}, (1,), ("oltp",)))
    plan = plan_of("ext4", "oltp", 1)
    metrics = [
        Metric(name=name, value=1, unit="1", better="higher", headline=name in shown)
        for name in (*left_out, *shown)
    ]
    store_trial(folder, plan, metrics, good_log(plan, 100.0))

    assert [kind.name for kind in gather(folder).leading("oltp")] == shown


def test_virtual_and_wall_results_are_never_pooled(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "results", seeds=(1,))
    attempt = folder.attempts(TrialKey("xfs", "oltp", 1))[0]
    attempt.write_result(attempt.read_result().model_copy(update={"time_domain": "wall"}))

    with pytest.raises(ResultError, match="wall time lies among results in virtual time"):
        gather(folder)


def test_a_study_that_was_not_run_yet_has_empty_cells(tmp_path: Path) -> None:
    results = gather(ResultsFolder.create(tmp_path / "results", snapshot_of(STACKS, (1,))))

    assert results.records == []
    assert results.metrics("oltp") == []
    assert {reading.problem for reading in results.readings} == {"not run yet"}
