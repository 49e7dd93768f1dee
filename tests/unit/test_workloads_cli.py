# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from command_line import shown, shown_json
from left_behind import undeclared
from strata.model.metric import Metric, MetricSpec, latency_metric_specs
from strata.plan.catalogue import catalogue
from strata.plan.sheets import workload_sheet
from strata.reading.load import load_study
from study_texts import HEAD, disk, written

WORKLOADS = list(catalogue().workloads)
STUDY = HEAD + 'time_limit = "24h"\nmemory = "4GiB"\n' + disk("disk0")
STUDY += '[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n'


def test_the_list_has_a_line_for_each_workload() -> None:
    said = shown("list", "workloads", width=200)

    for name in WORKLOADS:
        assert sum(line.split()[:1] == [name] for line in said.splitlines()) == 1


def test_a_workload_is_shown_with_what_it_stands_for_and_an_example() -> None:
    for name in WORKLOADS:
        said = " ".join(shown("list", "workloads", name).split())
        assert catalogue().workloads[name].rationale in said
        for part in ("phases", "programs", "metrics", "keys", f'workload = "{name}"'):
            assert part in said


def test_its_example_is_a_sound_study(tmp_path: Path) -> None:
    for name in WORKLOADS:
        file = written(tmp_path / "example.toml", STUDY + workload_sheet(catalogue(), name).example + "\n")
        assert [*load_study(file, catalogue()).workloads] == ["example"]


def test_json_holds_the_metrics_with_their_units_and_directions() -> None:
    [plain] = shown_json("list", "workloads", "pgbench")["workloads"]

    found = {each["names"]: each for each in plain["metric_specs"]}
    assert found["transactions_per_s"]["unit"] == "1/s"
    assert found["transactions_per_s"]["better"] == "higher"
    assert {"warmup", "measure"} <= set(plain["phases"])
    assert [each["name"] for each in shown_json("list", "workloads")["workloads"]] == WORKLOADS


def test_a_family_of_metrics_covers_its_members_only() -> None:
    family = (
        MetricSpec("{read,write}_<part>_per_s", "1/s", "higher", ""),
        *latency_metric_specs("", "sync_"),
    )

    def metric(name: str, unit: str = "1/s", better: str = "higher") -> Metric:
        return Metric.model_validate({"name": name, "value": 1, "unit": unit, "better": better})

    assert not [*undeclared(family, [metric("read_operations_per_s")])]
    assert not [*undeclared(family, [metric("sync_latency_ns_p99", "ns", "lower")])]
    for other in (
        metric("trim_operations_per_s"),
        metric("read_operations_per_s", "B/s"),
        metric("sync_latency_ns_p98", "ns", "lower"),
        metric("sync_latency_ns_p99", "ns"),
    ):
        assert [*undeclared(family, [other])]


def test_the_load_generator_is_named_where_steps_run_it() -> None:
    assert "programs the load generator" in " ".join(shown("list", "workloads", "blog").split())
    assert "load generator" not in shown("list", "workloads", "pgbench")
