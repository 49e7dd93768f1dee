# SPDX-License-Identifier: Apache-2.0
"""The atlas: records of common stacks under common loads, which answer a question before anything is run.

``studies/atlas.toml`` is a study like any other. ``studies/atlas.jsonl`` has what an answer needs of its
records: a line with all that they share, then a line for each, with its trial and the hash of the record.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from strata.advice.asked import answer_of
from strata.advice.model import Advice
from strata.bundled import project_root
from strata.devices.device import Device
from strata.model.matrix import Matrix
from strata.model.study import Study
from strata.model.study_record import StackRecord, StudyRecord
from strata.model.trial import TrialKey
from strata.plan.catalogue import catalogue
from strata.plan.model import Trial
from strata.reading.load import load_study
from strata.results.differences import Difference, Naming, study_differences
from strata.results.record import Fingerprint, ResultRecord, StudySnapshot
from strata.results.store import Reading
from strata.rules.redundancy import losses_survived
from strata.statistics.study import StudyResults, arranged

# Keys that name things, or do not reach what is measured.
_UNSAID: Final = ("name", "reference", "devices", "time_limit_ns", "sample_interval_ns", "order", "trace")


_ARRANGED: Final = ("level", "vdev", "data")
"""The keys by which layers lay data out over disks: of md, of zpool, of btrfs."""


class Origin(BaseModel):
    """The first line: the last day of measuring, and the fields that all records have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    measured: date
    shared: dict[str, Any]

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint.model_validate(self.shared["fingerprint"])


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    stack: str
    workload: str
    seed: int
    record_sha256: str
    plan_sha256: str
    record: dict[str, Any]

    @property
    def key(self) -> TrialKey:
        return TrialKey(self.stack, self.workload, self.seed)

    def reading(self, study: str, shared: Mapping[str, Any]) -> Reading:
        plain = {**shared, **self.record, "trial": Trial.of(study, self.key).model_dump(mode="json")}
        record = ResultRecord.model_validate_json(json.dumps(plain))
        return Reading(self.key, record, None, self.record_sha256, 1, 0, None)


@dataclass(frozen=True)
class Atlas:
    """The bundled study with the records of its trials, or of some of them, and the hashes of their plans."""

    study: Study
    origin: Origin
    readings: tuple[Reading, ...]
    plans: Mapping[TrialKey, str]

    def device(self, stack: str) -> Device:
        """The class of a stack's disks, which are all alike."""
        return self.study.devices[self.study.stacks[stack].all_devices[0]].device


def bundled_atlas() -> Atlas:
    folder = project_root() / "studies"
    first, *lines = (folder / "atlas.jsonl").read_text("utf-8").splitlines()
    study, origin = load_study(folder / "atlas.toml", catalogue()), Origin.model_validate_json(first)
    records = [_Line.model_validate_json(line) for line in lines]
    readings = tuple(each.reading(study.name, origin.shared) for each in records)
    return Atlas(study, origin, readings, {each.key: each.plan_sha256 for each in records})


@dataclass(frozen=True)
class AtlasAnswer:
    """An answer from the atlas, and how far it lies from the question.

    Attributes:
        device: The class that stands for the asked ``models``; the stacks have ``disks`` of it.
        measured: Of the ``cells`` that the advice looks at, the number with records.
        differences: Keys of the study, stacks and workloads as they were measured, and as they were asked.
        lacking: The asked stacks that have no like among the measured ones.
    """

    origin: Origin
    advice: Advice
    device: Device
    models: Mapping[str, int]
    disks: int
    measured: int
    cells: int
    differences: tuple[Difference, ...]
    lacking: tuple[str, ...]


