# SPDX-License-Identifier: Apache-2.0
"""Claims about a study's stacks, as data: what somebody published or believes, and how it shows in results.

A claim is judged by its comparisons, all of which it needs. They are TOML, described in
docs/reference/claims-file.md. All mistakes of a file are reported at once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path as FilePath
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from strata.diagnostics.mistakes import Diagnostics, read_toml
from strata.diagnostics.names import Diagnostic, KebabName, Path, checked, nearest
from strata.model.metric import COMMON, MetricSpec, tenant_prefix
from strata.model.study import Study, reduced, unlike
from strata.model.trial import CellKey
from strata.model.workload import Workload
from strata.rules.fit import scaled_to_fit
from strata.units import format_share, parse_share

SUFFIX: Final = ".claims.toml"
_ID: Final = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*", re.ASCII)
_OF_TENANTS: Final = ("relative_speed", "alone_<metric>", "before_<metric>")


def _check_range(ends: list[float]) -> list[float]:
    if not (0 <= ends[0] <= ends[1] and math.isfinite(ends[0]) and ends[1] > 0 and ends != [0, math.inf]):
        remedy = (
            "write the lower end first, from 0 on; inf as the upper end means any larger value, but a range "
            "from 0 to inf excludes nothing"
        )
        raise Diagnostic("these are not the two ends of a range", remedy=remedy)
    return [float(end) for end in ends]


def _share(text: object) -> float:
    try:
        return parse_share(text)
    except ValueError as error:
        raise Diagnostic(str(error), remedy='write for example "5%"') from None


def _is_finite(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


Stated = Annotated[JsonValue, checked(_is_finite, "inf and nan are no values of a key", "write a number")]
Range = Annotated[
    list[StrictInt | StrictFloat], Field(min_length=2, max_length=2), AfterValidator(_check_range)
]
Text = Annotated[
    StrictStr,
    checked(lambda text: bool(text.strip()), "this text is empty", "say it in a sentence"),
    AfterValidator(str.strip),
]


Names = Annotated[
    list[Annotated[StrictStr, Field(min_length=1)]],
    BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
    Field(min_length=1),
]
"""Names or shell patterns: a list, or one text."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Expectation(_Table):
    """``[[claims.expect]]``: a metric on some stacks, and how it should compare with others."""

    workload: KebabName = Field(..., description="The workload, by its name in the study", examples=["oltp"])
    metric: StrictStr = Field(..., description="The metric", examples=["transactions_per_s"])
    stack: Names = Field(
        ...,
        description="The stacks that the claim is about: a name or shell pattern, or a list of them",
        examples=["zfs-*"],
    )
    against: Names | None = Field(
        None,
        description="The stacks to compare each with, named likewise, without those of `stack`. Default: "
        "each stack with itself",
        examples=["*"],
    )
    against_workload: KebabName | None = Field(
        None, description="The workload to compare with. Default: `workload`", examples=["oltp-sync"]
    )
    direction: Literal["better", "equal", "worse"] | None = Field(
        None,
        alias="is",
        description="`better`, `worse`: by more than ±3 %, as the metric counts; `equal`: within that",
        examples=["better"],
    )
    within: Annotated[float, BeforeValidator(_share), Field(gt=0, le=1)] | None = Field(
        None, description='Beside `is = "equal"`: the difference that still counts as equal', examples=["10%"]
    )
    ratio: Range | None = Field(
        None,
        description="The metric on `stack` divided by that on `against`: the two ends of the range that was "
        "published or is believed",
        examples=[[0.75, 0.79]],
    )
    value: Range | None = Field(
        None,
        description="Instead of a comparison: the range of the metric itself, in its unit, times in ns",
        examples=[[10e9, 60e9]],
    )
    cached: StrictBool = Field(
        False,
        description="Whether the claim is about cached data: then a window that does not reach the disks is "
        "no reason for doubt",
        examples=[True],
    )

    @model_validator(mode="after")
    def _is_one_question(self) -> Self:
        forms = {"is": self.direction, "ratio": self.ratio, "value": self.value}
        given = [name for name, each in forms.items() if each is not None]
        if len(given) != 1:
            cause = f"{' and '.join(given)} exclude each other" if given else "nothing is expected"
            raise Diagnostic(
                cause, remedy='write one of is = "better", ratio = [low, high], value = [low, high]'
            )
        if self.within is not None and self.direction != "equal":
            remedy = 'leave it out, or write is = "equal"'
            raise Diagnostic("only equality has a width", remedy=remedy, key="within")
        compared = self.against is not None or self.against_workload is not None
        if compared and self.value is not None:
            raise Diagnostic("a value is compared with nothing", remedy="leave `against` out")
        if not compared and self.value is None:
            raise Diagnostic("there is nothing to compare with", remedy='such as against = "ext4", or "*"')
        return self

    @property
    def other_workload(self) -> str:
        return self.against_workload or self.workload

    def pairs(self, stacks: Iterable[str]) -> list[tuple[str, str | None]]:
        """Each stack that the claim is about, with each that it is compared with; None for a value."""
        known = list(stacks)
        own = [each for each in known if _named(each, self.stack)]
        if self.value is not None:
            return [(each, None) for each in own]
        if self.against is None:
            return [(each, each) for each in own]
        others = [each for each in known if _named(each, self.against) and each not in own]
        return [(each, other) for each in own for other in others]


