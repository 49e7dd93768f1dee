# SPDX-License-Identifier: Apache-2.0
"""Several filesystems in a stack: workloads and logs are placed on them by name."""

from __future__ import annotations

import shlex
from pathlib import Path

from command_line import shown
from golden_text import Golden
from strata.plan.compile import compile_trial
from study_texts import mistakes, read

STUDY = """\
[study]
name = "home"
question = "Does the log on its own help?"
seeds = [1]
[devices.hdd]
model = "wd-re4-500gb"
[devices.ssd]
model = "samsung-870-evo-1tb"
capacity = "64GiB"
[stacks.home]
devices = ["hdd"]
layers = [
  { layer = "partition", disk = "ssd", sizes = { log = "1GiB", wal = "4GiB", database = "rest" } },
  { layer = "ext4" },
]
[stacks.home.filesystems.database]
devices = ["ssd.database"]
layers = [{ layer = "xfs" }]
mount = "/srv"
[stacks.home.filesystems.wal]
devices = ["ssd.wal"]
layers = [{ layer = "ext4" }]
mount = "/wal"
[stacks.plain]
devices = ["hdd"]
layers = [{ layer = "ext4" }]
[workloads.oltp]
workload = "pgbench"
place = "database"
log_place = "wal"
scale = 10
clients = 4
duration = "10s"
[workloads.sql]
workload = "sql-suite"
log_place = "wal"
"""
POOL = """[stacks.plain]
devices = ["hdd"]
layers = {}
[stacks.plain.filesystems.wal]
layers = [{{ layer = "zfs", recordsize = "128KiB" }}]
mount = "/wal\""""


def test_each_filesystem_is_made_mounted_and_used_where_the_workload_places_its_files(
    tmp_path: Path, golden: Golden
) -> None:
    pool = '[{ layer = "zpool" }, { layer = "zfs", recordsize = "8KiB" }]'
    plain = '[stacks.plain]\ndevices = ["hdd"]\nlayers = [{ layer = "ext4" }]'
    lines = []
    for name, stack, workload, text in (
        ("PostgreSQL and its WAL on filesystems of their own", "home", "oltp", STUDY),
        ("on a stack without such filesystems all lies together", "plain", "oltp", STUDY),
        ("MariaDB's redo log and doublewrite buffer beside it", "home", "sql", STUDY.replace(
            '"sql-suite"\n', '"sql-suite"\ndoublewrite_place = "wal"\n')),
        ("a pool with several filesystems", "plain", "oltp", STUDY.replace(plain, POOL.format(pool))),
    ):  # fmt: skip
        plan = compile_trial(read(tmp_path, text), stack, workload, 1)
        steps = (f"{step.id}: {shlex.join(step.argv)}" for step in plan.steps)
        lines += [f"# {name}", f"features: {plan.prerequisites.features}", *steps, ""]
    golden("filesystems.txt", "\n".join(lines))


def test_data_must_fit_on_the_filesystem_where_they_are_placed(tmp_path: Path) -> None:
    large = STUDY.replace('\nplace = "database"', '\nplace = "wal"').replace("scale = 10", "scale = 1000")

    assert "do not fit" in mistakes(tmp_path, large)["workloads.oltp.scale"]


def test_filesystems_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for old, new, place, words in (
        ('"/wal"', '"/srv"', "stacks.home.filesystems.wal.mount", "on one mount point"),
        ('"/wal"', '"/srv/wal"', "stacks.home.filesystems.wal.mount", "one within the other"),
        ('"/wal"', '"../wal"', "stacks.home.filesystems.wal.mount", "no mount point"),
        ('\nplace = "database"', '\nplace = "databse"', "workloads.oltp.place", 'did you mean "database"'),
        ('log_place = "wal"', 'log_place = "log"', "workloads.oltp.log_place", 'a filesystem "log"'),
        ('["ssd.wal"]', '["ssd.database"]', "stacks.home.filesystems.wal.devices[0]", "used elsewhere"),
        ('["ssd.wal"]', '["hdd"]', "stacks.home.filesystems.wal.devices[0]", "used elsewhere"),
        ('["ssd.wal"]', '["ssd.wall"]', "stacks.home.filesystems.wal.devices[0]", 'no device "ssd.wall"'),
        ('devices = ["ssd.wal"]\n', "", "stacks.home.filesystems.wal", "no pool"),
        (
            '[{ layer = "ext4" }]\nmount',
            '[{ layer = "crypt" }]\nmount',
            "stacks.home.filesystems.wal.layers",
            "end in no filesystem",
        ),
    ):
        assert words in mistakes(tmp_path, STUDY.replace(old, new))[place]


def test_they_are_drawn_with_their_mount_points(tmp_path: Path) -> None:
    file = tmp_path / "home.toml"
    file.write_text(STUDY)
    said = " ".join(shown("plan", file, "--stacks").split())

    assert "database at /srv" in said
    assert "the filesystem database and the filesystem wal" in said
