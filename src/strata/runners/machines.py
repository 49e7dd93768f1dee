# SPDX-License-Identifier: Apache-2.0
"""Virtual machines of a host's trials: QEMU with the lab's root image, Debian's kernel and the agent."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any, Final

from strata.errors import LabError
from strata.lab.folder import PrivateFolder
from strata.lab.image import ImageBuild
from strata.lab.initrd import Inside, qemu_initrd
from strata.lab.lab import ensure_lab, find_entry
from strata.lab.machine import QemuProcessor
from strata.lab.programs import AgentBuild
from strata.lab.progress import SetupProgress
from strata.lab.qemu_kernel import QemuKernelBuild, lacking_inside, uses_qemu
from strata.lab.recipe import project_root
from strata.lab.variant import find_variant, provide_variant
from strata.plan.model import Plan
from strata.runners.kernel import Kernel
from strata.spec.step import AGENT, MACHINE_ROOT, QEMU_INITRD, QEMU_KERNEL, QEMU_OPTIONS

_INITRD_NAME: Final = "machine.cpio"
_KVM: Final = "dev/kvm"
_PARTS: Final = (QEMU_KERNEL, "image")


@dataclass(frozen=True)
class MachineParts:
    """The kernel and the root image of virtual machines."""

    kernel: QemuKernelBuild
    image: ImageBuild

    def setting(self, kernel: Kernel) -> dict[str, Any]:
        """Part of the identity of trials with virtual machines."""
        own = {QEMU_KERNEL: self.kernel.sha256, "image": self.image.sha256}
        return {"machines": {**own, "processor": processor_of(kernel).value}}

    def variables(
        self, plan: Plan, agent: AgentBuild, folder: PrivateFolder, inside: Inside, kernel: Kernel
    ) -> dict[str, str]:
        """The values of the plan's variables for its machines, whose initial root is put into the folder."""
        folder.write(_INITRD_NAME, qemu_initrd(plan, inside, self.kernel))
        return {
            AGENT: str(agent.path),
            MACHINE_ROOT: str(self.image.path),
            QEMU_KERNEL: str(self.kernel.path),
            QEMU_INITRD: str(folder.path / _INITRD_NAME),
            QEMU_OPTIONS: processor_of(kernel).value,
        }


def find_machines(plan: Plan) -> MachineParts | None:
    """What the plan's virtual machines start from, if it is built; None without any."""
    if not uses_qemu(plan):
        return None
    kernel, image = (find_entry(part, project_root()) for part in _PARTS)
    packages = _packages(plan)
    built = find_variant(packages) if packages else image and ImageBuild.of(image)
    return MachineParts(QemuKernelBuild.of(kernel), built) if kernel and built else None


def provide_machines(plan: Plan, progress: SetupProgress) -> MachineParts | None:
    """The parts that the plan's virtual machines start from, made if missing; None without machines."""
    if not uses_qemu(plan):
        return None
    if missing := [part for part in _PARTS if find_entry(part, project_root()) is None]:
        ensure_lab(progress, only=missing)
    if packages := _packages(plan):
        provide_variant(packages, progress)
    if (found := find_machines(plan)) is None:
        remedy = f"run `strata lab build {' '.join(f'--only {part}' for part in _PARTS)}`"
        raise LabError("the kernel and image of virtual machines could not be built", remedy=remedy)
    return found


def _packages(plan: Plan) -> tuple[str, ...]:
    """The further packages of the machines' image; QEMU itself is the host's."""
    return tuple(each for each in plan.prerequisites.packages if each != "qemu")


def has_kvm(kernel: Kernel) -> bool:
    """Whether the processor can run virtual machines, and the kernel lets it."""
    flags = kernel.text("proc/cpuinfo").split()
    return kernel.has(_KVM) and ("vmx" in flags or "svm" in flags)


def processor_of(kernel: Kernel) -> QemuProcessor:
    return QemuProcessor.KVM if has_kvm(kernel) else QemuProcessor.EMULATED


def machine_nodes(plan: Plan, kernel: Kernel) -> list[str]:
    """The devices that the plan's virtual machines need besides the trial's."""
    return [f"/{_KVM}"] if uses_qemu(plan) and has_kvm(kernel) else []


def lacking_for_machines(plan: Plan, parts: MachineParts | None) -> list[str]:
    """The needs of the plan's virtual machines that nothing here meets, each as half a sentence."""
    if not uses_qemu(plan):
        return []
    if platform.machine() != "x86_64":
        return [f"virtual machines have an x86-64 kernel, and this processor is {platform.machine()}"]
    return lacking_inside(plan, None if parts is None else parts.kernel)