def _named(stack: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(stack, glob) for glob in globs)


class Suspect(_Table):
    """``[[claims.suspect]]``: a change of the study that may explain why the claim is not reproduced."""

    key: Names = Field(
        ...,
        description="The key that it sets, as a factor of `[matrix]` does; a list sets several at once",
        examples=["stacks.btrfs.layers.btrfs.cow"],
    )
    value: Stated = Field(..., description="The value there", examples=[False])
    why: Text = Field(..., description="Why that may be the reason", examples=["the page does not say"])


class TriedBefore(_Table):
    """``[[claims.tried]]``: what was tried to explain a verdict, and the outcome."""

    what: Text = Field(..., description="What was tried", examples=["Linux 6.12"])
    outcome: Text = Field(..., description="What came of it", examples=["the same verdict, 0.66 ×"])


class Claim(_Table):
    """``[[claims]]``: a sentence about stacks, and the comparisons that it comes to."""

    id: Annotated[
        StrictStr,
        checked(
            lambda text: _ID.fullmatch(text) is not None,
            'the id "{}" has other characters than a to z, 0 to 9, "." and "-"',
            "write for example kvm.install.zfs",
        ),
    ] = Field(..., description="A short name, such as `mail.btrfs`", examples=["mail.btrfs"])
    claim: Text = Field(..., description="The claim as a sentence", examples=["btrfs delivers mail slowest"])
    source: Text = Field(..., description="Who says so, and where", examples=["a belief of our team"])
    expect: list[Expectation] = Field(
        [], description="The comparisons, all of which have to come out as expected"
    )
    untestable: Text | None = Field(
        None,
        description="Instead of `expect`: why this study cannot test the claim",
        examples=["the lab has no FreeBSD"],
    )
    suspect: list[Suspect] = Field(
        [], description="Changes that `strata claims --what-if` tries beside its own"
    )
    tried: list[TriedBefore] = Field(
        [], description="What was tried to explain a verdict, for pages and JSON; nothing is judged by it"
    )

    @model_validator(mode="after")
    def _is_tested_or_not(self) -> Self:
        if bool(self.expect) == (self.untestable is not None):
            cause = "a claim that is tested has no reason why not" if self.expect else "nothing is expected"
            raise Diagnostic(cause, remedy='write either [[claims.expect]] or untestable = "…"')
        return self


def over_range(measured: float, low: float, high: float) -> float:
    """A measured value over the nearest end of a published range above 0; 1 within it."""
    return measured / min(max(measured, low), high)


