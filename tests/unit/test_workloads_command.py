# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strata.errors import RunError
from strata.model.step import LOAD_USER, Step
from strata.model.workload import Outputs, StepOutput
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.units import NS_PER_S
from strata.workloads.command.command import CommandWorkload, applications
from study_texts import HEAD, disk, mistakes, read

STUDY = f"{HEAD}time_limit = '1h'\n{disk('disk0')}"
STUDY += '[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n[workloads.own]\nworkload = "command"\n'
COPY = "load = [{ name = 'copy', run = 'cp ${data}/a ${data}/b' }]\n"
FIND = (
    "load = [{ name = 'x', shell = 'a $rate' }]\nrate = 5\n"
    "find = { metric = 'latency_ns_p99', below = '1s' }\n"
)
TIME = "{ name = 'latency_ns_p99', json = 'p99' }"
REACHED = "{ name = 'operations_per_s', unit = '1/s', json = 'rate' }"


def plan_of(folder: Path, text: str) -> Plan:
    return compile_trial(read(folder, STUDY + text), "ext4", "own", 1)


def steps_of(folder: Path, text: str) -> dict[str, Step]:
    return {step.id: step for step in plan_of(folder, text).steps}


def workload(**keys: Any) -> CommandWorkload:
    return CommandWorkload.model_validate({"load": ["true"], **keys})


def outputs(stdout: str = "", stderr: str = "", **fields: Any) -> Outputs:
    took = {"duration_ns": 2 * NS_PER_S, **fields}
    return Outputs({"run-load-1": StepOutput(stdout=stdout, stderr=stderr, **took)})


def value(metric: dict[str, Any], given: Outputs, **keys: Any) -> float:
    return workload(metrics=[{"name": "found", **metric}], **keys).metrics(given)[0].value


def test_a_shell_finds_the_variables_in_its_environment(tmp_path: Path) -> None:
    step = steps_of(tmp_path, "variables = { count = 3 }\nload = [{ shell = 'echo $count > $data/a' }]\n")

    assert step["run-load-1"].argv == ("sh", "-e", "-c", "echo $$count > $$data/a")
    assert step["run-load-1"].environment["count"] == "3"


def test_a_server_is_waited_for(tmp_path: Path) -> None:
    for key, argv in (
        ("socket = '${scratch}/s'", ("test", "-S", "${scratch}/s")),
        ("file = '${data}/pid'", ("test", "-e", "${mount}/pid")),
        ("ready = 'ping ${data}'", ("ping", "${mount}")),
    ):
        server = steps_of(tmp_path, f"{COPY}serve = {{ run = 'served ${{data}}', {key} }}\n")[
            "command-server"
        ]
        assert server.background
        assert server.ready is not None
        assert server.ready.argv == argv
        assert server.ready.user == LOAD_USER


def test_each_probe_of_a_search_gets_its_rate(tmp_path: Path) -> None:
    study = read(tmp_path, f"{STUDY}{FIND}metrics = [{TIME}, {REACHED}]\n")

    for rate in (5, 40):
        plan = compile_trial(study, "ext4", "own", 1, rate)
        assert plan.trial.id == f"ext4.own-rate-{rate}.s1"
        assert plan.steps[-1].environment["rate"] == str(rate)


