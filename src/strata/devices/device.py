# SPDX-License-Identifier: Apache-2.0
"""Modelled devices: a TOML file of parameters, each with its value, unit and source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr

from strata.bundled import project_root
from strata.devices.faults import Fault
from strata.devices.kind import PUBLISHED, DeviceKind, Parameter, ParameterSpec
from strata.devices.kinds import KINDS
from strata.devices.kinds.flash import READ_ALIKE
from strata.devices.provisioning import PROVISIONED, ProvisionedMachine, ProvisioningRule, provision
from strata.diagnostics.mistakes import Diagnostics, read_toml
from strata.diagnostics.names import Diagnostic, is_kebab, nearest
from strata.errors import StudyError
from strata.printable import in_json
from strata.units import SECTOR_BYTES

DEFAULT_SOURCE: Final = "not stated: the kind's default"
"""The source of a parameter that a device file leaves out."""

P = TypeVar("P", bound=Parameter)

TEXT_PARAMETERS: Final = {"interface": "how it is connected; for the reader"}


@dataclass(frozen=True)
class Device:
    """A modelled device.

    Attributes:
        kind: A name in `KINDS`; ``real`` for a disk that is not modelled.
        parameters: By name; the kind's ``parameters`` have the units.
        member: Each member of a controller.
        provisioning: The rules of a volume whose size and rates can be chosen, by the names of `PROVISIONED`.
        published: Figures of data sheets and reviews, by the names of `PUBLISHED`.
        write_cache: False if a study has switched its volatile write cache off.
        faults: The study's faults of the device.
        machine: The limits of the machine that a volume in the network is attached to.
        drawn: Of a plausible drive, the drawn values (`strata.devices.plausible`).
    """

    name: str
    title: str
    kind: str
    parameters: Mapping[str, Parameter]
    member: Device | None = None
    published: Mapping[str, Parameter] = field(default_factory=dict)
    provisioning: Mapping[str, ProvisioningRule] = field(default_factory=dict)
    write_cache: bool = True
    faults: tuple[Fault, ...] = ()
    machine: ProvisionedMachine = field(default_factory=ProvisionedMachine)
    drawn: Mapping[str, float] = field(default_factory=dict)

    @property
    def reads_alike(self) -> bool:
        """Whether a read costs the same where nothing was ever written: flash has no cells to read there."""
        state = (self.member or self).parameters.get("precondition")
        return self.kind in KINDS and (state is None or state.value in READ_ALIKE)

    @property
    def model(self) -> DeviceKind:
        return KINDS[self.kind]

    def number(self, name: str) -> float:
        """The value of a numeric parameter, in the unit of its kind."""
        value = self.parameters[name].value
        assert not isinstance(value, str), f"{name} is a text"
        return float(value)

    def whole(self, name: str) -> int:
        return int(self.parameters[name].value)

    def text(self, name: str) -> str:
        return str(self.parameters[name].value)

    @property
    @in_json
    def capacity_bytes(self) -> int:
        return self.whole("capacity")

    @property
    def physical_sector_bytes(self) -> int:
        """What is written at once, by a controller to its members."""
        written = self.member or self
        return written.whole("physical_sector") if "physical_sector" in written.parameters else SECTOR_BYTES

    @property
    def queue_depth(self) -> int:
        return self.whole("queue_depth")

    def identity(self) -> dict[str, Any]:
        """The kind and values, which identify the device to a trial, without name, title and sources."""
        values: dict[str, Any] = {
            name: p.value for name, p in self.parameters.items() if name not in TEXT_PARAMETERS
        }
        if self.member is not None:
            values["member"] = self.member.identity()
        identity: dict[str, Any] = {"kind": self.kind, "parameters": values}
        if not self.write_cache:
            identity["write_cache"] = False
        if self.machine:
            identity["machine"] = asdict(self.machine)
        if self.faults:
            identity["faults"] = [fault.identity() for fault in self.faults]
        return identity


def _check_kind(kind: str) -> str:
    if kind not in KINDS:
        raise Diagnostic(f'"{kind[:60]}" is not a kind of device', remedy=nearest(kind, KINDS))
    return kind


class _DeviceFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    title: StrictStr = Field(min_length=1, examples=["Maker model, size, speed"])
    kind: Annotated[StrictStr, AfterValidator(_check_kind)] = Field(examples=["rotating"])
    parameters: dict[str, Any] = Field(description="a table [parameters]")
    published: dict[str, Any] = Field(default={}, description="a table [published]")
    provisioning: dict[str, Any] = Field(default={}, description="a table [provisioning]")


def device_folder() -> Path:
    return project_root() / "devices"


def bundled_devices() -> list[str]:
    return sorted(file.stem for file in device_folder().glob("*.toml"))


def find_device(model: str, relative_to: Path | None = None, *, as_member: bool = False) -> Device:
    """The bundled device of a name, or the device of a ``.toml`` file; raises as `load_device`."""
    if model.endswith(".toml"):
        return load_device((relative_to or Path()) / model, as_member=as_member)
    check_bundled("device", model, bundled_devices())
    return _bundled_device(device_folder() / f"{model}.toml", as_member=as_member)


def check_bundled(kind: str, name: str, names: Collection[str]) -> None:
    """Raise StudyError if no bundled file of this kind has the name."""
    if name not in names:
        hint = nearest(name, names)
        joined = f"{hint} Or" if hint.endswith("?") else f"{hint}; or"
        remedy = f'{joined} give the path of a {kind} file, "./{name[:40]}.toml"'
        raise StudyError(f'there is no {kind} "{name}"', remedy=remedy)


@cache
def _bundled_device(file: Path, *, as_member: bool) -> Device:
    return load_device(file, as_member=as_member)


def load_device(file: Path, *, as_member: bool = False) -> Device:
    """Read a device file, and of a controller also its member's, which is read ``as_member``.

    Raises StudyError if the file cannot be read or is not TOML, DiagnosticsError with all mistakes in it.
    """
    tables, diagnostics = read_toml(file)
    if not is_kebab(file.stem):
        diagnostics.add((), f'the file\'s name "{file.stem}" is not in kebab case', 'such as "wd-re4-500gb"')
    head = diagnostics.model(_DeviceFile, tables, ())
    kind = KINDS.get(str(tables.get("kind")))
    raw = tables.get("parameters")
    parameters: dict[str, Parameter] = {}
    rules = _read_rules(tables.get("provisioning"), diagnostics)
    if kind is not None and isinstance(raw, dict):
        stated = read_parameters(
            "parameters", kind.parameters, TEXT_PARAMETERS, raw, diagnostics, model=Parameter
        )
        ruled = {PROVISIONED[name][0] for name in rules}
        for name in ruled & set(raw):
            remedy = "leave it out here, or leave the rule out"
            diagnostics.add(("parameters", name), "a rule of [provisioning] sets this", remedy=remedy)
        _check_ranges(stated, kind, diagnostics)
        parameters = complete_parameters(stated, kind.parameters, {*raw, *ruled}, diagnostics)
    published = read_parameters(
        "published", PUBLISHED, (), tables.get("published"), diagnostics, model=Parameter
    )
    for name in (name for name, each in published.items() if each.low is not None or each.high is not None):
        diagnostics.add(("published", name), "a published figure has no range", remedy="leave it out")
    if as_member and "member" in parameters:
        diagnostics.add(("kind",), "a controller cannot be a member of a controller", remedy="name a disk")
    diagnostics.raise_all()
    assert head is not None
    assert kind is not None
    device = Device(file.stem, head.title, head.kind, parameters, None, published, rules)
    if rules:
        device, _ = provision(device)
    if "member" in parameters:
        device = replace(device, member=_find_member(device, file, diagnostics))
    if device.capacity_bytes % SECTOR_BYTES:
        cause = "the capacity is not a multiple of 512 bytes"
        diagnostics.add(("parameters", "capacity", "value"), cause, remedy="sectors have 512 bytes")
    for each in kind.diagnostics(device):
        diagnostics.add(("parameters", str(each.key), "value"), each.cause, remedy=each.remedy)
    diagnostics.raise_all()
    return kind.completed(_with_ranges(device))


def _read_rules(raw: object, diagnostics: Diagnostics) -> dict[str, ProvisioningRule]:
    """The rules of ``[provisioning]``: all three of them, or none."""
    stated = raw if isinstance(raw, dict) else {}
    read: dict[str, ProvisioningRule] = {}
    for name in stated:
        if name not in PROVISIONED:
            remedy = nearest(name, PROVISIONED)
            diagnostics.add(("provisioning", name), f'unknown rule "{name}"', remedy=remedy)
    for name, (_, unit) in PROVISIONED.items() if stated else ():
        if name not in stated:
            remedy = f"a volume has rules for {', '.join(PROVISIONED)}"
            diagnostics.add(("provisioning", name), "this rule is missing", remedy=remedy)
        elif (rule := diagnostics.model(ProvisioningRule, stated[name], ("provisioning", name))) is not None:
            read[name] = rule
            if rule.unit != unit:
                cause = f'the unit is "{rule.unit}", and must be "{unit}"'
                diagnostics.add(("provisioning", name, "unit"), cause, remedy="convert the values")
    return read


def _find_member(device: Device, file: Path, diagnostics: Diagnostics) -> Device | None:
    try:
        return find_device(device.text("member"), file.parent, as_member=True)
    except StudyError as error:
        diagnostics.add(("parameters", "member", "value"), error.cause, remedy=error.remedy or "")
        return None


def read_parameters(
    table: str,
    specs: Mapping[str, ParameterSpec],
    texts: Iterable[str],
    raw: object,
    diagnostics: Diagnostics,
    *,
    model: type[P],
) -> dict[str, P]:
    """What a table of the file states; a value that is no table was reported with the file's other keys."""
    known, what = [*specs, *texts], "parameter" if table == "parameters" else "figure"
    read: dict[str, P] = {}
    for name, stated in raw.items() if isinstance(raw, dict) else ():
        if name not in known:
            diagnostics.add((table, name), f'unknown {what} "{name}"', remedy=nearest(name, known))
        elif (parameter := diagnostics.model(model, stated, (table, name))) is not None:
            read[name] = parameter
            if name in specs:
                _check_parameter(parameter, specs[name], (table, name), diagnostics)
    return {name: read[name] for name in known if name in read}


