# SPDX-License-Identifier: Apache-2.0
"""Uses of a machine, as weights over kinds of measurement and needed capabilities.

They are TOML, described in docs/reference/uses.md. All mistakes of a file are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    create_model,
)
from pydantic.fields import FieldInfo

from strata.diagnostics.mistakes import Diagnostics, keys_of, parse_toml, read_toml
from strata.diagnostics.names import (
    Diagnostic,
    KebabName,
    Path,
    checked,
    is_kebab,
    kebab_remedy,
    nearest,
    require_known,
)
from strata.errors import StudyError
from strata.model.asked import REQUIREMENTS
from strata.model.workload import Workload
from strata.plan.sheets import example_table
from strata.reading.entries import Catalogue
from strata.workloads.keys import key

# A workload that alters its stack is another measurement: only a pattern that names the key means it.
_INTACT: Final[Mapping[str, Any]] = {"before_measure": [], "snapshot_every_ns": None}


@dataclass(frozen=True)
class WorkloadPattern:
    """The condition on a workload.

    Attributes:
        kind: The kind of workload.
        declared: As it stands in the file of uses.
        wanted: The allowed values of the kind's fields, as JSON.
    """

    kind: str
    declared: Mapping[str, Any]
    wanted: Mapping[str, tuple[Any, ...]]

    def fits(self, workload: Mapping[str, Any]) -> bool:
        """Whether it means a workload, given by its fields as JSON."""
        if workload.get("workload") != self.kind:
            return False
        unsaid = {key: value for key, value in _INTACT.items() if key not in self.wanted}
        return all(workload.get(key) in values for key, values in self.wanted.items()) and all(
            workload.get(key, value) == value for key, value in unsaid.items()
        )

    def example(self, catalogue: Catalogue) -> dict[str, Any]:
        """The table of a fitting workload, for a study file."""
        first = {key: self._first(catalogue, key, value) for key, value in self.declared.items()}
        return {**example_table(catalogue.workloads[self.kind]), **first}

    def _first(self, catalogue: Catalogue, key: str, value: Any) -> Any:
        field = _field(catalogue.workloads[self.kind], key)
        several = isinstance(value, list) and field is not None and len(self.wanted[field]) > 1
        return value[0] if several else value


def read_pattern(
    diagnostics: Diagnostics, catalogue: Catalogue, value: Any, path: Path
) -> WorkloadPattern | None:
    """Read one of a weight's ``fits``; None with mistakes, which are reported."""
    if not isinstance(value, Mapping):
        diagnostics.add(path, "this must be a table", remedy='such as { workload = "pgbench" }')
        return None
    name = value.get("workload")
    if not isinstance(name, str) or name not in catalogue.workloads:
        cause = f'there is no workload "{str(name)[:60]}"' if "workload" in value else "this key is missing"
        diagnostics.add((*path, "workload"), cause, remedy=nearest(str(name), catalogue.workloads))
        return None
    kind = catalogue.workloads[name]
    wanted: dict[str, tuple[Any, ...]] = {}
    sound = True
    for given, each in value.items():
        if given == "workload":
            continue
        field = _field(kind, given)
        if field is None:
            remedy = nearest(given, keys_of(kind))
            diagnostics.add((*path, given), f'{name} has no key "{given}"', remedy=remedy)
            sound = False
            continue
        values = _values(diagnostics, kind, field, each, (*path, given))
        sound = sound and values is not None
        wanted[field] = values or ()
    return WorkloadPattern(name, dict(value), wanted) if sound else None


def _field(kind: type[Workload], key: str) -> str | None:
    return next((name for name, info in kind.model_fields.items() if key in (name, info.alias)), None)


def _values(
    diagnostics: Diagnostics, kind: type[Workload], field: str, value: Any, path: Path
) -> tuple[Any, ...] | None:
    """The values that a key may have, as JSON; None if one is not valid."""
    info = kind.model_fields[field]
    whole = Diagnostics(diagnostics.file, "")
    read = _value(whole, info, field, value, path)
    if not whole:
        return (read,)
    several = value if isinstance(value, list) and value else [value]
    before = Diagnostics(diagnostics.file, "")
    found = [_value(before, info, field, each, path) for each in several]
    if not before:
        return tuple(found)
    for each in several:
        _value(diagnostics, info, field, each, path)
    return None


def _value(diagnostics: Diagnostics, info: FieldInfo, field: str, value: Any, path: Path) -> Any:
    key = info.alias or field
    extra = info.json_schema_extra
    known = extra.get("enum") if isinstance(extra, dict) else None
    if isinstance(known, list) and value not in known:
        names = [str(each) for each in known if each is not None]
        diagnostics.add(path, f'"{str(value)[:60]}" is not valid here', remedy=nearest(str(value), names))
        return None
    model = create_model("Key", **{field: (info.annotation, info)})  # type: ignore[call-overload]
    read = diagnostics.model(model, {key: value}, path[:-1])
    return None if read is None else read.model_dump(mode="json")[field]


