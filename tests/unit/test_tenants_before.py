# SPDX-License-Identifier: Apache-2.0
"""Steps of tenants before their loads, and steps of the stack around them: separate, and in order."""

from __future__ import annotations

from pathlib import Path

from strata.model.step import LOAD_USER, Step
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from study_texts import read

SQL = 'workload = "pgbench", scale = 1, clients = 1, duration = "10s"'
TENANT = f"""
[[workloads.two.tenants]]
name = "NAME"
load = {{ {SQL} }}
before = {{ {SQL} }}
"""


def plan(folder: Path, *names: str, layers: str, each: str = "", keys: str = "", disks: int = 1) -> Plan:
    devices = "".join(
        f'[devices.disk{number}]\nmodel = "wd-re4-500gb"\ncapacity = "32GiB"\n' for number in range(disks)
    )
    text = (
        f'[study]\nname = "small"\nquestion = "Which?"\nseeds = [1]\n{devices}'
        f"[stacks.one]\nlayers = [{layers}]\neach = [{each}]\n"
        f'[workloads.two]\nworkload = "tenants"\n{keys}\n'
        + "".join(TENANT.replace("NAME", name) for name in names)
    )
    return compile_trial(read(folder, text), "one", "two", 1)


def words(steps: list[Step]) -> set[str]:
    return {word for step in steps for word in step.argv}


def test_a_server_before_a_load_shares_no_folder_with_the_loads_own(tmp_path: Path) -> None:
    steps = plan(tmp_path, "db", layers='{ layer = "ext4" }').steps
    before = words([step for step in steps if step.id.startswith("db-before-")])
    load = words([step for step in steps if step.id.startswith("db-pg") or step.id.startswith("db-post")])

    data = {word.rpartition("=")[2] for word in before | load if word.endswith("/pgdata")}
    assert data == {"${mount}/db/pgdata", "${mount}/db/before/pgdata"}
    assert "${scratch}/db/postgres" in load
    assert "${scratch}/db/before/postgres" in before
    assert not {word for word in before if word.endswith("${scratch}/db/postgres")}
    made = [step.argv for step in steps if step.argv[0] == "install" and step.argv[-1].endswith("/before")]
    assert made == [
        ("install", "-d", "-m", "1777", "${scratch}/db", "${scratch}/db/before"),
        ("install", "-d", "-o", LOAD_USER, "${mount}/db/before"),
    ]


def test_servers_of_before_are_down_when_the_loads_begin(tmp_path: Path) -> None:
    steps = plan(tmp_path, "db", "sql", layers='{ layer = "ext4" }').steps
    settled = next(step for step in steps if step.id == "settled")
    servers = [step.id for step in steps if step.background and step.id.endswith("-before-pgbench-server")]

    assert len(servers) == 2
    assert settled.takes_down == tuple(servers)
    assert settled.argv == ("sync",)


def test_all_inspections_precede_the_first_change(tmp_path: Path) -> None:
    keys = 'fragmentation = true\nlinear_read = true\nscrub = true\nbefore_measure = ["snapshot"]'
    found = plan(
        tmp_path, "db", "sql", layers='{ layer = "lvm-thin" }', each='{ layer = "btrfs" }', keys=keys
    ).steps

    def kinds(phase: str) -> list[str]:
        named = {"snapshot": "act", "drop": "drop", "scrub": "scrub"}
        order = [
            next((kind for word, kind in named.items() if f"-{word}" in step.id), "look")
            for step in found
            if step.phase == phase and ("fragment" in step.id or "linear" in step.id or "btrfs" in step.id)
        ]
        return [kind for index, kind in enumerate(order) if index == 0 or kind != order[index - 1]]

    assert kinds("alter") == ["look", "act"]
    assert kinds("inspect") == ["look", "drop", "scrub"]


def test_one_alteration_is_done_to_all_before_the_next_to_any(tmp_path: Path) -> None:
    layers = '{ layer = "md", level = 1 }, { layer = "lvm-thin" }'
    keys = 'before_measure = ["snapshot", "lose-disk"]'
    steps = plan(tmp_path, "db", "sql", layers=layers, each='{ layer = "ext4" }', keys=keys, disks=2).steps
    order = [step.id for step in steps if step.phase == "alter"]

    assert order.index("lose-disk") == len(order) - 1
    assert len([each for each in order if "snapshot" in each]) == 2
