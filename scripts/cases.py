# SPDX-License-Identifier: Apache-2.0
"""Keep what results say of the public cases, for docs/published/cases.md.

strata run studies/cases/raid10-far.toml --results /tmp/cases/raid10-far    # and so on
.venv/bin/python scripts/cases.py /tmp/cases
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from strata.actions.claims import claims_of_results, claims_of_study
from strata.reading.claims import SUFFIX
from strata.statistics.claims import ClaimFinding, Judgement

ROOT: Final = Path(__file__).resolve().parents[1]
STUDIES: Final = ROOT / "studies/cases"
KEPT: Final = ROOT / "docs/published/cases.jsonl"


def judged(name: str, results: Path) -> dict[str, Any]:
    """The judgement of a case's claim: of its results, or of its study if it was not run."""
    claims, study = STUDIES / f"{name}{SUFFIX}", STUDIES / f"{name}.toml"
    was_run = (results / "study.json").exists()
    read = claims_of_results(results, claims) if was_run else claims_of_study(study, claims, 1.0)
    [found] = read.judged
    return _record(name, found, "" if was_run else "not run")


def _record(name: str, found: Judgement, verdict: str) -> dict[str, Any]:
    return {
        "case": name,
        "claim": found.claim.claim,
        "source": found.claim.source,
        "verdict": verdict or found.verdict,
        "found": [_finding(each) for each in found.findings if each.level is not None],
        "tried": [each.model_dump() for each in found.claim.tried],
    }


def _finding(each: ClaimFinding) -> dict[str, Any]:
    ends = each.interval and [each.interval.low, each.interval.high]
    names = {"metric": each.expectation.metric, "stack": each.stack, "against": each.against}
    return {**names, "level": each.level, "unit": each.unit, "interval": ends, "verdict": each.verdict}


if __name__ == "__main__":
    names = sorted(each.name.removesuffix(SUFFIX) for each in STUDIES.glob(f"*{SUFFIX}"))
    lines = [json.dumps(judged(name, Path(sys.argv[1]) / name), ensure_ascii=False) for name in names]
    KEPT.write_text("\n".join(lines) + "\n")