def atlas_answer(asked: Study) -> AtlasAnswer | None:
    """Answer a study's question by the atlas; None if that has no such device, or too few records."""
    atlas = bundled_atlas()
    models = Counter(used.device.name for used in asked.devices.values())
    model, count = models.most_common(1)[0]
    own = next(each.device for each in asked.devices.values() if each.device.name == model)
    device, disks, stacks = nearest(atlas, own, count, survives="disk-loss" in asked.must)
    if device is None:
        return None
    results = _part(atlas, asked, stacks)
    advice = answer_of(results, None)
    if advice is None or not advice.standings:
        return None
    measured, wanted = results.snapshot, asked.describe()
    loads = tuple(dict.fromkeys(part.workload for part in advice.parts))
    naming = Naming(_alike(measured, wanted), dict(_same_loads(advice, loads, measured, wanted)))
    return AtlasAnswer(
        *(atlas.origin, advice, device, models, disks),
        measured=sum(bool(results.cells[stack, load].records) for stack in stacks for load in loads),
        cells=len(stacks) * len(loads),
        differences=tuple(filter(_is_said, study_differences(measured, wanted, naming))),
        lacking=tuple(name for name in asked.stacks if name not in naming.stacks.values()),
    )


def _part(atlas: Atlas, asked: Study, stacks: Sequence[str]) -> StudyResults:
    """The records of some stacks, as a study that asks what is asked."""
    described = atlas.study.describe()
    readings = tuple(each for each in atlas.readings if each.trial.stack in stacks)
    of_part = {
        "stacks": {name: described.stacks[name] for name in stacks},
        "use": asked.use,
        "must": asked.must,
        "matrix": Matrix(),
    }
    snapshot = StudySnapshot(
        **{name: getattr(described, name) for name in StudyRecord.model_fields} | of_part,
        trials={each.trial: each.record.spec_sha256 for each in readings if each.record is not None},
        time_domain="virtual",
        runner="lab",
    )
    return arranged(snapshot, readings)


def nearest(
    atlas: Atlas, own: Device, count: int, *, survives: bool = False
) -> tuple[Device | None, int, list[str]]:
    """The class of device nearest to one, and its stacks on at most this number of disks, the most.

    With ``survives`` only stacks that survive the loss of any disk.
    """
    classes = {stack: atlas.device(stack) for stack in atlas.study.stacks}
    alike = [each for each in classes.values() if each.kind == own.kind]
    if not alike:
        return None, 0, []
    found = min(alike, key=lambda each: (each.name != own.name, _distance(each, own)))
    stacks = [atlas.study.stacks[name] for name, each in classes.items() if each.name == found.name]
    if survives:
        stacks = [each for each in stacks if losses_survived(each, atlas.study.capacities_bytes)]
    sizes = {each.name: len(each.all_devices) for each in stacks}
    disks = max((size for size in sizes.values() if size <= count), default=0)
    return found, disks, [name for name, size in sizes.items() if size == disks]


def _distance(one: Device, other: Device) -> float:
    """How unlike two devices of a kind are, by the rates of their links and the safety of their caches."""
    apart = 0.0
    for name in {"link_rate", "power_loss_protection"} & one.parameters.keys() & other.parameters.keys():
        apart += abs(math.log1p(one.number(name)) - math.log1p(other.number(name)))
    return apart


def _alike(measured: StudyRecord, asked: StudyRecord) -> dict[str, str]:
    """The measured stacks that have the layers of an asked one, with the name of that."""

    def shape(stack: StackRecord) -> tuple[object, ...]:
        return tuple((each.layer, *map(each.keys.get, _ARRANGED)) for each in stack.layers)

    names = {shape(stack): name for name, stack in asked.stacks.items()}
    found = ((name, names.pop(shape(stack), None)) for name, stack in measured.stacks.items())
    return {name: of for name, of in found if of is not None}


def _same_loads(
    advice: Advice, loads: Sequence[str], measured: StudyRecord, asked: StudyRecord
) -> Iterator[tuple[str, str]]:
    """The measured workloads that count, each with the asked one that the same pattern fits."""
    for pattern in (each for weight in advice.use.weights for each in weight.fits):
        own = [name for name in loads if pattern.fits(measured.workloads[name].keys)]
        theirs = [name for name, load in asked.workloads.items() if pattern.fits(load.keys)]
        yield from zip(own[:1], theirs[:1], strict=False)


def _is_said(difference: Difference) -> bool:
    is_empty = {difference.first, difference.second} <= {None, "{}", "[]"}
    return (
        difference.area != "devices" and difference.name.rpartition(": ")[2] not in _UNSAID and not is_empty
    )
