# SPDX-License-Identifier: Apache-2.0
"""What a study will take: by its own earlier trials, by similar ones, or by a rule of thumb that says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from execution_factory import TEXT, fake_runner, run_tiny, study_in

from command_line import checked, shown
from golden_text import Golden
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


PGBENCH = 'workload = "pgbench"\nscale = {}\nclients = {}\nduration = "{}s"\n'
FLASH = TEXT.replace('model = "wd-re4-500gb"', 'model = "generic-nvme-data-centre"')
BARE = TEXT.replace("[workloads", "[stacks.raw]\nlayers = []\n\n[workloads")


def headed(line: str) -> str:
    return TEXT.replace("[study]", f"[study]\n{line}")


# The study, the stack, and the workload that is added to it and estimated, if it is not the study's own.
CASES: dict[str, tuple[str, str, str]] = {
    "the tiny study": (TEXT, "ext4", ""),
    "readers that pause": (TEXT, "ext4", 'workload = "blog"\nreader_pause = "10ms"\n'),
    "readers of the page cache, longer than the window": (TEXT, "ext4", 'workload = "blog"\n'),
    "on four processors": (headed("cpus = 4"), "ext4", 'workload = "blog"\n'),
    "on a slow processor": (headed('cpu = "atom-2008"'), "ext4", 'workload = "blog"\n'),
    "data written once": (TEXT, "ext4", 'workload = "dd"\ncontent = "random"\nsize = "10GiB"\n'),
    "and read again": (TEXT, "ext4", 'workload = "fill-and-fragment"\nsize = "10GiB"\nwriters = 1\n'),
    "a small table": (TEXT, "ext4", PGBENCH.format(1, 1, 60)),
    "a large table": (TEXT, "ext4", PGBENCH.format(100, 1, 60)),
    "sources unpacked": (TEXT, "ext4", 'workload = "tree"\n'),
    "a part of them": (TEXT, "ext4", 'workload = "tree"\nmembers = ["linux-*/fs"]\n'),
    "a large data set": (TEXT.replace('size = "1GiB"', 'size = "186GiB"'), "ext4", ""),
    "a bare disk that nobody fills": (BARE, "raw", ""),
    "read whole": (BARE.replace("1GiB", "400GiB"), "raw", ""),
    # These took 3 to 4 s of one processor at 5de71145, and the two with a window of 5 s took 8 to 20 s.
    "etcd on flash": (FLASH, "ext4", 'workload = "command"\npreset = "etcd"\n'),
    "pgbench on flash": (FLASH, "ext4", PGBENCH.format(2, 4, 5) + 'warmup = "1s"\n'),
    "mail on flash": (
        FLASH, "ext4", 'workload = "load"\npersonality = "varmail"\nwarmup = "1s"\nduration = "5s"\n'),
    "three power cuts": (f"{TEXT}[survival]\npower_cuts = 3\n", "ext4", ""),
    "six power cuts": (f"{TEXT}[survival]\npower_cuts = 6\n", "ext4", ""),
    "corruption": (f"{TEXT}[survival]\ncorruption = true\n", "ext4", ""),
}  # fmt: skip


def test_rules_of_thumb_estimate_each_kind_of_load(tmp_path: Path, golden: Golden) -> None:
    lines = []
    for name, (text, stack, workload) in CASES.items():
        study = study_in(tmp_path, text + (f"[workloads.it]\n{workload}" if workload else ""))
        cell = CellKey(stack, "it" if workload else "mix")
        found = estimate_of(study, {cell: 1}, past_trials([tmp_path / "nothing"]))
        [each] = found.cells
        took = f"{each.trial_real_s:.3g} s for {each.trial_ns / NS_PER_S:.4g} s"
        lines.append(f"{name}: {took} by {each.basis}, {found.real_s * found.jobs:.3g} s in all")
        lines.append(f"    {found.lab_bytes >> 20} MiB of memory")
    lost = f"{TEXT}[survival]\ndisk_loss = true\n"
    for name, text in (("a lost disk", lost), ("a lost disk and cuts", f"{lost}power_cuts = 3\n")):
        cells = {CellKey("ext4", each): 1 for each in ("mix", "mix-degraded")}
        found = estimate_of(study_in(tmp_path, text), cells, [])
        lines.append(f"{name}: {found.real_s * found.jobs:.3g} s in all")
    cell = CellKey("ext4", "it")
    study = study_in(tmp_path, f"{TEXT}[workloads.it]\n{PGBENCH.format(100, 1, 60)}")
    found = estimate_of(study, {cell: 1}, [], {cell: 100})
    lines.append(f"prepared for 100 trials: {found.real_s * found.jobs:.3g} s")
    golden("estimates.txt", "\n".join([*lines, ""]))


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


def test_a_window_that_may_end_early_is_expected_to_and_only_the_window(tmp_path: Path) -> None:
    def trial_s(more: str) -> float:
        text = f'workload = "load"\npersonality = "varmail"\nwarmup = "100s"\nduration = "900s"\n{more}'
        study = study_in(tmp_path, f"{TEXT}[workloads.it]\n{text}")
        return estimate_of(study, {CellKey("ext4", "it"): 1}, []).cells[0].trial_ns / NS_PER_S

    assert trial_s("") - trial_s('until = "5%"\n') == pytest.approx(0.2 * 900)


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
