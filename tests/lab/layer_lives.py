# SPDX-License-Identifier: Apache-2.0
"""The life of a stack in the lab: it is built, filled, taken down, checked, and assembled again.

A life is one plan, so it also shows whether a stack is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from strata.errors import DiagnosticsError
from strata.execution.pool import worker_cpus
from strata.lab import Lab
from strata.model.layer import Layer, LayerContext, Placed
from strata.model.step import Command, Step, literal
from strata.model.study import Study
from strata.plan.aspects.interventions import lose_disk, lost_disk
from strata.plan.compile import check_steps, compile_trial
from strata.plan.model import Plan
from strata.plan.placement import Site, placed_layers, sites
from strata.results.events import Events, read_events
from strata.rules.fit import SNAPSHOT, snapshotting
from strata.runners.base import PLAN_NAME, Task
from strata.runners.lab import LabRunner
from strata.units import NS_PER_S

MODEL: Final = "generic-sata-ssd"
CAPACITIES: Final = ("256MiB", "512MiB", "1GiB", "4GiB", "16GiB", "64GiB")
"""The disks' sizes that are tried: lives are cheap on small disks, but some cases need larger ones."""
LOAD: Final = 'workload = "fio"\npreset = "random-mix-4k"\nsize = "4MiB"'
SEED: Final = 1

# The content to keep: large and small files, some of them changed; or some places of a block device.
_FILL_FOLDER: Final = """\
set -e
mkdir kept && cd kept
dd if=/dev/urandom of=data bs=64k count=48 oflag=direct status=none
for name in a b c d; do head -c 3000 /dev/urandom > file-$name; done
ln -s data link && mkdir -m 700 folder && mv file-a folder/moved
dd if=/dev/urandom of=large bs=64k count=48 conv=fsync status=none
"""
_CHANGE_FOLDER: Final = """\
set -e
cd kept
dd if=/dev/urandom of=data bs=64k seek=16 count=8 conv=notrunc,fsync status=none
rm file-b && chmod 600 file-c && head -c 5000 /dev/urandom > file-d
"""
_LIST_FOLDER: Final = """\
set -e
cd kept
stat --format='%N %F %a' . $(ls -A) */*
sha256sum data file-* large */*
"""
_PLACES: Final = """\
set -e
last=$(( $(blockdev --getsize64 $DEVICE) / 1048576 - 1 ))
for place in 8 16 $last; do %s; done
"""
_FILL_BLOCK: Final = _PLACES % (
    "dd if=/dev/urandom of=$DEVICE bs=1M seek=$place count=1 conv=notrunc,fsync status=none"
)
_CHANGE_BLOCK: Final = "dd if=/dev/urandom of=$DEVICE bs=64k seek=130 count=8 conv=notrunc,fsync status=none"
_LIST_BLOCK: Final = _PLACES % "dd if=$DEVICE bs=1M skip=$place count=1 status=none | sha256sum"
_SIZE_BLOCK: Final = "blockdev --getsize64 $DEVICE"
_SIZE_FOLDER: Final = "set -- $(stat --file-system --format='%b %S' .); echo $(($1 * $2))"


@dataclass(frozen=True)
class Up:
    """A layer with the steps that have brought it up, within a guest below."""

    layer: Layer
    context: LayerContext
    steps: list[Step]
    late: list[Step]
    site: Site

    def step(self, name: str, *argv: str, **fields: object) -> Step:
        return self.site.hold([self.context.step(name, name, *argv, **fields)])[0]


def on_the_smallest_disks(read: Callable[[str], Study], capacities: Sequence[str] = CAPACITIES) -> Study:
    """The study that ``read`` makes on the smallest disks that are large enough for it."""
    for capacity in capacities[:-1]:
        with suppress(DiagnosticsError):
            study = read(capacity)
            # A chunk of btrfs takes a tenth of a small disk; how many it makes depends on the moment.
            if capacity != CAPACITIES[0] or "btrfs" not in study.stacks["stack"].layer_names:
                return study
    return read(capacities[-1])


def outlives(study: Study) -> bool:
    """Whether a stack keeps its content when it is taken down."""
    return all(layer.requires.maximum != 0 for layer in study.stacks["stack"].layers[:1])


def life(study: Study) -> Plan:
    """Build, fill, snapshot, change; take down and check layer by layer; assemble, compare, scrub.

    What stands on nothing is empty when it is up again, so that it stays up.
    """
    base = compile_trial(study, "stack", "load", SEED)
    ups = brought_up(placed_layers(study, study.stacks["stack"], SEED))
    top = ups[-1]
    fill = [step for each in ups for step in each.steps]
    fill += [_on(top, "size", _SIZE_BLOCK if _is_block(top) else _SIZE_FOLDER)]
    fill += [_on(top, "fill", _FILL_BLOCK if _is_block(top) else _FILL_FOLDER)]
    ups, taken, dropped = _with_snapshot(ups)
    fill += [*taken, _on(top, "change", _CHANGE_BLOCK if _is_block(top) else _CHANGE_FOLDER)]
    fill += [_on(top, "before", _LIST_BLOCK if _is_block(top) else _LIST_FOLDER)]
    again = [*_down(ups), *(step for each in ups for step in _again(each))] if outlives(study) else []
    again += [_on(top, "after", _LIST_BLOCK if _is_block(top) else _LIST_FOLDER)]
    scrubs = [step for each in reversed(ups) for step in _scrub(each)]
    late = [step for each in ups for step in each.late]
    return _plan(base, study, [*fill, *again, *dropped, *scrubs, *late])


