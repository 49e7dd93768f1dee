# SPDX-License-Identifier: Apache-2.0
"""What a database brings as files: dumps without their machine's roles, and scripts with weights."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from strata.errors import DiagnosticsError
from strata.lab.machine import lacking_in_lab
from strata.model.step import Prerequisites
from strata.model.study import Study
from strata.plan.compile import compile_trial
from strata.runners.kernel import HostKernel
from strata.servers.database import DatabaseServer
from strata.servers.mariadb import MariadbServer
from strata.servers.postgresql import PostgresqlServer
from study_texts import read, stack_text

POSTGRESQL: Final = """\
CREATE TABLE public.item (id integer, note text);
ALTER TABLE public.item OWNER TO app;
COPY public.item (id, note) FROM stdin;
GRANT SELECT ON x TO y;
ALTER TABLE x OWNER TO y;
\\.
GRANT SELECT ON TABLE public.item TO app;
ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES TO app;
COMMENT ON EXTENSION plpgsql IS 'PL/pgSQL';
ALTER TABLE ONLY public.item ADD CONSTRAINT p PRIMARY KEY (id);
"""
MYSQL: Final = "/*!50013 DEFINER=`root`@`%` SQL SECURITY */ CREATE TABLE t COLLATE=utf8mb4_0900_ai_ci;\n"


def kept(server: type[DatabaseServer], folder: Path, dump: str) -> str:
    (folder / "content").write_text(dump)
    subprocess.run(("sh", "-euc", server.of_dump, "sh", str(folder / "content")), check=True)
    return (folder / "content.sql").read_text()


def test_a_dump_loses_its_machines_roles_and_no_data(tmp_path: Path) -> None:
    lines = POSTGRESQL.splitlines(keepends=True)
    assert kept(PostgresqlServer, tmp_path, POSTGRESQL) == "".join([lines[0], *lines[2:6], lines[9]])
    assert kept(MariadbServer, tmp_path, MYSQL) == (
        "/*!50013  SQL SECURITY */ CREATE TABLE t COLLATE=utf8mb4_general_ci;\n"
    )


def test_a_custom_dump_is_read_by_pg_restore_and_only_what_is_left_is_loaded(tmp_path: Path) -> None:
    tool = tmp_path / "pg_restore"
    tool.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$(dirname "$0")/asked"\n')
    tool.chmod(0o755)
    (tmp_path / "content").write_bytes(b"PGDMP\x01\x0e\x00")
    argv = ("sh", "-euc", PostgresqlServer.of_dump, "sh", str(tmp_path / "content"))
    subprocess.run(argv, check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    asked = (tmp_path / "asked").read_text().splitlines()
    assert {"-O", "-x", f"--file={tmp_path}/content.sql"} <= {*asked}
    assert asked[-1] == str(tmp_path / "content")

    (tmp_path / "shop.dump").write_text(POSTGRESQL)
    text = 'workload = "pgbench"\nscale = 1\nclients = 2\nduration = "5s"\n'
    text += 'init = "shop.dump"\nscript_text = "SELECT 1;"\n'
    study = read(tmp_path, stack_text('{ layer = "ext4" }', 1, text, model="wd-re4-500gb"))
    steps = compile_trial(study, "stack", "load", 1).steps
    made = next(at for at, each in enumerate(steps) if each.id == "pgbench-dump")
    assert any(word.endswith("/content.sql") for word in steps[made + 1].argv), steps[made + 1].argv


def test_a_dump_names_its_extensions_before_the_run(tmp_path: Path) -> None:
    asked = 'CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public;\nCREATE EXTENSION "postgis";\n'
    data = "COPY public.note (text) FROM stdin;\nCREATE EXTENSION citus\n\\.\n"
    (tmp_path / "plain.sql").write_text(asked + data)
    (tmp_path / "custom.dump").write_bytes(b"PGDMP\x01\x0e\xff" + asked.encode() + b"\x00\xfe\x80")
    text = 'workload = "pgbench"\nscale = 1\nclients = 2\nduration = "5s"\nscript_text = "SELECT 1;"\n'
    for name in ("plain.sql", "custom.dump"):
        load = f'{text}init = "{name}"\n'
        plan = compile_trial(
            read(tmp_path, stack_text('{ layer = "ext4" }', 1, load, model="wd-re4-500gb")),
            "stack",
            "load",
            1,
        )
        assert {"postgresql:hstore", "postgresql:postgis"} <= {*plan.prerequisites.features}
        lacking = str(lacking_in_lab(plan))
        assert "postgis:" in lacking
        assert "hstore" not in lacking
        made = next(step.argv for step in plan.steps if step.id == "pgbench-extensions")
        assert made[-2:] == tuple(
            f'--command=CREATE EXTENSION IF NOT EXISTS "{each}" CASCADE' for each in ("hstore", "postgis")
        )
    control = tmp_path / "usr/share/postgresql/17/extension/postgis.control"
    control.parent.mkdir(parents=True)
    control.touch()
    needed = Prerequisites(features=("postgresql:postgis", "postgresql:citus"))
    assert [*HostKernel(tmp_path).unmet(needed)] == ["its PostgreSQL has no extension citus"]
    for folder in ("postgresql/extension", "pgsql/extension"):  # Arch, Fedora
        control = tmp_path / folder / "usr/share" / folder / "postgis.control"
        control.parent.mkdir(parents=True)
        control.touch()
        assert [*HostKernel(tmp_path / folder).unmet(needed)] == ["its PostgreSQL has no extension citus"]


def test_a_lua_file_runs_as_it_is_with_its_own_options(tmp_path: Path) -> None:
    (tmp_path / "load.lua").write_text("#!/usr/bin/env sysbench\nrequire('common')\nfunction event() end\n")
    (tmp_path / "common.lua").write_text("-- tables\n")
    text = (
        'workload = "sysbench-oltp"\nserver = "postgresql"\nscript = "{}.lua"\nduration = "5s"\nthreads = 4\n'
    )
    more = 'requires = ["common.lua"]\noptions = { scale = 2, use_fk = false }\n'

    def study(text: str) -> Study:
        return read(tmp_path, stack_text('{ layer = "ext4" }', 1, text, model="wd-re4-500gb"))

    steps = {
        each.id: each for each in compile_trial(study(text.format("load") + more), "stack", "load", 1).steps
    }
    assert str(steps["sysbench-script-1"].stdin).startswith("#!/usr/bin/env sysbench\nrequire")
    assert steps["sysbench-script-2"].argv[-1].endswith("/common.lua")
    assert 'dofile("postgres/load.lua")' in str(steps["sysbench-script"].stdin)
    prepared, loaded = steps["sysbench-prepare"].argv, steps["sysbench-load"].argv
    assert prepared[1] == loaded[1]
    assert prepared[-1] == "prepare"
    assert loaded[-1] == "run"
    for argv in (prepared, loaded):
        assert {"--scale=2", "--use_fk=off"} <= {*argv}
        assert not [word for word in argv if word.startswith(("--tables", "--table-size"))]
    assert study(text.format("load") + more).workloads["load"].needs_permission
    for wrong, cause in (
        (text.format("load") + "requires = 5\n", "list"),
        (text.format("common"), "defines no event"),
        (text.format("gone"), "there is no file"),
        (text.replace("{}.lua", "oltp_insert") + more, "is no Lua file"),
    ):
        with pytest.raises(DiagnosticsError, match=cause):
            study(wrong)


def test_several_scripts_run_with_their_weights(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    (tmp_path / "b.sql").write_text("\\set n random(1, :scale)\nSELECT :n;\n")
    text = 'workload = "pgbench"\nscale = 1\nclients = 2\nduration = "5s"\nscripts = ["a.sql@3", "b.sql"]\n'

    def study(text: str) -> str:
        return stack_text('{ layer = "ext4" }', 1, text, model="wd-re4-500gb")

    plan = compile_trial(read(tmp_path, study(text)), "stack", "load", 1)
    found = {each.id: each for each in plan.steps}
    files = [each.partition("/1-")[2] or each.partition("/2-")[2] for each in found["pgbench-load"].argv[-2:]]
    assert files == ["script.sql@3", "script.sql@1"]
    assert found["pgbench-script-2"].stdin == "\\set n random(1, :scale)\nSELECT :n;\n"
    assert not any(each.startswith("--builtin") for each in found["pgbench-load"].argv)
    (tmp_path / "b.sql").write_text("\\! rm\n")
    for wrong, cause in (
        (text, "b.sql: the script has a backslash"),
        (text.replace("b.sql", "c.sql"), "there is no file"),
        (text + 'script = "select-only"\n', "there are two scripts"),
        (text.replace("@3", "@x"), "names no script"),
    ):
        with pytest.raises(DiagnosticsError) as error:
            read(tmp_path, study(wrong))
        assert any(cause in each.cause for each in error.value.diagnostics), cause
