# SPDX-License-Identifier: Apache-2.0
"""The answer to what a study asks (`use`, `must`): every view begins with it, and agrees with it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from advice_studies import advice_on, around, capabilities, study, use, weight
from command_line import shown, shown_json
from made_results import made_results
from strata.advice.asked import advise_on_all, answer_of
from strata.advice.model import Advice
from strata.report.advice_text import headline, lead
from strata.report.data import cells_table
from strata.report.table import objects
from strata.results.capabilities import PowerCutFinding
from strata.results.findings import write_capabilities
from strata.results.record import StudySnapshot
from strata.results.store import ResultsFolder
from strata.serve.app import application
from strata.statistics.study import StudyResults, gather
from study_texts import mistakes

# ext4 is the fastest and does not survive the loss of a disk; xfs is much better than btrfs.
GAINS = {"ext4": 12.0, "xfs": 8.0, "btrfs": 1.0}
CAN = capabilities(ext4="disk-loss:no snapshot", xfs="disk-loss snapshot:no", btrfs="disk-loss snapshot")


def asking(results: StudyResults, **asked: object) -> StudyResults:
    return replace(results, snapshot=StudySnapshot.model_validate(results.snapshot.model_dump() | asked))


def of(*, risks: Mapping[str, str] | None = None, **asked: object) -> StudyResults:
    values = {
        stack: {"postgresql": around(100 * gain), "mail": around(50 * gain)} for stack, gain in GAINS.items()
    }
    return asking(study(values, risks=risks), **asked)


def folder_of(path: Path, **asked: object) -> Path:
    """A results folder of a study that asks this, with what the stacks can do."""
    folder = made_results(path / "results", stacks=3, workloads=2, seeds=6, gains=GAINS)
    known = json.loads(folder.study_path.read_text())
    folder.study_path.write_text(json.dumps(known | asked))
    titles = {name: stack["title"] for name, stack in known["stacks"].items()}
    write_capabilities(folder, CAN.model_copy(update={"study": known["name"], "stacks": titles}))
    return folder.path


def views(folder: Path) -> dict[str, str]:
    """All that each view says, as its commands print or write it."""
    shown("report", folder)
    shown("export", folder, "--format", "markdown", "--format", "json", "--format", "csv")
    client = TestClient(application([folder]), base_url="http://localhost")
    found = {
        "report": (folder / "report.html").read_text(),
        "serve, report": client.get("/study/results/report").text,
        "serve": client.get("/study/results/results").text,
        "show": shown("show", folder, width=2000),
        "show --json": shown_json("show", folder)["lead"],
        "advise": shown("advise", folder, width=2000),
        "advise --markdown": shown("advise", folder, "--markdown"),
        "advise --json": shown_json("advise", folder)["advices"][0]["lead"],
        "export": (folder / "export" / "report.md").read_text(),
        "study.json": json.loads((folder / "export" / "study.json").read_text())["lead"],
    }
    return {
        view: of_page(text) if view.startswith(("report", "serve")) else text for view, text in found.items()
    }


def of_page(text: str) -> str:
    """The text of a page from its answer on, without the elements."""
    begins = text.find('id="answer-title"')
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text[begins:] if begins >= 0 else text)).split())


@pytest.mark.parametrize(
    "asked",
    [{"use": "postgresql-server", "must": ["disk-loss"]}, {"must": ["disk-loss"]}],
    ids=["use", "requirement alone"],
)
def test_every_view_begins_with_the_answer_and_names_no_stack_that_is_ruled_out_without_the_reason(
    asked: dict[str, object], tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, **asked)

    said = views(folder)

    answer = answer_of(gather(ResultsFolder.open(folder)), CAN)
    assert answer is not None
    assert (answer.leaders, [*answer.ruled_out]) == (("xfs",), ["ext4"])
    first = lead(answer)
    assert first.startswith(f"{answer.use.title}, with survival of a lost disk")
    assert ": choose xfs. Ruled out: ext4 (without survival of a lost disk)." in first
    for view, text in said.items():
        begins = text.find(first)
        assert begins >= 0, (view, text[:500])
        assert not re.search("ext4|xfs|btrfs", text[:begins]), view
    for view in ("report", "serve, report"):
        best = "ext4 (ruled out: without survival of a lost disk) is the best under both workloads"
        assert best in said[view]
    assert "**ext4** (ruled out: without survival of a lost disk) is the best" in said["export"]
    for table in re.findall(r"  ext4 .*best *\n.*\n", said["show"]):
        assert "ruled out: without survival of a lost disk" in table


def test_tables_of_data_have_the_reason_in_the_row_of_the_stack() -> None:
    results = of(must=("disk-loss",))

    rows = objects(cells_table(results, asked=answer_of(results, CAN)))

    reason = "ruled out: without survival of a lost disk"
    assert {row["stack"]: row["ruled_out"] for row in rows} == {"ext4": reason, "xfs": None, "btrfs": None}


def test_what_the_study_requires_holds_for_every_use_and_its_own_comes_first() -> None:
    results = of(use="mail-server", must=("disk-loss",))

    found = advise_on_all(results, CAN)

    assert found[0].use.name == "mail-server"
    assert [each.use.is_asked for each in found] == [True, *[False] * (len(found) - 1)]
    assert all("disk-loss" in each.use.required for each in found)
    assert all("ext4" not in each.candidates for each in found)


def test_durable_rules_out_by_the_settings_that_give_it_away() -> None:
    results = of(risks={"ext4": "pgbench: fsync = off"}, must=("durable",))

    answer = answer_of(results, None)

    assert answer is not None
    assert "choose xfs" in lead(answer)
    assert "ext4 (not power-fail safe: pgbench: fsync = off)" in lead(answer)


def apart(database: tuple[float, float], files: tuple[float, float], spread: float) -> Advice:
    """Two stacks, whose database scatters against one another's."""
    one, other = around(database[0], spread), around(database[1], spread)[::-1]
    values = {
        "one": {"postgresql": one, "files": around(files[0])},
        "other": {"postgresql": other, "files": around(files[1])},
    }
    return advice_on(study(values), use(weight("database", 90), weight("files", 10)))


