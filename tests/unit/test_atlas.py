# SPDX-License-Identifier: Apache-2.0
"""The atlas: its records belong to its study, and `strata ask` answers from them, saying how far they lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from command_line import shown, shown_json
from strata.actions.ask import question
from strata.actions.new_study import Answers, StudyUse
from strata.advice import atlas as module
from strata.advice.atlas import Atlas, atlas_answer, bundled_atlas, nearest
from strata.devices.device import find_device
from strata.plan.compile import compile_trial
from strata.plan.model import sha256_hex
from strata.results.store import Reading


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("strata.actions.ask.find_lab", lambda: None)
    return tmp_path


@pytest.fixture(scope="module")
def atlas() -> Atlas:
    return bundled_atlas()


def test_every_record_is_valid_and_of_a_trial_of_the_bundled_study(atlas: Atlas) -> None:
    seen: set[tuple[str, str]] = set()
    assert len({each.trial for each in atlas.readings}) == len(atlas.readings) > 40
    for each in atlas.readings:
        (stack, workload, seed, _), record = each.trial, each.record
        assert each.usable
        assert record is not None
        assert record.metrics
        assert seed in atlas.study.seeds
        # Of each device and workload one: `scripts/atlas.py` says how the records are made anew.
        if (kind := (atlas.device(stack).name, workload)) not in seen:
            seen.add(kind)
            plan = compile_trial(atlas.study, stack, workload, seed)
            assert sha256_hex(plan.to_json()) == atlas.plans[each.trial], f"{each.trial} has another plan now"


def test_a_drive_is_answered_for_by_the_nearest_class(atlas: Atlas) -> None:
    for model, device in (
        ("samsung-970-pro-1tb", "generic-nvme-consumer"),
        ("samsung-pm9a3-1920gb", "generic-nvme-data-centre"),
        ("intel-p4800x-375gb", "generic-nvme-data-centre"),
        ("samsung-860-evo-500gb", "generic-sata-ssd"),
        ("aws-ebs-gp3", "generic-cloud-general-purpose"),
        ("wd-re4-500gb", "generic-nearline-hdd"),
        ("generic-nvme-consumer", "generic-nvme-consumer"),
        ("controller-bbwc-raid10-4x-wd-re4-500gb", None),  # no class is of its kind
    ):
        found, _, _ = nearest(atlas, find_device(model), 1)
        assert (None if found is None else found.name) == device, model
    for count, survives, disks, names in (
        (1, False, 1, {"ext4", "xfs", "btrfs", "zfs", "crypt-ext4", "thin-ext4"}),
        (3, False, 2, {"mirror-ext4", "mirror-btrfs", "mirror-zfs"}),
        (8, True, 4, {"raid10-ext4", "raid10-zfs", "raid6-xfs"}),
        (1, True, 0, set()),
    ):
        _, found_disks, stacks = nearest(atlas, find_device("wd-re4-500gb"), count, survives=survives)
        assert (found_disks, {*stacks}) == (disks, {f"{name}-on-hdd" for name in names})


def test_it_answers_by_the_records_and_says_what_was_asked_otherwise(
    atlas: Atlas, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = question(
        "home",
        StudyUse.HOME_SERVER,
        Answers(disks=["wd-re4-500gb"], memory="8GiB", data="16GiB"),
        must=("disk-loss",),
    ).study
    cells = [each for each in atlas.readings if each.trial[:2] == ("mirror-ext4-on-hdd", "oltp")]
    files = [each for each in atlas.readings if each.trial[:2] == ("mirror-ext4-on-hdd", "files")]

    def faster(each: Reading, stack: str, seed: int, factor: float) -> Reading:
        key = each.trial._replace(stack=f"{stack}-on-hdd", seed=seed)
        assert each.record is not None
        metrics = tuple(
            m.model_copy(update={"value": m.value * factor ** (1 if m.better == "higher" else -1)})
            for m in each.record.metrics
        )
        named = each.record.trial.model_copy(update={"stack": key.stack, "seed": seed})
        record = each.record.model_copy(update={"metrics": metrics, "trial": named})
        return replace(each, trial=key, record=record)

    planted = tuple(
        faster(each[0], stack, seed, factor * (1 + seed / 100))
        for each in (cells, files)
        for stack, factor in (("mirror-ext4", 1.0), ("mirror-btrfs", 2.0), ("mirror-zfs", 0.5))
        for seed in (1, 2, 3)
    )
    monkeypatch.setattr(module, "bundled_atlas", lambda: replace(atlas, readings=planted))

    found = atlas_answer(asked)

    assert found is not None
    assert found.advice.leader == "mirror-btrfs-on-hdd"
    assert (found.disks, found.measured, found.cells) == (2, 6, 6)
    assert dict(found.models) == {"wd-re4-500gb": 2}
    assert found.lacking == ("mirror-xfs",)
    assert "disk-loss" in found.advice.use.required, "what must be is asked of the records, too"
    unsaid = [
        each.name
        for each in found.differences
        if each.area == "devices" or each.name.split(": ")[-1] in {"name", "devices", "settings"}
    ]
    assert unsaid == [], "names, classes and keys that are empty on both sides are no differences"
    otherwise = {each.name: (each.first, each.second) for each in found.differences}
    assert otherwise["oltp → album: clients"] == ("8", "2")
    assert otherwise["oltp → album: rate_per_s"] == (None, "20")
    monkeypatch.setattr(module, "bundled_atlas", lambda: replace(atlas, readings=planted[:9]))
    assert atlas_answer(asked) is None, "without a record of files nothing ranks"


def test_only_a_stack_that_lays_its_data_out_alike_stands_for_the_asked_one(atlas: Atlas) -> None:
    described = atlas.study.describe()
    mirror, single = (described.stacks[f"{name}btrfs-on-hdd"] for name in ("mirror-", ""))
    measured = described.model_copy(update={"stacks": {"measured": mirror}})
    for asked, found in ((mirror, {"measured": "asked"}), (single, {})):
        assert module._alike(measured, described.model_copy(update={"stacks": {"asked": asked}})) == found


def test_ask_quick_answers_without_a_lab_and_names_the_lab_that_measured(folder: Path) -> None:
    words = ("ask", "orders", "--use", "database-nvme", "--quick")

    said = " ".join(shown(*words).split())
    found = shown_json(*words[:2], "--quick")["atlas"]

    assert "this machine has no lab yet" in said
    assert found["origin"]["shared"]["fingerprint"]["kernel_sha256"][:12] in said
    assert found["device"]["name"] == "generic-nvme-data-centre"
    assert 0 < found["measured"] <= found["cells"]
    assert not (folder / "results").exists()