class PublishedLevel(_Table):
    """``[[levels]]``: the value of a metric as it was published, for the stacks that have it."""

    workload: KebabName = Field(..., description="The workload, by its name in the study", examples=["mix"])
    metric: StrictStr = Field(..., description="The metric", examples=["operations_per_s"])
    stack: Names = Field(..., description="The stacks: a name or shell pattern, or a list of them")
    value: Annotated[
        Range,
        BeforeValidator(lambda given: [given, given] if isinstance(given, int | float) else given),
        checked(lambda ends: ends[0] > 0, "nothing is times 0", "write a value above 0, or leave it out"),
    ] = Field(..., description="The value, or the two ends of its range", examples=[[1676, 1702]])
    unit: StrictStr = Field(..., description="Its unit, the metric's own", examples=["1/s"])
    source: Text = Field(..., description="The passage", examples=["fio: 262,144 in 154,046 to 156,416 ms"])
    factor: Annotated[StrictInt | StrictFloat, Field(gt=1, le=100)] = Field(
        1.5,
        description="A measured value that is off by more is in another regime, and so are claims that "
        "compare with it",
        examples=[2],
    )
    counted: StrictBool = Field(
        False,
        description="Whether it counts something over the whole run, such as a score: of a study at a part "
        "of its size that part of it is expected",
        examples=[True],
    )

    def at_scale(self, share: float) -> Self:
        """The level of a run of this share."""
        return (
            self.model_copy(update={"value": [end * share for end in self.value]}) if self.counted else self
        )

    def stacks(self, known: Iterable[str]) -> list[str]:
        return [stack for stack in known if _named(stack, self.stack)]

    def off_by(self, measured: float) -> float:
        return over_range(measured, *self.value)

    def is_met(self, measured: float) -> bool:
        return 1 / self.factor <= self.off_by(measured) <= self.factor


class UnknownPart(_Table):
    """``[[unknowns]]``: a part of the test bed that its source leaves open, which ``--anchor`` draws."""

    quantity: Names | None = Field(
        None,
        description="`MODEL.PARAMETER` of a device, or `processor`: a factor of all its prices; a list "
        "has one value",
        examples=["sandisk-readycache-32gb.dies"],
    )
    range: Annotated[list[StrictInt | StrictFloat], Field(min_length=2, max_length=2)] | None = Field(
        None, description="Its range; whole numbers if both ends are", examples=[[1, 4]]
    )
    key: Names | None = Field(
        None,
        description="Instead of `quantity`: a key path, as of a suspect; a list sets several at once",
        examples=["devices.ssd.precondition"],
    )
    values: Annotated[list[Stated], Field(min_length=2)] | None = Field(
        None, description="The values that it may have", examples=[["used", "steady"]]
    )
    why: Text = Field(..., description="The source of the range", examples=["the page says used, not fresh"])

    @model_validator(mode="after")
    def _is_one_part(self) -> Self:
        of_quantity, of_key = (self.quantity, self.range), (self.key, self.values)
        if (None in of_quantity) is (None in of_key) or any(of_quantity) is any(of_key):
            raise Diagnostic(
                "this is no part of a test bed", remedy="write quantity and range, or key and values"
            )
        if self.range is not None and not 0 < self.range[0] < self.range[1] < math.inf:
            raise Diagnostic("these are not the two ends of a range", key="range", remedy="write [low, high]")
        return self

    def at(self, place: float) -> JsonValue:
        """The value at a place from 0 to 1; of a range evenly by its logarithm."""
        if self.values is not None:
            return self.values[min(int(place * len(self.values)), len(self.values) - 1)]
        assert self.range is not None
        low, high = self.range
        if isinstance(low, int) and isinstance(high, int):
            value = low * ((high + 1) / low) ** place
            return min(int(value), high)
        return float(f"{low * (high / low) ** place:.4g}")


