# SPDX-License-Identifier: Apache-2.0
"""The plan of a probe: a stack that is built, taken apart and put together again, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from strata.model.layer import Interface, Layer, LayerContext, Placed
from strata.model.stack import Stack, names_of
from strata.model.step import Prerequisites, Step
from strata.model.study import Study
from strata.model.trial import TrialKey
from strata.plan.compile import plan_of
from strata.plan.model import Plan
from strata.plan.placement import HERE, Site, placed_layers, sites
from strata.seeds import derive_uuid
from strata.units import NS_PER_S

CONTENT_BYTES: Final = 32 << 20
"""The known content that a probe writes: more than caches of metadata hide, and quick on a slow disk."""

ANY_EXIT: Final = tuple(range(256))
_BLOCK: Final = "bs=1M"


def _capable(study: Study, stack: Stack) -> Stack:
    """The stack with what its layers' abilities need from the start, where there is room for it."""
    layers: list[Layer] = []
    for index, layer in enumerate(stack.layers):
        capable = layer.capable()
        provided = replace(stack, layers=tuple(layers)).offers(study.capacities_bytes)[index]
        capacities = stack.capacities(study.capacities_bytes)
        named = {name: capacities[name] for name in names_of(layer)}
        fits = not any(capable.diagnostics(provided, named)) and capable.provided(provided).smallest_bytes > 0
        layers.append(capable if fits else layer)
    return replace(stack, layers=tuple(layers))


