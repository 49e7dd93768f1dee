# SPDX-License-Identifier: Apache-2.0
"""The published comparisons: sound studies with all their claims, and nothing is tuned to please them."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from command_line import shown, shown_json
from strata.plan.catalogue import catalogue
from strata.plan.compile import skipped
from strata.reading.claims import SUFFIX, Claim, read_claims, subject_of
from strata.reading.load import load_study

ROOT = Path(__file__).resolve().parents[2]
STUDIES = sorted(
    each for each in (ROOT / "studies/published").glob("*.toml") if not each.name.endswith(SUFFIX)
)
# As the sources have them; the snapshot page's last one is a question of its readers.
CLAIMS = {"kvm": 16, "lxd": 8, "raid": 29, "snapshot": 10, "vps": 8}
PRICED = [*(ROOT / "devices").glob("*.toml"), *(ROOT / "cpus").glob("*.toml")]


def claims_of(study: Path) -> list[Claim]:
    read = load_study(study, catalogue())
    return read_claims(study.with_suffix(SUFFIX), subject_of(read, skipped(read), 1.0)).claims


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.stem)
def test_every_claim_is_data_and_has_its_source(study: Path) -> None:
    claims = claims_of(study)

    assert len(claims) == CLAIMS[study.stem]
    assert all(each.id.startswith(f"{study.stem}.") for each in claims)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.stem)
def test_a_claim_that_the_study_skips_says_so_in_its_file(study: Path) -> None:
    found = shown_json("claims", study)["claims"]

    stated = {each.id for each in claims_of(study) if each.untestable}
    assert {each["claim"]["id"] for each in found if each["verdict"] == "not testable"} == stated
    skipped_pairs = [pair["why"] for each in found for pair in each["findings"] if pair["why"]]
    assert skipped_pairs == []


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.stem)
def test_every_suspect_of_a_claim_is_a_change_that_the_study_can_have(study: Path) -> None:
    read = load_study(study, catalogue())

    for each in claims_of(study):
        for suspect in each.suspect:
            varied = load_study(study, catalogue(), changes=dict.fromkeys(suspect.key, suspect.value))
            assert varied.describe() != read.describe(), each.id


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.stem)
def test_a_tenth_of_it_is_sound_and_says_what_it_can_no_longer_judge(study: Path) -> None:
    assert "no mistakes" in shown("check", study, "--scale", "10%")
    full, tenth = (shown_json("claims", study, *words)["claims"] for words in ((), ("--scale", "10%")))

    lost = {
        each["claim"]["id"]
        for each in tenth
        if any(pair["verdict"] == "not testable" for pair in each["findings"])
    }
    values = {
        each["claim"]["id"] for each in full if any(pair["against"] is None for pair in each["findings"])
    }
    assert values <= lost


def test_no_device_and_no_processor_cites_a_comparison() -> None:
    ids = {each.id for each in chain.from_iterable(map(claims_of, STUDIES))}
    citing = re.compile("|".join(map(re.escape, [*ids, SUFFIX, "studies/", "published comparison"])))

    found = {each.name: match[0] for each in PRICED if (match := citing.search(each.read_text()))}

    assert found == {}, (
        "parameters come from a machine's own sources, never from the claims that it should bear out"
    )
