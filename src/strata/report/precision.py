# SPDX-License-Identifier: Apache-2.0
"""Seeds added for a study's precision, and cells that have not reached it, in words."""

from __future__ import annotations

from collections.abc import Sequence

from strata.results.snapshot import StudySnapshot
from strata.units import percent
from strata.words import listed


def declared_seeds(study: StudySnapshot) -> tuple[int, ...]:
    """The seeds of every workload, without the ones added for a precision."""
    added = {seed for seeds in study.added_seeds.values() for seed in seeds}
    return tuple(seed for seed in study.seeds if seed not in added)


def added_words(study: StudySnapshot) -> str:
    """The seeds added to each workload; empty where none were."""
    under: dict[tuple[int, ...], list[str]] = {}
    for workload, seeds in study.added_seeds.items():
        under.setdefault(tuple(seeds), []).append(workload)
    under.pop((), None)
    if not under:
        return ""
    shown = [
        f"{'seeds' if len(seeds) > 1 else 'seed'} {seeds_words(seeds)} under {listed(workloads)}"
        for seeds, workloads in under.items()
    ]
    asked = _asked(study)
    return f"Added for {f'a precision of {asked}' if asked else 'precision'}: {'; '.join(shown)}."


def not_converged_words(study: StudySnapshot) -> str:
    """The cells that are less precise than the study asks for; empty if none is."""
    if not study.not_converged:
        return ""
    asked = _asked(study)
    shown = []
    under: dict[str, list[str]] = {}
    for (stack, workload), width in study.not_converged.items():
        reached = "no interval" if width is None else f"±{percent(width)}"
        under.setdefault(workload, []).append(f"{stack} ({reached})")
    for workload, widths in under.items():
        shown.append(f"{listed(widths)} under {workload} after {len(study.seeds_of(workload))} seeds")
    wanted = f" to {asked}" if asked else ""
    return (
        f"Not converged{wanted}: {'; '.join(shown)}. That is half of the 95 % interval of the ratio to the "
        "best stack. Raise study.seeds_max or study.precision, or lengthen the measured window."
    )


def precision_notes(study: StudySnapshot) -> list[str]:
    """Both, without empty ones."""
    return [said for said in (added_words(study), not_converged_words(study)) if said]


def seeds_words(seeds: Sequence[int]) -> str:
    """Seeds, consecutive ones as a range: ``1 to 6, 9``."""
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    shown = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(shown)


def _asked(study: StudySnapshot) -> str:
    """The precision that the study asks for; empty where study.json does not say it."""
    precision = study.described.get("precision")
    return f"±{percent(precision)}" if isinstance(precision, float) else ""