class ClaimsFile(NamedTuple):
    """The tables of a claims file."""

    claims: list[Claim]
    levels: list[PublishedLevel]
    unknowns: list[UnknownPart]


class Yield(NamedTuple):
    """A workload's metrics: as declared, or as found in results; without any they are not known.

    Attributes:
        units: Of the metrics found, by name.
        of_kind: What its kind declares, for the units of what was not run.
    """

    units: Mapping[str, str] = {}
    specs: Sequence[MetricSpec] = ()
    of_kind: Sequence[MetricSpec] = ()

    def has(self, metric: str) -> bool:
        known = bool(self.units or self.specs)
        return not known or metric in self.units or any(each.is_called(metric) for each in self.specs)

    def unit(self, metric: str) -> str | None:
        """A metric's unit; None if it is not known."""
        declared = (each.unit for each in (*self.specs, *self.of_kind) if each.is_called(metric))
        return self.units.get(metric) or next(declared, None) or None


@dataclass(frozen=True)
class ClaimSubject:
    """The stacks and workloads that claims may name.

    Attributes:
        skipped: The cells that cannot be run, with the reason.
        unlike: The workloads that say something else than at full size, with the reason.
        reduced: The workloads that have less to do than at full size, with the share.
    """

    stacks: Sequence[str]
    workloads: Mapping[str, Yield]
    skipped: Mapping[CellKey, str] = field(default_factory=dict)
    unlike: Mapping[str, str] = field(default_factory=dict)
    reduced: Mapping[str, float] = field(default_factory=dict)

    def untestable(self, expectation: Expectation, cells: Iterable[CellKey]) -> str:
        """Why a comparison of these cells cannot be judged; empty: it can be."""
        for cell in cells:
            if cell in self.skipped:
                return f"{cell}: {self.skipped[cell]}"
            if cell.workload in self.unlike:
                return f"{cell.workload}: {self.unlike[cell.workload]}"
        share = self.reduced.get(expectation.workload)
        if share is None or expectation.value is None:
            return ""
        return f"a value is claimed of the full size, and this is {format_share(share)} of it"


def yield_of(load: Workload) -> Yield:
    """What a workload declares to measure, its tenants' metrics included; these have the units of others."""
    if not load.is_compound:
        return Yield(specs=(*load.metric_specs, *COMMON) if load.metric_specs else ())
    specs = [*COMMON, *(MetricSpec(each, "", "higher", "") for each in ("fairness", "aggregate_<metric>"))]
    for name, tenant in load.tenants().items():
        prefix = tenant_prefix(name)
        parts = [part.metric_specs for part in (tenant.load, tenant.before) if part is not None]
        specs += [replace(each, names=f"{prefix}{each.names}") for part in parts for each in part]
        specs += [MetricSpec(f"{prefix}{each}", "", "higher", "") for each in _OF_TENANTS]
    return Yield(specs=specs)


def subject_of(full: Study, skipped: Mapping[CellKey, str], scale: float) -> ClaimSubject:
    """What claims may name of a full study that is run in a share of its time and data."""
    found = {name: yield_of(load) for name, load in full.workloads.items()}
    changed = unlike(full, scale, scaled_to_fit(full, scale).memory_bytes)
    return ClaimSubject([*full.stacks], found, skipped, changed, reduced(full, scale))


