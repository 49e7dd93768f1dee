# SPDX-License-Identifier: Apache-2.0
"""From a study to its trials, and from a trial to its plan.

>>> study = load_study(Path("studies/quickstart.toml"), catalogue())
>>> for trial in trials(study):
...     plan = compile_trial(study, trial.stack, trial.workload, trial.seed)
...     identity = spec_sha256(study, plan)
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import Final

from strata.errors import PlanError
from strata.plan.model import Monitors, Plan, PlanDevice, Trial, canonical_json, sha256_hex
from strata.spec.layer import LayerContext
from strata.spec.names import nearest
from strata.spec.seeds import derive_seed
from strata.spec.step import Command, Step
from strata.spec.study import Study
from strata.spec.workload import WorkloadContext

ENVIRONMENT: Final = {
    # The newest PostgreSQL that the machine has. Debian keeps each major version's programs in a folder of
    # their own, and its wrappers in /usr/bin choose among them by files that are no part of a plan.
    "PATH": ":".join(
        [f"/usr/lib/postgresql/{major}/bin" for major in (17, 16, 15)]
        + ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    ),
    "HOME": "/",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}
"""The complete environment of every step."""

PHASES: Final = ("build", "prepare", "warmup", "measure", "inspect")
_VARIABLE: Final = re.compile(r"\$(?:\$|\{([^}]*)\})")


def trial_id(stack: str, workload: str, seed: int) -> str:
    """The id of a trial: ``<stack>.<workload>.s<seed>``."""
    return f"{stack}.{workload}.s{seed}"


def trials(study: Study) -> list[Trial]:
    """The trials of a study as randomised complete blocks, in the order to run them.

    Each seed is a block that holds every stack with every workload once, in an order drawn from the
    study's name and the seed. So whatever drifts while a study runs on a host (temperature, other load)
    falls on all stacks alike, and a study that is interrupted leaves whole blocks.
    """
    ordered: list[Trial] = []
    for seed in study.seeds:
        block = [
            Trial(
                study=study.name,
                stack=stack,
                workload=workload,
                seed=seed,
                id=trial_id(stack, workload, seed),
            )
            for stack in study.stacks
            for workload in study.workloads
        ]
        random.Random(derive_seed(seed, study.name, "order")).shuffle(block)  # noqa: S311  not for secrets
        ordered.extend(block)
    return ordered


def find_trial(study: Study, wanted: str) -> Trial:
    """The trial with the id ``wanted``.

    Raises:
        PlanError: If the study has no such trial.
    """
    by_id = {trial.id: trial for trial in trials(study)}
    if wanted not in by_id:
        raise PlanError(f'there is no trial "{wanted}"', place=str(study.file), remedy=nearest(wanted, by_id))
    return by_id[wanted]


def compile_trial(study: Study, stack: str, workload: str, seed: int) -> Plan:
    """Compile one trial to explicit steps.

    The steps build the layers from the disks upwards and then run the workload's phases. The plan is a pure
    function of the study's content and the arguments.

    Raises:
        PlanError: If the steps break the rules of a plan: a layer or workload of this Strata is at fault.
    """
    declared = study.stacks[stack]
    steps: list[Step] = []
    lower = declared.devices
    for name, layer in zip(declared.layer_names, declared.layers, strict=True):
        steps += layer.steps(LayerContext(name=name, lower=lower, seed=seed))
    steps += study.workloads[workload].steps(WorkloadContext(name=workload, seed=seed))
    variables = (*declared.devices, "mount", "scratch")
    identity = trial_id(stack, workload, seed)
    check_steps(steps, variables, declared.devices, place=identity)
    return Plan(
        trial=Trial(study=study.name, stack=stack, workload=workload, seed=seed, id=identity),
        devices=tuple(
            PlanDevice(name=used.name, capacity_bytes=used.capacity_bytes)
            for used in study.stack_devices(stack)
        ),
        variables=variables,
        environment=ENVIRONMENT,
        monitors=Monitors(interval_ns=study.sample_interval_ns, disks=declared.devices),
        time_limit_ns=study.time_limit_ns,
        steps=tuple(steps),
    )


def compile_stack(study: Study, stack: str, seed: int) -> Plan:
    """The plan that only builds a stack, for `strata lab shell`: steps of phase ``build`` and their undo."""
    workload = next(iter(study.workloads))
    plan = compile_trial(study, stack, workload, seed)
    return plan.model_copy(update={"steps": tuple(step for step in plan.steps if step.phase == "build")})


def spec_sha256(study: Study, plan: Plan) -> str:
    """The identity of a trial's specification: its plan, its devices' parameters, its metrics' version.

    The study's name and the trial's names are part of the plan, comments and sources are not.
    """
    trial = plan.trial
    devices = {used.name: used.device.identity() for used in study.stack_devices(trial.stack)}
    specification = {
        "plan": plan.model_dump(mode="json"),
        "devices": devices,
        "metrics_version": study.workloads[trial.workload].metrics_version,
    }
    return sha256_hex(canonical_json(specification))


def required_tools(study: Study) -> dict[str, list[str]]:
    """The programs that the study's steps run, each with the layers and workloads that need it.

    The runner looks for them in the PATH of `ENVIRONMENT` before it starts a trial.
    """
    needed: dict[str, set[str]] = {}
    for stack in study.stacks.values():
        for layer in stack.layers:
            for tool in layer.tools:
                needed.setdefault(tool, set()).add(layer.layer)
    for workload in study.workloads.values():
        for tool in workload.tools:
            needed.setdefault(tool, set()).add(workload.workload)
    return {tool: sorted(users) for tool, users in sorted(needed.items())}


def commands_of(step: Step) -> list[Command]:
    """The step and the commands in it."""
    return [command for command in (step, step.ready, step.undo) if command is not None]


def variables_in(step: Step) -> set[str]:
    """The names of the ``${variable}``s that a step uses anywhere."""
    texts: list[str] = [collect.path for collect in step.collect]
    for command in commands_of(step):
        texts += [*command.argv, *command.environment.values(), command.cwd, command.stdin or ""]
    return {name for text in texts for name in _VARIABLE.findall(text) if name}


def check_steps(
    steps: Iterable[Step], variables: Iterable[str], devices: Iterable[str], *, place: str
) -> None:
    """Check what every plan must keep to: unique ids, phases in order, known variables, named devices.

    Raises:
        PlanError: If it does not.
    """
    seen: set[str] = set()
    phase = PHASES[0]
    known, disks = set(variables), set(devices)
    for step in steps:
        problem = None
        unknown = variables_in(step) - known
        if step.id in seen:
            problem = f'two steps are called "{step.id}"'
        elif PHASES.index(step.phase) < PHASES.index(phase):
            problem = f'the step is of phase "{step.phase}" but follows one of phase "{phase}"'
        elif unknown:
            problem = f"it uses the unknown variables {', '.join(sorted(unknown))}"
        elif not set(step.destroys) <= disks:
            problem = "it destroys a device that the study does not name"
        elif step.background and step.ready is None:
            problem = "it is a service without a way to see that it is ready"
        if problem:
            raise PlanError(
                problem, place=f"{place}, step {step.id}", remedy="this is a fault of Strata; report it"
            )
        seen.add(step.id)
        phase = step.phase
