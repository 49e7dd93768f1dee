# SPDX-License-Identifier: Apache-2.0
"""Ageing a filesystem before its workload prepares: it is filled, and its files are replaced again and again.

A new filesystem lays everything out in one piece, which none in use does for long (Smith and Seltzer, File
System Aging, SIGMETRICS 1997). Files are created by several threads at once, so that they grow into one
another; others are deleted between them, so that free space lies in pieces; some are appended to, and changed
in place. Only its duration is measured. It is the same on every stack of the same capacity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from strata.model.design import Age
from strata.model.metric import Metric
from strata.model.page_cache import dropped, synced
from strata.model.step import LOAD_USER, Purpose, Step
from strata.model.warning import AGED, Check
from strata.plan.aspects.aged_snapshots import taken
from strata.plan.aspects.aspect import Aspect, CarriedOut, Combination, outputs_for
from strata.plan.placement import Placement
from strata.rules.fit import capacity_bytes
from strata.seeds import derive_seed
from strata.units import NS_PER_S, format_duration, format_share, format_size
from strata.workloads.generator.output import PROGRAM, load_result

FOLDER: Final = "aged"  # the folder of the files that age it, in what the workload runs on

_THREADS: Final = 8
# The load generator counts the files that may exist; the others are room for new ones.
_EXISTING_PERCENT: Final = 90
_PIECE_PARTS: Final = 4  # the largest append or change in place is this part of a file
# Files are created smaller than they are to be, since appends make them longer: as measured, by a seventh.
_CREATED_SHARE: Final = 7 / 8
# Limits against hanging; slow disks stay below them.
_SLACK_NS: Final = 600 * NS_PER_S
_BYTES_PER_S_MIN: Final = 1 << 20
_WINDOW_MS: Final = 1_000_000_000
_PICKS: Final = ("delete", "create", "open")


class Ageing(Aspect):
    """``study.age``: only its duration is measured."""

    def unmet(self, combination: Combination) -> str | None:
        if combination.study.age is None or combination.here.ages:
            return None
        return "the study ages filesystems (study.age), and the stack ends in a block device"

    def prepared(self, combination: Combination, placement: Placement) -> list[Step]:
        study = combination.study
        held_bytes = capacity_bytes(combination.here, study.capacities_bytes, combination.load)
        if study.age is None or held_bytes is None:
            return []
        return _steps(study.age, placement, held_bytes)

    def metrics(self, trial: CarriedOut) -> Iterator[Metric]:
        """The time that ageing took, part by part."""
        took_ns: dict[tuple[str, str | None], int] = {}
        for step in trial.plan.steps_for("age-fill", "age-churn", "age-sync"):
            if step.purpose is not None and step.id in trial.outputs.steps:
                part = step.purpose.what.replace("-", "_"), step.purpose.tenant
                took_ns[part] = took_ns.get(part, 0) + trial.outputs.steps[step.id].duration_ns
        for (what, tenant), part_ns in took_ns.items():
            metric = Metric(
                name=f"{what}_ns", value=float(part_ns), unit="ns", better="lower", phase="prepare"
            )
            yield metric.of_tenant(tenant)

    def checks(self, trial: CarriedOut, placement: Placement) -> Iterator[Check]:
        """Whether a filesystem was aged as the study asks, and how."""
        done = outputs_for(trial, placement.tenant, "age-fill", "age-churn")
        if not done:
            return
        parts = [load_result(trial.outputs, step_id, None) for step_id in done]
        result = parts[-1]
        files = sum(folder["files_existing"] for folder in result["sets"])
        held_bytes = sum(folder["bytes"] for folder in result["sets"])
        detail = f"{files:,} files hold {format_size(held_bytes)}"
        ended = next((part["ended_early"] for part in parts if part.get("ended_early")), None)
        if len(parts) > 1:
            replaced = sum(part["by_operation"].get("create", {"count": 0})["count"] for part in parts[1:])
            detail += f" after {replaced:,} were deleted and as many written anew"
        detail += f", in {format_duration(sum(each.duration_ns for each in done.values()))}"
        if ended is not None:
            detail += f"; it ended early: {ended['detail']}"
        yield Check(name=AGED, verdict="yes" if ended is None else "no", detail=detail, required=True)


def _steps(age: Age, placement: Placement, capacity_bytes: int) -> list[Step]:
    files = age.files(capacity_bytes)
    personality = _personality(files, age.file_bytes)
    filled_bytes = age.filled_bytes(capacity_bytes)
    title = f"Age it: fill {format_share(age.fill)} of it with files"
    steps = placement.of_load([_step(placement, personality, "age-fill", title, filled_bytes, "prepare")])
    passes, parts = round(age.overwrites * files / _THREADS), max(1, age.snapshots)
    title = f"Age it: replace its files, {age.overwrites:g} times as much as they hold"
    moved_bytes = int(age.overwrites * filled_bytes)
    for number in range(1, parts + 1) if passes else ():
        # As whole passes as near as can be to equal parts.
        part = passes * number // parts - passes * (number - 1) // parts
        churn = ("run", f"--passes={part}", f"--duration-ms={_WINDOW_MS}", f"--interval-ms={_WINDOW_MS}")
        words = ("--purpose=age", "--pass-over-open")
        step = _step(placement, personality, "age-churn", title, moved_bytes, *churn, *words)
        if age.snapshots:
            numbered = {"id": f"{step.id}-{number}", "title": f"{title}: part {number} of {parts}"}
            step = step.model_copy(update=numbered)
        steps += placement.of_load([step])
        if age.snapshots:
            steps += taken(placement, number)
    name, whose = _named(placement, "age-sync"), Purpose(what="age-sync", tenant=placement.tenant)
    settled = synced(None, name, "prepare", "Write back the dirty data of ageing")
    forgotten = dropped(None, _named(placement, "age-forget"), "prepare")
    return [*steps, *placement.of_load([settled.model_copy(update={"purpose": whose}), forgotten])]


def _step(
    placement: Placement,
    personality: str,
    part: Literal["age-fill", "age-churn"],
    title: str,
    moved_bytes: int,
    *action: str,
) -> Step:
    whose = f"age-{placement.tenant}" if placement.tenant is not None else "age"
    return Step(
        id=_named(placement, part),
        phase="prepare",
        title=title,
        argv=(
            PROGRAM,
            *action,
            "--personality=-",
            f"--directory={placement.target}",
            f"--state=${{scratch}}/{whose}.state",
            f"--seed={derive_seed(placement.seed, *filter(None, [placement.tenant]), 'age') >> 33}",
        ),
        stdin=personality,
        purpose=Purpose(what=part, tenant=placement.tenant),
        user=LOAD_USER,
        cwd="${scratch}",
        time_limit_ns=_SLACK_NS + moved_bytes // _BYTES_PER_S_MIN * NS_PER_S,
    )


def _personality(files: int, file_bytes: int) -> str:
    """Files that are deleted, created, appended to and changed, in the load generator's own language.

    The generator takes files in rotation, for whatever it does. Since each pass takes three existing ones, of
    which it deletes the first, deleted files do not lie side by side.
    """
    piece_bytes = max(file_bytes // _PIECE_PARTS, 1)
    operations = (
        ("delete", ""),
        ("create", "fd = 1"),
        ("write_whole", f"fd = 1, bytes = {piece_bytes}"),
        ("close", "fd = 1"),
        ("open", "fd = 1"),
        ("append_random", f"fd = 1, bytes = {piece_bytes}"),
        ("close", "fd = 1"),
        ("open", "fd = 1"),
        ("write_random", f"fd = 1, bytes = {piece_bytes}"),
        ("close", "fd = 1"),
    )
    of_set = f'set = "{FOLDER}"'
    loop = "".join(
        f'    {{ op = "{name}", {", ".join(filter(None, (of_set if name in _PICKS else "", rest)))} }},\n'
        for name, rest in operations
    )
    return (
        f'name = "age"\n\n[[sets]]\nname = "{FOLDER}"\nfiles = {files * 100 // _EXISTING_PERCENT}\n'
        f"file_bytes = {int(file_bytes * _CREATED_SHARE)}\nfile_shape = 1.5\n"
        "directory_width = 20\ndirectory_shape = 1.5\n"
        f"preallocated_percent = {_EXISTING_PERCENT}\n\n"
        f'[[groups]]\nname = "age"\nthreads = {_THREADS}\nloop = [\n{loop}]\n'
    )


def _named(placement: Placement, part: str) -> str:
    return "-".join(filter(None, (placement.tenant, part)))
