# SPDX-License-Identifier: Apache-2.0
"""Kernel modules of a plan: only plans that ask for one depend on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from results_factory import plan_of

from strata.errors import LabError
from strata.lab.cache import Cache, Inputs, cache_root
from strata.lab.image import ImageBuild
from strata.lab.initrd import lab_bindings
from strata.lab.kernel import KernelBuild
from strata.lab.lab import Lab, ensure_for, groups_of, module_bindings, module_files, part_setting
from strata.lab.modules import Module, ModulesBuild
from strata.lab.programs import AgentBuild
from strata.lab.progress import SILENCE
from strata.lab.variant import variant_spec
from strata.model.step import Prerequisites
from strata.plan.model import Plan
from strata.runners.lab import LabRunner


def plan_with(*modules: str, features: tuple[str, ...] = ()) -> Plan:
    prerequisites = Prerequisites(modules=modules, features=features)
    update = {"prerequisites": prerequisites, "devices": (), "variables": ()}
    return plan_of("a", "b", 1).model_copy(update=update)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    def file(name: str) -> Path:
        (tmp_path / name).write_text(f"the file {name}")
        return tmp_path / name

    modules = tuple(Module(name, file(f"{name}.ko"), f"hash of {name}") for name in ("spl", "zfs"))
    return Lab(
        KernelBuild(file("linux"), "k", "7.2.3", "7.2.3", locked=True),
        ImageBuild(file("image"), "i", {}, locked=True, moved=()),
        AgentBuild(file("agent"), "a"),
        modules={"zfs": ModulesBuild(modules[-1].path, "z", "2.4.4-1", locked=True, modules=modules)},
    )


def test_zfs_is_loaded_after_what_it_needs_and_with_a_fixed_host_id() -> None:
    assert module_bindings(plan_with("zfs")) == [
        {"path": "/strata/modules/00-spl.ko", "parameters": "spl_hostid=359034"},
        {"path": "/strata/modules/01-zfs.ko", "parameters": ""},
    ]
    assert lab_bindings(plan_with("zfs"))["modules"] == module_bindings(plan_with("zfs"))


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


def test_a_plan_needs_the_groups_of_its_features_and_no_others() -> None:
    groups: list[str]
    for features, groups in (
        (("filesystem:ext4", "filesystem:xfs", "filesystem:btrfs", "modelled-disks"), []),
        (("md:raid10",), ["xor", "md"]),
        (("dm:thin-pool", "filesystem:xfs"), ["dm", "dm-thin"]),
        (("dm:raid",), ["xor", "md", "dm", "dm-raid"]),
        (("dm:cache",), ["dm", "dm-thin", "dm-cache"]),
        (("dm:crypt", "filesystem:f2fs"), ["f2fs", "dm", "crypto", "dm-crypt"]),
        (("driver:nbd", "bcache"), ["nbd", "bcache"]),
    ):
        assert [each.name for each in groups_of(plan_with(features=features))] == groups


def test_what_is_not_built_counts_as_what_it_would_be_built_from(lab: Lab) -> None:
    plan = plan_with(features=("driver:loop",))

    assert lab.lacks(plan) == ["loop"]
    assert part_setting(plan, lab)["modules"]["loop"].startswith("not built: ")


def test_a_trial_of_another_part_of_the_study_has_the_image_that_it_ran_with(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_with().model_copy(update={"prerequisites": Prerequisites(packages=("incus",))})
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    assert part_setting(plan, lab) == {"image": "not built: incus"}
    built = {"sha256": "of the variant", "packages": {}, "locked": True, "moved": []}

    Cache(cache_root()).build("image", Inputs(variant_spec(("incus",)).wanted(), {}), lambda _: built)

    assert part_setting(plan, lab) == {"image": "of the variant"}


@pytest.mark.parametrize("part", ["kernel", "image", "agent"])
def test_a_study_does_not_go_on_with_another_lab_than_it_began_with(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    plan = plan_with(features=("driver:loop",))
    with_loop = replace(lab, modules={**lab.modules, "loop": lab.modules["zfs"]})
    another = replace(with_loop, **{part: replace(getattr(lab, part), sha256="of another build")})

    monkeypatch.setattr("strata.lab.lab.ensure_lab", lambda *_, **__: with_loop)
    assert ensure_for(lab, plan, SILENCE) == with_loop
    monkeypatch.setattr("strata.lab.lab.ensure_lab", lambda *_, **__: another)
    with pytest.raises(LabError, match="built anew while this study runs"):
        ensure_for(lab, plan, SILENCE)
