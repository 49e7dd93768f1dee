# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from strata.errors import RunError
from strata.model.step import Window
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.workloads.generator.definition import OPERATIONS, Definition, read_definition
from strata.workloads.generator.load import PERSONALITIES, FileSet, Load

PROJECT = Path(__file__).parents[2]
SAVED = PROJECT / "tests" / "golden" / "outputs" / "load"
# As printed in the lab, on ext4 on one modelled disk of 7200 rpm, in a window of 3 s.
PREPARE = (SAVED / "0.1-varmail-prepare.json").read_text()
MEASURE = (SAVED / "0.1-varmail-measure.json").read_text()
DEFINITION = (PROJECT / "crates" / "load" / "personalities" / "varmail.toml").read_text()


def load(**keys: Any) -> Load:
    return Load.model_validate({"personality": "varmail", "duration": "3s", **keys})


def outputs(**changes: Any) -> Outputs:
    measured = json.dumps({**json.loads(MEASURE), **changes})
    return Outputs({"load-prepare": StepOutput(PREPARE), "load-measure": StepOutput(measured)})


def metrics(found: Outputs) -> dict[str, float]:
    return {metric.name: metric.value for metric in load().metrics(found)}


def test_space_is_reckoned_with_the_sets_of_the_definitions() -> None:
    for name in PERSONALITIES:
        text = (PROJECT / "crates" / "load" / "personalities" / f"{name}.toml").read_text()
        sets = tomllib.loads(text)["sets"]
        assert PERSONALITIES[name] == tuple(
            FileSet(each["files"], each["file_bytes"], each["preallocated_percent"], each.get("scales", True))
            for each in sets
        )
        assert load(personality=None, definition=text).data_bytes == load(personality=name).data_bytes


def test_a_rate_or_an_operation_that_waits_for_the_clock_sets_the_pace() -> None:
    assert load(rate=500).is_paced
    for name in PERSONALITIES:
        text = (PROJECT / "crates" / "load" / "personalities" / f"{name}.toml").read_text()
        waits = any(
            op["op"] in {"delay", "limit"} for each in tomllib.loads(text)["groups"] for op in each["loop"]
        )
        assert load(personality=name).is_paced == waits
        assert load(personality=None, definition=text).is_paced == waits


def test_every_bundled_personality_is_read_as_the_generator_reads_it() -> None:
    rust = (PROJECT / "crates" / "load" / "src" / "personality" / "definition.rs").read_text()
    listed = rust.partition("const OPERATIONS: &str = ")[2].partition(";")[0]
    assert set(re.findall(r"[a-z]+(?:_[a-z]+)?", listed)) == set(OPERATIONS)
    for name in PERSONALITIES:
        text = (PROJECT / "crates" / "load" / "personalities" / f"{name}.toml").read_text()
        assert isinstance(read_definition(text), Definition)


# The loop of ../shared/cases/unchecked-loop.toml, with one further mistake each.
LOOP: Final = """
name = "mail-two"
[[sets]]
name = "one"
files = 200
file_bytes = 16_384
file_shape = 1.5
directory_width = 20
directory_shape = 1.5
preallocated_percent = 80
[[groups]]
name = "g1"
threads = 1
loop = [
    { op = "open", set = "one", fd = 1 },
    { op = "fsync", fd = 1 },
    { op = "close", fd = 1 },
]
"""


