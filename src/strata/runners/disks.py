# SPDX-License-Identifier: Apache-2.0
"""Real disks for trials on a host: chosen by name, and checked again right before a trial's first write."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from strata.devices.device import Device
from strata.devices.kind import Parameter
from strata.diagnostics.names import nearest
from strata.disks.inventory import Disk, disk_at
from strata.disks.judgement import Reason, judged, judged_groups, judged_members, named
from strata.disks.machine import Machine
from strata.disks.signatures import Signature, signatures
from strata.disks.usage import Usage
from strata.errors import DiagnosticsError, LabError, StrataError, StudyError, ToolError
from strata.files import closing, try_lock, write_durably
from strata.model.study import Study, StudyDevice
from strata.plan.model import Plan, sha256_hex
from strata.units import SECTOR_BYTES, format_size

DISKS_NAME: Final = "disks.json"
"""The file of a private folder that holds the identities of the real disks which its trial uses."""

_BLKRRPART: Final = 0x125F
_BLKGETSIZE64: Final = 0x80081272
_BLKGETDISKSEQ: Final = 0x80081280
_HASH_DIGITS: Final = 12
_STATED: Final = (
    *("model", "firmware", "transport", "size_bytes", "logical_sector_bytes", "physical_sector_bytes"),
    *("rotational", "scheduler", "write_cache"),
)
# udev and its like open a disk for a moment when something about it has changed.
_PATIENCE_S: Final = 5.0
_POLL_S: Final = 0.2


@dataclass(frozen=True)
class ChosenDisk:
    """A disk that the user named for a device of the study."""

    disk: Disk
    path: str  # the name that the user gave
    lost: tuple[Signature, ...] = ()  # the content that will be erased

    @property
    def device(self) -> StudyDevice:
        """The device that replaces the study's model, without a name."""
        stated = {
            "capacity": (self.disk.size_bytes, "B"),
            "logical_sector": (self.disk.logical_sector_bytes, "B"),
            "physical_sector": (self.disk.physical_sector_bytes, "B"),
        }
        parameters = {
            name: Parameter(value=value, unit=unit, source="the disk itself", estimate=False)
            for name, (value, unit) in stated.items()
        }
        model = self.disk.model or f"{self.disk.transport} disk"
        device = Device(model, f"{model}, a real disk", "real", parameters)
        return StudyDevice("", device, self.disk.size_bytes, self.disk.logical_sector_bytes)

    def stated(self) -> dict[str, Any]:
        """The properties that results depend on, for a trial's identity.

        The serial number is hashed: results are passed on, and it would tell a maker or a shop who owns the
        disk. The hash still tells two disks apart; whoever knows the number can compute it.
        """
        return {
            **{name: getattr(self.disk, name) for name in _STATED},
            "serial_sha256": sha256_hex(f"strata disk {self.disk.erase_name}".encode())[:_HASH_DIGITS],
        }

    def __str__(self) -> str:
        disk = self.disk
        facts = [
            disk.model or f"{disk.transport} disk",
            f"serial number's hash {self.stated()['serial_sha256']}",
            f"firmware {disk.firmware}" if disk.firmware else "",
            format_size(disk.size_bytes),
            f"sectors {disk.logical_sector_bytes}/{disk.physical_sector_bytes}",
            "rotating" if disk.rotational else "not rotating",
            f"scheduler {disk.scheduler}" if disk.scheduler else "",
            f"cache {disk.write_cache}" if disk.write_cache else "",
        ]
        return ", ".join(filter(None, facts))