class ProbePlan:
    """A stack, perhaps with other sizes than the study's, on which ``probe`` tries something."""

    def __init__(self, study: Study, stack: Stack, probe: str, seed: int = 1) -> None:
        self.stack = stack = _capable(study, stack)
        self.study, self.probe, self.seed = study, probe, seed
        self.placed: list[Placed] = placed_layers(study, stack, seed)
        self.offers = stack.offers(study.capacities_bytes)
        self.steps: list[Step] = []
        self.operations: list[str] = []
        self.decisive: list[str] = []
        """Further steps whose failure is a "no", and not a failure of the probe."""
        self.coming_up: set[str] = set()
        """The steps that bring a part of the stack up again."""
        self.height = len(self.placed)
        self._up: dict[int, list[str]] = {}
        # A container forgets what is in its memory when it is taken down, with the content to compare.
        self._inside = sites(self.placed)
        self._sites = [HERE if site.is_container else site for site in self._inside]
        self._contents: list[str] = []
        self._count = 0

    @property
    def kind(self) -> Interface:
        return self.offers[-1].kind

    @property
    def path(self) -> str:
        if not self.placed:
            return f"${{{self.stack.devices[0]}}}"
        layer, context = self.placed[-1]
        return layer.path_outside(context)

    def with_layers(self, layers: Iterable[Layer]) -> ProbePlan:
        return ProbePlan(self.study, replace(self.stack, layers=tuple(layers)), self.probe, self.seed)

    def steps_of(self, index: int) -> list[str]:
        """The ids of the steps that brought up the layer at ``index`` and all above it."""
        return [step for layer, steps in sorted(self._up.items()) if layer >= index for step in steps]

    def context(self, index: int, verb: str) -> LayerContext:
        """A layer's context for an action; the ids of its steps are new."""
        self._count += 1
        context = self.placed[index][1]
        return context.during("measure", f"{context.name}-{verb}-{self._count}")

    def add(self, steps: Iterable[Step], *, operation: bool = False) -> list[str]:
        """Add steps; those of the operation, which the probe is about, are accounted."""
        self.steps += (added := list(steps))
        ids = [step.id for step in added]
        if operation:
            self.operations += ids
        return ids

    def act(self, index: int, steps: Iterable[Step], *, operation: bool = False) -> list[str]:
        """Add steps of the layer at ``index``, where they run."""
        return self.add(self._sites[index].hold(steps), operation=operation)

    @property
    def _top(self) -> int:
        """The index of the layer to bring up next; steps above the other layers run in the same place."""
        return max(self._up, default=-1) + 1

    def run(
        self,
        name: str,
        *argv: str,
        operation: bool = False,
        expect: tuple[int, ...] = (0,),
        inside: bool = False,
        **fields: object,
    ) -> str:
        """Add a step that runs one program, ``inside`` where a load would run; its id."""
        self._count += 1
        site: Site = (self._inside if inside else self._sites)[self._top]
        step = Step.model_validate(
            {
                "id": f"{name}-{self._count}",
                "phase": "measure",
                "title": name.replace("-", " "),
                "argv": argv,
                "expect_exit": expect,
                "time_limit_ns": 3600 * NS_PER_S,
                "machine": site.machine,
                "cgroup": site.cgroup,
                **fields,
            }
        )
        return self.add([step], operation=operation)[0]

    def build(self) -> None:
        for index, (layer, context) in enumerate(self.placed):
            built = [step for step in layer.build(context) if step.phase == "build"]
            self._bring_up(index, self._sites[index].hold(built))

    def _bring_up(self, index: int, steps: Iterable[Step]) -> None:
        seen = self.placed[index][0].seen_outside(self.context(index, "seen"))
        self._up[index] = self.add([*steps, *seen])

    def down(self, index: int) -> None:
        ids = self.steps_of(index)
        self._up = {layer: steps for layer, steps in self._up.items() if layer < index}
        self.run("take-down", "sync", takes_down=tuple(ids))

    def up(self, index: int, lower: Sequence[str] | None = None) -> None:
        """Bring up the layer at ``index`` and all above it; on ``lower``, if not where it was built."""
        for at in range(index, self.height):
            layer = self.placed[at][0]
            context = self.context(at, "up")
            if lower is not None and at == index:
                context = replace(context, lower=tuple(lower))
            self._bring_up(at, self._sites[at].hold(layer.assemble(context)))
            self.coming_up.update(self._up[at])
            if layer.machine_bytes():  # its memory is empty
                for name in self._contents:
                    self._make_content(name)

    def begin(self, *names: str) -> None:
        """Build the stack, make content of each name, and write the first."""
        self.build()
        for name in names:
            self.content(name)
        self.write(names[0])

    def content(self, name: str) -> None:
        """Make ``CONTENT_BYTES`` of seeded random content in memory: ``${scratch}/NAME``."""
        self._contents.append(name)
        self._make_content(name)

    def _make_content(self, name: str) -> None:
        file, key = f"${{scratch}}/{name}", derive_uuid(self.seed, "content", name).hex
        self.run(f"zeros-{name}", "truncate", f"--size={CONTENT_BYTES}", f"{file}.zeros")
        cipher = ("openssl", "enc", "-aes-128-ctr", "-K", key, "-iv", "00")
        self.run(f"content-{name}", *cipher, "-in", f"{file}.zeros", "-out", file)

    def snapshot(self, index: int, name: str, *, operation: bool = False) -> None:
        """Add the steps of a snapshot that the layer at ``index`` takes."""
        layer = self.placed[index][0]
        taken = layer.snapshot(self.context(index, f"snapshot-{name}"), name) or ()
        self.act(index, taken, operation=operation)

    def restore(self, index: int, name: str, *, may_fail: bool = False) -> None:
        """Bring the layer at ``index`` back to a snapshot, with the layers above it down."""
        layer = self.placed[index][0]
        lowest = index if layer.is_container else index + 1
        if lowest < self.height:
            self.down(lowest)
        steps = layer.restore(self.context(index, f"restore-{name}"), name) or []
        # The others bring a container up.
        acts = [step.id for step in steps if step.outside or not layer.is_container]
        if may_fail:
            accepting = {"expect_exit": ANY_EXIT}
            steps = [step.model_copy(update=accepting) if step.id in acts else step for step in steps]
        else:
            self.operations += acts
        if layer.is_container:
            self._bring_up(index, steps)
        else:
            self.act(index, steps)

    def use(self, index: int, path: str) -> str | None:
        """Use a clone or a received snapshot of the layer at ``index``, at ``path``.

        A block device takes the place of the layer's own, below the layers above it: then None is returned,
        for content is in its usual place.
        """
        if self.placed[index][0].provides != "block" or index + 1 == self.height:
            return path
        self.down(index + 1)
        self.up(index + 1, (path,))
        return None

    def write(self, name: str, path: str | None = None, *, expect: tuple[int, ...] = (0,)) -> str:
        """Write the content ``name`` to the stack, durably: over the block device, or into one file."""
        argv = ["dd", f"if=${{scratch}}/{name}", f"of={self.file(path)}", _BLOCK, "status=none"]
        argv += ["oflag=direct", "conv=notrunc"] if self._is_block(path) else ["conv=fsync"]
        return self.run(f"write-{name}", *argv, expect=expect)

    def compare(self, name: str, path: str | None = None) -> str:
        """Compare the stack, read from its disks, with the content ``name``: exit code 0, 1 or 2 (error)."""
        self.forget()
        argv = ("cmp", f"--bytes={CONTENT_BYTES}", f"${{scratch}}/{name}", self.file(path))
        return self.run(f"compare-{name}", *argv, expect=(0, 1, 2))

    def forget(self) -> None:
        self.run("flush", "sync")
        forget = ("forget", "tee", "/proc/sys/vm/drop_caches")
        self.run(*forget, stdin="3\n")
        if self._sites[self._top].machine is not None:  # the layers below may have cached its disk
            self.run(*forget, stdin="3\n", machine=None, cgroup=None)

    def file(self, path: str | None = None) -> str:
        target = path or self.path
        return target if self._is_block(path) else f"{target}/content"

    def _is_block(self, path: str | None) -> bool:
        return self.kind == "block" if path is None else path.startswith("/dev/")

    def plan(self) -> Plan:
        outside = inside = Prerequisites()
        for (layer, _), site in zip(self.placed, self._inside, strict=False):
            if site.is_vm:
                inside |= layer.needs()
            else:
                outside |= layer.needs()
        return plan_of(
            self.study,
            self.stack,
            TrialKey(self.stack.name, self.probe, self.seed),
            self.steps,
            outside=outside,
            inside=inside,
            interval_ns=60 * NS_PER_S,
            time_limit_ns=24 * 3600 * NS_PER_S,
        )