def degraded(study: Study) -> Plan | None:
    """Build, fill, lose a disk, replace it if there is a spare; None if the stack does not survive that."""
    base = compile_trial(study, "stack", "load", SEED)
    ups = brought_up(placed_layers(study, study.stacks["stack"], SEED))
    lowest, top = ups[0], ups[-1]
    if not lowest.layer.losses_survived(lowest.context.provided):
        return None
    fill = [step for each in ups for step in each.steps]
    fill += [_on(top, "fill", _FILL_BLOCK if _is_block(top) else _FILL_FOLDER)]
    fill += [_on(top, "before", _LIST_BLOCK if _is_block(top) else _LIST_FOLDER)]
    lost = [_lost(study), _on(top, "dropped", "echo 3 > /proc/sys/vm/drop_caches")]
    lost += [_on(top, "degraded", _LIST_BLOCK if _is_block(top) else _LIST_FOLDER)]
    lost += [*_replaced(study, lowest), *_rebuilt(lowest)]
    lost += [_on(top, "after", _LIST_BLOCK if _is_block(top) else _LIST_FOLDER)]
    return _plan(base, study, [*fill, *lost, *(step for each in ups for step in each.late)])


def broken(study: Study, name: str, *, every: bool) -> Iterator[tuple[str, Plan]]:
    """The lives that end early, by a failure of a step that builds the layer ``name``, or alters it.

    Each step fails once when it is done, if it has something to undo, or is the last: what the others leave
    is still there when a later one fails. The first fails also without having done anything. With ``every``
    all steps fail in both ways. The altering steps are those of its snapshot, and of the replacing of a lost
    disk.
    """
    base = compile_trial(study, "stack", "load", SEED)
    ups = brought_up(placed_layers(study, study.stacks["stack"], SEED))
    own = next(each for each in ups if each.layer.layer == name)
    before = [step for each in ups[: ups.index(own)] for step in each.steps]
    built = [*before, *own.steps]
    taken = own.layer.snapshot(own.context.during("build", f"{own.context.name}-snapshot"), SNAPSHOT) or []
    altered = [(before, own.steps), (built, own.site.hold(taken))]
    if own is ups[0] and (replaced := _replaced(study, own)):
        altered.append(([*built, _lost(study)], replaced))
    for done, steps in altered:
        for place, step in enumerate(steps):
            if every or not place:
                yield f"{step.id}-undone", _plan(base, study, [*done, *steps[:place], fails_undone(step)])
            if every or step.undo is not None or step.background or step is steps[-1]:
                yield f"{step.id}-done", _plan(base, study, [*done, *steps[:place], fails_done(step)])


def fails_undone(step: Step) -> Step:
    """The step with a program that fails at once."""
    return step.model_copy(update={"argv": ("false",), "stdin": None, "expect_exit": (0,)})


def fails_done(step: Step) -> Step:
    """The step, which fails when it has done its work: by another exit code, or as a service that is never
    ready."""
    if step.background:
        return step.model_copy(update={"ready": Command(argv=("false",)), "time_limit_ns": 2 * NS_PER_S})
    return step.model_copy(update={"expect_exit": (77,)})


def brought_up(placed: Iterable[Placed]) -> list[Up]:
    """The layers as `compile_trial` builds them."""
    ups, placed = [], list(placed)
    for (layer, context), site in zip(placed, sites(placed), strict=False):
        steps = site.hold(layer.build(context))
        built = [step for step in steps if step.phase == "build"]
        late = [_as_build(step) for step in steps if step.phase != "build"]
        ups.append(Up(layer, context, built, late, site))
    return ups


def carry_out(lab: Lab, folder: Path, plans: Iterable[tuple[str, Plan]], study: Study) -> dict[str, Events]:
    """Run plans, one on each CPU at a time. Each has a name, which its folder below ``folder`` gets."""
    runner = LabRunner(lab)
    cpus: SimpleQueue[int | None] = SimpleQueue()
    workers = worker_cpus(runner, None)
    for cpu in workers:
        cpus.put(cpu)
    models = {used.name: used.device for used in study.stack_devices("stack")}

    def run(named: tuple[str, Plan]) -> tuple[str, Events]:
        name, plan = named
        place = folder / name
        place.mkdir(parents=True)
        (place / PLAN_NAME).write_bytes(plan.to_json())
        cpu = cpus.get()
        try:
            LabRunner(lab).run(Task(plan=plan, devices=models, folder=place, trace=False, cpu=cpu))
        finally:
            cpus.put(cpu)
        return name, read_events(place / "events.jsonl")

    # A lab ends with the thread that has started it: the threads outlive their labs.
    with ThreadPoolExecutor(len(workers)) as pool:
        return dict(pool.map(run, plans))


