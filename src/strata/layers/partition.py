# SPDX-License-Identifier: Apache-2.0
"""Partitions of one device, which other layers and the stack name like devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, StrictStr

from strata.diagnostics.names import Diagnostic, KebabName
from strata.layers.options import multiple_of
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided, StackPart
from strata.model.step import Command, Prerequisites, Step
from strata.units import MIB, Size, describe_size, parse_share, parse_size

# Partitions lie at whole MiB, as sfdisk and every installer align them. The table takes less at either end.
_TABLE_BYTES: Final = MIB
_SECTOR_BYTES: Final = 512  # of the device mapper, whatever the disk has
_REST: Final = "rest"
# Without udev, as in the lab and in a host's sandbox, dmsetup makes the nodes itself.
_ENVIRONMENT: Final = {"DM_DISABLE_UDEV": "1"}


def _check_size(text: str) -> str:
    if text == _REST:
        return text
    if text.endswith("%"):
        if not 0 < parse_share(text) <= 1:
            raise Diagnostic(f"{text} is no share of a disk", remedy='write for example "25%"')
    elif not (size_bytes := parse_size(text)) or size_bytes % MIB:
        cause = f"{text} would end between whole MiB, where the next partition is not aligned"
        raise Diagnostic(cause, remedy='write for example "8GiB", "25%" or "rest"')
    return text


class Partition(Layer):
    """Partitions of the device ``disk``, with names such as ``ssd.log``.

    ``ssd.log`` is the partition ``log`` of the device ``ssd``. The disk has a GPT. The device mapper makes
    each entry a device, as kpartx does, so that the same steps run on the lab's disks, loop devices and real
    disks.
    """

    family = "RAID and volumes"
    requires = LowerInterface("block", 1, None)
    provides = "block"
    beside = True
    prerequisites = Prerequisites(tools=("dmsetup", "realpath", "sfdisk"), features=("dm:linear",))
    kernel_log = KernelLog(silent="A linear mapping passes requests on; the disk below reports their errors.")
    packages = ("dmsetup", "fdisk")
    device_keys = ("disk",)
    also_called = ("gpt", "parted")

    layer: Literal["partition"] = "partition"
    disk: StrictStr = Field(examples=["disk0"])
    """The study's device that is divided"""
    _of_kernel: bool = PrivateAttr(False)  # on a user's machine
    sizes: dict[KebabName, Annotated[StrictStr, AfterValidator(_check_size)]] = Field(
        min_length=1, examples=['{ log = "8GiB", special = "25%", database = "rest" }']
    )
    """The partitions in the order of the disk, each with a size, a share of the disk, or the rest of it"""
    starts: dict[KebabName, Annotated[Size, multiple_of(MIB, _TABLE_BYTES)]] = Field(
        {}, examples=['{ special = "16GiB" }']
    )
    """Where partitions begin, in whole MiB; default: at 1 MiB, and then where the one before ends"""

    def parts(self, named: Mapping[str, int]) -> Mapping[str, StackPart]:
        return {
            f"{self.disk}.{name}": StackPart(self.disk, first, max(0, size))
            for name, first, size in self._extents(named[self.disk])
        }

    def _extents(self, disk_bytes: int) -> Iterator[tuple[str, int, int]]:
        """Each partition's name, first byte and size; the size of a rest can be negative."""
        at, names = _TABLE_BYTES, list(self.sizes)
        for index, name in enumerate(names):
            at = self.starts.get(name, at)
            size_bytes = self._size_bytes(name, disk_bytes)
            if size_bytes is None:
                size_bytes = self._end_of_rest(names[index + 1 :], disk_bytes) - at
            yield name, at, size_bytes
            at += max(0, size_bytes)

    def _end_of_rest(self, behind: list[str], disk_bytes: int) -> int:
        """Where the rest ends, so that the partitions behind it have their room."""
        taken_bytes = 0
        for name in behind:
            if name in self.starts:
                return self.starts[name] - taken_bytes
            taken_bytes += self._size_bytes(name, disk_bytes) or 0
        return disk_bytes // MIB * MIB - _TABLE_BYTES - taken_bytes

    def _size_bytes(self, name: str, disk_bytes: int) -> int | None:
        """The size that is written; None: the rest."""
        text = self.sizes[name]
        if text.endswith("%"):
            return int(parse_share(text) * disk_bytes) // MIB * MIB
        return None if text == _REST else parse_size(text)

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        if "." in self.disk:
            cause, remedy = "a partition cannot be divided again", "name the disk, and more `sizes`"
            yield Diagnostic(cause, remedy=remedy, key="disk")
            return
        for name in sorted(self.starts.keys() - self.sizes):
            remedy = f"the partitions are {', '.join(self.sizes)}"
            yield Diagnostic(f'there is no partition "{name}"', remedy=remedy, key="starts")
        rests = [name for name, text in self.sizes.items() if text == _REST]
        if len(rests) > 1:
            cause = f'only one partition can be the rest, not both "{rests[0]}" and "{rests[1]}"'
            yield Diagnostic(cause, remedy="give all but one a size", key=rests[1], within=("sizes",))
            return
        yield from self._extent_diagnostics(named[self.disk])

    def _extent_diagnostics(self, disk_bytes: int) -> Iterator[Diagnostic]:
        end_bytes, before = 0, ""
        for name, start_bytes, size_bytes in self._extents(disk_bytes):
            if start_bytes < end_bytes:
                cause = f'it begins at {describe_size(start_bytes)}, within the partition "{before}", which '
                remedy = "leave it out, or write the partitions in their order on the disk"
                cause += f"ends at {describe_size(end_bytes)}"
                yield Diagnostic(cause, remedy=remedy, key=name, within=("starts",))
            end_bytes, before = start_bytes + size_bytes, name
            left_bytes = disk_bytes - _TABLE_BYTES
            if size_bytes <= 0 or end_bytes > left_bytes:
                cause = f"the partitions do not fit: {self.disk} has room up to {describe_size(left_bytes)}"
                cause += f', and "{name}" ' + (
                    f"would end at {describe_size(end_bytes)}" if size_bytes > 0 else "would be empty"
                )
                remedy = "give smaller sizes, or raise the `capacity` of the device"
                yield Diagnostic(cause, remedy=remedy, key=name, within=("sizes",))
                return

    def on_used_disks(self) -> Self:
        made = self.model_copy()
        made._of_kernel = True
        return made

    def provided(self, lower: Provided) -> Provided:
        return lower

    def path(self, context: LayerContext) -> str:
        return context.lower[0]

    def build(self, context: LayerContext) -> list[Step]:
        script = ["label: gpt", f"label-id: {context.derived_uuid('table')}"]
        for name, start_bytes, size_bytes in self._extents(context.capacities[self.disk]):
            place = f"start={start_bytes // MIB}MiB, size={size_bytes // MIB}MiB"
            script.append(f'{place}, type=linux, uuid={context.derived_uuid(name)}, name="{name}"')
        # The device mapper makes a trial's devices, and the kernel's own would be in its way.
        apart = () if self._of_kernel else ("--no-tell-kernel", "--no-reread")
        divide = context.step(
            "divide",
            f"Divide {self.disk} into {len(self.sizes)} partitions at whole MiB",
            *("sfdisk", *apart, "--wipe", "always", f"${{{self.disk}}}"),
            stdin="\n".join([*script, ""]),
            destroys=(self.disk,),
        )
        return [divide, *(self._kernels(context) if self._of_kernel else self.assemble(context))]

    def _kernels(self, context: LayerContext) -> Iterator[Step]:
        """The kernel's own partitions, which outlive a restart, by udev's names of a disk's parts."""
        yield context.step(f"{self.disk}-settle", "Wait for udev", "udevadm", "settle")
        for number, name in enumerate(self.sizes, start=1):
            yield context.step(
                f"{self.disk}-{name}-node",
                f"Find the device of {self.disk}.{name}",
                *("realpath", "--canonicalize-existing", f"${{{self.disk}}}-part{number}"),
                binds=f"{self.disk}.{name}",
            )

    def assemble(self, context: LayerContext) -> list[Step]:
        steps = []
        for name, start_bytes, size_bytes in self._extents(context.capacities[self.disk]):
            device, label = f"{self.disk}.{name}", f"{context.label}_{self.disk}.{name}"
            sectors, first = size_bytes // _SECTOR_BYTES, start_bytes // _SECTOR_BYTES
            table = ("--table", f"0 {sectors} linear ${{{self.disk}}} {first}")
            steps += [
                context.step(
                    f"{self.disk}-{name}",
                    f"Make the partition {name} of {self.disk} a device, {describe_size(size_bytes)} at "
                    f"{describe_size(start_bytes)}",
                    *("dmsetup", "create", label, *table),
                    environment=_ENVIRONMENT,
                    undo=Command(argv=("dmsetup", "remove", "--retry", label), environment=_ENVIRONMENT),
                ),
                context.step(
                    f"{self.disk}-{name}-node",
                    f"Find the device of {device}",
                    *("realpath", "--canonicalize-existing", f"/dev/mapper/{label}"),
                    binds=device,
                ),
            ]
        return steps

    def stated(self) -> Mapping[str, str]:
        return {"aligned": describe_size(MIB)}
