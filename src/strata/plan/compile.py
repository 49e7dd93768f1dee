# SPDX-License-Identifier: Apache-2.0
"""From a study to its trials, and from a trial to its plan.

>>> study = load_study(Path("studies/quickstart.toml"), catalogue())
>>> for trial in trials(study):
...     plan = compile_trial(study, *trial.key)
...     identity = spec_sha256(study, plan)
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from strata.diagnostics.names import nearest
from strata.errors import PlanError
from strata.model.duties import EndsWhenKnown, HasServer, SharesPreparation
from strata.model.find import find_of
from strata.model.knobs import knob_features, knob_steps
from strata.model.packages import asked_packages
from strata.model.stack import Stack
from strata.model.step import (
    BROUGHT,
    INPUT_PREFIX,
    LOAD_USER,
    MACHINE_IMAGE,
    NETWORK_DEVICE_PREFIX,
    RESTART,
    Prerequisites,
    Step,
)
from strata.model.study import Study
from strata.model.trial import CellKey, TrialKey
from strata.model.workload import Workload, loads_of
from strata.plan.aspects import ASPECTS
from strata.plan.aspects.aspect import Combination
from strata.plan.aspects.interventions import loses_disk
from strata.plan.aspects.restart import after_restart, restarted
from strata.plan.machines import with_accounts
from strata.plan.model import Monitors, Plan, PlanDevice, PlanInput, Trial, canonical_json, sha256_hex
from strata.plan.placement import (
    LayerPlace,
    Placement,
    given_to_load,
    placements_of,
    places_by_name,
    workload_steps,
)
from strata.seeds import derive_seed
from strata.units import NS_PER_MS, NS_PER_S

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
    # In libblkid's cache mkfs.btrfs finds the UUID of an earlier trial on the same loop device, and refuses.
    "BLKID_FILE": "/dev/null",
}
"""The complete environment of every step."""

PHASES: Final = ("build", "prepare", "alter", "warmup", "measure", "inspect")


LOAD_LANE: Final = "load"  # the lane of the load's steps, if it is alone
_PERIOD_NS_MAX: Final = 30 * NS_PER_S

EXCLUDED: Final = "the study's `exclude` leaves it out"


def trials(study: Study) -> list[Trial]:
    """The trials of a study in the order to run them: block after block.

    A block is one workload with one seed on every stack, and complete before the next begins: whatever drifts
    while a study runs on a host (temperature, other load) falls on all stacks alike, and a study that is
    interrupted leaves whole blocks. The first block begins with the reference. The order is a pure function
    of the study's name, its `order`, its `order_seed`, its reference and the seeds; further seeds leave that
    of the earlier ones as it is. The combinations of `skipped` are left out.
    """
    left_out = skipped(study)
    blocks = list(_blocks(study))
    return [
        Trial.of(study.name, key)
        for workload, seed in blocks
        for stack in _stacks_in_order(study, workload, seed, opens=workload == blocks[0][0])
        if (stack, workload) not in left_out
        for key in study.trial_keys(stack, workload, seed)
    ]


def _blocks(study: Study) -> Iterator[tuple[str, int]]:
    """The blocks in their order: seed by seed, for each the workloads; in pairs of seeds for ``abba``."""
    count = max(len(study.seeds_of(workload)) for workload in study.workloads)
    together = 2 if study.order == "abba" else 1
    for first in range(0, count, together):
        workloads = list(study.workloads)
        if study.order != "file":
            _shuffle(study, workloads, "workloads", str(first))
        for workload in workloads:
            yield from ((workload, seed) for seed in study.seeds_of(workload)[first : first + together])


def _stacks_in_order(study: Study, workload: str, seed: int, *, opens: bool) -> list[str]:
    """The stacks of one block; of every other seed mirrored for ``abba``.

    The study's first block has the reference in front: its workload ``opens`` the study.
    """
    stacks = list(study.stacks)
    seeds = study.seeds_of(workload)
    at = seeds.index(seed)
    reference = study.reference or stacks[0]
    match study.order:
        case "blocks":
            _shuffle(study, stacks, workload, str(seed))
            if opens and at == 0:
                stacks.sort(key=lambda name: name != reference)
        case "abba":
            _shuffle(study, stacks, workload, str(seeds[at - at % 2]))
            if opens and at < 2:
                stacks.sort(key=lambda name: name != reference)
            return stacks[::-1] if at % 2 else stacks
    return stacks


def _shuffle(study: Study, names: list[str], *purpose: str) -> None:
    seed = derive_seed(study.order_seed, study.name, "order", *purpose)
    random.Random(seed).shuffle(names)  # noqa: S311  not for secrets


def runnable_trials(study: Study) -> list[Trial]:
    """The trials of a study; a `PlanError` if all are skipped."""
    found = trials(study)
    if not found:
        raise PlanError(
            f"nothing of this study can be run: {'; '.join(dict.fromkeys(skipped(study).values()))}",
            place=study.name,
            remedy="`strata check` names the reason of each combination",
        )
    return found


def skipped(study: Study) -> dict[CellKey, str]:
    """The combinations of stack and workload that no machine can run, each with the reason as a sentence.

    Found once for a study.
    """
    if not study.left_out:
        study.left_out.append(
            {
                CellKey(stack.name, name): why
                for stack in study.stacks.values()
                for name, load in study.workloads.items()
                if (why := next(_reasons(study, name, Combination(study.of(stack.name), stack, load)), None))
            }
        )
    return dict(study.left_out[0])


def _reasons(study: Study, name: str, combination: Combination) -> Iterator[str]:
    """Why a combination cannot be run."""
    stack, load, target = combination.stack, combination.load, combination.here.provides
    if study.matrix.excludes(stack.name, name):
        yield EXCLUDED
    if unavailable := stack.unavailable():
        yield unavailable
    yield from filter(None, (aspect.unmet(combination) for aspect in ASPECTS))
    if target not in load.runs_on:
        yield f"{load.workload} needs a mounted filesystem, and the stack ends in a block device"
    if unsuited := load.unsuited(combination.placed):
        yield f"{load.workload} cannot run on it: {unsuited}"


def find_trial(study: Study, wanted: str) -> Trial:
    """The trial with the id ``wanted``; a `PlanError` if the study has none."""
    by_id = {trial.id: trial for trial in trials(study)}
    if wanted not in by_id and (probe := _probe(study, wanted)) is not None:
        return Trial.of(study.name, probe)
    if wanted not in by_id:
        raise PlanError(f'there is no trial "{wanted}"', place=str(study.file), remedy=nearest(wanted, by_id))
    return by_id[wanted]


def _probe(study: Study, wanted: str) -> TrialKey | None:
    """The probe of one of the study's searches that somebody asks for, at whatever rate and with any seed."""
    for stack, (workload, load) in itertools.product(study.stacks, study.workloads.items()):
        names = rf"{re.escape(stack)}\.{re.escape(workload)}"
        match = re.fullmatch(rf"{names}-rate-([1-9]\d*)\.s(0|[1-9]\d*)", wanted, re.ASCII)
        if match is not None and find_of(load):
            return TrialKey(stack, workload, seed=int(match[2]), rate=int(match[1]))
    return None


