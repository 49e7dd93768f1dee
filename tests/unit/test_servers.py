# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from strata.model.step import Step
from strata.model.workload import WorkloadContext
from strata.plan.compile import compile_trial
from strata.servers.database import DatabaseServer, Setting
from strata.servers.mariadb import MariadbServer
from strata.servers.postgresql import PostgresqlServer
from study_texts import HEAD, disk, mistakes, read


def step(server: DatabaseServer, step_id: str) -> Step:
    return next(step for step in server.steps() if step.id == step_id)


def mariadb(**settings: Setting) -> MariadbServer:
    return MariadbServer("load", WorkloadContext(name="load", seed=1), 14, settings)


def refused(server: type[DatabaseServer], name: str, value: Setting = "1") -> str:
    return "; ".join(f"{r.cause}: {r.remedy}" for r in server.diagnostics({name: value}))


def test_settings_of_mariadb_that_would_break_the_trial_are_refused() -> None:
    for name in (
        "datadir",
        "socket",
        "skip_networking",
        "loose_port",
        "data",
        "log_error",
        "max_connections",
    ):
        assert "given already" in refused(MariadbServer, name)


def test_mariadb_is_started_anew_after_it_was_taken_down() -> None:
    stopped, _, started = mariadb().restart(1)
    again, _, _ = mariadb().restart(2)

    assert stopped.takes_down == ("load-server",)
    assert again.takes_down == (started.id,)
    assert started.argv == step(mariadb(), "load-server").argv


def test_settings_that_give_durability_away_are_marked() -> None:
    server: type[DatabaseServer]
    for server, name, value, verdict in (
        (PostgresqlServer, "fsync", False, "no"),
        (PostgresqlServer, "synchronous_commit", "off", "no"),
        (PostgresqlServer, "synchronous_commit", "local", "yes"),
        (PostgresqlServer, "full_page_writes", "0", "no"),
        (MariadbServer, "innodb_flush_log_at_trx_commit", 2, "no"),
        (MariadbServer, "innodb_flush_log_at_trx_commit", 1, "yes"),
        (MariadbServer, "innodb_doublewrite", "OFF", "no"),
        (MariadbServer, "innodb_flush_method", "nosync", "no"),
    ):
        risks = list(server.power_risks({name: value}, whole_blocks=False))
        assert [name in risk for risk in risks] == ([True] if verdict == "no" else [])
        assert bool([*server.power_risks({name: value}, whole_blocks=True)]) == (
            verdict == "no" and name not in server.tearing
        )


_STUDY = """
[stacks.plain]
layers = [{ layer = "ext4" }]

[stacks.tuned]
layers = [{ layer = "ext4" }]
settings = { postgresql = { full_page_writes = false } }

[workloads.alone]
workload = "pgbench"
scale = 1
clients = 1
duration = "10s"
settings = { full_page_writes = "on", work_mem = "8MB" }

[workloads.two]
workload = "tenants"

[[workloads.two.tenants]]
name = "db"
load = { workload = "pgbench", scale = 1, clients = 1, duration = "10s" }
"""
_HEAD = HEAD + disk("disk0", "null", "20GiB")


def test_settings_of_a_stack_precede_those_of_the_workload(tmp_path: Path) -> None:
    for workload in ("alone", "two"):
        study = read(tmp_path, _HEAD + _STUDY)

        servers = {}
        for stack in ("plain", "tuned"):
            steps = compile_trial(study, stack, workload, 1).steps
            (servers[stack],) = [step.argv for step in steps if step.id.endswith("-server")]

        assert "full_page_writes=false" in servers["tuned"]
        assert "full_page_writes=false" not in servers["plain"]
        assert ("work_mem=8MB" in servers["tuned"]) == (workload == "alone")


def test_mistakes_in_the_settings_of_a_stack_are_found(tmp_path: Path) -> None:
    wrong = _STUDY.replace("full_page_writes = false } }", "shared_bufers = 1 }, oracle = { x = 1 } }", 1)

    found = mistakes(tmp_path, _HEAD + wrong)

    assert "shared_buffers" in found["stacks.tuned.settings.postgresql"]
    assert "no database server" in found["stacks.tuned.settings.oracle"]