def read_claims(file: FilePath, subject: ClaimSubject) -> ClaimsFile:
    """The claims of a file about these stacks and workloads, and the published levels.

    Raises StudyError if the file cannot be read or is not TOML, DiagnosticsError with all mistakes in it.
    """
    tables, found = read_toml(file)
    for name in tables:
        if name not in ClaimsFile._fields:
            found.add((name,), f'unknown key "{name}"', nearest(name, ClaimsFile._fields))
    declared = tables.get("claims")
    if not isinstance(declared, list) or not declared:
        found.add(("claims",), "there is no claim", "write [[claims]] with id, claim, source and expect")
        declared = []
    claims = [_read(each, ("claims", index), found, subject) for index, each in enumerate(declared)]
    ids = [each.get("id") for each in declared if isinstance(each, Mapping)]
    for index, each in enumerate(ids):
        if each is not None and each in ids[:index]:
            found.add(("claims", index, "id"), f'"{each}" is the id of several claims', "call one otherwise")
    levels = _read_levels(tables.get("levels", []), found, subject)
    unknowns = _read_unknowns(tables.get("unknowns", []), found)
    found.raise_all()
    return ClaimsFile([each for each in claims if each is not None], levels, unknowns)


def _read_unknowns(declared: object, found: Diagnostics) -> list[UnknownPart]:
    parts = declared if isinstance(declared, list) else [declared]
    read = [found.model(UnknownPart, each, ("unknowns", index)) for index, each in enumerate(parts)]
    return [each for each in read if each is not None]


def _read_levels(declared: object, found: Diagnostics, subject: ClaimSubject) -> list[PublishedLevel]:
    levels, known = list[PublishedLevel](), set[tuple[str, str, str]]()
    if not isinstance(declared, list):
        found.add(("levels",), "this is no list of tables", "write [[levels]]")
        return []
    for index, each in enumerate(declared):
        path: Path = ("levels", index)
        if isinstance(each, Mapping):
            found.extend(path, _misnamed(each, subject))
        level = found.model(PublishedLevel, each, path)
        if level is None or level.workload not in subject.workloads:
            continue
        unit = subject.workloads[level.workload].unit(level.metric)
        if unit not in {None, level.unit}:
            found.add((*path, "unit"), f"{level.metric} has another unit", f'write "{unit}"')
        cells = {(stack, level.workload, level.metric) for stack in level.stacks(subject.stacks)}
        if twice := sorted(stack for stack, *_ in cells & known):
            found.add((*path, "stack"), f"{twice[0]} has a level of this metric already", "keep one")
        known |= cells
        levels.append(level)
    return levels


def _read(value: object, path: Path, found: Diagnostics, subject: ClaimSubject) -> Claim | None:
    expect = value.get("expect") if isinstance(value, Mapping) else None
    for index, each in enumerate(expect if isinstance(expect, list) else ()):
        if isinstance(each, Mapping):  # its names are checked whatever other mistakes it has
            found.extend((*path, "expect", index), _misnamed(each, subject))
    claim = found.model(Claim, value, path)
    for index, expectation in enumerate(claim.expect if claim else ()):
        if not expectation.pairs(subject.stacks):
            where = (*path, "expect", index, "against" if expectation.against else "stack")
            found.add(where, "no stack is left to compare", f"there are {', '.join(subject.stacks)}")
    return claim


def _misnamed(expectation: Mapping[str, object], subject: ClaimSubject) -> Iterator[Diagnostic]:
    """The names in an expectation's table that the study does not have."""
    for key in ("stack", "against"):
        given = expectation.get(key, [])
        for glob in given if isinstance(given, list) else [given]:
            if isinstance(glob, str) and not any(_named(each, [glob]) for each in subject.stacks):
                remedy = nearest(glob, subject.stacks)
                yield Diagnostic(f'no stack is called "{glob[:60]}"', remedy=remedy, key=key)
    named = {key: each for key, each in expectation.items() if isinstance(each, str)}
    for key in ("workload", "against_workload"):
        if key not in named:
            continue
        name, metric = named[key], named.get("metric", "")
        if name not in subject.workloads:
            remedy = nearest(name, subject.workloads)
            yield Diagnostic(f'the study has no workload "{name[:60]}"', remedy=remedy, key=key)
        elif metric and not (made := subject.workloads[name]).has(metric):
            remedy = nearest(metric, [*made.units] or [each.names for each in made.specs])
            yield Diagnostic(f'{name} yields no metric "{metric[:60]}"', remedy=remedy, key="metric")
