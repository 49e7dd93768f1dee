# SPDX-License-Identifier: Apache-2.0
"""Virtual machines of a host's trials: QEMU with the lab's root image, Debian's kernel and the agent."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.bundled import project_root
from strata.disks.machine import call
from strata.errors import LabError
from strata.lab.folder import PrivateFolder
from strata.lab.image import ImageBuild
from strata.lab.initrd import Inside, qemu_initrd
from strata.lab.lab import ensure_lab, find_entry
from strata.lab.machine import QemuProcessor
from strata.lab.programs import AgentBuild
from strata.lab.progress import SetupProgress
from strata.lab.qemu_kernel import QemuKernelBuild, lacking_inside, uses_qemu
from strata.lab.variant import find_variant, provide_variant
from strata.model.step import (
    AGENT,
    MACHINE_ROOT,
    QEMU_ACCELERATOR,
    QEMU_INITRD,
    QEMU_KERNEL,
    QEMU_OPTIONS,
)
from strata.plan.model import Plan
from strata.runners.kernel import HostKernel

_INITRD_NAME: Final = "machine.cpio"
_KVM: Final = "dev/kvm"
_IMAGE_NAME: Final = "image"  # its mount point in the private folder


@dataclass(frozen=True)
class MachineParts:
    """The kernel and the root image of virtual machines."""

    kernel: QemuKernelBuild
    image: ImageBuild

    def setting(self, kernel: HostKernel) -> dict[str, Any]:
        """Part of the identity of trials with virtual machines."""
        own = {QEMU_KERNEL: self.kernel.sha256, "image": self.image.sha256}
        return {"machines": {**own, "processor": processor_of(kernel).value}}

    def variables(
        self, plan: Plan, agent: AgentBuild, folder: PrivateFolder, inside: Inside, kernel: HostKernel
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
    kernel, built = find_entry(QEMU_KERNEL, project_root()), find_image(plan)
    return MachineParts(QemuKernelBuild.of(kernel), built) if kernel and built else None


def provide_machines(plan: Plan, progress: SetupProgress) -> MachineParts | None:
    """The parts that the plan's virtual machines start from, made if missing; None without machines."""
    if not uses_qemu(plan):
        return None
    if find_entry(QEMU_KERNEL, project_root()) is None:
        ensure_lab(progress, only=(QEMU_KERNEL,))
    provide_image(plan, progress)
    if (found := find_machines(plan)) is None:
        remedy = f"run `strata lab build --only {QEMU_KERNEL} --only image`"
        raise LabError("the kernel and image of virtual machines could not be built", remedy=remedy)
    return found


def find_image(plan: Plan) -> ImageBuild | None:
    """The image of the plan's virtual machines and containers, if it is built."""
    packages, image = _packages(plan), find_entry("image", project_root())
    if packages:
        return find_variant(packages)
    return ImageBuild.of(image) if image else None


def provide_image(plan: Plan, progress: SetupProgress) -> None:
    """Make the image of the plan's virtual machines and containers if it is missing."""
    if find_entry("image", project_root()) is None:
        ensure_lab(progress, only=("image",))
    if packages := _packages(plan):
        provide_variant(packages, progress)


def has_containers(plan: Plan) -> bool:
    """Whether the sandbox's warden starts containers for it."""
    return any(step.container for step in plan.steps)


def container_image(plan: Plan, folder: PrivateFolder) -> Path | None:
    """The root image of the plan's containers, if it has any, mounted in the folder.

    `remove_leftovers` unmounts it. Raises LabError if it cannot be mounted.
    """
    if not has_containers(plan):
        return None
    image, place = find_image(plan), folder.path / _IMAGE_NAME
    assert image is not None, "it was provided"
    folder.make_folder(place.name, 0o755)
    done = call("mount", "-t", "squashfs", "-o", "loop,ro,nosuid,nodev", str(image.path), str(place))
    if done.returncode != 0:
        raise LabError(f"the image of containers cannot be mounted: {done.stderr.strip()}", place=str(place))
    return place


def image_setting(plan: Plan) -> dict[str, Any]:
    """Part of the identity of trials with containers."""
    image = find_image(plan) if has_containers(plan) else None
    return {"containers": {"image": image.sha256}} if image else {}


def _packages(plan: Plan) -> tuple[str, ...]:
    """The further packages of the machines' image; QEMU itself is the host's."""
    return tuple(each for each in plan.prerequisites.packages if each != "qemu")


def has_kvm(kernel: HostKernel) -> bool:
    """Whether the processor can run virtual machines, and the kernel lets it."""
    flags = kernel.text("proc/cpuinfo").split()
    return kernel.has(_KVM) and ("vmx" in flags or "svm" in flags)


def processor_of(kernel: HostKernel) -> QemuProcessor:
    return QemuProcessor.KVM if has_kvm(kernel) else QemuProcessor.EMULATED


def accelerator(plan: Plan, kernel: HostKernel) -> dict[str, str]:
    """How QEMU computes for a machine from a user's image, if the plan has one; its kernel is the image's."""
    found = "kvm" if has_kvm(kernel) else "tcg"
    return {QEMU_ACCELERATOR: found} if QEMU_ACCELERATOR in plan.variables else {}


def machine_nodes(plan: Plan, kernel: HostKernel) -> list[str]:
    """The devices that the plan's virtual machines need besides the trial's."""
    wanted = uses_qemu(plan) or QEMU_ACCELERATOR in plan.variables
    return [f"/{_KVM}"] if wanted and has_kvm(kernel) else []


def lacking_for_machines(plan: Plan, parts: MachineParts | None) -> list[str]:
    """The needs of the plan's virtual machines that nothing here meets, each as half a sentence."""
    if not uses_qemu(plan):
        return []
    if platform.machine() != "x86_64":
        return [f"virtual machines have an x86-64 kernel, and this processor is {platform.machine()}"]
    return lacking_inside(plan, None if parts is None else parts.kernel)