@dataclass(frozen=True)
class RealDisks:
    """The disks of a run, by the names of the study's devices."""

    chosen: Mapping[str, ChosenDisk] = field(default_factory=dict)
    machine: Machine = field(default_factory=Machine)
    holding: Mapping[str, Path] = field(default_factory=dict)  # folders that must not lie on them, by content
    _written: set[str] = field(default_factory=set)

    @property
    def devices(self) -> dict[str, StudyDevice]:
        """The study's devices in place of its models."""
        return {name: each.device for name, each in self.chosen.items()}

    @property
    def losses(self) -> list[tuple[str, Signature]]:
        """The content that each disk will lose, by the device's name."""
        return [(name, lost) for name, disk in self.chosen.items() for lost in disk.lost]

    def of(self, plan: Plan) -> dict[str, ChosenDisk]:
        """The disks that a plan uses, in its order."""
        return {each.name: self.chosen[each.name] for each in plan.devices if each.name in self.chosen}

    def setting(self, plan: Plan) -> dict[str, Any]:
        """The disks' properties that results depend on, as JSON types; empty without real disks."""
        disks = {name: each.stated() for name, each in self.of(plan).items()}
        return {"disks": disks} if disks else {}

    @property
    def packages(self) -> dict[str, str]:
        """Each disk in words, for results."""
        return {f"disk {name}": str(each) for name, each in self.chosen.items()}

    @contextmanager
    def taken(self, plan: Plan, folder: Path) -> Iterator[dict[str, str]]:
        """The device nodes of a plan's real disks, emptied, and kept from other trials of this machine.

        Each disk is held open, though not exclusively, inside the context, so its number and name cannot pass
        to another disk. It is also locked, so that udev neither reads what steps write nor assembles it. The
        disks are noted in the trial's private folder before the first write.

        Raises LabError if a disk has changed since it was chosen, or is in use.
        """
        disks = self.of(plan)
        with ExitStack() as held:
            for each in disks.values():
                held.callback(os.close, self._opened(each, os.O_RDONLY))
                held.callback(os.close, _locked(each))
                self._examine(each)
            if disks:
                noted = [each.disk.identity() for each in disks.values()]
                write_durably(folder / DISKS_NAME, json.dumps(noted).encode())
            for each in disks.values():
                self._empty(each)
            yield {name: str(each.disk.node) for name, each in disks.items()}

    def _opened(self, chosen: ChosenDisk, flags: int) -> int:
        """A descriptor that is certainly the disk's."""
        try:
            descriptor = os.open(chosen.disk.node, flags | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise _refused(chosen, f"it cannot be opened: {error.strerror}", "see what uses it") from error
        state = os.fstat(descriptor)
        number = f"{os.major(state.st_rdev)}:{os.minor(state.st_rdev)}"
        disk, sequence = chosen.disk, str(_asked(descriptor, _BLKGETDISKSEQ) or "")
        found = (number, _asked(descriptor, _BLKGETSIZE64), sequence)
        if found != (disk.number, disk.size_bytes, disk.sequence if sequence else ""):
            os.close(descriptor)
            raise _changed(chosen)
        return descriptor

    def _examine(self, chosen: ChosenDisk) -> None:
        """Check that it is still the same disk and that nothing uses it."""
        now = disk_at(self.machine, chosen.disk.number)
        if now is None or now.identity() != chosen.disk.identity():
            raise _changed(chosen)
        deadline_s = time.monotonic() + _PATIENCE_S
        while reasons := judged(self.machine, now, Usage(self.machine), self.holding):
            if time.monotonic() > deadline_s:
                raise _refused(chosen, reasons[0].cause, reasons[0].remedy)
            time.sleep(_POLL_S)
        # Erase content of this run's trials, or content that was printed before; nothing else.
        found = tuple(signatures(self.machine, now))
        if now.name not in self._written and found != chosen.lost:
            raise _refused(chosen, "what is on it has changed since it was chosen", "see `strata list disks`")
        if groups := judged_groups(found, Usage(self.machine)):
            raise _refused(chosen, groups[0].cause, groups[0].remedy)

    def _empty(self, chosen: ChosenDisk) -> None:
        """Erase the signatures of earlier content."""
        disk = chosen.disk
        # The kernel refuses it if it is in use.
        with closing(self._opened(chosen, os.O_RDWR | os.O_EXCL)) as descriptor:
            now = disk_at(self.machine, disk.number)
            if now is None or now.identity() != disk.identity():
                raise _changed(chosen)
            self._written.add(disk.name)
            names = [*(each.name for each in now.partitions), disk.name]
            # Forced, since wipefs would open it alone, as it is open here already.
            done = self.machine.call("wipefs", "--all", "--force", *(f"/dev/{name}" for name in names))
            if done.returncode != 0:
                raise _not_empty(chosen, done.stderr.strip())
            if now.partitions:
                with suppress(OSError):  # seen below
                    fcntl.ioctl(descriptor, _BLKRRPART)
        after = disk_at(self.machine, disk.number)
        if after is None:
            raise _changed(chosen)
        left = [*map(str, signatures(self.machine, after)), *(each.name for each in after.partitions)]
        if left:
            raise _not_empty(chosen, f"this stayed on it: {'; '.join(left)}")


def disks_left(folder: Path, machine: Machine) -> set[str]:
    """The kernel's names of the disks that a trial noted in its folder, with their partitions.

    Disks that have changed since are left out.
    """
    found: set[str] = set()
    with suppress(OSError, ValueError, TypeError, KeyError):
        for noted in json.loads((folder / DISKS_NAME).read_text()):
            disk = disk_at(machine, str(noted["number"]))
            if disk is not None and disk.identity() == noted:
                found |= {disk.name, *(each.name for each in disk.partitions)}
    return found


def choose_disks(
    study: Study,
    words: Sequence[str],
    erase: Sequence[str],
    holding: Mapping[str, Path],
    machine: Machine | None = None,
) -> RealDisks:
    """The disks that the user named (``NAME=PATH``), if all can be used.

    Disks with content must be named in `erase` by their serial numbers; for `holding` see `RealDisks`.

    Raises DiagnosticsError with every reason why a disk cannot be used.
    """
    machine = machine or Machine()
    usage = Usage(machine)
    mistakes: list[StrataError] = []
    chosen: dict[str, ChosenDisk] = {}
    for word in words:
        name, _, path = word.partition("=")
        try:
            if not path or name not in study.devices or name in chosen:
                raise _misnamed(name, path, study)
            disk, reasons = named(machine, path)
            if disk is not None:
                reasons += judged(machine, disk, usage, holding)
                reasons += _short(disk, study.devices[name])
            lost = () if disk is None or reasons else tuple(signatures(machine, disk))
            reasons += judged_groups(lost, usage)
            place = f"--disk {word}"
            mistakes += [ToolError(each.cause, place=place, remedy=each.remedy) for each in reasons]
            if disk is not None:
                chosen[name] = ChosenDisk(disk, path, lost)
        except StrataError as error:
            mistakes.append(error)
    mistakes += _mistakes(chosen, erase)
    if mistakes:
        raise DiagnosticsError(mistakes, place="--disk")
    return RealDisks(chosen, machine, holding)


def _misnamed(name: str, path: str, study: Study) -> StudyError:
    if not path:
        cause, remedy = "this is not NAME=PATH", "write for example --disk disk0=/dev/disk/by-id/…"
    elif name in study.devices:
        cause, remedy = f"{name} is given two disks", "name one disk for each device of the study"
    else:
        cause, remedy = f'the study has no device "{name}"', nearest(name, study.devices)
    return StudyError(cause, place=f"--disk {name}={path}" if path else f"--disk {name}", remedy=remedy)


def _short(disk: Disk, wanted: StudyDevice) -> Iterator[Reason]:
    if disk.size_bytes < wanted.capacity_bytes:
        has, needs = format_size(disk.size_bytes), format_size(wanted.capacity_bytes)
        yield Reason(
            f"{disk.name} has {has}, and the study's device {needs}",
            f"name a larger disk; or give devices.{wanted.name} a `capacity` that the disk has",
        )
    if disk.logical_sector_bytes % SECTOR_BYTES:
        yield Reason(f"{disk.name} has odd sectors", "name a disk with sectors of 512 or 4096 bytes")


def _mistakes(chosen: Mapping[str, ChosenDisk], erase: Sequence[str]) -> Iterator[StrataError]:
    """A disk named twice, members whose others are not named, and content that is not to be erased."""
    wholes: dict[str, str] = {}
    uuids = [each.uuid for disk in chosen.values() for each in disk.lost if each.members > 1]
    for name, each in chosen.items():
        place = f"--disk {name}={each.path}"
        whole = each.disk.whole or each.disk.name  # of two partitions it is the same
        if (other := wholes.setdefault(whole, name)) != name:
            cause = f"{name} and {other} are the same disk, {whole}"
            yield ToolError(cause, place=place, remedy="name another disk for one of them")
        for reason in judged_members(lost for lost in each.lost if uuids.count(lost.uuid) < lost.members):
            yield ToolError(reason.cause, place=place, remedy=reason.remedy)
        if each.lost and each.disk.erase_name not in erase:
            cause = f"it is not empty, and all of this would be lost: {'; '.join(map(str, each.lost))}"
            remedy = f"if none of it is needed any more, add --erase {each.disk.erase_name}"
            yield ToolError(cause, place=place, remedy=remedy)
    own = [each.disk.erase_name for each in chosen.values()]
    for serial in erase:
        if serial not in own:
            yield StudyError(
                "none of the named disks has this serial number",
                place=f"--erase {serial}",
                remedy=f"{nearest(serial, own)}; the serial number must be typed exactly",
            )


def _refused(chosen: ChosenDisk, cause: str, remedy: str) -> LabError:
    return LabError(f"nothing was written to this disk: {cause}", place=chosen.path, remedy=remedy)


def _locked(chosen: ChosenDisk) -> int:
    """A descriptor with the lock that udev and disk tools respect: systemd.io/BLOCK_DEVICE_LOCKING."""
    descriptor = os.open(Path("/dev") / (chosen.disk.whole or chosen.disk.name), os.O_RDONLY | os.O_CLOEXEC)
    deadline_s = time.monotonic() + _PATIENCE_S
    while not try_lock(descriptor):
        if time.monotonic() > deadline_s:
            os.close(descriptor)
            why = "another program has locked it, maybe another run of Strata"
            raise _refused(chosen, why, "wait until that has ended; `lslocks` may tell")
        time.sleep(_POLL_S)
    return descriptor


def _not_empty(chosen: ChosenDisk, why: str) -> LabError:
    return LabError(
        f"the disk cannot be emptied: {why}", place=chosen.path, remedy="see `dmesg`; try `wipefs --all`"
    )


def _changed(chosen: ChosenDisk) -> LabError:
    return _refused(
        chosen, "this is not the disk any more that was chosen", "see `strata list disks`, begin anew"
    )


def _asked(descriptor: int, request: int) -> int:
    """A 64-bit number that the kernel returns for an open disk; 0 if it has no such request."""
    with suppress(OSError):
        return int(struct.unpack("Q", fcntl.ioctl(descriptor, request, bytes(8)))[0])
    return 0