def compile_trial(
    study: Study,
    stack: str,
    workload: str,
    seed: int,
    rate: int | None = None,
    *,
    cut_after_ns: int | None = None,
) -> Plan:
    """Compile one trial to explicit steps: a pure function of the study's content and the arguments.

    With a ``rate`` it is a probe of the workload's search. With ``cut_after_ns`` the power is cut this long
    after the beginning of the measured window.
    """
    study = study.of(stack)
    declared = study.stacks[stack]
    key = TrialKey(stack, workload, seed, rate)
    load = study.load(stack, workload, rate)
    shared, placements = placements_of(study, key)
    placements = [replace(each, is_cut=cut_after_ns is not None and not each.tenant) for each in placements]
    combination = Combination(study, declared, load, cut_after_ns)
    knobs = study.knobs(stack)
    steps = [*knob_steps(*knobs), *_before_load(combination, shared, placements)]
    aged = len(steps)
    loaded, repeatable = _load_steps(study, placements, load)
    destroyed = set[str]().union(*(step.destroys for step in steps))
    kept = [name for name in declared.all_devices if name not in destroyed]
    if kept and loaded:  # no layer makes anything of the bare disk: the workload writes over it
        loaded[0] = loaded[0].model_copy(update={"destroys": tuple(kept)})
    loaded = [_after_periods(study, placements, step) for step in loaded]
    if any(aspect.fills_window(combination) for aspect in ASPECTS):
        loaded = _in_lane(loaded)
    steps += [*loaded, *_steps_beside(combination, placements)]
    steps.sort(key=lambda step: PHASES.index(step.phase))
    if study.prepare != "each":
        steps = restarted(steps, shared, placements[0], repeatable, knob_steps(*knobs, again="-again"), aged)
    pause_ns = _pause_ns(study, key)
    if pause_ns:
        prepared = sum(step.phase in {"build", "prepare"} for step in steps)
        steps.insert(prepared, _pause(pause_ns))
    steps = with_accounts(steps)
    places = [*shared, *places_by_name(placements).values()]
    needed = _packages(study, load) | knob_features(*knobs)
    return plan_of(
        study,
        declared,
        key,
        steps,
        outside=_needs(places, load, placements, steps, inside=False) | needed,
        inside=_needs(places, load, placements, steps, inside=True),
        interval_ns=study.sample_interval_ns,
        # A limit that depends on the load would keep loads from sharing what is prepared.
        time_limit_ns=study.time_limit_ns + (pause_ns if study.prepare == "each" else _PERIOD_NS_MAX),
        inputs=_inputs_of(study, load, declared),
    )


