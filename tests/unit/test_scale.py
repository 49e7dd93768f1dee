# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from execution_factory import TEXT, fake_runner

from command_line import shown
from strata.plan.catalogue import catalogue
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