def complete_parameters(
    read: Mapping[str, Parameter],
    specs: Mapping[str, ParameterSpec],
    stated: Collection[str],
    diagnostics: Diagnostics,
) -> dict[str, Parameter]:
    """The parameters with the kind's defaults."""
    found = dict(read)
    for name, spec in specs.items():
        if name in stated:
            continue
        if spec.default is None:
            remedy = f"it is the {spec.meaning} in {spec.unit}"
            diagnostics.add(("parameters", name), "this parameter is missing", remedy=remedy)
        else:
            found[name] = Parameter(value=spec.default, unit=spec.unit, source=DEFAULT_SOURCE, estimate=True)
    return {name: found[name] for name in (*specs, *TEXT_PARAMETERS) if name in found}


def _check_ranges(stated: Mapping[str, Parameter], kind: DeviceKind, diagnostics: Diagnostics) -> None:
    for name, each in stated.items():
        if each.low is None and each.high is None:
            if each.range is not None:
                cause = "this gives a reason for a range that is not stated"
                diagnostics.add(("parameters", name, "range"), cause, remedy="state low and high")
            continue
        spec, path = kind.parameters.get(name), ("parameters", name)
        spread = kind.spreads.get(name)
        if spec is None or spec.text or spread is None or spread.low is None:
            why = spread.reason if spread else "it is a text"
            cause = f"this does not vary between plausible drives: {why}"
            diagnostics.add(path, cause, remedy="leave out low and high")
        elif each.low is None or each.high is None:
            diagnostics.add(path, "a range has two ends", remedy="state low and high, or neither")
        elif each.value == 0 and each.high:
            cause = "a zero says that the drive lacks this, which does not vary"
            diagnostics.add(path, cause, remedy="state a value above zero, or leave out low and high")
        else:
            check_range(each, spec, path, diagnostics)


