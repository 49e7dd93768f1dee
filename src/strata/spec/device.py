# SPDX-License-Identifier: Apache-2.0
"""Modelled devices: a TOML file of parameters, each with its value, unit and source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictStr

from strata.errors import StudyError
from strata.spec.device_kinds import controller, flash, network, null, rotating
from strata.spec.device_kinds.parameter import Expected, Parameter, Require
from strata.spec.device_kinds.published import PUBLISHED
from strata.spec.diagnostics import Diagnostics, read_toml
from strata.spec.faults import Fault
from strata.spec.names import is_kebab, nearest
from strata.units import SECTOR_BYTES

DeviceKind = Literal["rotating", "flash", "controller", "network", "null"]

_KINDS: Final = {
    "rotating": rotating,
    "flash": flash,
    "controller": controller,
    "network": network,
    "null": null,
}

PARAMETERS: Final[Mapping[str, Mapping[str, Expected]]] = {
    name: kind.PARAMETERS for name, kind in _KINDS.items()
}
"""The parameters of each kind of device, in the order of `strata devices show`."""

DEFAULT_SOURCE: Final = "not stated: the kind's default"
"""The source of a parameter that a device file leaves out."""

TEXT_PARAMETERS: Final = {"interface": "how it is connected; for the reader"}


@dataclass(frozen=True)
class Device:
    """A modelled device.

    Attributes:
        name: The file's name without ``.toml``.
        title: Maker, model and what a reader should know.
        kind: The model in ``kernel/disk`` that it parameterises; ``real`` for a disk that is none.
        parameters: By name; see `PARAMETERS` for the units.
        member: Of a controller, what each of its members is.
        write_cache: False when a study has switched its volatile write cache off.
        faults: What a study lets go wrong with it.
        published: What a data sheet or a review says that the device does, by the names of `PUBLISHED`.
    """

    name: str
    title: str
    kind: DeviceKind | Literal["real"]
    parameters: Mapping[str, Parameter]
    member: Device | None = None
    published: Mapping[str, Parameter] = field(default_factory=dict)
    write_cache: bool = True
    faults: tuple[Fault, ...] = ()

    def number(self, name: str) -> float:
        """The value of a numeric parameter, in the unit of `PARAMETERS`."""
        value = self.parameters[name].value
        assert not isinstance(value, str), f"{name} is a text"
        return float(value)

    @property
    def capacity_bytes(self) -> int:
        """What the device holds, in bytes."""
        return int(self.parameters["capacity"].value)

    @property
    def queue_depth(self) -> int:
        """The commands that the device holds at once."""
        return int(self.parameters["queue_depth"].value)

    def identity(self) -> dict[str, Any]:
        """What makes two devices the same to a trial: kind and values, not name, title and sources."""
        values: dict[str, Any] = {
            name: p.value for name, p in self.parameters.items() if name not in TEXT_PARAMETERS
        }
        if self.member is not None:
            values["member"] = self.member.identity()
        identity: dict[str, Any] = {"kind": self.kind, "parameters": values}
        if not self.write_cache:
            identity["write_cache"] = False
        if self.faults:
            identity["faults"] = [fault.identity() for fault in self.faults]
        return identity


class _DeviceFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    title: StrictStr = Field(min_length=1, examples=["Maker model, size, speed"])
    kind: DeviceKind
    parameters: dict[str, Any] = Field(description="a table [parameters]")
    published: dict[str, Any] = Field(default={}, description="a table [published]")


def device_folder() -> Path:
    """The folder of the bundled device files."""
    here = Path(__file__).resolve()
    packaged = here.parents[1] / "bundled" / "devices"
    return packaged if packaged.is_dir() else here.parents[3] / "devices"


def bundled_devices() -> list[str]:
    """The names of the bundled devices, in alphabetical order."""
    return sorted(file.stem for file in device_folder().glob("*.toml"))


def find_device(model: str, relative_to: Path | None = None, *, as_member: bool = False) -> Device:
    """The device that a study names.

    Args:
        model: The name of a bundled device, or the path of a TOML file, which ends in ``.toml``.
        relative_to: The folder that a relative path starts from.
        as_member: Whether it is to be a controller's member.

    Raises:
        StudyError: If there is no such device, or its file cannot be read.
        Mistakes: If its file holds mistakes.
    """
    if model.endswith(".toml"):
        return load_device((relative_to or Path()) / model, as_member=as_member)
    names = bundled_devices()
    if model not in names:
        hint = nearest(model, names)
        joined = f"{hint} Or" if hint.endswith("?") else f"{hint}; or"
        raise StudyError(
            f'there is no device "{model}"',
            remedy=f'{joined} give the path of a device file, "./{model[:40]}.toml"',
        )
    return load_device(device_folder() / f"{model}.toml", as_member=as_member)


def load_device(file: Path, *, as_member: bool = False) -> Device:
    """Read a device file, and with a controller's also its member's.

    Args:
        file: The file.
        as_member: Whether it is to be a controller's member, which a controller cannot be.

    Raises:
        StudyError: If the file cannot be read or is not TOML.
        Mistakes: Everything that is wrong in it.
    """
    tables, diagnostics = read_toml(file)
    if not is_kebab(file.stem):
        diagnostics.add(
            (), f'the file\'s name "{file.stem}" is not in kebab case', remedy='such as "wd-re4-500gb"'
        )
    head = diagnostics.model(_DeviceFile, tables, ())
    raw = tables.get("parameters")
    parameters: dict[str, Parameter] = {}
    member: Device | None = None
    kind: DeviceKind | None = next((k for k in get_args(DeviceKind) if k == tables.get("kind")), None)
    if kind is not None and isinstance(raw, dict):
        parameters = _read_parameters(PARAMETERS[kind], raw, diagnostics)
        if not diagnostics:
            _check_relations(kind, parameters, diagnostics)
    published = _read_published(tables.get("published"), diagnostics)
    if as_member and kind == "controller":
        diagnostics.add(("kind",), "a controller cannot be a member of a controller", remedy="name a disk")
    diagnostics.raise_all()
    if kind == "controller":
        member = _find_member(str(parameters["member"].value), file, diagnostics)
        if member is not None:
            require = _requirement(diagnostics)
            parameters = controller.with_capacity(parameters, member.parameters["capacity"], require)
        diagnostics.raise_all()
    assert head is not None
    return Device(file.stem, head.title, head.kind, parameters, member, published)


def _find_member(model: str, file: Path, diagnostics: Diagnostics) -> Device | None:
    try:
        return find_device(model, file.parent, as_member=True)
    except StudyError as error:
        diagnostics.add(("parameters", "member", "value"), error.cause, remedy=error.remedy or "")
        return None


def _read_parameters(
    expected: Mapping[str, Expected], raw: dict[str, Any], diagnostics: Diagnostics
) -> dict[str, Parameter]:
    known = [*expected, *TEXT_PARAMETERS]
    for name in raw:
        if name not in known:
            diagnostics.add(("parameters", name), f'unknown parameter "{name}"', remedy=nearest(name, known))
    read: dict[str, Parameter] = {}
    for name in known:
        path = ("parameters", name)
        if name not in raw:
            if name in expected:
                wanted = expected[name]
                if wanted.default is not None:
                    read[name] = Parameter(
                        value=wanted.default,
                        unit=wanted.unit,
                        source=DEFAULT_SOURCE,
                        estimate=True,
                    )
                    continue
                diagnostics.add(
                    path, "this parameter is missing", remedy=f"it is the {wanted.meaning} in {wanted.unit}"
                )
            continue
        parameter = diagnostics.model(Parameter, raw[name], path)
        if parameter is not None:
            read[name] = parameter
            if name in expected:
                _check_parameter(parameter, expected[name], (*path, "value"), diagnostics)
    return read


def _read_published(raw: object, diagnostics: Diagnostics) -> dict[str, Parameter]:
    """What is published; a table that is none was reported with the file's other keys."""
    read: dict[str, Parameter] = {}
    for name, stated in raw.items() if isinstance(raw, dict) else ():
        path = ("published", name)
        if name not in PUBLISHED:
            diagnostics.add(path, f'unknown figure "{name}"', remedy=nearest(name, PUBLISHED))
        elif (figure := diagnostics.model(Parameter, stated, path)) is not None:
            read[name] = figure
            _check_parameter(figure, PUBLISHED[name], (*path, "value"), diagnostics)
    return {name: read[name] for name in PUBLISHED if name in read}