def test_scripts_and_a_folder_beside_the_study_are_there_to_read(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/run.sh").write_text("true\n")
    text = f"{COPY}archive = 'own'\nscripts = {{ 'a.sql' = 'SELECT $1;' }}\n"

    plan = plan_of(tmp_path, text)
    steps = {step.id: step for step in plan.steps}
    (tmp_path / "own/run.sh").touch()
    same = plan_of(tmp_path, text)
    (tmp_path / "own/run.sh").write_text("false\n")
    other = plan_of(tmp_path, text)

    assert steps["command-script-1"].argv == ("tee", "${scratch}/files/a.sql")
    assert steps["command-script-1"].stdin == "SELECT $$1;"
    assert "command-unpack" in steps
    assert plan.inputs[0].source == "own"
    assert plan.to_json() == same.to_json() != other.to_json()


def test_a_mistake_is_told_with_its_key(tmp_path: Path) -> None:
    for text, key, cause in (
        ("", "load", "nothing is measured"),
        ("load = ['']", "load[0]", "the command is empty"),
        ("load = ['a | b']", "load[0]", 'no shell reads this command: "|"'),
        ("load = ['a > b']", "load[0]", "no shell"),
        ("load = ['a \"']", "load[0]", "cannot be split"),
        ("load = ['a ${disk0}']", "load[0]", "there is no variable ${disk0}"),
        ("load = ['a $b']", "load[0]", "a single $"),
        ("load = [{ run = 'a', shell = 'b' }]", "load[0]", "either"),
        ("load = [{ name = 'x', run = 'a' }, { name = 'x', run = 'b' }]", "load[1].name", "two commands"),
        ("load = ['a']\nserve = { run = 'b' }", "serve", "exactly one sign"),
        ("load = ['a']\nserve = { run = 'b', port = 1, file = 'c' }", "serve", "exactly one sign"),
        ("load = ['a']\nscripts = { '../x' = '' }", "scripts", "not the name of a file"),
        ("load = ['a']\nvariables = { data = 1 }", "variables", "cannot be called"),
        ("load = ['a']\nenvironment = { A = '${x}' }", "environment", "no variable"),
        ("load = ['a']\nenvironment = { 'A=B' = '' }", "environment", "no name"),
        ("load = ['a']\nmetrics = [{ name = 'load_ns' }]", "metrics[0].name", "cannot be called"),
        ("load = ['a']\nmetrics = [{ name = 'a', of = 'b' }]", "metrics[0].of", "no command"),
        ("load = ['a']\nmetrics = [{ name = 'a', regex = 'a' }]", "metrics[0].regex", "0 groups"),
        (
            "load = ['a']\nmetrics = [{ name = 'a', regex = '(' }]",
            "metrics[0].regex",
            "no regular expression",
        ),
        ("load = ['a']\nmetrics = [{ name = 'a', regex = '(a)(?=b)' }]", "metrics[0].regex", "(?="),
        ("load = ['a']\nmetrics = [{ name = 'a', regex = '(a{1000}){1000}' }]", "metrics[0].regex", "no reg"),
        ("load = ['a']\nmetrics = [{ name = 'a', json = 'a..b' }]", "metrics[0].json", "empty part"),
        ("load = ['a']\nmetrics = [{ name = 'a', json = 'a', regex = '(a)' }]", "metrics[0]", "one source"),
        ("load = ['a']\nmetrics = [{ name = 'a', unit = 'B' }]", "metrics[0].unit", "a time is in ns"),
        (
            "load = ['a']\nmetrics = [{ name = 'a', operations = 'n' }]",
            "metrics[0].operations",
            "no variable",
        ),
        ("load = ['a']\nmetrics = [{ name = 'a', better = 'higher' }]", "metrics[0].better", "lower is"),
        ("load = ['a']\nmetrics = [{ name = 'a' }, { name = 'a' }]", "metrics[1].name", "two metrics"),
        ("load = ['a']\nrate = 5", "rate", "no command of `load` uses ${rate}"),
        ("load = ['a ${rate}']", "load[0]", "there is no variable ${rate}"),
        ("load = ['a ${rate}']\nrate = 5\nvariables = { rate = 6 }", "rate", "two rates"),
        (f"{FIND}metrics = [{REACHED}, {{ name = 'a', of = 'x' }}]", "find", "no time of `metrics`"),
        (f"{FIND}metrics = [{TIME}]", "find", "which rate the program reached"),
        (f"{FIND}metrics = [{TIME}, {REACHED}]".replace("rate = 5\n", ""), "find", "no rate to begin at"),
        ("preset = 'sqlit'", "preset", "no preset"),
        ("load = ['a']\narchive = 'none.tar'", "archive", "no file"),
        ("load = ['a']\nsize = '1TiB'", "size", ""),
        (
            "load = ['a']\n[workloads.own.prices.'a b']\n"
            "system_call_ns = 1\nlow = 1\nhigh = 1\nsource = 's'\nestimate = true",
            'prices."a b"',
            "not the name of a program",
        ),
    ):
        found = mistakes(tmp_path, f"{STUDY}{text}\n")
        assert [*found] == [f"workloads.own.{key}"], found
        assert cause in found[f"workloads.own.{key}"]


def test_its_memory_can_be_limited_where_no_guest_limits_it(tmp_path: Path) -> None:
    guest = '[{ layer = "raw" }, { layer = "guest", memory = "128MiB" }, { layer = "xfs" }]'
    text = f"{STUDY}{COPY}memory = '64MiB'\n[stacks.guest]\nlayers = [{{ layer = 'ext4' }}, {guest[1:]}\n"
    study = read(tmp_path, text)

    groups = {
        stack: {step.cgroup for step in compile_trial(study, stack, "own", 1).steps if step.id == "run-copy"}
        for stack in study.stacks
    }

    assert groups == {"ext4": {"/sys/fs/cgroup/${stack}_load"}, "guest": {"/sys/fs/cgroup/${stack}_guest"}}


def test_a_price_of_its_own_is_the_studys(tmp_path: Path) -> None:
    price = "{ system_call_ns = 123, low = 0.5, high = 2, source = 'measured', estimate = false }"

    plan = plan_of(tmp_path, f"{COPY}prices = {{ copier = {price} }}\n")

    assert any(line.startswith("program copier ") for line in plan.processor)


def test_a_metric_is_a_time_a_rate_or_a_printed_number() -> None:
    lines = 'progress\n{"done": false}\n{"latency": [{"p99": 1.5}]}\n'

    assert value({}, outputs()) == 2e9
    assert value({"operations": 10}, outputs()) == 5
    assert value({"operations": "n"}, outputs(), variables={"n": 4}) == 2
    assert value({"regex": "took ([0-9.,]+)"}, outputs("took 1\n", "took 1,234.5\n")) == 1234.5
    assert value({"regex": "^took ([0-9]+)$"}, outputs("it took 1\ntook 7\ntook 3 or 4\n")) == 7
    assert value({"regex": "(?:took|lasted) ([0-9]+)?"}, outputs("took 1\nlasted \n")) == 1
    assert value({"json": "latency.0.p99", "factor": 1e6}, outputs(lines)) == 1.5e6
    assert value({"json": "a", "unit": "1/s"}, outputs('{\n"a": 7\n}')) == 7


def test_a_missing_metric_is_an_error_that_shows_the_output() -> None:
    metric: dict[str, Any]
    for metric, printed in (
        ({"regex": "took ([0-9]+)"}, "it took long"),
        ({"regex": "took (.*)"}, "took long"),
        ({"regex": "(a+)+$"}, "a" * 40 + "b"),  # Python's engine would take hours
        ({"json": "a.b"}, '{"a": {"c": 1}}'),
        ({"json": "a"}, '{"a": true}'),
        ({"json": "a"}, "no JSON"),
    ):
        with pytest.raises(RunError, match="the metric found is missing") as caught:
            value(metric, outputs(printed))
        assert printed in (caught.value.remedy or "")


def test_the_first_metric_is_the_headline_and_the_time_is_there_anyway() -> None:
    both = [{"name": "a_per_s", "operations": 1}, {"name": "b", "regex": "(1)"}]

    named = {each.name: each for each in workload(metrics=both).metrics(outputs("1"))}
    alone = workload().metrics(outputs())

    assert [each.name for each in named.values() if each.headline] == ["a_per_s"]
    assert (named["a_per_s"].unit, named["a_per_s"].better) == ("1/s", "higher")
    assert named["load_ns"].value == 2e9
    assert [(each.name, each.headline) for each in alone] == [("load_ns", True)]


def test_a_process_that_a_command_leaves_makes_the_result_invalid() -> None:
    (kept,) = workload().checks(outputs())
    (left,) = workload().checks(outputs(left_running=("redis-server",)))

    assert kept.verdict == "yes"
    assert (left.verdict, left.required) == ("no", True)
    assert "load-1 left redis-server" in left.detail


def test_a_bundled_application_is_sound_and_says_what_it_stands_for(tmp_path: Path) -> None:
    for name in applications():
        assert len(applications()[name]["rationale"].split()) >= 25
        assert mistakes(tmp_path, f"{STUDY}preset = '{name}'\n") == {}


def test_a_study_changes_single_variables_of_a_preset(tmp_path: Path) -> None:
    steps = steps_of(tmp_path, "preset = 'sqlite'\nvariables = { journal = 'wal' }\n")

    assert "PRAGMA journal_mode = wal" in steps["run-commit"].argv
    assert steps["run-commit"].environment["rows"] == str(applications()["sqlite"]["variables"]["rows"])
