# SPDX-License-Identifier: Apache-2.0
"""Every reason to doubt a number is a warning with a figure and a remedy; sound numbers have none."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from made_results import made_results
from strata.model.histogram import empty_histogram, encode, record
from strata.model.metric import Metric
from strata.model.step import Phase
from strata.model.trial import CellKey, TrialKey
from strata.model.warning import STEADY, UNDISTURBED, WARNINGS, Check, ResultWarning
from strata.plan.model import sha256_hex
from strata.report.page import render
from strata.report.report import Report
from strata.results.record import ResultRecord, measured
from strata.results.store import ResultsFolder
from strata.rules.untouched import Untouched
from strata.statistics.study import StudyResults, gather

STACK, WORKLOAD = "ext4", "postgresql"
SOUND = "coordinated-omission"
"""The warning that every closed loop gets."""

Change = Callable[[ResultRecord], ResultRecord]


def made(path: Path, seeds: int = 6, spread: float = 0.001, missing: tuple[str, ...] = ()) -> ResultsFolder:
    return made_results(
        path / "results",
        stacks=["ext4", "xfs"],
        workloads=[WORKLOAD],
        seeds=seeds,
        spread=spread,
        missing=missing,
    )


def changed(
    folder: ResultsFolder, change: Change, seeds: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
) -> StudyResults:
    """The results with some of one cell's records changed."""
    for seed in seeds:
        (attempt,) = folder.attempts(TrialKey(STACK, WORKLOAD, seed))
        attempt.write_result(change(attempt.read_result()))
    return gather(folder)


def warnings_by_code(results: StudyResults) -> dict[str, ResultWarning]:
    found = results.warnings(STACK, WORKLOAD)
    for each in found:
        assert re.fullmatch("[a-z]+(-[a-z]+)*", each.code)
        assert each.remedy
        assert "{" not in each.remedy
        assert each.code in WARNINGS or each.code.startswith("check-")
    return {each.code: each for each in found}


def with_check(name: str, verdict: str) -> Change:
    def change(known: ResultRecord) -> ResultRecord:
        kept = [each for each in known.checks if each.name != name]
        added = Check.model_validate({"name": name, "verdict": verdict, "detail": "because of 45.0%"})
        return known.model_copy(update={"checks": (*kept, added)})

    return change


def in_phase(phase: Phase) -> Change:
    def change(known: ResultRecord) -> ResultRecord:
        metrics = tuple(each.model_copy(update={"phase": phase}) for each in known.metrics)
        return known.model_copy(update={"metrics": metrics})

    return change


def with_metrics(*metrics: Metric) -> Change:
    def change(known: ResultRecord) -> ResultRecord:
        names = {each.name for each in metrics}
        kept = [each for each in known.metrics if each.name not in names]
        found = measured((*kept, *metrics))
        found["histograms"] = {**known.histograms, **found["histograms"]}
        return known.model_copy(update=found)

    return change


def times(factor: float, name: str) -> Change:
    def change(known: ResultRecord) -> ResultRecord:
        metrics = [
            each.model_copy(update={"value": each.value * factor}) if each.name == name else each
            for each in known.metrics
        ]
        return known.model_copy(update={"metrics": tuple(metrics)})

    return change


def headline(results: StudyResults) -> str:
    return results.metrics(WORKLOAD)[0].name


def test_sound_numbers_get_only_the_warning_about_the_closed_loop(tmp_path: Path) -> None:
    assert list(warnings_by_code(gather(made(tmp_path)))) == [SOUND]


def moved(known: ResultRecord) -> ResultRecord:
    """Measured by another kernel."""
    kernel = known.fingerprint.model_copy(update={"kernel_sha256": sha256_hex(b"another")})
    return known.model_copy(update={"fingerprint": kernel})


def unchanged(known: ResultRecord) -> ResultRecord:
    return known


