# SPDX-License-Identifier: Apache-2.0
"""The rights of a load's programs: the servers refuse them files and programs, and none runs as root."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from lab_factory import bare_task, carried_out, head, stacks

from small_loads import small_load
from strata.devices.device import find_device
from strata.lab import Lab
from strata.model.step import Step
from strata.model.workload import WorkloadContext
from strata.plan.compile import compile_trial
from strata.results.events import Events
from strata.runners.base import PLAN_NAME, Task
from strata.servers.mariadb import MariadbServer
from strata.servers.postgresql import PostgresqlServer
from study_texts import read

CONTEXT = WorkloadContext(name="rights", seed=1, target="${scratch}/stack")
POSTGRESQL = {
    "copy-to-program": "COPY (SELECT 1) TO PROGRAM 'id > /tmp/reached'",
    "copy-from-program": "CREATE TEMP TABLE t (x text); COPY t FROM PROGRAM 'id'",
    "copy-to-file": "COPY (SELECT 1) TO '/tmp/reached'",
    "read-file": "SELECT pg_read_file('/etc/passwd')",
    "list-folder": "SELECT pg_ls_dir('/etc')",
    "export": "SELECT lo_export(lo_from_bytea(0, 'x'), '/tmp/reached')",
    "untrusted-language": "CREATE FUNCTION f() RETURNS int LANGUAGE c AS '/tmp/x', 'f'",
    "extension": "CREATE EXTENSION file_fdw",
    "system": "ALTER SYSTEM SET archive_command = 'id'",
    "become-superuser": "SET SESSION AUTHORIZATION postgres",
    "make-superuser": "ALTER ROLE workload SUPERUSER",
}
MARIADB = {
    "outfile": "SELECT 1 INTO OUTFILE '/tmp/reached'",
    "dumpfile": "SELECT 1 INTO DUMPFILE '/tmp/reached'",
    "infile": "CREATE TABLE t (x TEXT); LOAD DATA INFILE '/etc/passwd' INTO TABLE t",
    "plugin": "INSTALL PLUGIN x SONAME 'ha_archive.so'",
    "log": "SET GLOBAL general_log_file = '/tmp/reached'",
    "function": "CREATE FUNCTION f RETURNS INTEGER SONAME 'x.so'",
    "grant": "GRANT FILE ON *.* TO workload@localhost",
}
REFUSALS = ("must be", "only roles with", "only superusers", "denied")


def refused_by(lab: Lab, folder: Path, steps: Sequence[Step], tries: Sequence[Step]) -> Events:
    """Boot with a server; every attempt must fail, and the last step see that nothing was written."""
    look = Step(id="look", phase="inspect", title="Look", argv=("test", "!", "-e", "/tmp/reached"))
    task = bare_task(folder / "attempt", "null", [*steps, *tries, look], capacity_bytes=1 << 30)
    return carried_out(lab, task)


def test_postgresql_refuses_a_load_files_and_programs(lab: Lab, tmp_path: Path) -> None:
    server = PostgresqlServer("rights", CONTEXT, 10)
    psql = ("psql", "--no-psqlrc", "--set=ON_ERROR_STOP=1")
    tries = [
        server.client(
            id=name, phase="measure", title=name, argv=(*psql, f"--command={sql}"), expect_exit=(1, 3)
        )
        for name, sql in POSTGRESQL.items()
    ]

    events = refused_by(lab, tmp_path, server.steps(), tries)

    for name in POSTGRESQL:
        said = events.output(name, "stderr")
        assert any(words in said for words in REFUSALS), (name, said)


def test_mariadb_refuses_a_load_files_and_plugins(lab: Lab, tmp_path: Path) -> None:
    server = MariadbServer("rights", CONTEXT, 10)
    tries = [
        server.client(
            id=name,
            phase="measure",
            title=name,
            argv=(*server.client_words(), f"--execute={sql}"),
            expect_exit=(1,),
        )
        for name, sql in MARIADB.items()
    ]

    events = refused_by(lab, tmp_path, server.steps(), tries)

    for name in MARIADB:
        said = events.output(name, "stderr")
        assert any(words in said for words in REFUSALS), (name, said)


@pytest.mark.parametrize(
    "load",
    [
        *("fio", "load", "pgbench"),
        # tests/unit/test_workloads_allowed.py says of all as whom their steps run.
        *(
            pytest.param(load, marks=pytest.mark.slow)
            for load in ("dd", "sysbench-fileio", "fill-and-fragment", "sysbench-oltp", "blog")
        ),
    ],
)
def test_what_a_load_writes_belongs_to_a_user_who_is_not_root(lab: Lab, tmp_path: Path, load: str) -> None:
    text = head("rights", [1], "2GiB") + stacks("ext4") + f"\n[workloads.x]\n{small_load(load)}"
    study = read(tmp_path, text)
    plan = compile_trial(study, "ext4", "x", 1)
    roots = Step(
        id="roots",
        phase="inspect",
        title="List what belongs to root, and count the rest",
        argv=("find", "${mount}", "-mindepth", "1", "-printf", "%u %P\\n"),
    )
    plan = plan.model_copy(update={"steps": (*plan.steps, roots)})
    folder = tmp_path / "attempt"
    folder.mkdir()
    (folder / PLAN_NAME).write_bytes(plan.to_json())

    events = carried_out(lab, Task(plan, {"disk0": find_device("wd-re4-500gb")}, folder, trace=False))

    owners = dict(line.split(" ", 1)[::-1] for line in events.output("roots").splitlines())
    assert len(owners) > 1
    assert [name for name, owner in owners.items() if owner == "root"] == ["lost+found"]


@pytest.mark.parametrize(
    "layer", ["md", *(pytest.param(each, marks=pytest.mark.slow) for each in ("lvm", "lvm-thin"))]
)
def test_a_load_reaches_a_device_without_a_filesystem(lab: Lab, tmp_path: Path, layer: str) -> None:
    devices = "".join(f'\n[devices.{name}]\nmodel = "null"\ncapacity = "256MiB"\n' for name in ("a", "b"))
    key = ", level = 1" if layer == "md" else ""
    text = (
        f'[study]\nname = "reach"\nquestion = "?"\nseeds = [1]\n{devices}\n[stacks.x]\ndevices = ["a", "b"]\n'
        f'layers = [{{ layer = "{layer}"{key} }}]\n\n[workloads.x]\nworkload = "fio"\n'
        'preset = "random-mix-4k"\nsize = "32MiB"\nwarmup = "20ms"\nduration = "50ms"\n'
    )
    plan = compile_trial(read(tmp_path, text), "x", "x", 1)
    folder = tmp_path / "attempt"
    folder.mkdir()
    (folder / PLAN_NAME).write_bytes(plan.to_json())

    carried_out(lab, Task(plan, dict.fromkeys(("a", "b"), find_device("null")), folder, trace=False))
