# SPDX-License-Identifier: Apache-2.0
"""Kernel modules of a plan: only plans that ask for one depend on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import LabError
from strata.lab.agent import AgentBuild
from strata.lab.bindings import lab_bindings
from strata.lab.image import ImageBuild
from strata.lab.kernel import KernelBuild
from strata.lab.lab import Lab
from strata.lab.modules import module_bindings, module_files, module_hashes
from strata.lab.zfs import Module, ZfsBuild
from strata.plan.model import Monitors, Plan, Trial
from strata.runners.lab import LabRunner
from strata.spec.step import Prerequisites


def plan_with(*modules: str) -> Plan:
    return Plan(
        trial=Trial(study="study", stack="a", workload="b", seed=1, id="a.b.s1"),
        prerequisites=Prerequisites(modules=modules),
        devices=(),
        variables=(),
        environment={},
        monitors=Monitors(interval_ns=1, disks=()),
        time_limit_ns=1,
        steps=(),
    )


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    def file(name: str) -> Path:
        (tmp_path / name).write_text(f"the file {name}")
        return tmp_path / name

    modules = tuple(Module(name, file(f"{name}.ko"), f"hash of {name}") for name in ("spl", "zfs"))
    return Lab(
        KernelBuild(file("linux"), "k", "7.2.3", "7.2.3", locked=True, size_bytes=1),
        ZfsBuild(modules[-1].path, "z", modules, "2.4.4-1", locked=True, size_bytes=1),
        ImageBuild(file("image"), "i", {}, locked=True, moved=(), size_bytes=1),
        AgentBuild(file("agent"), "a", 1),
    )


def test_zfs_is_loaded_after_what_it_needs_and_with_a_fixed_host_id() -> None:
    assert module_bindings(plan_with("zfs")) == [
        {"path": "/strata/modules/00-spl.ko", "parameters": "spl_hostid=359034"},
        {"path": "/strata/modules/01-zfs.ko", "parameters": ""},
    ]
    assert lab_bindings(plan_with("zfs"))["modules"] == module_bindings(plan_with("zfs"))


def test_the_files_are_those_of_the_lab(lab: Lab) -> None:
    assert module_files(plan_with("zfs"), lab) == {
        "strata/modules/00-spl.ko": b"the file spl.ko",
        "strata/modules/01-zfs.ko": b"the file zfs.ko",
    }
    assert module_hashes(plan_with("zfs"), lab) == {"spl": "hash of spl", "zfs": "hash of zfs"}


def test_only_what_asks_for_modules_depends_on_them(lab: Lab) -> None:
    runner = LabRunner(lab)

    assert runner.setting(plan_with("zfs"), {})["modules"] == {"spl": "hash of spl", "zfs": "hash of zfs"}
    assert "modules" not in runner.setting(plan_with(), {})
    assert "modules" not in lab_bindings(plan_with())
    assert module_files(plan_with(), lab) == {}


def test_a_module_that_the_lab_has_not_got_is_named() -> None:
    with pytest.raises(LabError, match="the lab has no kernel module bcachefs") as caught:
        module_bindings(plan_with("bcachefs", "zfs"))

    assert caught.value.place == "a.b.s1"