# Of how many seeds which ones are changed how, the warning, what it and its remedy say, whether it is grave.
DOUBTS: tuple[tuple[int, tuple[int, ...], Change, str, str, str, bool], ...] = (
    (1, (), unchanged, "few-seeds", "1 seed: too few for an interval", "seeds = [1, 2, 3, 4, 5, 6]", False),
    (3, (), unchanged, "few-seeds", "3 seeds: Student's interval", "seeds = [1, 2, 3, 4, 5, 6]", False),
    (5, (), unchanged, "few-seeds", "about 93 %", "seeds = [1, 2, 3, 4, 5, 6]", False),
    (6, (1, 2), with_check("steady", "no"), "not-steady", "in 2 of 6 seeds: because of 45.0%", "", True),
    (6, (1, 2), with_check("did-io-in-window", "no"), "cached-window", "in 2 of 6 seeds", "", True),
    (6, (1, 2), with_check("larger-than-memory", "no"), "data-fits-in-memory", "in 2 of 6", "", False),
    (6, (1,), with_check("no-transaction-failed", "no"), "check-no-transaction-failed", "in 1", "", False),
    (6, (1, 2), with_check("steady", "unknown"), "unknown-check", "the check cannot tell", "", False),
    (6, (4,), times(3.0, "transactions_per_s"), "outlier", "seed 4 is far from the others", "", False),
    (6, (1, 2, 3), times(2.0, "latency_ns_p99"), "percentile-interval-too-narrow", "by ±", "", False),
    (6, (1,), moved, "several-labs", "2 different kernels", "--fresh", True),
)


def test_each_doubt_is_a_warning_with_its_figure_and_remedy(tmp_path: Path) -> None:
    wrong = []
    for number, (seeds, which, change, code, text, remedy, grave) in enumerate(DOUBTS):
        results = changed(made(tmp_path / str(number), seeds=seeds), change, which)
        warning = warnings_by_code(results).get(code)
        said = warning and (text in warning.text, remedy in warning.remedy, warning.grave)
        if said != (True, True, grave):
            wrong.append((code, said, warning))
        assert results.summaries(WORKLOAD, headline(results))[STACK].n == seeds, "each still counts"
    assert not wrong


def test_the_warning_about_a_wide_interval_says_how_many_seeds_would_do(tmp_path: Path) -> None:
    found = warnings_by_code(gather(made(tmp_path, spread=0.3)))

    assert re.search(
        r"reaches ±\d+(\.\d)? % after 6 seeds, and should reach ±1\.5 %", found["not-converged"].text
    )
    assert re.search(r"about [\d,]+ seeds would do", found["not-converged"].remedy)
    assert re.search(r"reaches ±\d+ %", found["wide-interval"].text)


@pytest.mark.parametrize(("precision", "said"), [(0.5, False), (0.001, True)])
def test_a_study_that_names_a_precision_is_judged_by_it(precision: float, said: bool, tmp_path: Path) -> None:
    results = gather(made(tmp_path, spread=0.01))
    asked = results.snapshot.model_copy(update={"precision": precision})

    found = warnings_by_code(replace(results, snapshot=asked))

    assert ("not-converged" in found) == said
    if said:
        assert "should reach ±0.1 %" in found["not-converged"].text
        assert "raise seeds_max" in found["not-converged"].remedy


def test_an_open_loop_that_falls_behind_is_a_warning_and_is_not_called_closed(tmp_path: Path) -> None:
    folder = made(tmp_path)
    latency = gather(folder).cells[STACK, WORKLOAD].records[1].metric("latency_ns_mean")
    assert latency is not None

    def lag(share: float) -> Change:
        value = share * latency.value
        return with_metrics(Metric(name="schedule_lag_ns_mean", value=value, unit="ns", better="lower"))

    kept_up = warnings_by_code(changed(folder, lag(0.05)))
    assert not {"open-loop-behind", "coordinated-omission"} & kept_up.keys()

    behind = warnings_by_code(changed(folder, lag(0.8), seeds=(2, 3)))
    assert "2 of 6 seeds" in behind["open-loop-behind"].text
    assert behind["open-loop-behind"].grave


