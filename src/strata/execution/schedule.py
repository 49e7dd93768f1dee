# SPDX-License-Identifier: Apache-2.0
"""The trials to be run: all of a study without a valid result of the same specification."""

from __future__ import annotations

import fnmatch
import functools
import pickle
import zlib
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from strata.errors import RunError
from strata.model.study import Study
from strata.model.study_record import StudyRecord
from strata.model.trial import CellKey, TrialKey
from strata.model.warning import UNDISTURBED
from strata.plan.aspects.restart import first_boot_sha256
from strata.plan.compile import compile_trial, runnable_trials, skipped, spec_sha256, trials
from strata.plan.model import Plan, canonical_json, sha256_hex
from strata.results.record import Fingerprint, ResultRecord, StudySnapshot
from strata.results.records import Store
from strata.rules.untouched import untouched
from strata.runners.base import Identity, Runner

RETRIES: Final = 2
"""The most times that a disturbed trial is measured again. A judgement: after three disturbed attempts the
machine is busy, and a fourth would not be better."""


@dataclass(frozen=True)
class PlannedTrial:
    """A trial with its plan, which is kept packed: a study may have a hundred thousand trials."""

    key: TrialKey
    spec_sha256: str
    packed: bytes

    @classmethod
    def of(cls, plan: Plan, spec_sha256: str) -> PlannedTrial:
        return cls(plan.trial.key, spec_sha256, zlib.compress(pickle.dumps(plan), 1))

    @property
    def plan(self) -> Plan:
        return _unpacked(self.packed)


@functools.lru_cache(maxsize=64)
def _unpacked(packed: bytes) -> Plan:
    plan: Plan = pickle.loads(zlib.decompress(packed))  # noqa: S301  packed above
    return plan


@dataclass(frozen=True)
class Schedule:
    study: Study  # with its added seeds
    snapshot: StudySnapshot  # for study.json; it has all trials, also those not chosen for this run
    to_run: tuple[PlannedTrial, ...]  # in the order to run them
    kept: tuple[TrialKey, ...]  # the trials that have their result already
    skipped: Mapping[CellKey, str]  # the cells that cannot be run here, with the reason
    # The number of disturbed attempts at each trial that is to be run.
    disturbed: Mapping[TrialKey, int] = field(default_factory=dict)


def plan_study(
    study: Study,
    runner: Runner,
    chosen: Container[TrialKey] | None = None,
    known: dict[TrialKey, PlannedTrial] | None = None,
) -> tuple[list[PlannedTrial], dict[CellKey, str]]:
    """Compile a study for a runner, which provides the inputs of the ``chosen`` trials.

    ``known`` holds the trials compiled by earlier calls with fewer seeds, and takes up the new ones.

    Returns:
        Every trial, in the order to run them; and the cells that cannot be run, with the reason.
    """
    left_out = skipped(study)
    planned: list[PlannedTrial] = []
    known = {} if known is None else known
    for trial in trials(study):
        key = trial.key
        if key.cell in left_out:  # the runner refused an earlier seed of it
            continue
        if key in known:
            planned.append(known[key])
            continue
        plan = compile_trial(study, *trial.key)
        if runner.time_domain == "wall":  # its computing costs what it costs, whatever the study's prices
            plan = plan.model_copy(update={"processor": ()})
        unmet = runner.unmet(plan)
        if not unmet and (chosen is None or key in chosen):
            runner.provide(plan, study.inputs.values())
            unmet = runner.unmet(plan)  # a kernel of virtual machines says what it lacks once it is there
        if unmet:
            left_out[key.cell] = unmet
            continue
        own = study.of(trial.stack)
        devices = own.drawn_devices(trial.stack, trial.seed)
        setting = dict(runner.setting(plan, devices))
        if setting and not own.trace:
            setting["trace"] = False  # a result without a trace does not serve a trial that needs one
        known[key] = PlannedTrial.of(plan, _identity(study, plan, setting))
        planned.append(known[key])
    return planned, left_out


def _identity(study: Study, plan: Plan, setting: Mapping[str, Any]) -> str:
    """The hash that a trial's result must state: of its specification and the runner's settings for it."""
    specified = spec_sha256(study, plan)
    if not setting:
        return specified
    return sha256_hex(canonical_json({"specification": specified, "setting": dict(setting)}))