def _after_periods(study: Study, placements: Sequence[Placement], step: Step) -> Step:
    """A window that may end early lasts for a server's periods, and for two of the kernel's.

    In the first of the kernel's it still writes back what was prepared. They are those of every stack of the
    study: stacks would otherwise be compared over windows that their own periods have chosen.
    """
    if step.until is None:
        return step
    layers = [
        2 * ns for stack in study.stacks.values() for each in stack.layers for ns in each.periods_ns.values()
    ]
    servers = [each.load.periods_ns for each in placements if isinstance(each.load, HasServer)]
    longest_ns = max((*layers, *(ns for each in servers for ns in each.values())), default=0)
    return step.model_copy(update={"until": step.until.model_copy(update={"after_ns": longest_ns})})


def _before_load(
    combination: Combination, shared: Iterable[LayerPlace], placements: Sequence[Placement]
) -> list[Step]:
    """The steps that build the stack, give the load its place, and prepare what aspects need."""
    steps = [step for each in shared for step in each.build()]
    for placement in placements:
        steps += placement.build()
    for placement in placements:
        steps += placement.of_load([given_to_load(placement)])
    for aspect in ASPECTS:
        for placement in placements:
            steps += aspect.prepared(combination, placement)
    return steps


def _inputs_of(study: Study, load: Workload, stack: Stack) -> tuple[PlanInput, ...]:
    """The inputs of a load and of the loads in it, by their names, and the image of the stack's machine."""
    named = {name: source for each in loads_of(load) for name, source in each.inputs().items()}
    if images := [source for layer in stack.every_layer if (source := layer.image_source())]:
        named[MACHINE_IMAGE] = images[0]
    return tuple(PlanInput.of(name, named[name], study.inputs.get(named[name])) for name in sorted(named))


def _steps_beside(combination: Combination, placements: Sequence[Placement]) -> list[Step]:
    """The steps of all aspects: of those that observe first. Layers that tenants share act once."""
    steps: dict[str, Step] = {}
    for aspect in sorted(ASPECTS, key=lambda aspect: not aspect.observes):
        for step in aspect.steps(combination, placements):
            steps.setdefault(step.id, step)
    # All tenants' first snapshots come before all their second ones.
    return sorted(steps.values(), key=lambda step: step.not_before_ns)


def _in_lane(loaded: Iterable[Step]) -> list[Step]:
    """A load's steps; those of the measured window in a lane, beside which others can act."""
    return [
        step.model_copy(update={"lane": LOAD_LANE})
        if step.phase == "measure" and step.lane is None and not step.background
        else step
        for step in loaded
    ]


def _load_steps(
    study: Study, placements: Sequence[Placement], load: Workload
) -> tuple[list[Step], list[Step]]:
    """The steps of the load, and the steps of its preparation, some of which a restart repeats.

    Where it prepares once, the steps of preparing are those of `SharesPreparation.preparing`.
    """

    def prepares(step: Step) -> bool:
        return step.phase == "prepare"

    loaded = workload_steps(placements, load.tenants())
    repeatable = [*(given_to_load(each) for each in placements), *filter(prepares, loaded)]
    if study.prepare != "once":
        return loaded, repeatable if study.prepare == "each" else repeatable[: len(placements)]
    before = [
        replace(each, load=each.load.preparing()) if isinstance(each.load, SharesPreparation) else each
        for each in placements
    ]
    shared = filter(prepares, workload_steps(before, load.tenants()))
    return [*shared, *(step for step in loaded if not prepares(step))], repeatable


