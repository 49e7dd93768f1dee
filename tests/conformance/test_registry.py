# SPDX-License-Identifier: Apache-2.0
"""Rules for every layer and workload. A new one is picked up from the registry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from for_all import for_all
from golden_studies import CASES, compile_case, plan_of_case, study_of
from layer_cases import CASES_BY_LAYER
from strata.diagnostics.field_meaning import description_of
from strata.diagnostics.mistakes import keys_of
from strata.diagnostics.names import is_kebab
from strata.model.duties import RunsPrograms
from strata.model.layer import Layer
from strata.model.step import BROUGHT
from strata.model.warning import QUESTIONS
from strata.model.workload import Workload
from strata.plan.catalogue import catalogue
from strata.plan.compile import PHASES, check_steps, compile_trial
from strata.reading.schema import study_schema
from strata.workloads.generator.output import PROGRAM

LAYERS = list(catalogue().layers.items())
WORKLOADS = list(catalogue().workloads.items())
ALL: list[tuple[str, type[Layer | Workload]]] = [*LAYERS, *WORKLOADS]
SCHEMA = study_schema(catalogue())
PACKAGES = Path(__file__).parents[2] / "image" / "packages.toml"


def kind_of(registered: type[Layer | Workload]) -> str:
    return "layer" if issubclass(registered, Layer) else "workload"


def cases_of(name: str, registered: type[Layer | Workload]) -> list[str]:
    if issubclass(registered, Layer):
        return CASES_BY_LAYER[name] or [case for case in CASES if case == f"layer-{name}"]
    return [case for case in CASES if f"{case}-".startswith(f"workload-{name}-")]


@for_all(("name", "registered"), ALL)
def test_it_says_what_it_is_and_each_key_what_it_does(name: str, registered: type[Layer | Workload]) -> None:
    assert is_kebab(name)
    assert registered.__doc__ is not None
    assert registered.__doc__.strip().splitlines()[0].endswith(".")
    for key in registered.model_fields:
        assert key == kind_of(registered) or description_of(registered, key), f"{name}: {key}"


@for_all(("name", "registered"), WORKLOADS)
def test_a_workload_says_what_it_stands_for_measures_and_asks(name: str, registered: type[Workload]) -> None:
    assert len(registered.rationale.split()) >= 25, "what use it stands for, what it stresses and leaves out"
    assert registered.rationale.endswith(".")
    assert "\n" not in registered.rationale
    # A compound workload yields its tenants' metrics under their names, which only a study knows.
    assert registered.metric_specs or registered.is_compound
    assert all(each.meaning for each in registered.metric_specs)
    asked = registered.check_questions
    assert all(is_kebab(check) and question.endswith("?") for check, question in asked.items())
    assert not set(asked) & set(QUESTIONS), "the checks of every trial have names of their own"


@for_all(("name", "layer"), LAYERS)
def test_a_layer_says_how_the_kernels_log_tells_of_its_trouble(name: str, layer: type[Layer]) -> None:
    """Otherwise damage that no program notices would pass as a valid result."""
    log = layer.kernel_log
    assert bool(log.trouble) != bool(log.silent), f"{name}: patterns, or in `silent` why there are none"
    for pattern in (*log.trouble, *log.disk_lost):
        assert not re.compile(pattern).fullmatch(""), pattern


@for_all(("name", "layer"), LAYERS)
def test_a_layers_programs_are_in_the_labs_image(name: str, layer: type[Layer]) -> None:
    lists = tomllib.loads(PACKAGES.read_text())
    groups = [*lists.values(), *lists["additions"].values()]
    image = {each for group in groups if isinstance(group, list) for each in group}

    assert set(layer.packages) <= image, f"{name}: image/packages.toml"


@for_all(("name", "layer"), LAYERS)
def test_a_filesystem_or_pool_tells_its_space_and_periods_or_says_why_not(
    name: str, layer: type[Layer]
) -> None:
    """Otherwise a window that is too short for its commits would pass."""
    if layer.provides != "block":
        tells = layer.free_space is not Layer.free_space
        assert tells != bool(layer.no_free_space), f"{name}: `free_space`, or why not in `no_free_space`"
        assert bool(layer.periods_ns) != bool(layer.no_periods), f"{name}: `periods_ns`, or why not"
    assert all(ns > 0 for ns in layer.periods_ns.values())


@for_all(("name", "registered"), ALL)
def test_it_is_in_the_schema(name: str, registered: type[Layer | Workload]) -> None:
    definition = SCHEMA["$defs"][f"{kind_of(registered)}-{name}"]

    assert set(definition["properties"]) == set(keys_of(registered))


@for_all(("name", "registered"), ALL)
def test_it_has_a_golden_plan(name: str, registered: type[Layer | Workload]) -> None:
    assert f"{kind_of(registered)}-{name}" in cases_of(name, registered)


@for_all(("name", "registered"), WORKLOADS)
def test_a_workloads_tools_are_the_programs_of_its_steps(name: str, registered: type[Workload]) -> None:
    run: set[str] = set()
    for case in cases_of(name, registered):
        steps = plan_of_case(case).steps
        run |= {command.argv[0] for step in steps if step.phase != "build" for command in step.commands}
    # The load generator comes along. Every plan gives the load its place, and waits before it.
    run -= {PROGRAM, "chown", "sleep"}

    # A workload that acts on layers, or consists of other workloads, also runs their programs.
    others = registered.needs_layers or registered.is_compound
    # A shell is for dumps and windows that end early, and no golden plan may have one (see below).
    assert (
        run == {*registered.tools} - {"sleep", "sh"}
        or (others and run > {*registered.tools})
        or issubclass(registered, RunsPrograms)
    )


@for_all("case", CASES)
def test_a_plan_asks_for_the_programs_that_its_steps_run(case: str) -> None:
    plan = plan_of_case(case)
    run = {command.argv[0] for step in plan.steps for command in step.commands}

    assert run - {f"${{{name}}}" for name in BROUGHT} <= set(plan.prerequisites.tools)


@for_all("case", CASES)
def test_its_steps_keep_the_rules_of_a_plan(case: str) -> None:
    plan = plan_of_case(case)

    check_steps(plan.steps, plan.variables, [device.name for device in plan.devices], place=case)
    assert [step.phase for step in plan.steps] == sorted((s.phase for s in plan.steps), key=PHASES.index)
    assert any(step.phase == "measure" for step in plan.steps)
    assert all(step.title and not step.title.endswith(".") for step in plan.steps)


@for_all("case", CASES)
def test_no_program_is_a_shell_writes_elsewhere_or_runs_without_end(case: str) -> None:
    """Files that a program writes into its working directory (logs, core dumps) must not stay on a host."""
    for step in plan_of_case(case).steps:
        for command in step.commands:
            assert command.argv[0] not in {"sh", "bash", "dash", "env", "sudo", "xargs"}
            assert 10 * 10**9 <= command.time_limit_ns <= 2 * 3600 * 10**9
            own = command.cwd.startswith(("${scratch}", "${mount}"))
            assert own or step.phase == "build", f"{step.id}: {command.argv[0]}"


@for_all("case", CASES)
def test_only_named_devices_are_destroyed_and_only_when_building(case: str) -> None:
    plan = plan_of_case(case)
    names = {device.name for device in plan.devices}

    destroyed = [name for step in plan.steps for name in step.destroys]

    assert set(destroyed) == names
    built = any(step.phase == "build" for step in plan.steps)
    # Of a disk without layers the load takes what it needs, at its first step.
    destroying = {step.phase for step in plan.steps if step.destroys}
    assert destroying <= ({"build"} if built else {"prepare", "warmup", "measure"})
    assert len(destroying) <= 1


@for_all("case", CASES)
def test_no_two_runs_of_a_program_draw_the_same(case: str, tmp_path: Path) -> None:
    """Preparing, warming up and measuring, with one seed of the study or another."""
    plans = [compile_trial(study_of(case, tmp_path), "stack", "load", seed) for seed in (1, 2)]
    words = [word for plan in plans for step in plan.steps for word in step.argv]
    seeds = [word for word in words if word.startswith(("--randseed=", "--random-seed=", "--rand-seed="))]

    assert len(set(seeds)) == len(seeds)


@for_all("case", CASES)
def test_compiling_is_a_pure_function(case: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()

    first, second = compile_case(case, tmp_path), compile_case(case, tmp_path / "other")

    assert first.to_json() == second.to_json()
    assert str(tmp_path) not in first.to_json().decode()
