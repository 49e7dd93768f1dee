# SPDX-License-Identifier: Apache-2.0
"""What a study will take: by its own earlier trials, by similar ones, or by a rule of thumb that says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from execution_factory import TEXT, fake_runner, run_tiny, study_in

from command_line import checked, shown
from strata.execution import estimate as estimates
from strata.execution.estimate import Past, estimate_of, past_trials
from strata.execution.forecast import TrialDuration
from strata.execution.pool import LAB_OVERHEAD_BYTES
from strata.model.study import Study
from strata.model.trial import CellKey
from strata.units import NS_PER_S

CELLS = {CellKey("ext4", "mix"): 2, CellKey("xfs", "mix"): 2}


def past(study: Study, stack: str, real_s: float) -> Past:
    described = study.describe()
    took = TrialDuration(100.0 * NS_PER_S, real_s)
    parts = described.workloads["mix"], described.stacks[stack]
    return Past(*parts, ("wd-re4-500gb",), study.processor.name, took)


def test_without_a_trial_a_rule_of_thumb_is_used_and_said(tmp_path: Path) -> None:
    found = estimate_of(study_in(tmp_path), CELLS, past_trials([tmp_path / "nothing"]))

    assert {each.basis for each in found.cells} == {"rule of thumb"}
    assert 0 < found.real_s < 600


def test_a_load_that_reads_the_page_cache_takes_longer_than_its_window(tmp_path: Path) -> None:
    def trial_s(head: str = "", pause: str = "0ms") -> float:
        blog = f'[workloads.blog]\nworkload = "blog"\nreader_pause = "{pause}"\n'
        study = study_in(tmp_path, TEXT.replace("[study]", f"[study]\n{head}") + blog)
        [found] = estimate_of(study, {CellKey("ext4", "blog"): 1}, []).cells
        return found.trial_real_s

    assert trial_s(pause="10ms") < 300 < trial_s() / 7  # the window
    assert trial_s("cpus = 4") > 3 * trial_s()
    assert trial_s('cpu = "atom-2008"') < trial_s() / 2


def test_data_that_is_read_again_takes_its_time_again(tmp_path: Path) -> None:
    dd = '[workloads.dd]\nworkload = "dd"\ncontent = "random"\nsize = "10GiB"\n'
    fragment = '[workloads.fragment]\nworkload = "fill-and-fragment"\nsize = "10GiB"\nwriters = 1\n'
    study = study_in(tmp_path, TEXT + dd + fragment)
    cells = [CellKey("ext4", name) for name in ("dd", "fragment")]

    once, thrice = (estimate_of(study, {cell: 1}, []).cells[0].trial_real_s for cell in cells)

    assert thrice > 2 * once


def test_tables_that_a_server_fills_and_sources_that_are_unpacked_take_their_time(tmp_path: Path) -> None:
    def trial_s(workload: str, shared_by: int = 1) -> float:
        study = study_in(tmp_path, f"{TEXT}[workloads.it]\n{workload}")
        cell = CellKey("ext4", "it")
        return estimate_of(study, {cell: 1}, [], {cell: shared_by}).real_s

    small, large = (
        f'workload = "pgbench"\nscale = {scale}\nclients = 1\nduration = "60s"\n' for scale in (1, 100)
    )
    assert 20 < trial_s(large) - trial_s(small) < 60
    assert trial_s(large, shared_by=100) < trial_s(small) + 1
    assert 20 < trial_s('workload = "tree"\n') - trial_s('workload = "tree"\nmembers = ["linux-*/fs"]\n') < 60


def test_a_cell_takes_what_it_took_before_and_the_longest_comes_first(tmp_path: Path) -> None:
    study = study_in(tmp_path)

    found = estimate_of(study, CELLS, [past(study, "ext4", 40), past(study, "xfs", 80)])

    assert [(str(each.cell), each.real_s, each.basis) for each in found.cells] == [
        ("xfs.mix", 160, "same cell"),
        ("ext4.mix", 80, "same cell"),
    ]
    assert found.real_s == 240 / found.jobs


def test_a_workload_of_another_length_has_the_speed_of_a_similar_one(tmp_path: Path) -> None:
    short, long = (study_in(tmp_path, TEXT.replace("2s", length)) for length in ("2s", "1000s"))

    found = estimate_of(long, CELLS, [past(short, "ext4", 40)])

    assert {each.basis for each in found.cells} == {"same workload and devices"}
    assert found.cells[0].trial_real_s == pytest.approx(0.4 * found.cells[0].trial_ns / NS_PER_S)
    assert found.cells[0].trial_ns > 1000 * NS_PER_S


def test_memory_that_no_lab_finds_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "memory_available_bytes", lambda: 1 << 30)
    monkeypatch.setattr(estimates, "lab_jobs", lambda *_: 1)

    found = estimate_of(study_in(tmp_path), CELLS, [])

    index_bytes = (1 << 30) // 4096 * 11  # of the data set of 1 GiB
    assert found.lab_bytes == (1 << 30) + LAB_OVERHEAD_BYTES + index_bytes
    assert not found.fits
    said = shown("check", tmp_path / "tiny.toml")
    assert "GiB of memory for each lab, of 1" in said
    assert "less memory is available than one lab takes" in said


def test_a_large_data_set_takes_its_time_and_the_memory_of_its_index(tmp_path: Path) -> None:
    text = TEXT.replace('size = "1GiB"', 'size = "186GiB"')
    small, large = (estimate_of(study_in(tmp_path, each), CELLS, []) for each in (TEXT, text))

    assert 300 < large.cells[0].trial_real_s < 900 > small.cells[0].trial_real_s * 10
    assert large.cells[0].trial_ns > 1000 * NS_PER_S
    assert 400 << 20 < large.lab_bytes - small.lab_bytes < 600 << 20


def test_check_finds_the_trials_of_the_results_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_tiny(tmp_path, fake_runner())

    assert _bases() == {"rule of thumb"}

    (tmp_path / "results").rename(tmp_path / "earlier")
    (tmp_path / "results").mkdir()
    (tmp_path / "earlier").rename(tmp_path / "results" / "tiny")
    assert _bases() == {"same cell"}
    assert "longest: " in shown("check", "tiny.toml")


def _bases() -> set[str]:
    return {each["basis"] for each in checked("tiny.toml")["estimate"]["cells"]}


# What these trials took at 5de71145 in seconds of one processor: 3 to 4 (command), 8 to 20 (5 s of window).
def test_a_short_load_on_flash_takes_its_window_and_not_the_waiting_around_it(tmp_path: Path) -> None:
    for workload, least_s, most_s in (
        ('workload = "command"\npreset = "etcd"\n', 2, 8),
        ('workload = "pgbench"\nscale = 2\nclients = 4\nwarmup = "1s"\nduration = "5s"\n', 10, 40),
        ('workload = "load"\npersonality = "varmail"\nwarmup = "1s"\nduration = "5s"\n', 6, 24),
    ):
        text = TEXT.replace('model = "wd-re4-500gb"', 'model = "generic-nvme-data-centre"')
        study = study_in(tmp_path, f"{text}[workloads.it]\n{workload}")
        [found] = estimate_of(study, {CellKey("ext4", "it"): 1}, []).cells
        assert least_s < found.trial_real_s < most_s


def test_ageing_counts_and_trials_of_another_age_say_nothing_of_it(tmp_path: Path) -> None:
    def aged(keys: str = "", capacity: str = "4GiB") -> Study:
        text = TEXT.replace('size = "1GiB"', 'size = "64MiB"').replace("[study]\n", f"[study]\n{keys}")
        return study_in(tmp_path, text.replace("[stacks.ext4]", f'capacity = "{capacity}"\n[stacks.ext4]', 1))

    def trial_s(study: Study) -> float:
        return estimate_of(study, {CellKey("ext4", "mix"): 1}, []).cells[0].trial_real_s

    age = 'age = { fill = "50%", overwrites = 1 }\n'
    new, old = aged(), aged(age)

    # Three such trials, on ext4, btrfs and ZFS, took 40 s of a processor.
    assert 7 < trial_s(old) < 27
    assert trial_s(aged(age, "64GiB")) > 10 * (trial_s(old) - trial_s(new))
    [found] = estimate_of(old, {CellKey("ext4", "mix"): 1}, [past(new, "ext4", 4)]).cells
    assert found.basis == "rule of thumb"


def test_the_failures_that_a_study_tries_are_counted(tmp_path: Path) -> None:
    def real_s(survival: str, *workloads: str) -> float:
        study = study_in(tmp_path, f"{TEXT}{survival}")
        found = estimate_of(study, {CellKey("ext4", name): 1 for name in ("mix", *workloads)}, [])
        return found.real_s * found.jobs

    none = real_s("")
    cuts, twice = (real_s(f"[survival]\npower_cuts = {count}\n") - none for count in (3, 6))

    assert cuts > 3 * none, "each takes a trial and its recovery"
    assert twice == pytest.approx(2 * cuts)
    assert real_s("[survival]\ncorruption = true\n") > none
    lost = "[survival]\ndisk_loss = true\n"
    cut = real_s(f"{lost}power_cuts = 3\n", "mix-degraded")
    assert cut - real_s(lost, "mix-degraded") == pytest.approx(cuts), "the added workload is not cut"


def test_a_disk_that_nobody_fills_takes_no_time_to_fill(tmp_path: Path) -> None:
    """../shared/cases/whole-disk.toml: reads of all of a bare disk."""

    def trial_s(size: str) -> float:
        text = TEXT.replace("[workloads", "[stacks.raw]\nlayers = []\n\n[workloads").replace("1GiB", size)
        return estimate_of(study_in(tmp_path, text), {CellKey("raw", "mix"): 1}, []).cells[0].trial_real_s

    assert trial_s("400GiB") == trial_s("1GiB")
