# SPDX-License-Identifier: Apache-2.0
"""A cut of the power in the lab: what is durable stays, the next boot finds just that, and it repeats."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from lab_factory import bare_task, head, labs_of, mix, shell_step, stacks

from present import present
from strata.cli import app
from strata.devices.device import Device, find_device
from strata.devices.faults import IgnoresFlush
from strata.errors import RunError
from strata.lab import Lab
from strata.lab.boot import Power
from strata.lab.disk_image import DiskImage, PowerCut, PowerCutDamage
from strata.model.step import Step
from strata.plan.aspects.power_cut import cut_step
from strata.results.events import Events, read_events
from strata.runners.base import Cancelled
from strata.runners.lab import LabRunner
from strata.units import NS_PER_MS, NS_PER_S

DEVICE = find_device("generic-desktop-hdd")  # it has a volatile write cache
CAPACITY_BYTES = 4 << 30
MAKE = (
    shell_step("make", "mkfs.ext4 -q -F -E lazy_itable_init=1,nodiscard ${disk0}"),
    shell_step("mount", "mount --mkdir ${disk0} ${mount}"),
)
KEPT = shell_step(
    "kept", "cd ${mount} && dd if=/dev/urandom of=kept bs=64k count=16 conv=fsync 2>&1 && sha256sum kept"
)
# Without a flush: what the drive has acknowledged is in its cache.
LOOSE = shell_step("loose", "dd if=/dev/urandom of=${mount}/loose bs=64k count=2000 oflag=direct")
AGAIN = (
    shell_step("mount", "mount --mkdir ${disk0} ${mount}"),
    shell_step("verify", "cd ${mount} && sha256sum kept"),
    shell_step("unmount", "umount ${mount}"),
    shell_step("check", "e2fsck -f -n ${disk0}"),
)


@dataclass(frozen=True)
class Boots:
    """Boots one after the other on one image."""

    lab: Lab
    folder: Path
    image: DiskImage

    device: Device = DEVICE

    def boot(
        self, name: str, steps: Sequence[Step], cut: PowerCut | None = None
    ) -> list[PowerCutDamage] | None:
        task = bare_task(self.folder / name, self.device, steps, capacity_bytes=CAPACITY_BYTES)
        return LabRunner(self.lab).boot(task, Power([self.image], cut))

    def events(self, name: str) -> Events:
        return read_events(self.folder / name / "events.jsonl")


def cut_once(lab: Lab, folder: Path, cut: PowerCut) -> tuple[PowerCutDamage, str, str, str]:
    """The loss, the image's hash at the cut, and the file's hash before and after it."""
    folder.mkdir()
    with DiskImage(folder) as image:
        boots = Boots(lab, folder, image)
        losses = present(boots.boot("cut", (*MAKE, KEPT, LOOSE), cut))
        left = image.sha256()
        assert boots.boot("again", AGAIN) is None
        end = present(boots.events("again").end)
        assert end.outcome == "ok", end
        before = boots.events("cut").output("kept").split()[-2]
        after = boots.events("again").output("verify").split()[0]
    return losses[0], left, before, after


def test_what_was_synced_survives_and_the_same_seed_leaves_the_same(lab: Lab, tmp_path: Path) -> None:
    cut = PowerCut(at_ns=1343 * NS_PER_MS, seed=1)
    loss, left, before, after = cut_once(lab, tmp_path / "one", cut)
    repeated = cut_once(lab, tmp_path / "two", cut)
    other = cut_once(lab, tmp_path / "three", PowerCut(at_ns=1343 * NS_PER_MS, seed=2))

    assert before == after
    assert repeated == (loss, left, before, after)
    # The same writes are at stake, and others of them survive.
    assert loss.lost_acknowledged > 10
    assert other[0].volatile == loss.volatile
    assert other[1] != left
    assert other[2] == other[3] == before


def test_the_power_is_cut_at_a_step_and_at_a_number_of_commands(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))  # no other labs run there
    with DiskImage(tmp_path) as image:
        boots = Boots(lab, tmp_path, image)
        assert boots.boot("make", (*MAKE, KEPT, shell_step("unmount", "umount ${mount}"))) is None
        size = image.stored_bytes
        at_step = boots.boot("step", (*AGAIN[:2], cut_step()), PowerCut())
        assert at_step is not None
        assert boots.events("step").output("verify") != ""
        assert boots.events("step").end is None
        at_command = present(boots.boot("command", AGAIN[:2], PowerCut(after_ios=20)))
        assert at_command[0].at_ns < boots.events("step").last_ns
        assert boots.boot("last", AGAIN) is None
        assert boots.events("last").output("verify").split()[0] in boots.events("make").output("kept")
        assert image.stored_bytes < 2 * size
    assert labs_of(tmp_path) == []


def test_with_its_write_cache_off_a_disk_loses_nothing_that_it_acknowledged(lab: Lab, tmp_path: Path) -> None:
    with DiskImage(tmp_path) as image:
        boots = Boots(lab, tmp_path, image, replace(DEVICE, write_cache=False))
        shown = shell_step("shown", "cat /sys/block/sda/queue/write_cache")
        losses = present(boots.boot("cut", (shown, *MAKE, KEPT, LOOSE), PowerCut(at_ns=3 * NS_PER_S, seed=3)))
        assert losses[0].writes_acknowledged > 50
        assert losses[0].lost_acknowledged == 0
        assert boots.events("cut").output("shown") == "write through\n"


def test_a_drive_that_lies_about_flushes_loses_what_was_synced(lab: Lab, tmp_path: Path) -> None:
    """So the tests above can fail."""
    lost = 0
    many = shell_step(
        "kept",
        "cd ${mount} && for i in 1 2 3 4 5 6 7 8; do "
        "dd if=/dev/urandom of=$$i bs=256k count=8 conv=fsync || exit; "
        "done; sync; sha256sum [1-8]",
    )
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with DiskImage(folder) as image:
            liar = Boots(lab, folder, image, replace(DEVICE, faults=(IgnoresFlush(),)))
            assert liar.boot("cut", (*MAKE, many, cut_step()), PowerCut(seed=seed)) is not None
            verify = shell_step("verify", "cd ${mount} && sha256sum [1-8]")
            honest = replace(liar, device=DEVICE)
            assert honest.boot("again", (AGAIN[0], verify, *AGAIN[2:])) is None
            end = present(honest.events("again").end)
            same = honest.events("again").output("verify") == liar.events("cut").output("kept")
            lost += end.outcome != "ok" or not same
    assert lost > 0


def test_the_command_line_cuts_recovers_and_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lab: Lab
) -> None:
    assert lab.fingerprint
    study = tmp_path / "study.toml"
    study.write_text(head("cut", [1], "10GiB") + stacks("ext4", "xfs") + mix(duration="2s"))
    with pytest.raises(SystemExit) as ended:
        app(["lab", "power-cut", str(study), "--stack", "xfs", "--at", "2s", "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert shown["trial"] == "xfs.mix.s1"
    assert shown["verdict"] == "sound"
    assert [loss["disk"] for loss in shown["losses"]] == ["disk0"]
    with pytest.raises(RunError, match="the trial ended after"):
        app(["lab", "power-cut", str(study), "--at", "1h"], standalone_mode=False)


def test_without_a_cut_the_power_cannot_be_cut_by_a_program(lab: Lab, tmp_path: Path) -> None:
    refused = cut_step().model_copy(update={"expect_exit": (1, 2)})
    task = bare_task(tmp_path / "refused", DEVICE, (refused,), capacity_bytes=CAPACITY_BYTES)
    assert LabRunner(lab).boot(task, Power()) is None


def test_an_image_of_a_lab_that_was_killed_is_refused(lab: Lab, tmp_path: Path) -> None:
    with DiskImage(tmp_path) as image:
        boots = Boots(lab, tmp_path, image)
        spin = shell_step("spin", "while :; do :; done")
        task = bare_task(tmp_path / "killed", DEVICE, (spin,), capacity_bytes=CAPACITY_BYTES)
        task = replace(task, report=lambda progress: task.cancel.set() if progress.phase else None)
        with pytest.raises(Cancelled):
            LabRunner(lab).boot(task, Power([image]))
        with pytest.raises(RunError) as refused:
            boots.boot("again", ())
    assert "its content was in use by a lab that did not come to its end" in str(refused.value)


def test_zeros_and_patterns_take_no_room_of_the_host(lab: Lab, tmp_path: Path) -> None:
    fill = (
        "for kind in zero_buffers=1 buffer_pattern=0xdeadbeef; do "
        "fio --name=fill --filename=${disk0} --rw=write --bs=1M "
        "--direct=1 --ioengine=libaio --iodepth=8 --size=512M --clocksource=clock_gettime --$$kind "
        "--verify_dump=0 >/dev/null || exit 1; head -c 1M ${disk0} | sha256sum; done"
    )
    with DiskImage(tmp_path) as image:
        boots = Boots(lab, tmp_path, image)
        boots.boot("fill", (shell_step("fill", fill),))
        boots.boot("read", (shell_step("read", "head -c 1M ${disk0} | sha256sum"),))
        zeros, pattern = boots.events("fill").output("fill").split()[::2]
        assert zeros == hashlib.sha256(bytes(1 << 20)).hexdigest()
        assert pattern == hashlib.sha256(bytes.fromhex("deadbeef") * (1 << 18)).hexdigest()
        assert boots.events("read").output("read").split()[0] == pattern
        assert image.stored_bytes < 8 << 20
