# SPDX-License-Identifier: Apache-2.0
"""OpenZFS in the lab: loaded for plans that require it, complete, and the same bytes each time."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from lab_factory import bare_task, carried_out, shell_step

from strata.lab import Lab
from strata.lab.boot import Power
from strata.lab.disk_image import DiskImage
from strata.model.step import Step
from strata.results.events import Events

# Names that zpool does not take for whole disks, which it would partition, waiting for udev.
NODES = "mkdir /dev/pool && for disk in a b c d; do cp -a /dev/sd$$disk /dev/pool/$$disk; done"
CREATE = "zpool create -O mountpoint=${mount} pool mirror /dev/pool/a /dev/pool/b mirror /dev/pool/[cd]"
FIO = (
    "--ioengine=libaio --iodepth=8 --clocksource=clock_gettime --randseed=3 --output-format=terse "
    "| cut -d';' -f8,49"
)
STEPS = (
    shell_step("module", "cat /sys/module/zfs/version /sys/module/spl/parameters/spl_hostid"),
    shell_step("nodes", NODES),
    shell_step("create", CREATE),
    shell_step(
        "volume", "zfs create -V 256M pool/volume && cd /dev/zvol/pool && ls volume && ls -d /sys/block/zd*"
    ),
    shell_step(
        "files", f"fio --name=f --directory=${{mount}} --size=16M --rw=randrw --bs=8k --io_size=8M {FIO}"
    ),
    shell_step(
        "blocks",
        "fio --name=b --filename=/dev/zvol/pool/volume --size=16M --rw=randwrite --bs=16k --direct=1 "
        f"--io_size=8M {FIO}",
    ),
    shell_step("content", "sha256sum ${mount}/*"),
    shell_step("scrub", "zpool scrub -w pool && zpool status pool"),
    shell_step("export", "zpool export pool"),
    shell_step("import", "zpool import -d /dev/pool pool && sha256sum ${mount}/* && zpool export pool"),
)


def boot(lab: Lab, folder: Path, steps: tuple[Step, ...] = STEPS) -> tuple[Events, list[str]]:
    """Run the steps on four disks; what happened, and a hash of each disk's image."""
    task = bare_task(folder, "wd-re4-500gb", steps, capacity_bytes=2 << 30, disks=4, modules=("zfs",))
    with ExitStack() as opened:
        images = [opened.enter_context(DiskImage(folder)) for _ in range(4)]
        events = carried_out(lab, task, Power(images))
        return events, [image.sha256() for image in images]


def test_a_pool_of_two_mirrors_does_all_it_should_the_same_each_time(lab: Lab, tmp_path: Path) -> None:
    events, hashes = boot(lab, tmp_path / "first")
    again, hashes_again = boot(lab, tmp_path / "second")

    assert events.output("module").split() == [lab.modules["zfs"].source, "359034"]
    assert events.output("volume").split() == ["volume", "/sys/block/zd0"]
    assert "with 0 errors" in events.output("scrub")
    assert events.output("import") == events.output("content")
    assert hashes == hashes_again
    assert len(set(hashes)) == 4
    first, second = (tmp_path / name / "events.jsonl" for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    assert again.output("files") == events.output("files")


def test_a_lab_that_is_not_asked_for_modules_loads_none(lab: Lab, tmp_path: Path) -> None:
    task = bare_task(
        tmp_path / "attempt", "wd-re4-500gb", (shell_step("look", "ls /sys/module"),), capacity_bytes=1 << 30
    )

    loaded = carried_out(lab, task).output("look").split()
    assert not {"spl", "zfs"} & set(loaded)
