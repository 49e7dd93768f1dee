# SPDX-License-Identifier: Apache-2.0
"""Results of studies in memory, with the figures that a test gives them, and uses to advise on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from made_results import made_record
from strata.advice.advise import advise
from strata.advice.model import Advice
from strata.advice.uses import Need, Use, Weight, WorkloadPattern
from strata.model.metric import Better, Metric
from strata.model.study_record import StackRecord, WorkloadRecord
from strata.model.survival import VARIANTS
from strata.model.warning import DURABLE, Check
from strata.plan.model import Trial
from strata.report.advice_text import headline, reasons
from strata.results.capabilities import Capabilities, Capability, ProbeTitle, Verdict
from strata.results.record import ResultRecord, StudySnapshot, TimeDomain
from strata.statistics.study import CellResults, StudyResults

# The workloads of the tests, by name; any other name is a pgbench.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "mail": {"workload": "load", "personality": "varmail"},
    "files": {"workload": "load", "personality": "fileserver"},
}
Values = Mapping[str, Mapping[str, Sequence[float]]]
"""By stack and workload the metric's values, of seeds from 1 on."""


def study(
    values: Values,
    *,
    better: Better = "higher",
    unit: str = "1/s",
    metric: str = "operations_per_s",
    seeds: int | None = None,
    time_domain: TimeDomain = "virtual",
    reference: str | None = None,
    risks: Mapping[str, str] | None = None,
) -> StudyResults:
    """A study with one headline metric.

    Args:
        values: A list shorter than the longest is a cell with fewer seeds, an empty one one without results.
        better: The metric's direction.
        unit: The metric's.
        metric: The metric's name.
        seeds: How many the study declares; as many as the longest list.
        time_domain: Virtual or wall.
        reference: The study's reference; the first stack.
        risks: The settings by which stacks give durability away; without it no result says anything of it.
    """
    workloads = list(dict.fromkeys(name for each in values.values() for name in each))
    count = seeds or max(len(each) for by_workload in values.values() for each in by_workload.values())
    cells = {}
    for stack, by_workload in values.items():
        for workload in workloads:
            records = {}
            for seed, value in enumerate(by_workload.get(workload, ()), start=1):
                trial = Trial(
                    study="decided",
                    stack=stack,
                    workload=workload,
                    seed=seed,
                    id=f"{stack}.{workload}.s{seed}",
                )
                records[seed] = _record().model_copy(
                    update={
                        "trial": trial,
                        "metrics": (_headline(metric, value, unit, better),),
                        "histograms": {},
                        "time_domain": time_domain,
                        "checks": () if risks is None else (durable(risks.get(stack, "")),),
                    }
                )
            cells[stack, workload] = CellResults(stack, workload, records)
    return StudyResults(_snapshot([*values], workloads, count, time_domain, reference), (), cells)


def _snapshot(
    stacks: Sequence[str], workloads: Sequence[str], seeds: int, domain: TimeDomain, reference: str | None
) -> StudySnapshot:
    return StudySnapshot(
        name="decided",
        question="Which stack?",
        stacks={name: StackRecord(title=name) for name in stacks},
        workloads={name: declared_workload(name, workloads) for name in workloads},
        seeds=tuple(range(1, seeds + 1)),
        trials={},
        time_domain=domain,
        runner="lab",
        reference=reference,
        file="decided.toml",
    )


def declared_workload(name: str, known: Sequence[str]) -> WorkloadRecord:
    base, _, variant = name.rpartition("-")
    lost = {str(each): interventions for each, interventions in VARIANTS.items()}.get(variant)
    keys = dict(KINDS.get(base if lost else name, {"workload": "pgbench"}))
    return WorkloadRecord(
        workload=str(keys["workload"]),
        title=name,
        keys={**keys, "before_measure": lost} if lost else keys,
        loses_disk=bool(lost),
        variants={each: f"{name}-{each}" for each in VARIANTS if f"{name}-{each}" in known},
    )


def _headline(name: str, value: float, unit: str, better: Better) -> Metric:
    found = Metric(name=name, value=value, unit=unit, better=better, headline=True)
    if not name.endswith("_p99"):
        return found
    return found.model_copy(update={"family": name.removesuffix("_p99"), "quantile": 0.99})


def durable(risks: str) -> Check:
    """The check of whether a setting gives durability away."""
    return Check(name=DURABLE, verdict="no" if risks else "yes", detail=risks or "no setting gives it away")


@cache
def _record() -> ResultRecord:
    """The part that all records share."""
    return made_record(
        Trial(study="decided", stack="ext4", workload="postgresql", seed=1, id="ext4.postgresql.s1")
    )


def weight(name: str, points: float, **metrics: float) -> Weight:
    """A weight that is measured by the workload of that name in ``KINDS``, or by any pgbench."""
    declared = dict(KINDS.get(name, {"workload": "pgbench"}))
    wanted = {key: (value,) for key, value in declared.items() if key != "workload"}
    pattern = WorkloadPattern(declared["workload"], declared, wanted)
    return Weight(name, points, (pattern,), metrics or {"headline": 1}, f"what {name} stands for")


def use(*weights: Weight, needs: Sequence[Need] = ()) -> Use:
    """A use with these weights."""
    return Use("test-server", "Test server", "It is tested.", "an estimate", weights, tuple(needs))


def capabilities(**by_stack: str) -> Capabilities:
    """Capabilities of stacks: ``ext4="snapshot disk-loss:no quota:partial"``; the default verdict is yes."""
    names = sorted({word.partition(":")[0] for words in by_stack.values() for word in words.split()})
    cells = []
    for stack, words in by_stack.items():
        for word in words.split():
            name, _, verdict = word.partition(":")
            found: Verdict = verdict if verdict in ("no", "partial", "failed") else "yes"  # type: ignore[assignment]
            cells.append(Capability(stack=stack, probe=name, verdict=found))
    return Capabilities(
        study="decided",
        probes=tuple(ProbeTitle(name=name, title=name.capitalize()) for name in names),
        stacks=dict.fromkeys(by_stack, ""),
        cells=tuple(cells),
    )


def around(level: float, spread: float = 0.01, n: int = 6) -> list[float]:
    """Values around a level whose geometric mean it is, if their number is even."""
    return [level * (1 + spread) ** (1 if index % 2 else -1) for index in range(n)]


DATABASE = use(weight("database", 1))


def advice_on(results: StudyResults, on: Use = DATABASE, can: Capabilities | None = None) -> Advice:
    [found] = advise(results, [on], can)
    return found


def kinds(advice: Advice) -> list[str]:
    return [each.kind for each in advice.settling]


def said_of(advice: Advice) -> str:
    """All that an advice says, as one text."""
    return " ".join([f"{headline(advice)}.", *(text for _, text in reasons(advice))])