def test_a_percentile_of_too_few_values_is_a_warning(tmp_path: Path) -> None:
    histogram = empty_histogram()
    for latency_ns in range(10_000_000, 10_100_000, 1000):
        record(histogram, latency_ns)
    few = Metric(
        name="latency_ns_p99",
        value=1e7,
        unit="ns",
        better="lower",
        headline=True,
        family="latency_ns",
        quantile=0.99,
        histogram=encode(histogram),
    )

    warning = warnings_by_code(changed(made(tmp_path), with_metrics(few)))["few-values"]

    assert "made of 600 values, of which 6.0 lie above it" in warning.text


def test_kernels_that_the_study_asks_for_are_no_warning(tmp_path: Path) -> None:
    results = changed(made(tmp_path), moved)
    known = replace(results, snapshot=results.snapshot.model_copy(update={"kernels": {STACK: "6.12"}}))

    assert "several-labs" in warnings_by_code(results)
    assert "several-labs" not in warnings_by_code(known)
    assert "2 different builds" in render(Report(results))
    assert "different builds" not in render(Report(known))


def test_a_cell_that_the_study_skips_has_nothing_to_doubt(tmp_path: Path) -> None:
    results = gather(made(tmp_path, missing=tuple(f"{STACK}.{WORKLOAD}.s{seed}" for seed in range(1, 7))))
    skipped = {CellKey(STACK, WORKLOAD): "it does not fit"}
    snapshot = results.snapshot.model_copy(update={"skipped": skipped})

    assert StudyResults(snapshot, results.readings, results.cells).warnings(STACK, WORKLOAD) == []


def test_seeds_with_the_same_value_are_a_warning(tmp_path: Path) -> None:
    folder = made(tmp_path)
    results = gather(folder)
    name = headline(results)
    value = results.cells[STACK, WORKLOAD].series(name).values[1]

    def same(known: ResultRecord) -> ResultRecord:
        found = known.metric(name)
        assert found is not None
        return times(value / found.value, name)(known)

    results = changed(folder, same)

    assert "all 6 seeds have the same value" in warnings_by_code(results)["alike-seeds"].text
    assert "wide-interval" not in warnings_by_code(results)


@pytest.mark.parametrize(
    ("phase", "name", "why"),
    [
        ("prepare", STEADY, ""),
        ("prepare", UNDISTURBED, "ext4: disturbed"),
        ("inspect", STEADY, "ext4: not steady"),
    ],
)
def test_what_the_window_lacks_is_no_doubt_about_what_was_timed_before_it(
    phase: Phase, name: str, why: str, tmp_path: Path
) -> None:
    folder = made(tmp_path)
    changed(folder, in_phase(phase))
    results = changed(folder, with_check(name, "no"), seeds=(1, 2, 3))

    (comparison,) = results.against("xfs")
    assert comparison.doubt == why


@pytest.mark.parametrize(
    ("account", "is_said"),
    [({"write_bytes": 1 << 20}, True), ({"write_bytes": 8 << 30}, False), ({"cleanings": 3}, False)],
)
def test_what_a_study_compares_and_does_not_touch_is_said_unless_the_window_met_it(
    tmp_path: Path, account: dict[str, int], is_said: bool
) -> None:
    results = changed(made(tmp_path), lambda record: record.model_copy(update={"disks": {"disk0": account}}))
    text = "2 GiB of data fit into the media cache"
    small = Untouched(text=text, written_bytes_min=4 << 30, counter="cleanings")
    always = Untouched(text="8 GiB of data lie in 19 regions of the bitmap")
    untouched = {CellKey(STACK, WORKLOAD): (small, always)}
    results = replace(results, snapshot=results.snapshot.model_copy(update={"untouched": untouched}))

    said = [each.text for each in results.warnings(STACK, WORKLOAD) if each.code == "too-small-study"]

    assert said == [*([text] if is_said else []), always.text]
    assert not any(each.code == "too-small-study" for each in results.warnings("xfs", WORKLOAD))
