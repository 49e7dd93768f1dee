# SPDX-License-Identifier: Apache-2.0
"""The results that tests of size are made of are such as a run would leave."""

from __future__ import annotations

from pathlib import Path

from made_results import made_results
from strata.plan.catalogue import catalogue
from strata.spec.histogram import decode
from strata.spec.load import load_study
from strata.statistics.study import gather


def test_made_results_are_read_like_measured_ones(tmp_path: Path) -> None:
    folder = made_results(tmp_path / "results", stacks=3, workloads=2, seeds=2, missing={"ext4.mail.s2"})
    results = gather(folder)

    assert (results.stacks, results.workloads) == (["ext4", "xfs", "btrfs"], ["postgresql", "mail"])
    assert len(results.records) == 11
    record = results.records[0]
    tail = record.metric("latency_ns_p99")
    assert tail is not None
    histogram = record.histogram(tail)
    assert histogram is not None
    assert decode(histogram).get_value_at_percentile(99) == tail.value


def test_their_study_is_one_that_could_be_run(tmp_path: Path) -> None:
    folder = made_results(tmp_path / "results", stacks=11, workloads=7, seeds=1)
    file = tmp_path / "made.toml"
    file.write_text(folder.study().text)

    study = load_study(file, catalogue())

    assert list(study.stacks) == [each.name for each in folder.study().stacks]


def test_a_gain_is_what_a_cell_gains(tmp_path: Path) -> None:
    plain = gather(made_results(tmp_path / "plain", stacks=2, workloads=1, seeds=3))
    slowed = gather(made_results(tmp_path / "slowed", stacks=2, workloads=1, seeds=3, gains={"xfs": 0.95}))

    def rates(stack: str, index: int) -> float:
        of = (plain, slowed)[index]
        return of.cells[stack, "postgresql"].series("transactions_per_s").values[1]

    assert rates("ext4", 1) == rates("ext4", 0)
    assert round(rates("xfs", 1) / rates("xfs", 0), 9) == 0.95
