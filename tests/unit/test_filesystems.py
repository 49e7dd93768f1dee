# SPDX-License-Identifier: Apache-2.0
"""Several filesystems in a stack: workloads and logs are placed on them by name."""

from __future__ import annotations

from pathlib import Path

from command_line import shown
from strata.model.step import Step
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
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
SRV, WAL = "${mounts}/at/srv", "${mounts}/at/wal"


POOL = """[stacks.plain]
devices = ["hdd"]
layers = {}
[stacks.plain.filesystems.wal]
layers = [{{ layer = "zfs", recordsize = "128KiB" }}]
mount = "/wal\""""


def plan(folder: Path, stack: str = "home", workload: str = "oltp", *, text: str = STUDY) -> Plan:
    return compile_trial(read(folder, text), stack, workload, 1)


def step(plan: Plan, name: str) -> Step:
    return next(each for each in plan.steps if each.id == name)


def test_each_filesystem_is_made_on_its_devices_and_mounted_at_its_point(tmp_path: Path) -> None:
    found = plan(tmp_path)

    assert step(found, "database-xfs-mount").argv[-2:] == ("${ssd.database}", SRV)
    assert step(found, "wal-ext4-mount").argv[-2:] == ("${ssd.wal}", WAL)
    assert step(found, "ext4-mount").argv[-2:] == ("${hdd}", "${mount}")
    assert [each.id for each in found.steps].count("partition-divide") == 1
    assert found.steps[0].id == "partition-divide"
    assert {"filesystem:ext4", "filesystem:xfs"} <= {*found.prerequisites.features}
    uuids = [step(found, f"{name}ext4-make").argv[4] for name in ("", "wal-")]
    assert len({*uuids}) == 2


def test_postgresql_and_its_wal_lie_where_the_workload_places_them(tmp_path: Path) -> None:
    found = plan(tmp_path)

    assert step(found, "owner").argv[-1] == SRV
    cluster = step(found, "pgbench-cluster").argv
    assert f"--pgdata={SRV}/pgdata" in cluster
    assert f"--waldir={WAL}/postgres-log" in cluster
    assert f"{WAL}/postgres-log" in step(found, "pgbench-folders").argv


def test_mariadbs_redo_log_lies_on_a_filesystem_of_its_own(tmp_path: Path) -> None:
    found = plan(tmp_path, workload="sql")
    word = f"--innodb-log-group-home-dir={WAL}/mariadb-log"

    assert word in step(found, "sql-suite-cluster").argv
    assert word in step(found, "sql-suite-server").argv
    assert step(found, "owner").argv[-1] == "${mount}"


def test_on_a_stack_without_such_filesystems_all_lies_together(tmp_path: Path) -> None:
    cluster = step(plan(tmp_path, stack="plain"), "pgbench-cluster").argv

    assert "--pgdata=${mount}/pgdata" in cluster
    assert not any(word.startswith("--waldir") for word in cluster)


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


def test_a_pool_holds_several_filesystems_with_properties_of_their_own(tmp_path: Path) -> None:
    pool = '[{ layer = "zpool" }, { layer = "zfs", recordsize = "8KiB" }]'
    plain = '[stacks.plain]\ndevices = ["hdd"]\nlayers = [{ layer = "ext4" }]'
    text = STUDY.replace(plain, POOL.format(pool))
    found = plan(tmp_path, "plain", text=text)
    names = [each.id for each in found.steps]

    assert [names.count(each) for each in ("zpool-make", "zfs-make", "wal-zfs-make")] == [1, 1, 1]
    assert names.index("zpool-make") < names.index("wal-zfs-make") < names.index("zfs-make")
    assert "recordsize=131072" in step(found, "wal-zfs-make").argv
    assert step(found, "wal-zfs-mount").argv[-2:] == ("${stack}_zpool/wal-zfs", WAL)
    assert f"--waldir={WAL}/postgres-log" in step(found, "pgbench-cluster").argv


def test_the_doublewrite_buffer_is_placed_beside_the_redo_log(tmp_path: Path) -> None:
    text = STUDY.replace('"sql-suite"\n', '"sql-suite"\ndoublewrite_place = "wal"\n')
    options = step(plan(tmp_path, "home", "sql", text=text), "sql-suite-server").argv
    plain = step(plan(tmp_path, "plain", "sql", text=text), "sql-suite-server").argv

    assert f"--innodb-data-home-dir={WAL}/mariadb-doublewrite" in options
    assert f"--innodb-log-group-home-dir={WAL}/mariadb-log" in options
    assert not any("home-dir" in each for each in plain)