def test_a_mistake_in_the_loop_of_a_definition_is_named_with_its_line() -> None:
    for wrong, right, cause in (
        (
            'op = "frobnicate"',
            'op = "fsync"',
            "line 16 of the text, groups[0].loop[1].op: there is no operation",
        ),
        ('set = "two"', 'set = "one"', 'line 15 of the text, groups[0].loop[0].set: there is no set "two"'),
        ('fd = 1, bites = 4 },\n    { op = "fsync"', 'fd = 1 },\n    { op = "fsync"', 'unknown key "bites"'),
        ("sise = 1\nfiles = 200", "files = 200", 'line 5 of the text, sets[0].sise: unknown key "sise"'),
        ('op = "read_whole", fd = 1', 'op = "fsync", fd = 1', "bytes: this key is missing"),
        ('fd = 2 },\n    { op = "close"', 'fd = 1 },\n    { op = "close"', "file 2 is not open"),
        ('op = "close", fd = 1', 'op = "fsync", fd = 1', "file 1 is not open"),
        ("directory_width = 1", "directory_width = 20", "1 is too small"),
        ("threads = 0", "threads = 1", "0 is too small"),
        ("[[groups]", "[[groups]]", "is not valid TOML"),
    ):
        assert isinstance(read_definition(LOOP), Definition)
        text = LOOP.replace(right, wrong, 1)
        found = list(load(personality=None, definition=text).diagnostics(1 << 40))
        assert {each.key for each in found} == {"definition"}
        assert any(cause in each.cause for each in found), found
        assert all(each.remedy for each in found)


def test_a_loop_that_leaves_a_file_open_or_waits_alone_is_refused() -> None:
    unclosed = LOOP.replace('    { op = "close", fd = 1 },\n', "")
    waiting = LOOP[: LOOP.index("loop = [")] + 'loop = [{ op = "delay", time_ns = 5 }]\n'
    read_only = LOOP.replace("[[groups]]", "read_only = true\n[[groups]]").replace('"open"', '"create"')

    for text, cause in (
        (unclosed, "file 1 is still open at its end"),
        (waiting, "nothing in it is an operation"),
        (read_only, '"one" is read-only'),
    ):
        [found] = load(personality=None, definition=text).diagnostics(1 << 40)
        assert cause in found.cause


def test_every_personality_of_the_generator_is_known() -> None:
    folder = PROJECT / "crates" / "load" / "personalities"
    assert {path.stem for path in folder.glob("*.toml")} == set(PERSONALITIES)


def test_an_open_loop_tells_how_late_passes_began() -> None:
    found = metrics(outputs(lag=json.loads(MEASURE)["passes"]))
    assert found["schedule_lag_ns_p99"] == found["pass_latency_ns_p99"]


def test_rates_over_time_are_of_whole_intervals() -> None:
    assert len(load().rates_per_s(outputs())) == 3
    assert len(load().rates_per_s(outputs(window_ns=2_900_000_000))) == 2


def test_a_run_without_operations_has_no_numbers() -> None:
    with pytest.raises(RunError, match="no operation was completed"):
        metrics(outputs(operations=0))


def test_a_run_that_ended_early_is_invalid_and_says_why() -> None:
    verdicts = {check.name: check for check in load().checks(outputs())}
    assert verdicts["ran-the-whole-window"].verdict == "yes"
    ended = {"reason": "files", "detail": '"bigfileset" had no file left to take', "at_ns": 1_200_000_000}
    found = {check.name: check for check in load().checks(outputs(ended_early=ended))}
    check = found["ran-the-whole-window"]
    assert check.verdict == "no"
    assert check.required
    assert "bigfileset" in check.detail
    assert "deletes" in check.detail


def test_what_differs_from_the_definition_is_stated() -> None:
    departures = [{"what": "bigfileset.files", "definition": 10000, "here": 1000}]
    found = {check.name: check for check in load().checks(outputs(departures=departures))}
    assert found["as-defined"].verdict == "no"
    assert not found["as-defined"].required
    assert "bigfileset.files is 1000, and 10000 by definition" in found["as-defined"].detail
    assert {check.name: check.verdict for check in load().checks(outputs())}["as-defined"] == "yes"


def test_a_window_that_is_run_again_has_the_same_files_and_other_choices() -> None:
    def argv(window: Window) -> tuple[str, ...]:
        return load().steps(WorkloadContext(name="mail", seed=1, window=window))[-1].argv

    differing = set(argv("")) ^ set(argv("alone"))
    assert differing == {"--purpose=measure", "--purpose=measure-alone"}


def test_a_definition_travels_by_standard_input() -> None:
    own = load(personality=None, definition="# $5 a mail\n" + DEFINITION)
    for step in own.steps(WorkloadContext(name="mail", seed=1)):
        assert "--personality=-" in step.argv
        assert step.stdin is not None
        assert "$$5 a mail" in step.stdin