def test_what_power_cuts_did_to_the_choice_is_said_with_it() -> None:
    for lost, said in ((0, "xfs: 2 power cuts lost none of 140"), (7, "xfs is not power-fail safe")):
        cuts = tuple(
            PowerCutFinding(
                stack="xfs", workload="postgresql", seed=number, number=number, at_ns=5, verdict="sound",
                acknowledged=70, lost=lost,
            )
            for number in (1, 2)
        )  # fmt: skip
        answer = answer_of(of(must=("disk-loss",)), CAN.model_copy(update={"cuts": cuts}))
        assert answer is not None
        assert said in lead(answer)


def test_leads_under_single_workloads_are_said_the_widest_of_each_stack() -> None:
    tie, each_better, none = (
        apart(*rates) for rates in (((100, 101), (600, 100), 0.4), ((100, 130), (600, 100), 0.01),
                                    ((100, 110), (100, 101), 0.4))
    )  # fmt: skip

    assert (tie.conclusion, none.conclusion) == ("undecided", "undecided")
    [lead_of_files] = tie.apart
    assert (lead_of_files.comparison.baseline, lead_of_files.comparison.stack) == ("one", "other")
    assert "one is better in files (6.0 ×" in headline(tie)
    ratio = lead_of_files.comparison.ratio
    narrow = replace(lead_of_files.comparison, ratio=replace(ratio, ratio=ratio.ratio * 3))
    both = replace(tie, apart=(replace(lead_of_files, comparison=narrow), lead_of_files))
    assert headline(both) == headline(tie)
    assert "other is better in postgresql (1.30 × as good as one)" in headline(each_better)
    assert headline(none) == "undecided between other and one"


def test_questions_that_nobody_can_answer_are_mistakes_of_the_study(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "studies" / "quickstart.toml").read_text()
    for line, place in (
        ('use = "mail-servers"', "study.use"),
        ('must = ["flying"]', "study.must[0]"),
        ('must = "durable"', "study.must"),
    ):
        assert place in mistakes(tmp_path, text.replace("[study]\n", f"[study]\n{line}\n"))