@dataclass(frozen=True)
class ChosenTrials:
    """The trials of a run, and of these searches every probe that they come to; ``part``: of a shard's."""

    only: str | None
    keys: frozenset[TrialKey]
    part: frozenset[TrialKey] | None = None

    def __contains__(self, key: object) -> bool:
        if key in self.keys:
            return True
        if not isinstance(key, TrialKey) or key.rate is None or not _matches(key, self.only):
            return False
        return self.part is None or key.search in self.part


def _matches(key: TrialKey, only: str | None) -> bool:
    """Whether the id of a trial, or that of the search that it is a probe of, matches a glob."""
    return only is None or any(fnmatch.fnmatchcase(str(each), only) for each in {key, key.search})


class Shard(NamedTuple):
    """Part ``number``, from 1 on, of the ``parts`` into which the trials of a study are divided."""

    number: int
    parts: int

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"

    def of(self, study: Study) -> frozenset[TrialKey]:
        """Its trials, and searches in place of their probes.

        Trials that share prepared disks stay together, and so do blocks on a host, where stacks meet the same
        disturbances. The division is a function of the study alone.
        """
        groups: dict[object, list[TrialKey]] = {}
        for trial in runnable_trials(study):
            group: object = (trial.workload, trial.seed) if study.is_on_host else trial.key.search
            if study.prepare == "once":
                group = first_boot_sha256(compile_trial(study, *trial.key)) or group
            groups.setdefault(group, []).append(trial.key.search)
        mine = list(groups.values())[self.number - 1 :: self.parts]
        return frozenset(key for group in mine for key in group)


def chosen_trials(study: Study, only: str | None, shard: Shard | None = None) -> ChosenTrials:
    """The trials whose ids match the glob ``only``, all for None; of these the ones in a shard.

    Raises PlanError if the study has no trial that can be run, and RunError if none matches.
    """
    keys = [trial.key for trial in runnable_trials(study)]
    part = None if shard is None else shard.of(study)
    matching = frozenset(key for key in keys if _matches(key, only))
    if part is None or not matching:
        chosen = ChosenTrials(only, matching)
    else:
        chosen = ChosenTrials(only, frozenset(key for key in matching if key.search in part), part)
    if not chosen.keys and matching:
        remedy = f"{len(matching)} trials match; give fewer parts"
        raise RunError(f"part {shard} has no trial", place="--shard", remedy=remedy)
    if not chosen.keys:
        for cell, why in skipped(study).items():
            if is_chosen(study, cell, only):
                raise RunError(f"{cell} cannot be run: {why}", place="--trial")
        raise RunError(
            f'no trial matches "{only}"',
            place="--trial",
            remedy=f'an id is STACK.WORKLOAD.sSEED, such as "{keys[0]}"; * stands for anything',
        )
    return chosen


def disturbance_of(record: ResultRecord) -> str | None:
    """The disturbances of a valid trial, with figures."""
    if not record.validity.valid:
        return None
    denied = (each for each in record.checks if (each.name, each.verdict) == (UNDISTURBED, "no"))
    return next((each.detail for each in denied), None)


def disturbed_attempts(store: Store, trial: PlannedTrial, fingerprint: Fingerprint) -> int:
    """The number of disturbed attempts at a trial, of this specification and on this machine."""
    records = store.records(trial.spec_sha256, fingerprint)
    return sum(disturbance_of(each) is not None for each in records)


def is_chosen(study: Study, cell: CellKey, only: str | None) -> bool:
    """Whether a combination would have trials that match the glob ``only``, if it could be run."""
    keys = (TrialKey(*cell, seed) for seed in study.seeds_of(cell.workload))
    return only is None or any(fnmatch.fnmatchcase(str(each), only) for each in keys)


def fingerprint_of(identity: Identity) -> Fingerprint:
    return Fingerprint(**{name: getattr(identity, name) for name in Fingerprint.model_fields})


def snapshot_of(
    study: Study,
    planned: list[PlannedTrial],
    left_out: Mapping[CellKey, str],
    runner: Runner,
    command: str,
) -> StudySnapshot:
    described = study.describe()
    return StudySnapshot(
        **{name: getattr(described, name) for name in StudyRecord.model_fields}
        | {"seeds": max((study.seeds_of(workload) for workload in study.workloads), key=len)},
        added_seeds=dict(study.added_seeds),
        trials={each.key: each.spec_sha256 for each in planned},
        skipped=dict(left_out),
        time_domain=runner.time_domain,
        runner=runner.name,
        text=study.text,
        file=study.file.name,
        command=command,
        untouched=untouched(study),
    )