def _check_parameter(
    parameter: Parameter, wanted: Expected, path: tuple[str, ...], diagnostics: Diagnostics
) -> None:
    value = parameter.value
    if parameter.unit != wanted.unit:
        diagnostics.add(
            (*path[:-1], "unit"),
            f'the unit is "{parameter.unit}", and must be "{wanted.unit}"',
            remedy=f"it is the {wanted.meaning}; convert the value",
        )
    elif wanted.text:
        if not isinstance(value, str) or (wanted.choices and value not in wanted.choices):
            known = ", ".join(wanted.choices) or "a text"
            diagnostics.add(path, f"{value!r} will not do", remedy=f"it is the {wanted.meaning}: {known}")
    elif isinstance(value, str) or not wanted.minimum <= value <= wanted.maximum:
        limits = f"{wanted.minimum:g} to {wanted.maximum:g} {wanted.unit}"
        diagnostics.add(path, f"{value!r} is out of range", remedy=f"it is the {wanted.meaning}: {limits}")
    elif wanted.whole and not isinstance(value, int):
        diagnostics.add(path, f"{value!r} is not a whole number", remedy=f"it is the {wanted.meaning}")


def _requirement(diagnostics: Diagnostics) -> Require:
    def require(condition: bool, name: str, cause: str, remedy: str) -> None:
        if not condition:
            diagnostics.add(("parameters", name, "value"), cause, remedy=remedy)

    return require


def _check_relations(kind: DeviceKind, parameters: Mapping[str, Parameter], diagnostics: Diagnostics) -> None:
    require = _requirement(diagnostics)
    require(
        int(parameters["capacity"].value) % SECTOR_BYTES == 0,
        "capacity",
        "the capacity is not a multiple of 512 bytes",
        "sectors have 512 bytes",
    )
    _KINDS[kind].check(parameters, require)
