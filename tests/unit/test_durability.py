# SPDX-License-Identifier: Apache-2.0
"""Settings by which a power failure takes what was acknowledged: of disks, layers and servers of a stack."""

from __future__ import annotations

from pathlib import Path

from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from study_texts import HEAD, SSD, disk, pgbench

STUDY = HEAD + disk("disk0", SSD) + "{device}\n" + disk("disk1", SSD)
STUDY += (
    '[stacks.one]\ndevices = ["disk0"]\nlayers = [{layers}]\n{stack}\n' + pgbench("load") + "{workload}\n"
)
ZFS = '{ layer = "zpool" }, { layer = "zfs" }'


def risks(
    tmp_path: Path,
    layers: str = '{ layer = "ext4" }',
    *,
    device: str = "",
    stack: str = "",
    workload: str = "",
) -> list[str]:
    file = tmp_path / "study.toml"
    file.write_text(STUDY.format(layers=layers, device=device, stack=stack, workload=workload))
    return load_study(file, catalogue()).power_risks("one", "load")


def test_a_layers_setting_that_gives_durability_away_is_named(tmp_path: Path) -> None:
    for layers, named in (
        ('{ layer = "ext4", barriers = false }', "ext4: barriers = false"),
        ('{ layer = "ext4", mount = ["nobarrier"] }', "ext4: nobarrier"),
        ('{ layer = "ext4", mount = ["barrier=0"] }', "ext4: barrier=0"),
        ('{ layer = "btrfs", mount = ["nobarrier"] }', "btrfs: nobarrier"),
        ('{ layer = "f2fs", mount = ["fsync_mode=nobarrier"] }', "f2fs: fsync_mode=nobarrier"),
        ('{ layer = "zpool" }, { layer = "zfs", sync = "disabled" }', "zfs: sync = disabled"),
        ('{ layer = "zpool" }, { layer = "zvol", sync = "disabled" }, { layer = "xfs" }', "zvol: sync"),
        ('{ layer = "zpool", barriers = false }, { layer = "zfs" }', "zpool: barriers = false"),
        (
            '{ layer = "zpool", parameters = { zil_nocacheflush = 1 } }, { layer = "zfs" }',
            "zpool: zil_nocacheflush",
        ),
        ('{ layer = "integrity", mode = "direct" }, { layer = "ext4" }', "integrity: mode = direct"),
    ):
        [risk] = risks(tmp_path, layers)
        assert risk.startswith(named)


def test_a_stack_that_flushes_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    for layers in (
        '{ layer = "ext4" }',
        '{ layer = "xfs", mount = ["noatime"] }',
        '{ layer = "zpool" }, { layer = "zfs", sync = "always" }',
        '{ layer = "bcache", cache = "disk1", mode = "writeback" }, { layer = "ext4" }',
        '{ layer = "integrity", mode = "bitmap" }, { layer = "ext4" }',
    ):
        assert risks(tmp_path, layers) == []


def test_a_disk_that_ignores_flushes_is_named(tmp_path: Path) -> None:
    [risk] = risks(tmp_path, device='faults = [{ fault = "ignores-flush" }]')

    assert risk == "disk0: ignores-flush: it acknowledges what is only in its write cache"


def test_a_servers_setting_is_named_whether_the_stack_or_the_workload_gives_it(tmp_path: Path) -> None:
    for where in ("stack", "workload"):
        given = "fsync = false"
        text = f"settings = {{ {given} }}" if where == "workload" else f"settings.postgresql = {{ {given} }}"
        [risk] = risks(tmp_path, **{where: text})
        assert risk == "PostgreSQL: fsync = off: it may damage the whole database"


def test_pages_that_a_cut_tears_are_no_risk_where_the_filesystem_writes_them_whole(tmp_path: Path) -> None:
    torn = "settings = { full_page_writes = false }"

    assert risks(tmp_path, ZFS, workload=torn) == []
    assert len(risks(tmp_path, workload=torn)) == 1


def test_pages_are_torn_by_the_filesystem_on_which_the_server_is_placed(tmp_path: Path) -> None:
    torn = 'place = "database"\nsettings = { full_page_writes = false }'
    database = 'filesystems.database = {{ devices = ["disk1"], layers = [{}], mount = "/srv" }}'

    assert len(risks(tmp_path, ZFS, stack=database.format('{ layer = "ext4" }'), workload=torn)) == 1
    assert risks(tmp_path, stack=database.format(ZFS), workload=torn) == []
