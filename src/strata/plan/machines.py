# SPDX-License-Identifier: Apache-2.0
"""Virtual machines of a plan: their own kernels' counts in the measured window, and their prerequisites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from strata.plan.model import Plan
from strata.spec.step import MACHINE_KERNEL, QEMU_KERNEL, Phase, Prerequisites, Purpose, Step
from strata.units import NS_PER_S

_DISK: Final = "/sys/block/{}/stat"
_OF_LAB_KERNEL: Final = ("/proc/strata_filesystems", "/proc/strata_cpu")
"""A machine's requests of applications by filesystem, and its programs' work, if its kernel is the lab's."""
_OF_ZFS: Final = ("zfs", "zpool")


def with_accounts(steps: Sequence[Step]) -> list[Step]:
    """The steps of a trial, with readings of each machine's accounts before and after the measuring steps.

    The readings are of other phases: they belong neither to the window nor to the disks' accounts.
    """
    started = {word: step.argv for step in steps if _starts_kernel(step) for word in step.argv}
    machines = list(dict.fromkeys(step.machine for step in steps if step.machine in started))
    measuring = [index for index, step in enumerate(steps) if step.phase == "measure"]
    if not machines or not measuring:
        return list(steps)
    first, last = measuring[0], measuring[-1] + 1
    after = [_reading(socket, started[socket]) for socket in machines]
    before = [_reading(socket, started[socket], steps[first - 1].phase) for socket in machines]
    return [*steps[:first], *before, *steps[first:last], *after, *steps[last:]]


def _starts_kernel(step: Step) -> bool:
    """Whether it starts a machine; a container has no kernel of its own."""
    return any(f"${{{kernel}}}" in step.argv for kernel in (MACHINE_KERNEL, QEMU_KERNEL))


def _reading(socket: str, started: Sequence[str], before: Phase | None = None) -> Step:
    """The reading of a machine's accounts after the window, or before it, at the end of a phase."""
    # The folder of a machine is called after its layer, with the tenant's name if it has one.
    layer = socket.split("/")[-2]
    when: Literal["before", "after"] = "before" if before else "after"
    disk = _DISK.format("sda" if any(word.startswith("scsi-hd,") for word in started) else "vda")
    return Step(
        id=f"{layer}-accounts-{when}",
        phase=before or "inspect",
        title=f"Read the accounts of the machine {layer}, {when}",
        argv=("cat", disk, *(_OF_LAB_KERNEL if f"${{{MACHINE_KERNEL}}}" in started else ())),
        cwd="${scratch}",
        time_limit_ns=60 * NS_PER_S,
        machine=socket,
        purpose=Purpose(what="machine-accounts", layer=layer, when=when),
    )


def needs_outside(plan: Plan) -> Prerequisites:
    """The prerequisites of a plan that not only its virtual machines have to meet."""
    return _needs(plan, inside=False)


def needs_inside(plan: Plan) -> Prerequisites:
    """The prerequisites that a plan's virtual machines have to meet."""
    return _needs(plan, inside=True)


def _needs(plan: Plan, *, inside: bool) -> Prerequisites:
    """Leave out the programs, filesystems and modules that only the other steps use."""
    here, there = (
        {word for step in plan.steps if (step.machine is not None) is where for word in _used(step)}
        for where in (inside, not inside)
    )
    only_there, needs = there - here, plan.prerequisites
    return needs.model_copy(
        update={
            name: tuple(each for each in getattr(needs, name) if each not in only_there)
            for name in ("tools", "modules", "features")
        }
    )


def _used(step: Step) -> Iterator[str]:
    for command in step.commands:
        yield command.argv[0]
        if command.argv[0] in _OF_ZFS:
            yield "zfs"
        if command.argv[0] == "mount" and "-t" in command.argv:
            yield f"filesystem:{command.argv[command.argv.index('-t') + 1]}"
