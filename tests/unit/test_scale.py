# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from execution_factory import TEXT, fake_runner

from command_line import refusal, shown
from strata.model.study import FULL, reduced
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, trials
from strata.reading.load import load_study
from strata.results.declared import declared_study
from strata.results.store import ResultsFolder
from study_texts import SOUND


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s.toml"
    path.write_text(SOUND)
    return path


@pytest.mark.parametrize("name", sorted(catalogue().workloads))
def test_the_amounts_of_a_workload_are_its_keys_in_whole_units(name: str) -> None:
    kind = catalogue().workloads[name]

    assert kind.amounts.keys() <= kind.model_fields.keys()
    assert all(unit > 0 for unit in kind.amounts.values())


def test_windows_and_amounts_become_smaller_and_nothing_else(file: Path) -> None:
    full, tenth = (load_study(file, catalogue(), scale=share) for share in (1.0, 0.1))

    assert (tenth.name, tenth.scale) == (f"{full.name}-scale-10", 0.1)
    assert tenth.stacks == full.stacks
    assert tenth.memory_bytes == full.memory_bytes
    before, after = full.workloads["oltp"], tenth.workloads["oltp"]
    changed = {name for name in type(before).model_fields if getattr(before, name) != getattr(after, name)}
    assert changed == {"scale", "warmup_ns", "duration_ns"}
    assert after.window_ns == before.window_ns / 10


def test_a_share_keeps_one_unit_at_least(file: Path) -> None:
    tiny = load_study(file, catalogue(), scale=1e-6)

    assert tiny.workloads["oltp"].model_dump()["scale"] == 1
    assert tiny.workloads["oltp"].window_ns == 1_000_000_000
    full = load_study(file, catalogue())
    assert reduced(full, 1e-6)["oltp"] == pytest.approx(1 / full.workloads["oltp"].model_dump()["scale"])
    assert reduced(full, 0.1)["oltp"] == 0.1


@pytest.mark.parametrize("share", ["0%", "110%", "ten"])
@pytest.mark.parametrize("command", ["check", "run", "claims"])
def test_a_share_is_more_than_nothing_and_at_most_all(file: Path, command: str, share: str) -> None:
    shown(command, file, "--scale", share, exit_code=2)


def test_results_of_a_share_know_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TEXT)
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *_, **__: fake_runner())

    shown("run", "tiny.toml", "--scale", "50%")

    [place] = (tmp_path / "results").iterdir()
    snapshot = ResultsFolder.open(place).study()
    assert place.name == "tiny-scale-50"
    assert snapshot.command == "strata run tiny.toml --scale 50%"
    assert declared_study(snapshot).scale == 0.5
    assert declared_study(snapshot, full=True).scale == 1
    shown("claims", place, "--scale", "50%", exit_code=2)  # they have their scale


def test_at_full_size_a_study_has_the_machines_memory_data_and_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    disks = [word for name in ("generic-nearline-hdd",) * 2 for word in ("--disk", name)]
    for data, share in (("64GiB", 1 / 16), ("1TiB", 1 / 64)):  # the latter beyond 32 memories
        file = tmp_path / f"home-{data.lower()}.toml"
        answers = ("--use", "home-server", *disks, "--memory", "8GiB", "--data", data)
        shown("new", "study", file.stem, *answers)
        said = shown("check", file)
        small, full = (load_study(file, catalogue(), scale=scale) for scale in (1.0, FULL))
        assert (full.name, full.memory_bytes) == (f"{small.name}-full", 8 << 30)
        assert small.data_ratio == pytest.approx(1 / share, rel=0.001)
        part_bytes, data_bytes = (each.workloads["files"].data_bytes or 0 for each in (small, full))
        assert data_bytes == pytest.approx(part_bytes / share, rel=0.01)
        assert full.workloads["files"].window_ns == small.workloads["files"].window_ns
        assert full.stacks["zfs"].layers[0].kernel_memory_bytes() == 4 << 30
        assert full.devices["disk0"].capacity_bytes >= 4 * data_bytes
        assert "dirty limit: bursts of writes above 102 MiB wait here, above 1.6 GiB there" in said
        assert ("caches hold less of them" in said) is (data == "1TiB")
        assert len(trials(full)) == len(trials(small))
        compile_trial(full, "zfs", "files", 1)
    shown("run", file, "--full", "--scale", "10%", exit_code=2)
    (tmp_path / "s.toml").write_text(SOUND)
    assert "write your machine's memory as machine_memory" in str(
        refusal("check", tmp_path / "s.toml", "--full")
    )
