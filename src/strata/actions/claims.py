# SPDX-License-Identifier: Apache-2.0
"""Claims read with their study or their results, and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from strata.bundled import project_root
from strata.diagnostics.names import require_known
from strata.errors import ResultError, StudyError
from strata.experiment.experiment import Experiment
from strata.experiment.strategies.anchor import Anchor, Anchored, references
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.compile import skipped
from strata.reading.claims import SUFFIX, ClaimsFile, ClaimSubject, read_claims, subject_of
from strata.reading.load import load_study
from strata.report.findings import what_if_sentence
from strata.results.findings import findings_of
from strata.results.record import StudySnapshot
from strata.results.store import ResultsFolder
from strata.statistics.anchored import anchored
from strata.statistics.claims import Judgement, judge, results_subject, testable
from strata.statistics.levels import LevelFinding, beside
from strata.statistics.study import StudyResults, gather

BAD_VERDICT_EXIT: Final = 1


@dataclass(frozen=True)
class ReadClaims:
    """Judged claims, with the study or the results that they are of; ``stated``: the file's content."""

    judged: list[Judgement]
    name: str
    question: str
    subject: ClaimSubject
    source: Study | StudyResults
    file: Path
    stated: ClaimsFile
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def levels(self) -> list[LevelFinding]:
        """The published levels with the measured values; none of a study without results."""
        if not isinstance(self.source, StudyResults):
            return []
        return beside(self.stated.levels, self.source, self.subject)


def claims_of_study(file: Path, given: Path | None, scale: float) -> ReadClaims:
    study = load_study(file, catalogue())
    subject = subject_of(study, skipped(study), scale)
    claims_file = given or _existing(file.with_suffix(SUFFIX), str(file))
    stated = read_claims(claims_file, subject)
    judged = testable(stated.claims, subject)
    return ReadClaims(judged, study.name, study.question, subject, study, claims_file, stated)


def claims_of_results(path: Path, given: Path | None) -> ReadClaims:
    folder = ResultsFolder.open(path)
    results = gather(folder)
    snapshot = results.snapshot
    file = given or _existing(_beside(snapshot), str(path))
    subject = results_subject(results, catalogue().workloads)
    stated = read_claims(file, subject)
    judged = judge(stated.claims, results, subject, stated.levels)
    drawn = findings_of(folder, "anchor").items()
    anchors = {name: anchored(each) for name, each in drawn if any(bed.verdict for bed in each.tried)}
    judged = [replace(each, anchored=anchors.get(each.claim.id)) for each in judged]
    reasons = {name: what_if_sentence(each) for name, each in findings_of(folder, "what-if").items()}
    return ReadClaims(judged, snapshot.name, snapshot.question, subject, results, file, stated, reasons)


def anchor(
    read: ReadClaims, experiment: Experiment, judged: Sequence[Judgement], beds: int, seeds: int
) -> bool:
    """Judge claims on the test beds that meet their published levels; whether all was tried.

    Raises ResultError if none of the claims has a level, or the file states no unknown part.
    """
    assert isinstance(read.source, StudyResults)
    levels = {each.claim.id: references(each, read.stated.levels) for each in judged}
    if not read.stated.unknowns or not any(levels.values()):
        cause = "the claims file states no [[unknowns]] or no [[levels]] of a stack that is compared with"
        raise ResultError(cause, place="--anchor", remedy="add them from the source of the claims")
    whole, asked = True, [each for each in judged if levels[each.claim.id]]
    for left, each in zip(range(len(asked), 0, -1), asked, strict=True):
        if experiment.interrupted:
            break
        common = read.source, read.subject
        anchored_at = Anchor(levels[each.claim.id], read.stated.unknowns, *common, beds)
        # Half is for the judging: beds that meet the level decide nothing by themselves.
        drawn = experiment.answer(anchored_at, 1 / (2 * left))
        question = Anchored(each, *common, None, seeds, read.stated.levels, beds=drawn)
        whole = experiment.answer(question, 1 / (2 * left - 1)).whole and whole
    return whole


def _beside(snapshot: StudySnapshot) -> Path:
    """The claims of the study, whose file the results name without its folder: here, or in ``studies/``."""
    here = Path(Path(snapshot.file or "study.toml").name).with_suffix(SUFFIX)
    below = [
        each for root in (Path(), project_root()) for each in sorted((root / "studies").rglob(here.name))
    ]
    return here if here.is_file() or not below else below[0]


def _existing(file: Path, place: str) -> Path:
    if not file.is_file():
        raise StudyError(
            f"there is no claims file {file}", place=place, remedy="write it, or name one with --claims FILE"
        )
    return file


def chosen_claims(judged: list[Judgement], ids: Sequence[str], place: str) -> list[Judgement]:
    require_known("claim", ids, [each.claim.id for each in judged], place)
    return [each for each in judged if not ids or each.claim.id in ids]
