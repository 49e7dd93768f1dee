# SPDX-License-Identifier: Apache-2.0
"""The page of a study with claims, made by ``strata claims --page`` of fake results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest
from varied_studies import TEXT, measured, planted

from command_line import refusal, shown, shown_json
from record_hashes import forget, hashes
from strata.cli.claims import FailOnVerdict
from strata.report.findings import what_if_sentence
from strata.results.findings import Finding, Tried
from strata.statistics.claims import Verdict

CLAIMS = """
[[claims]]
id = "oltp.twice"
claim = "ext4 commits twice as many transactions as XFS"
source = "a test"
expect = [
    { workload = "oltp", metric = "transactions_per_s", stack = "ext4", against = "xfs", ratio = [1.9, 2.1] },
]
suspect = [{ key = "workloads.oltp.clients", value = 40, why = "the page does not say how many" }]

[[claims]]
id = "oltp.third"
claim = "XFS commits a third of the transactions"
source = "a test"
expect = [
    { workload = "oltp", metric = "transactions_per_s", stack = "xfs", against = "*", ratio = [0.3, 0.34] },
]

[[claims]]
id = "oltp.bsd"
claim = "UFS is faster <b>still</b>"
source = "a test"
untestable = "the lab has no FreeBSD"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    measured(tmp_path, planted(lambda stack, values: 5.0 if stack == "ext4" else 10.0), TEXT)
    (tmp_path / "my.claims.toml").write_text(CLAIMS)
    return tmp_path


def page(folder: Path, *words: object) -> str:
    """The page of the results, with a part of its own for each claim."""
    claims = ("claims", folder / "results", "--claims", folder / "my.claims.toml")
    shown(*claims, *words, "--page", folder / "page.md")
    return (folder / "page.md").read_text()


def test_a_page_has_question_verdicts_figures_stacks_and_cost(folder: Path) -> None:
    text = page(folder)

    assert text.startswith("# Which?\n")
    assert "**It is so:**\n\n- ext4 commits twice as many transactions as XFS (`oltp.twice`).\n" in text
    so, half = text.split("**The direction is right, the size differs:**")
    assert "`oltp.third`); 0.50 ×" in half
    assert "`oltp.third`" not in so
    assert "the lab has no FreeBSD" in half
    assert "| **oltp.twice** (" in text
    assert "xfs\n└── xfs" in text
    assert "6 of 6 trials are valid" in text
    assert "<b>" not in text


def test_claims_about_trials_that_were_not_run_stand_apart(folder: Path) -> None:
    trials = hashes(folder / "results")
    forget(
        folder / "results", *(each for each in trials if each.startswith("xfs.oltp.") or each.endswith(".s3"))
    )

    text = page(folder)

    assert "at its full size, with 2 seeds." in text
    assert "do not decide" not in text
    named, _, claims = text.partition("**Not measured:**\n\n")[2].partition("\n\n")
    assert named == (
        "- ext4 commits twice as many transactions as XFS (`oltp.twice`).\n"
        "- XFS commits a third of the transactions (`oltp.third`)."
    )
    assert "xfs.oltp: not run yet" in claims


def test_a_value_of_what_was_not_run_has_its_declared_unit(folder: Path) -> None:
    file = folder / "my.claims.toml"
    expected = 'metric = "transactions_per_s", stack = "xfs", against = "*", ratio = [0.3, 0.34]'
    value = 'metric = "latency_ns_max", stack = "xfs", value = [10e9, inf]'
    file.write_text(CLAIMS.replace(expected, value))
    forget(folder / "results", *hashes(folder / "results"))

    assert "| 10.0 s at least (latency, maximum, oltp) |" in page(folder)


def test_a_page_does_not_hide_a_verdict_that_fails_the_command(folder: Path) -> None:
    file = folder / "my.claims.toml"
    file.write_text(CLAIMS.replace("[1.9, 2.1]", "[0.4, 0.6]"))
    words = ("claims", folder / "results", "--claims", file, "--page", folder / "page.md")

    shown(*words, "--fail-on", "undecided")
    shown(*words, "--fail-on", "reversed", exit_code=1)

    assert (folder / "page.md").is_file()
    failing = {each.value.replace("-", " ") for each in FailOnVerdict}
    assert failing == {*get_args(Verdict)} - {"reproduced", "direction only", "not testable", "testable"}


def test_its_chart_has_the_measured_and_the_published_ratios(folder: Path) -> None:
    text = page(folder)

    alternative = text.split("![")[1].split("]")[0]
    assert "oltp.twice, ext4 1.98 × (1.94 to 2.03), published 1.90 to 2.10" in alternative
    assert "](page.svg)" in text
    drawn = ElementTree.parse(folder / "page.svg").getroot()
    bands = [each for each in drawn.iter("{http://www.w3.org/2000/svg}rect") if each.get("fill-opacity")]
    assert len(bands) == 1 + 2  # of the legend, and of each claim with a range


