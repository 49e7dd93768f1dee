# SPDX-License-Identifier: Apache-2.0
"""The accounts that a virtual machine's own kernel keeps, read at both ends of the measured window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from strata.spec.step import MACHINE_KERNEL, Purpose, Step
from strata.units import NS_PER_S

_ACCOUNTS: Final = ("/sys/block/vda/stat", "/proc/strata_filesystems", "/proc/strata_cpu")
"""The statistics of the machine's disk, its applications' requests by filesystem, and its programs' work."""


def with_accounts(steps: Sequence[Step]) -> list[Step]:
    """The steps of a trial, with readings of each machine's accounts before and after the measuring steps.

    The readings are of other phases: they belong neither to the window nor to the disks' accounts.
    """
    # A container has no kernel of its own.
    started = {word for step in steps if f"${{{MACHINE_KERNEL}}}" in step.argv for word in step.argv}
    machines = list(dict.fromkeys(step.machine for step in steps if step.machine in started))
    measuring = [index for index, step in enumerate(steps) if step.phase == "measure"]
    if not machines or not measuring:
        return list(steps)
    first, last = measuring[0], measuring[-1] + 1
    before = [
        _reading(socket, "before").model_copy(update={"phase": steps[first - 1].phase}) for socket in machines
    ]
    after = [_reading(socket, "after") for socket in machines]
    return [*steps[:first], *before, *steps[first:last], *after, *steps[last:]]


def _reading(socket: str, when: Literal["before", "after"]) -> Step:
    # The folder of a machine is called after its layer, with the tenant's name if it has one.
    layer = socket.split("/")[-2]
    return Step(
        id=f"{layer}-accounts-{when}",
        phase="inspect",
        title=f"Read the accounts of the machine {layer}, {when}",
        argv=("cat", *_ACCOUNTS),
        cwd="${scratch}",
        time_limit_ns=60 * NS_PER_S,
        machine=socket,
        purpose=Purpose(what="machine-accounts", layer=layer, when=when),
    )
