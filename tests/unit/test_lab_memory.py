# SPDX-License-Identifier: Apache-2.0
"""The memory of a lab's machine, and the load generator that only some plans carry."""

from __future__ import annotations

from pathlib import Path

import pytest
from results_factory import plan_of

from strata.errors import LabError
from strata.lab.boot import boot_setting, kernel_arguments, memory_text
from strata.lab.initrd import lab_bindings
from strata.lab.limits import check_memory, lies_on_disk
from strata.lab.programs import PATH, LoadBuild, load_file, load_setting
from strata.model.step import LOAD
from strata.model.study import MEMORY_BYTES_MIN
from strata.plan.model import Plan

MIB = 1 << 20


def plan_with(*variables: str) -> Plan:
    return plan_of("a", "b", 1).model_copy(update={"variables": variables})


def test_a_lab_without_a_stated_memory_boots_as_it_always_has() -> None:
    assert "mem=1G" in kernel_arguments(1, 1)
    assert "mem=1G" in boot_setting()["arguments"]


def test_the_kernel_gets_its_memory_in_the_largest_unit() -> None:
    for memory_bytes, text in ((256 * MIB, "256M"), (4096 * MIB, "4G"), (1025 * MIB, "1025M")):
        assert memory_text(memory_bytes) == text
        assert f"mem={text}" in kernel_arguments(1, 1, memory_bytes=memory_bytes)


def test_without_shared_memory_a_lab_has_its_memory_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.lab.limits._SHM", str(tmp_path / "shm"))

    assert lies_on_disk(MEMORY_BYTES_MIN)
    check_memory(MEMORY_BYTES_MIN, tmp_path)


def test_a_memory_that_a_lab_cannot_have_is_refused_with_a_remedy(tmp_path: Path) -> None:
    for memory_bytes in (MEMORY_BYTES_MIN - MIB, 1024 * MIB + 4096, 1 << 60):
        with pytest.raises(LabError) as caught:
            check_memory(memory_bytes, tmp_path / "run")
        assert caught.value.place == "study.memory"
        assert caught.value.remedy


def test_only_a_plan_that_runs_the_load_generator_carries_and_depends_on_it(tmp_path: Path) -> None:
    path = tmp_path / "strata-load"
    path.write_bytes(b"the program")
    load = LoadBuild(path, "its hash")

    assert load_file(plan_with(LOAD), load) == {"strata/programs/load": b"the program"}
    assert load_setting(plan_with(LOAD), load) == {LOAD: "its hash"}
    for built in (load, None):
        assert load_file(plan_with("mount"), built) == {}
        assert load_setting(plan_with("mount"), built) == {}


def test_the_bindings_say_where_the_lab_puts_the_load_generator() -> None:
    bindings = lab_bindings(plan_with(LOAD))

    assert bindings["variables"][LOAD] == PATH
    assert bindings["programs"] == [{"path": "/strata/programs/load", "to": PATH}]
    assert "programs" not in lab_bindings(plan_with("mount"))
    assert LOAD not in lab_bindings(plan_with("mount"))["variables"]


def test_a_load_generator_that_is_not_built_is_missed_with_a_remedy() -> None:
    with pytest.raises(LabError, match="must be built first") as caught:
        load_setting(plan_with(LOAD), None)

    assert caught.value.remedy == "run `strata lab build --only load`"