def test_reasons_that_were_found_and_a_remark_stand_in_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = planted(lambda stack, values: 3.0 if stack == "ext4" and values["clients"] == 40 else 10.0)
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *words, **options: runner)
    file = folder / "my.claims.toml"
    suspect = 'suspect = [{ key = "workloads.oltp.clients", value = 40, why = "it may be" }]\n'
    file.write_text(CLAIMS.replace("[0.3, 0.34] },\n]\n", f"[0.3, 0.34] }},\n]\n{suspect}"))
    shown("claims", folder / "results", "--claims", file, "--what-if", "oltp.third", "--jobs", 1)
    (folder / "my.remark.md").write_text("The machine was *never* named.\n")

    text = page(folder)

    assert "\nThe machine was *never* named.\n" in text
    assert "direction only → reproduced with workloads.oltp.clients = 40" in text


def test_a_page_says_what_was_tried_for_a_claim_that_did_not_come_out_and_which_have_no_level(
    folder: Path,
) -> None:
    file = folder / "my.claims.toml"
    tried = (
        'tried = [{ what = "Linux 6.12", outcome = "the same" }, { what = "nobarrier", outcome = "0.9 ×" }]'
    )
    reversed_ = CLAIMS.replace("[1.9, 2.1]", "[0.4, 0.6]").replace("[0.3, 0.34]", "[1.5, 2]")
    file.write_text(reversed_.replace('source = "a test"', f'source = "a test"\n{tried}', 1))

    text = page(folder)
    [first, *_] = shown_json("claims", folder / "results", "--claims", file)["claims"]

    assert [each["outcome"] for each in first["claim"]["tried"]] == ["the same", "0.9 ×"]
    listed = text.partition("## What was tried\n\n")[2].partition("\n\n")[0].splitlines()
    assert listed == [
        "- `oltp.twice`: Linux 6.12: the same; nobarrier: 0.9 ×.",
        "- `oltp.third`: nothing yet.",
    ]
    assert "No published level of the stacks that 2 claims of 3 compare with" in text
    level = '[[levels]]\nworkload = "oltp"\nmetric = "transactions_per_s"\nunit = "1/s"\nsource = "t"\n'
    file.write_text(f'{CLAIMS}{level}stack = "*"\nvalue = [1, 500]\n')
    assert "No published level" not in page(folder)


def test_a_page_of_a_study_without_results_is_refused(folder: Path) -> None:
    (folder / "my.toml").write_text(TEXT)

    assert "no verdicts" in str(refusal("claims", folder / "my.toml", "--page", folder / "page.md"))
    words = ("claims", folder / "results", "--claims", folder / "my.claims.toml", "--page", "page.html")
    assert "page.md" in (refusal(*words).remedy or "")


def test_variations_without_effect_are_counted() -> None:
    tried = [Tried(name=name, changes={}, why="", verdict="reversed") for name in ("as measured", "a", "b")]
    for count, said in ((1, "the one variation tried"), (2, "none of 2 variations")):
        assert said in what_if_sentence(Finding(kind="what-if", subject="a", tried=tuple(tried[: count + 1])))


def test_the_index_of_the_published_pages_counts_their_verdicts_before_and_after_anchoring() -> None:
    pages = Path("docs/published")
    head, _, *rows = re.findall(r"^\| .* \|$|^\|-.*", (pages / "index.md").read_text().split("##")[0], re.M)
    names = [each.lower() for each in head.strip("| ").split(" | ")[3:]]
    table = [each.strip("| ").split(" | ") for each in rows]
    counts = {(study.strip("`"), which): [int(each) for each in counted] for study, which, *counted in table}

    for which in ("as it is", "at the published level"):
        of_all = counts.pop(("all", which))
        mine = {study: each for (study, when), each in counts.items() if when == which}
        assert of_all == [sum(each) for each in zip(*mine.values(), strict=True)]
        for study, (total, *of_study) in mine.items():
            page = (pages / f"{study}.md").read_text()
            final, before = re.findall(r"^Of \d+ claims: (.*?)\.(?: By .* as it is: (.*)\.)?$", page, re.M)[0]
            sentence = (which == "as it is" and before) or final
            found = [re.search(rf"(\d+) {name}\b", sentence) for name in names]
            assert [total, *of_study] == [sum(of_study), *(int(each[1]) if each else 0 for each in found)]