def check_range(
    parameter: Parameter, spec: ParameterSpec, path: tuple[str, str], diagnostics: Diagnostics
) -> None:
    """Report a range that does not hold the value or exceeds the bounds; without a number, nothing."""
    low, value, high = parameter.low, parameter.value, parameter.high
    if low is None or high is None or isinstance(value, str):
        return
    if not low <= value <= high:
        cause = f"the value {value:g} is not within its range, {low:g} to {high:g}"
        diagnostics.add(path, cause, remedy="widen the range; low <= value <= high")
    elif low < spec.minimum or high > spec.maximum:
        cause = f"the range exceeds {spec.minimum:g} to {spec.maximum:g} {spec.unit}"
        diagnostics.add(path, cause, remedy="narrow it")


def _with_ranges(device: Device) -> Device:
    """The device with the kind's range for every estimate without one, and the kind's reason likewise."""
    found: dict[str, Parameter] = {}
    for name, each in device.parameters.items():
        spread, spec = device.model.spreads.get(name), device.model.parameters.get(name)
        if spread is None or spec is None or isinstance(each.value, str):
            continue
        if spread.needs and not device.number(spread.needs):
            continue
        if each.low is not None:
            found[name] = each.model_copy(update={"range": each.range or spread.reason})
        elif each.estimate and (ends := spread.around(each.value, spec)) is not None:
            found[name] = each.model_copy(update={"low": ends[0], "high": ends[1], "range": spread.reason})
    return replace(device, parameters={**device.parameters, **found})


def _check_parameter(
    parameter: Parameter, spec: ParameterSpec, path: tuple[str, str], diagnostics: Diagnostics
) -> None:
    value, remedy = parameter.value, f"it is the {spec.meaning}"
    if parameter.unit != spec.unit:
        cause = f'the unit is "{parameter.unit}", and must be "{spec.unit}"'
        diagnostics.add((*path, "unit"), cause, remedy=f"{remedy}; convert the value")
    elif spec.text:
        if not isinstance(value, str) or (spec.choices and value not in spec.choices):
            known = ", ".join(spec.choices) or "a text"
            diagnostics.add((*path, "value"), f"{value!r} is not valid here", remedy=f"{remedy}: {known}")
    elif isinstance(value, str) or not spec.minimum <= value <= spec.maximum:
        bounds = f"{spec.minimum:g} to {spec.maximum:g} {spec.unit}"
        diagnostics.add((*path, "value"), f"{value!r} is out of range", remedy=f"{remedy}: {bounds}")
    elif spec.whole and not isinstance(value, int):
        diagnostics.add((*path, "value"), f"{value!r} is not a whole number", remedy=remedy)