def lived_well(study: Study, events: Events) -> None:
    """The life came to its end, and nothing was lost."""
    assert events.end is not None
    assert (events.end.outcome, events.end.reason) == ("ok", None), events.end
    assert events.undo_failures == []
    assert events.output("life-after") == events.output("life-before") != ""
    for layer, step in scrubs_of(study):
        assert layer.scrub_errors(events.output(step)) == 0
    offered_bytes = study.stacks["stack"].offers(study.capacities_bytes)[-1].smallest_bytes
    assert 0 < int(events.output("life-size")) <= offered_bytes


def scrubs_of(study: Study) -> Iterator[tuple[Layer, str]]:
    """The layers that a life scrubs, each with the id of the step that tells what was found."""
    for layer, context in placed_layers(study, study.stacks["stack"], SEED):
        if steps := layer.scrub(context.during("build", f"{context.name}-scrub")):
            yield layer, steps[-1].id


def _plan(base: Plan, study: Study, steps: list[Step]) -> Plan:
    check_steps(steps, base.variables, study.stacks["stack"].all_devices, place="a life")
    return base.model_copy(update={"steps": tuple(steps), "time_limit_ns": 24 * 3600 * NS_PER_S})


def _as_build(step: Step) -> Step:
    """A life is built up and taken down more than once, which a trial is not: all of it is one phase."""
    return step.model_copy(update={"phase": "build"})


def _is_block(top: Up) -> bool:
    return top.layer.provides == "block"


def _on(top: Up, name: str, script: str) -> Step:
    """A line of shell on what a stack ends in."""
    path = top.layer.path(top.context)
    where: Mapping[str, object] = {"environment": {"DEVICE": path}} if _is_block(top) else {"cwd": path}
    step = Step(id=f"life-{name}", phase="build", title=name, argv=("sh", "-c", literal(script)), **where)
    return top.site.above(top.layer, top.context).hold([step])[0]


def _with_snapshot(ups: list[Up]) -> tuple[list[Up], list[Step], list[Step]]:
    """The steps that take a snapshot and that drop it at last; what the former bring up is the layer's."""
    found = snapshotting([(each.layer, each.context) for each in ups])
    if found is None:
        return ups, [], []
    layer, context = found
    index = next(place for place, each in enumerate(ups) if each.layer is layer)
    own = ups[index]
    taken = layer.snapshot(context.during("build", f"{context.name}-snapshot"), SNAPSHOT) or []
    dropped = layer.drop_snapshot(context.during("build", f"{context.name}-drop"), SNAPSHOT)
    taken, dropped = own.site.hold(taken), own.site.hold(dropped)
    return [*ups[:index], replace(own, steps=[*own.steps, *taken]), *ups[index + 1 :]], taken, dropped


def _lost(study: Study) -> Step:
    return _as_build(lose_disk(lost_disk(study.stacks["stack"])))


def _replaced(study: Study, lowest: Up) -> list[Step]:
    """The steps that replace the lost disk by a spare; none without a spare."""
    spares = lowest.layer.named_devices().get("spares")
    if not spares:
        return []
    context = lowest.context.during("build", f"{lowest.context.name}-rebuild")
    lost = f"${{{lost_disk(study.stacks['stack'])}}}"
    return [_as_build(step) for step in lowest.layer.rebuild(context, lost, f"${{{spares[0]}}}") or ()]


def _rebuilt(lowest: Up) -> list[Step]:
    if not lowest.layer.named_devices().get("spares"):
        return []
    context = lowest.context.during("build", f"{lowest.context.name}-rebuilt")
    return [_as_build(step) for step in lowest.layer.rebuilt(context) or ()]


def _down(ups: list[Up]) -> Iterator[Step]:
    """Take each layer down, and let it be checked by its own means while what is below it is up."""
    for each in reversed(ups):
        taking = tuple(step.id for step in each.steps if step.undo is not None or step.background)
        check = each.layer.check_argv(each.context) or ("true",)
        down = each.context.step("down", f"Take down {each.context.name}", *check, takes_down=taking)
        yield down.model_copy(update={"machine": each.site.machine})


def _again(up: Up) -> list[Step]:
    steps = up.layer.assemble(up.context.during("build", f"{up.context.name}-again"))
    return up.site.hold(_as_build(step) for step in steps)


def _scrub(up: Up) -> list[Step]:
    steps = up.layer.scrub(up.context.during("build", f"{up.context.name}-scrub"))
    return up.site.hold(_as_build(step) for step in steps or ())
