# SPDX-License-Identifier: Apache-2.0
"""No text of a study reaches a program, a file or a device by way of a workload."""

from __future__ import annotations

from pathlib import Path

import pytest
from workload_factory import refused

from small_loads import SMALL, small_load
from strata.model.step import LOAD_USER, Step
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.servers.mariadb import MariadbServer
from strata.servers.postgresql import PostgresqlServer
from strata.workloads.fio import Fio
from strata.workloads.generator.load import Load
from strata.workloads.pgbench import Pgbench
from strata.workloads.tree import Tree
from study_texts import read

ROOT_STEPS = ("sync", "tee", "chown", "blockdev", "install")
"""The programs that root runs in the workloads below: no argument is a text of the study."""


def fio(**options: object) -> Fio:
    return Fio.model_validate({"preset": "random-mix-4k", "options": options, "duration": "10s"})


def pgbench(text: str) -> Pgbench:
    return Pgbench.model_validate({"scale": 1, "clients": 1, "duration": "10s", "script_text": text})


# Beside the attacks of `hostile_corpus`.
def test_an_option_of_fio_that_is_not_a_loads_is_refused() -> None:
    value: object
    for name, value in (
        ("ioengine", "/tmp/x.so"),
        ("ioengine", "libaio\n"),
        ("program", "/bin/sh"),
        ("verify_pattern", "'/etc/passwd'"),
        ("verify_dump", 1),
        ("uid", 0),
        ("hostname", "example"),
        ("IOENGINE", "sync"),
        ("ioeng", "sync"),
        ("read-iolog", "x"),
        ("verify_state_load", 1),
        ("bs", "0"),
        ("bs", 0),
        ("bs", "511"),
        ("bs", "2g"),
        ("bs", "-4k"),
        ("iodepth", 0),
        ("iodepth", False),
        ("iodepth", 100_000),
        ("numjobs", 1000),
        ("rw", "file:/etc/passwd"),
        ("rwmixread", 101),
    ):
        assert refused(fio(**{name: value}))


def test_an_option_of_fio_that_describes_a_load_is_taken() -> None:
    value: object
    for name, value in (
        ("bssplit", "4k/60:64k/40"),
        ("bsrange", "4k-64k"),
        ("random_distribution", "zipf:1.2"),
        ("ioengine", "io_uring"),
        ("buffer_compress_percentage", 50),
        ("rate_iops", "100,200"),
        ("thinktime", "500us"),
        ("fsync", 1),
        ("refill_buffers", True),
        ("iodepth", True),
    ):
        assert refused(fio(**{name: value})) == ""


def test_blocks_in_flight_beyond_any_memory_are_refused() -> None:
    assert "lower bs, iodepth or numjobs" in refused(fio(bs="1g", iodepth=64))
    assert "lower bs, iodepth or numjobs" in refused(fio(bssplit="4k/50:64m/50", iodepth=64, numjobs=4))


def test_a_remedy_names_the_nearest_option_and_never_all_of_them() -> None:
    assert 'did you mean "iodepth"' in refused(fio(iodepht=4))
    assert 'did you mean "iodepth"' in refused(fio(IODEPTH=4))
    assert len(refused(fio(zzzz=4))) < 200


def test_a_setting_that_names_a_file_a_library_or_a_command_is_refused() -> None:
    server: type[PostgresqlServer | MariadbServer]
    for server, name, value in (
        (PostgresqlServer, "local_preload_libraries", "x"),
        (PostgresqlServer, "restore_command", "id"),
        (PostgresqlServer, "jit_provider", "/tmp/x"),
        (PostgresqlServer, "log_directory", "/etc"),
        (PostgresqlServer, "Shared_Buffers", "64MB"),
        (PostgresqlServer, "shared_buffers", "64MB -c archive_command=id"),
        (PostgresqlServer, "synchronous_standby_names", "x"),
        (MariadbServer, "plugin_load", "x"),
        (MariadbServer, "init_connect", "x"),
        (MariadbServer, "secure_file_priv", "/"),
        (MariadbServer, "log_bin", "/etc/x"),
        (MariadbServer, "innodb_data_file_path", "/dev/loop0:1Mraw"),
        (MariadbServer, "innodb_buffer_pool_siz", "64M"),
    ):
        assert list(server.diagnostics({name: value}))


