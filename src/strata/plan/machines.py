# SPDX-License-Identifier: Apache-2.0
"""Virtual machines of a plan: their own kernels' counts in the measured window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from strata.model.step import Phase, Purpose, StartedMachine, Step
from strata.units import NS_PER_S

_DISK: Final = "/sys/block/{}/stat"
_OF_LAB_KERNEL: Final = ("/proc/strata_filesystems", "/proc/strata_cpu")
"""A machine's requests of applications by filesystem, and its programs' work, if its kernel is the lab's."""


def with_accounts(steps: Sequence[Step]) -> list[Step]:
    """The steps of a trial, with readings of each machine's accounts before and after the measuring steps.

    The readings are of other phases: they belong neither to the window nor to the disks' accounts.
    """
    machines = {step.starts.socket: step.starts for step in steps if step.starts}.values()
    measuring = [index for index, step in enumerate(steps) if step.phase == "measure"]
    if not machines or not measuring:
        return list(steps)
    first, last = measuring[0], measuring[-1] + 1
    after = [_reading(machine) for machine in machines]
    before = [_reading(machine, steps[first - 1].phase) for machine in machines]
    return [*steps[:first], *before, *steps[first:last], *after, *steps[last:]]


def _reading(machine: StartedMachine, before: Phase | None = None) -> Step:
    """The reading of a machine's accounts after the window, or before it, at the end of a phase."""
    layer = machine.layer
    when: Literal["before", "after"] = "before" if before else "after"
    return Step(
        id=f"{layer}-accounts-{when}",
        phase=before or "inspect",
        title=f"Read the accounts of the machine {layer}, {when}",
        argv=("cat", _DISK.format(machine.disk), *(_OF_LAB_KERNEL if machine.has_lab_kernel else ())),
        cwd="${scratch}",
        time_limit_ns=60 * NS_PER_S,
        machine=machine.socket,
        purpose=Purpose(what="machine-accounts", layer=layer, when=when),
    )