def _pause_ns(study: Study, key: TrialKey) -> int:
    """The pause before the load, in whole ms: uniform over the longest of the kernel's periods.

    The load would otherwise meet the kernel's periodic work at the same phase in every seed: dirty pages
    every 5 s (dirty_writeback_centisecs), ext4's journal and ZFS's transaction groups likewise, btrfs every
    30 s (`commit`). The pause is the same for all trials of a seed. Times of faults count from the boot, so
    there is none with faults.
    """
    if study.phases == "fixed" or any(used.device.faults for used in study.stack_devices(key.stack)):
        return 0
    return derive_seed(key.seed, "phase") % (_PERIOD_NS_MAX // NS_PER_MS) * NS_PER_MS


def _pause(pause_ns: int) -> Step:
    return Step(
        id="drawn-pause",
        phase="prepare",
        title="Wait, so that the load meets the kernel's periodic work at a drawn phase",
        argv=("sleep", f"{pause_ns / NS_PER_S:.3f}"),
        user=LOAD_USER,
        cwd="${scratch}",
        time_limit_ns=2 * _PERIOD_NS_MAX,
    )


def plan_of(
    study: Study,
    stack: Stack,
    key: TrialKey,
    steps: list[Step],
    *,
    outside: Prerequisites,
    inside: Prerequisites,
    interval_ns: int,
    time_limit_ns: int,
    inputs: tuple[PlanInput, ...] = (),
) -> Plan:
    """The plan of these steps on a stack, which need not be the study's own; the steps are checked.

    ``inside`` are the needs of steps in virtual machines, ``outside`` those of the others.
    """
    used = {name for step in steps for name in step.variables}
    slots = sorted(name for name in used if name.startswith(NETWORK_DEVICE_PREFIX))
    files = [f"{INPUT_PREFIX}{each.name}" for each in inputs]
    brought = [name for name in BROUGHT if name in used]
    variables = (*stack.all_devices, "mount", "mounts", "scratch", "stack", *slots, *files, *brought)
    trial = Trial.of(study.name, key)
    check_steps(steps, variables, stack.all_devices, place=trial.id)
    check_steps(after_restart(steps), variables, stack.all_devices, place=f"{trial.id}, second boot")
    return Plan(
        trial=trial,
        prerequisites=outside | inside,
        outside=outside if inside != Prerequisites() else None,
        inside=inside,
        devices=tuple(
            PlanDevice(name=name, capacity_bytes=study.devices[name].capacity_bytes)
            for name in stack.all_devices
        ),
        variables=variables,
        environment=ENVIRONMENT,
        inputs=inputs,
        memory_bytes=study.memory_bytes,
        kernel=study.kernel,
        processor=study.drawn_processor(key.seed).kernel_lines,
        monitors=Monitors(interval_ns=interval_ns, disks=stack.all_devices),
        time_limit_ns=time_limit_ns,
        steps=tuple(steps),
    )


def _needs(
    places: Iterable[LayerPlace],
    load: Workload,
    placements: Sequence[Placement],
    steps: Iterable[Step],
    *,
    inside: bool,
) -> Prerequisites:
    """The needs of the steps in virtual machines and containers, or of all others."""

    def is_here(machine: str | None) -> bool:
        return (machine is not None) is inside

    here = [step for step in steps if is_here(step.machine)]
    if not here:  # most stacks have no machine
        return Prerequisites()
    needed = _tools_run(here, load)
    for placement in placements:
        if is_here(placement.base.machine):
            needed |= placement.prerequisites
        if is_here(placement.load_site.machine):
            needed |= _features(load)
    for place in places:
        if is_here(place.site.machine):
            needed |= place.layer.needs()
            if load.scrub:
                needed |= place.layer.scrub_requires
    if not inside and (loses_disk(here) or any(step.id == RESTART for step in here)):
        needed |= Prerequisites(features=("modelled-disks",))
    return needed


def _tools_run(here: Iterable[Step], load: Workload) -> Prerequisites:
    """Only the tools that the steps run: a workload's list names those of every server it knows.

    Layers declare what building them needs; further commands that a workload needs are in the steps.
    """
    commands = [(step.phase, command.argv[0]) for step in here for command in step.commands]
    run = {program for _, program in commands}
    tools = [tool for each in loads_of(load) for tool in each.tools if tool in run]
    asked = {program for phase, program in commands if phase != "build"} - {
        f"${{{name}}}" for name in BROUGHT
    }
    return Prerequisites(tools=tuple(sorted({*tools, *asked, *_telling(here, load)})))


def _features(load: Workload) -> Prerequisites:
    features = {feature for each in loads_of(load) for feature in each.features}
    return Prerequisites(features=tuple(sorted(features)))


def _telling(here: Iterable[Step], load: Workload) -> list[str]:
    """The tools that a shell runs where a window ends early."""
    if not any(step.until for step in here):
        return []
    ending = (each for each in loads_of(load) if isinstance(each, EndsWhenKnown))
    return [tool for each in ending for tool in each.telling_tools]


def _packages(study: Study, load: Workload) -> Prerequisites:
    """The packages that the study adds to the image, if this workload asks for any: one image serves all."""
    return Prerequisites(packages=study.packages.exact if asked_packages([load]) else ())


def compile_stack(study: Study, stack: str, seed: int) -> Plan:
    """The plan that only builds a stack, for `strata lab enter`; some workload must run on it."""
    left_out = skipped(study)
    workload = next((name for name in study.workloads if (stack, name) not in left_out), None)
    if workload is None:
        why = next(reason for (name, _), reason in left_out.items() if name == stack)
        raise PlanError(f"nothing can be run on this stack: {why}", place=f"stacks.{stack}")
    plan = compile_trial(study, stack, workload, seed)
    return plan.model_copy(update={"steps": tuple(step for step in plan.steps if step.phase == "build")})


def spec_sha256(study: Study, plan: Plan) -> str:
    """The identity of a trial: the hash of its plan, kernel, drives' parameters and metrics' version.

    The names of study, stack and workload are no part of it, and neither are comments, titles and sources:
    trials that measure the same share their record (docs/reference/result-format.md).
    """
    trial = plan.trial
    drawn = study.of(trial.stack).drawn_devices(trial.stack, trial.seed)
    devices = {name: device.identity() for name, device in drawn.items()}
    versions = [each.metrics_version for each in loads_of(study.workloads[trial.workload])]
    specification = {
        "plan": plan.model_dump(mode="json"),
        # The content of a user's source is in the fingerprint.
        "kernel": plan.kernel.name if plan.kernel.path is None else "source",
        "devices": devices,
        "metrics_version": versions[0] if len(versions) == 1 else versions,
    }
    return sha256_hex(canonical_json(specification))


def check_steps(
    steps: Iterable[Step], variables: Iterable[str], devices: Iterable[str], *, place: str
) -> None:
    """Check the rules of every plan: unique ids, phases in order, known variables, named devices."""
    seen: set[str] = set()
    phase = PHASES[0]
    given, disks = set(variables), set(devices)
    known = set(given)
    for step in steps:
        own = {step.binds} if step.binds else set()
        unknown = step.variables - known - own
        is_late = PHASES.index(step.phase) < PHASES.index(phase)
        problem = None
        if step.id in seen:
            problem = f'two steps are called "{step.id}"'
        elif is_late:
            problem = f'the step is of phase "{step.phase}" but follows one of phase "{phase}"'
        elif unknown:
            problem = f"it uses the unknown variables {', '.join(sorted(unknown))}"
        elif not set(step.destroys) <= disks:
            problem = "it destroys a device that the study does not name"
        elif step.binds in given:
            problem = f'it binds "{step.binds}", which is bound already'
        elif not set(step.takes_down) <= seen:
            problem = "it takes down steps that do not come before it"
        elif step.background and step.ready is None and step.stop_signal is not None:
            problem = "it is a service without a way to see that it is ready"
        if problem is not None:
            raise PlanError(
                problem, place=f"{place}, step {step.id}", remedy="this is a fault of Strata; report it"
            )
        seen.add(step.id)
        known |= own
        phase = step.phase
