# SPDX-License-Identifier: Apache-2.0
"""The lab's own processor time for a trial's measured phase: what the lab costs, on whatever machine."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from strata.machine.reading import Sampler
from strata.runners.base import Progress, Task
from strata.runners.lab import LabRunner
from strata.units import NS_PER_S

LAB_TIME_NAME: Final = "lab-time.json"


@dataclass
class LabTime:
    """Samples the processor time of our children's process groups: of one lab at a time."""

    samples: list[tuple[int, float]] = field(default_factory=list)  # virtual ns, processor s

    def sample(self, progress: Progress) -> None:
        if progress.phase != "measure":
            return
        processes = list(Sampler().processes())
        groups = {each.group for each in processes if each.parent == os.getpid()}
        used_s = sum(each.own_s + each.waited_s for each in processes if each.group in groups)
        self.samples.append((progress.trial_ns, used_s))

    @property
    def processor_s_per_virtual_s(self) -> float | None:
        """None if the measured phase was too short for two samples."""
        if not self.samples or self.samples[-1][0] == self.samples[0][0]:
            return None
        (first_ns, first_s), (last_ns, last_s) = self.samples[0], self.samples[-1]
        return (last_s - first_s) / ((last_ns - first_ns) / NS_PER_S)


class TimedLab(LabRunner):
    """A lab that leaves its own processor time, per virtual second, in each attempt's folder."""

    def run(self, task: Task) -> None:
        time = LabTime()

        def report(progress: Progress) -> None:
            time.sample(progress)
            task.report(progress)

        super().run(replace(task, report=report))
        (task.folder / LAB_TIME_NAME).write_text(json.dumps(time.processor_s_per_virtual_s))


def lab_time(attempt: Path) -> float | None:
    """The lab's processor seconds per virtual second, as a `TimedLab` left them."""
    file = attempt / LAB_TIME_NAME
    found: float | None = json.loads(file.read_text()) if file.exists() else None
    return found