SHELLS = [
    "\\ShElL id",
    "SELECT 1 \\shell id",
    "\\ shell id",
    "\\\tshell id",
    "\\\\\nshell id",
    "\\set\\\nshell id",
    "\\set\x0bx 1",
    "\\else\\shell id",
    "SELECT '\\shell id'",
    "-- \\shell id",
    "\\include x",
    "\\!id",
    "SELECT 1;\\",
    "SELECT 1;\x00",
]


def test_a_script_of_pgbench_runs_no_program() -> None:
    for text in SHELLS:
        assert "script" in refused(pgbench(text))


def test_a_script_of_pgbench_has_variables_conditions_and_pipelines() -> None:
    for text in (
        "\\set a random(1, 10)\nSELECT :a;",
        "\\set a \\\n 1 + 2\nSELECT :a AS b \\gset\n\\if :b > 2\n\\sleep 1 ms\n\\else\n\\endif",
        "\\startpipeline\r\nSELECT 1;\r\n\\endpipeline\r\n",
    ):
        assert refused(pgbench(text)) == ""


def test_a_set_of_a_load_is_a_folder_below_its_own() -> None:
    for name in ("../x", "/etc", ".x", "a/b", "a\\u0000b", ""):
        text = f'name = "x"\n[[sets]]\nname = "{name}"\nfiles = 1\nfile_bytes = 1\npreallocated_percent = 1\n'
        load = Load.model_validate({"definition": text, "duration": "1s"})
        assert "name" in refused(load)


def test_a_member_of_an_archive_is_no_option_and_no_control_character() -> None:
    for member in ("", "-I sh", "--to-command=id", "a\nb", "a\x00b", "a\x1bb"):
        with pytest.raises(ValueError, match="member"):
            Tree.model_validate({"members": [member]})


BY_ROOT = ("tree", "trace", "filesystem-life", "os-installation", "container-life", "tenants")
"""Of the first three only what is safe and of the next two all; the parts of the last are the others."""


def test_the_cases_cover_every_workload() -> None:
    assert {*SMALL} == {*catalogue().workloads}


def steps_of(folder: Path, layers: str, name: str) -> list[Step]:
    """The steps of a small load, without the steps that build its stack."""
    text = (
        '[study]\nname = "x"\nquestion = "?"\nseeds = [1]\n[devices.disk0]\nmodel = "wd-re4-500gb"\n'
        f"[stacks.s]\nlayers = [{layers}]\n[workloads.w]\n{small_load(name)}\n"
    )
    return [each for each in compile_trial(read(folder, text), "s", "w", 1).steps if each.phase != "build"]


def test_what_needs_no_root_runs_without_it(tmp_path: Path) -> None:
    for layers, name in (
        ("", "fio"),
        ("", "dd"),
        *(('{ layer = "ext4" }', name) for name in SMALL if name not in BY_ROOT),
    ):
        steps = steps_of(tmp_path, layers, name)
        by_root = {each.argv[0] for each in steps if each.user == "root"}
        # What only root may read, Strata has packed itself.
        assert by_root <= {*ROOT_STEPS, *(("tar",) if name == "calls" else ())}
        assert any(each.user != "root" for each in steps if each.phase == "measure")


def test_a_bare_device_belongs_to_the_load_while_it_runs(tmp_path: Path) -> None:
    owner, *loads = steps_of(tmp_path, "", "fio")

    assert owner.argv == ("chown", LOAD_USER, "${disk0}")
    assert owner.undo is not None
    assert owner.undo.argv == ("chown", "root", "${disk0}")
    first = next(each for each in loads if each.id.startswith("fio"))
    assert first.destroys == ("disk0",)