HEADLINE: Final = "headline"
"""Stands for a workload's headline metrics among the metrics of a weight."""

DURABLE: Final = "durable"
"""The capability of keeping what is acknowledged as durable when the power fails. It is not probed: each
result says whether a setting gives it away."""

Level = Literal["required", "preferred", "wished"]
"""Required: a stack without it is out. Preferred: it is out where another has it. Wished: its lack is named.
"""


def _check_text(text: str) -> str:
    if not text.strip():
        raise Diagnostic("this text is empty", remedy="say it in a sentence")
    return text.strip()


Share = Annotated[StrictInt | StrictFloat, Field(gt=0, le=1e6)]
Text = Annotated[StrictStr, AfterValidator(_check_text)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WeightTable(_Table):
    """``[uses.NAME.weights.WEIGHT]``: how much a kind of measurement counts."""

    weight: Share = key(..., "How much it counts beside the use's other weights", 70)
    fits: list[Any] = key(
        ...,
        "The workloads that it is measured by: a kind, and the keys that they must have; a list "
        "of values means any of them",
        '[{ workload = "load", personality = "varmail" }]',
        min_length=1,
    )
    metrics: Annotated[
        dict[str, Share], checked(bool, "there is no metric", "write { headline = 1 }, or leave the key out")
    ] = key(
        {HEADLINE: 1},
        "How much each metric counts; `headline` stands for the workload's headline metrics",
        "{ headline = 70, latency_ns_p99 = 30 }",
    )
    why: Text = key(..., "What it stands for", "mails are forced out")


class Need(_Table):
    """``[[uses.NAME.needs]]``: a capability that the use asks for."""

    capability: KebabName = key(
        ...,
        "A probe of `strata capabilities`; or durable: what is acknowledged outlives a power failure",
        DURABLE,
    )
    level: Level = key(
        ...,
        "required: a stack without it is out, however fast; preferred: it is out where another has it; "
        "wished: its lack is named",
        "required",
    )
    why: Text = key(..., "What for", "a server should go on when a disk fails")


class UseTable(_Table):
    """``[uses.NAME]``: the use of a machine."""

    title: Text = key(..., "The use in a word or two", "Mail server")
    about: Text = key(..., "What it does, in a sentence", "Every mail is a small file.")
    source: Text = key(..., "Where the weights come from; judgement is stated as such", "an estimate")
    weights: dict[str, WeightTable] = key(..., "What is measured, and how much it counts", min_length=1)
    needs: list[Need] = key([], "The capabilities that it asks for")


@dataclass(frozen=True)
class Weight:
    """The weight of a kind of measurement, of workloads that fit any pattern; see `WeightTable`."""

    name: str
    weight: float
    fits: tuple[WorkloadPattern, ...]
    metrics: Mapping[str, float]
    why: str


@dataclass(frozen=True)
class Use:
    """The use of a machine.

    Attributes:
        source: Where the weights come from.
        adjusted: The names of weights that the user has changed for this run.
        is_asked: Whether it answers what the study asks.
    """

    name: str
    title: str
    about: str
    source: str
    weights: tuple[Weight, ...]
    needs: tuple[Need, ...] = ()
    adjusted: tuple[str, ...] = field(default=())
    is_asked: bool = False

    @property
    def required(self) -> tuple[str, ...]:
        """The capabilities without which a stack is out, however fast."""
        return tuple(need.capability for need in self.needs if need.level == "required")

    @property
    def total(self) -> float:
        return sum(each.weight for each in self.weights)


def bundled_uses(catalogue: Catalogue) -> dict[str, Use]:
    text = resources.files("strata.advice").joinpath("uses.toml").read_text("utf-8")
    tables, diagnostics = parse_toml(text, "uses.toml")
    return _read(tables, diagnostics, catalogue)


def read_uses(file: FilePath, catalogue: Catalogue) -> dict[str, Use]:
    """The uses of a TOML file, by name.

    Raises:
        StudyError: If the file cannot be read or is not TOML.
        DiagnosticsError: All mistakes in it, each with its key and line.
    """
    tables, diagnostics = read_toml(file)
    return _read(tables, diagnostics, catalogue)


def _read(tables: Mapping[str, Any], diagnostics: Diagnostics, catalogue: Catalogue) -> dict[str, Use]:
    for name in tables:
        if name != "uses":
            diagnostics.add((name,), f'unknown key "{name}"', remedy=nearest(name, ["uses"]))
    declared = tables.get("uses", {})
    if not isinstance(declared, Mapping) or not declared:
        remedy = "write [uses.NAME] with title, about and weights"
        diagnostics.add(("uses",), "there is no use", remedy=remedy)
        declared = {}
    found = {}
    for name, value in declared.items():
        if not is_kebab(name):
            cause = f'the name "{name[:60]}" is not in kebab case'
            diagnostics.add(("uses", name), cause, remedy=kebab_remedy(name))
        use = _read_use(name, value, diagnostics, catalogue)
        if use is not None:
            found[name] = use
    diagnostics.raise_all()
    return found


def _may_yield(kind: type[Workload], metric: str) -> bool:
    """Whether a workload yields a metric; one that declares no metrics may yield any."""
    return not kind.metric_specs or any(spec.is_called(metric) for spec in kind.metric_specs)


def _read_use(name: str, value: Any, diagnostics: Diagnostics, catalogue: Catalogue) -> Use | None:
    path = ("uses", name)
    patterns = _patterns(value, diagnostics, catalogue, path)  # also of a use that has other mistakes
    table = diagnostics.model(UseTable, value, path)
    if table is None:
        return None
    for index, need in enumerate(table.needs):
        where = (*path, "needs", index, "capability")
        if need.capability in [each.capability for each in table.needs[:index]]:
            diagnostics.add(where, f'"{need.capability}" is named twice', remedy="name each capability once")
        elif need.capability not in REQUIREMENTS:
            cause = f'there is no capability "{need.capability}"'
            diagnostics.add(where, cause, remedy=nearest(need.capability, REQUIREMENTS))
    for named, weight in table.weights.items():
        place = (*path, "weights", named)
        if not is_kebab(named):
            diagnostics.add(
                place, f'the name "{named[:60]}" is not in kebab case', remedy=kebab_remedy(named)
            )
        kinds = [catalogue.workloads[pattern.kind] for pattern in patterns.get(named, ())]
        for metric in weight.metrics:
            if metric != HEADLINE and kinds and not any(_may_yield(kind, metric) for kind in kinds):
                diagnostics.add(
                    (*place, "metrics", metric),
                    f'no workload that it fits yields the metric "{metric[:60]}"',
                    remedy=f"`strata list workloads {kinds[0].model_fields['workload'].default}` lists them",
                )
    return Use(
        name,
        *(table.title, table.about, table.source),
        weights=tuple(
            Weight(key, each.weight, tuple(patterns.get(key, ())), dict(each.metrics), each.why)
            for key, each in table.weights.items()
        ),
        needs=tuple(table.needs),
    )


def _patterns(
    value: Any, diagnostics: Diagnostics, catalogue: Catalogue, path: tuple[str, ...]
) -> dict[str, list[WorkloadPattern]]:
    """The patterns of the weights; the model reports values of a wrong shape."""
    weights = value.get("weights") if isinstance(value, Mapping) else None
    found: dict[str, list[WorkloadPattern]] = {}
    for name, each in weights.items() if isinstance(weights, Mapping) else ():
        fits = each.get("fits") if isinstance(each, Mapping) else None
        for index, declared in enumerate(fits if isinstance(fits, list) else ()):
            where = (*path, "weights", name, "fits", index)
            pattern = read_pattern(diagnostics, catalogue, declared, where)
            if pattern is not None:
                found.setdefault(name, []).append(pattern)
    return found


def chosen_uses(uses: Mapping[str, Use], names: Iterable[str]) -> list[Use]:
    wanted = list(dict.fromkeys(names))
    require_known("use", wanted, uses, "--use")
    return [uses[name] for name in wanted] if wanted else list(uses.values())


def requiring(use: Use, capabilities: Sequence[str]) -> Use:
    """The use that requires these capabilities beside its own."""
    asked = [Need(capability=each, level="required", why="it was asked for") for each in capabilities]
    return replace(use, needs=(*asked, *(need for need in use.needs if need.capability not in capabilities)))


def reweighted(use: Use, words: Sequence[str]) -> Use:
    """The use with other weights, each a word ``NAME=NUMBER``; 0 leaves a weight out.

    Raises StudyError if one is not of this form, names no weight, or nothing is left.
    """
    weights = {each.name: each for each in use.weights}
    for word in words:
        name, equals, number = word.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not equals or not 0 <= value <= 1e6:
            raise StudyError(
                f'"{word[:60]}" is no weight',
                place="--weights",
                remedy=f'write NAME=NUMBER from 0 on, such as "{use.weights[0].name}=50"',
            )
        if name not in weights:
            remedy = nearest(name, weights)
            raise StudyError(f'{use.name} has no weight "{name}"', place="--weights", remedy=remedy)
        weights[name] = replace(weights[name], weight=value)
    left = tuple(each for each in weights.values() if each.weight > 0)
    if not left:
        raise StudyError("no weight is left", place="--weights", remedy="give one a number above 0")
    return replace(use, weights=left, adjusted=tuple(word.partition("=")[0] for word in words))
