# SPDX-License-Identifier: Apache-2.0
"""The public cases: each study can judge its claim, and the page's kept judgements are of these claims."""

from __future__ import annotations

import json
from pathlib import Path

from strata.actions.claims import claims_of_study
from strata.reading.claims import SUFFIX

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "studies/cases"
NAMES = sorted(each.name.removesuffix(SUFFIX) for each in CASES.glob(f"*{SUFFIX}"))
KEPT = {
    each["case"]: each
    for each in map(json.loads, (ROOT / "docs/published/cases.jsonl").read_text().splitlines())
}


def test_each_case_can_be_judged_and_is_kept_as_its_claim_has_it() -> None:
    """A figure outside of the expected range is never kept as reproduced, nor one within as anything else."""
    assert sorted(KEPT) == NAMES
    wrong = []
    for name in NAMES:
        [judged] = claims_of_study(CASES / f"{name}.toml", None, 1.0).judged
        kept = KEPT[name]
        if judged.verdict != "testable" or (judged.claim.claim, judged.claim.source) != (
            kept["claim"],
            kept["source"],
        ):
            wrong.append(f"{name}: {judged.verdict}, {judged.why}")
        expected = {
            (each.stack, each.against, each.expectation.metric): each.expectation for each in judged.findings
        }
        for found in kept["found"]:
            of = expected[found["stack"], found["against"], found["metric"]]
            ends = of.ratio or of.value
            inside = ends is None or ends[0] <= found["level"] <= ends[1]
            if found["verdict"] == "reproduced" and not inside and found["interval"] is None:
                wrong.append(f"{name}: {found} is reproduced, where {ends} was expected")
            if inside and found["verdict"] == "reversed":
                wrong.append(f"{name}: {found} is reversed, where {ends} was expected")
    assert not wrong
