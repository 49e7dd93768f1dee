# SPDX-License-Identifier: Apache-2.0
"""study.json: the study as the last `strata run` into a results folder saw it."""

from __future__ import annotations

from typing import Final, Literal

from strata.results.record import Frozen, Sha256, TimeDomain

# History of study.json.
# 1 - (strata 0.1) first version
STUDY_VERSION: Final = 1


class Choice(Frozen):
    """A stack or a workload: its name in the study, and what it is in one line for a reader."""

    name: str
    title: str = ""


class StudySnapshot(Frozen):
    """What a table or a report needs to know of a study beside its results.

    Attributes:
        stacks: In the study's order; so are the workloads.
        trials: Every trial's id with its ``spec_sha256``; a result with another one is out of date.
        time_domain: A folder holds results of one domain; virtual and wall time are never pooled.
        text: The study file's text.
        file: The study file's name, without its folder.
        command: The command of that run as it was typed, for whoever looks into the folder. No report shows
            it, because it may hold paths of the machine.
    """

    study_version: Literal[1] = STUDY_VERSION
    name: str
    question: str
    stacks: tuple[Choice, ...]
    workloads: tuple[Choice, ...]
    seeds: tuple[int, ...]
    trials: dict[str, Sha256]
    time_domain: TimeDomain
    runner: str
    text: str = ""
    file: str = ""
    command: str = ""
