# SPDX-License-Identifier: Apache-2.0
"""The sections of a report as blocks: answers, cells, warnings, stacks, capabilities, options."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from report_blocks import section, tables, texts, walked
from results_factory import good_log, make_study, metrics_of, plan_of, snapshot_of, store_trial

from made_results import made_results
from present import present
from strata.errors import ResultError
from strata.model.study_record import WorkloadRecord
from strata.model.warning import Check
from strata.report import cells
from strata.report.answer import overall, surety
from strata.report.data import raw_values
from strata.report.document import Document, Drawn
from strata.report.page import page_of, render
from strata.report.report import Report
from strata.report.sections import document
from strata.report.spans import plain
from strata.report.stack import stack_views, study_of
from strata.report.table import Table
from strata.report.templates import in_script
from strata.results.capabilities import Capabilities, Capability, ProbeTitle
from strata.results.declared import declared_study
from strata.results.store import ResultsFolder
from strata.statistics.study import StudyResults, gather

STEADY = Check(name="steady", verdict="yes", detail="its throughput does not drift")
UNSTEADY = STEADY.model_copy(update={"verdict": "no", "detail": "they differ by 45.0%"})
CACHED = Check(name="did-io-in-window", verdict="no", detail="not a byte of it reached a disk")
SMALL = Check(name="larger-than-memory", verdict="no", detail="64 MiB of data fit into 1 GiB", tenant="db")
LOSING = Check(name="durable-by-settings", verdict="no", detail="sync = disabled")
OWN = Check(name="no-transaction-failed", verdict="unknown", detail="its log is empty")


def results_of(path: Path, **made: Any) -> StudyResults:
    return gather(made_results(path / "results", **made))


def whole_answer(path: Path, **made: Any) -> list[str]:
    """The sentence for all workloads, and how sure it is."""
    answers = Report(results_of(path, **made)).answers
    return [plain(overall(answers)), *map(plain, surety(answers))]


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({"workloads": 2, "gains": {"btrfs": 20.0}}, "btrfs is the best under both workloads."),
        (
            {
                "workloads": 3,
                "gains": {"btrfs.mail": 20.0, "ext4.postgresql": 20.0, "ext4.files": 20.0},
            },
            "No stack is best everywhere: ext4 leads under postgresql and files; btrfs under mail.",
        ),
        (  # one stack alone was measured under mail, which does not make it a leader there
            {
                "workloads": 3,
                "gains": {"btrfs": 20.0},
                "missing": {f"{stack}.mail.s{seed}" for stack in ("xfs", "btrfs") for seed in (1, 2, 3, 4)},
            },
            "btrfs is the best under both workloads.",
        ),
    ],
)
def test_the_answer_to_all_says_who_leads_where(tmp_path: Path, made: dict[str, Any], sentence: str) -> None:
    assert whole_answer(tmp_path, stacks=3, seeds=4, **made)[0] == sentence


def oltp(path: Path, levels: dict[str, float], seeds: tuple[int, ...] = (1, 2, 3)) -> str:
    report = Report(gather(make_study(path / "results", levels, seeds)))
    found = next(each for each in report.answers if each.workload == "oltp")
    return " ".join(map(plain, (found.sentence, *found.qualified, *found.others)))


def test_how_sure_it_is_stands_beside_it(tmp_path: Path) -> None:
    clear = whole_answer(tmp_path / "a", stacks=3, workloads=2, seeds=4, gains={"btrfs": 20.0})
    few = whole_answer(tmp_path / "b", stacks=2, workloads=2, seeds=2)

    assert clear[1:] == [
        "Under postgresql the differences are clear: other seeds would hardly change who leads.",
        "Under mail the numbers are in doubt: a check says why.",
    ]
    assert few[1].startswith("Under postgresql and mail nothing can be said of how sure this is")


def test_a_workloads_answer_names_the_leader_and_by_how_much(tmp_path: Path) -> None:
    said = oltp(tmp_path / "a", {"a": 100.0, "b": 440.0})
    even = oltp(tmp_path / "b", {"a": 100.0, "b": 100.0, "c": 20.0})
    few = oltp(tmp_path / "c", {"a": 100.0, "b": 440.0}, (1, 2))
    many = Report(results_of(tmp_path, stacks=8, workloads=1, seeds=4, gains={"zfs": 20.0})).answers[0]

    assert re.match(
        r"b reaches 4\d\d transactions per second: 4\.\d × as many as a \(95 % interval 3\.\d to 5\.\d\)\.",
        said,
    )
    assert "b has the lowest latency, 99th percentile" in said
    assert even.startswith("a and b, even within ±3 %, reach 1")
    assert "as many as c" in even
    assert "no interval: fewer than three seeds" in few
    assert "nothing can be said of how sure this is" in few
    assert re.search(
        r"as many as xfs \(the next; .*\) and .* as many as btrfs \(the last of 7; [^)]*\)\.$",
        plain(many.sentence),
    )
    assert "ext4-thin" not in plain(many.sentence)


def cells_data(report: Report) -> dict[str, Any]:
    drawn = [block.html for block in present(section(report, "cells")).blocks if isinstance(block, Drawn)]
    script = present(re.search(r'id="cells-data">(.*?)</script>', "".join(drawn), re.DOTALL))
    found: dict[str, Any] = json.loads(script[1])
    return found


def test_cells_are_compared_with_the_chosen_stack(tmp_path: Path) -> None:
    report = Report(
        results_of(tmp_path, stacks=3, workloads=2, seeds=4, gains={"btrfs": 20.0}), reference="btrfs"
    )
    found = cells_data(report)
    (numbers,) = tables([present(section(report, "cells"))]).values()

    assert {row[6] for row in numbers.rows if row[0] != "btrfs"} == {"worse", "doubtful"}
    assert {row[5] for row in numbers.rows if row[0] == "btrfs"} == {"reference"}
    assert found["against"][found["references"].index("btrfs")][0][2] == 0
    assert None not in found["against"]


def test_a_large_study_carries_one_reference_and_says_how_to_choose_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "_COMPARISONS_MAX", 1)
    report = Report(results_of(tmp_path, stacks=3, workloads=2, seeds=4))

    assert [each is None for each in cells_data(report)["against"]] == [False, True, True]
    assert "strata report --reference NAME" in render(report)


def test_a_stack_that_is_not_there_cannot_be_the_reference(tmp_path: Path) -> None:
    folder = made_results(tmp_path / "results", stacks=2, workloads=1, seeds=1)

    with pytest.raises(ResultError, match="no stack") as raised:
        page_of(folder, "reiserfs")
    assert "there are: ext4, xfs" in str(raised.value)


def test_advice_is_given_on_the_uses_of_which_something_can_be_said(tmp_path: Path) -> None:
    report = Report.read(made_results(tmp_path / "a", stacks=3, workloads=2, seeds=6))
    silent = Report.read(made_results(tmp_path / "b", stacks=2, workloads=["random-mix"], seeds=3))
    advice = present(section(report, "advice"))

    assert "**choose xfs**" not in Document([advice]).markdown()
    assert "### PostgreSQL server: choose xfs" in Document([advice]).markdown()
    assert any(text.startswith("Too little was measured to say anything about ") for text in texts([advice]))
    assert section(silent, "advice") is None


def test_stacks_are_drawn_from_the_study_or_from_their_titles(tmp_path: Path) -> None:
    snapshot = results_of(tmp_path, stacks=["ext4-thin"], workloads=1, seeds=1).snapshot
    (drawn,) = stack_views(snapshot, study_of(snapshot))

    assert [level.name for level in drawn.levels] == ["ext4", "lvm-thin", "md"]
    assert [level.provides for level in drawn.levels] == ["filesystem", "block", "block"]
    assert "block device, 64 GiB" in drawn.levels[2].notes
    assert [disk.name for disk in drawn.disks] == ["disk0", "disk1", "disk2", "disk3"]

    recorded = '\n[workloads.recorded]\nworkload = "trace"\ntrace = "gone.iolog"\n'
    kept = snapshot.model_copy(update={"text": snapshot.text + recorded})
    study = present(study_of(kept))  # although a file of it is not there any more
    assert "recorded" in study.workloads
    assert [level.name for level in stack_views(kept, study)[0].levels] == ["ext4", "lvm-thin", "md"]
    with pytest.raises(ResultError, match=r"gone\.iolog"):
        declared_study(kept)

    unreadable = snapshot.model_copy(update={"text": "[study]\nname = 5"})
    (drawn,) = stack_views(unreadable, study_of(unreadable))
    titles = [(level.name, level.declared) for level in drawn.levels]
    assert titles == [("ext4", ""), ("lvm-thin", ""), ("md", "level 10")]
    assert [disk.name for disk in drawn.disks] == ["disk0", "disk1", "disk2", "disk3"]


def test_capabilities_are_a_matrix_with_notes(tmp_path: Path) -> None:
    found = Capabilities(
        study="made",
        probes=(ProbeTitle(name="snapshot", title="Snapshots", question="can it keep a state?"),),
        stacks={"ext4": "", "xfs": ""},
        cells=(
            Capability(stack="ext4", probe="snapshot", verdict="no", note="nothing below has them"),
            Capability(stack="xfs", probe="snapshot", verdict="yes", duration_ns=1_200_000_000),
        ),
    )
    report = Report(results_of(tmp_path, stacks=2, workloads=1, seeds=1), found)
    matrix = present(section(report, "capabilities"))
    (table,) = tables([matrix]).values()
    _, no, yes = table.rows[0]

    assert (no.value, no.tone, yes.value, yes.tone) == ("no", "bad", "yes", "good")
    assert yes.remark.startswith("1.2")
    assert "ext4, Snapshots: nothing below has them" in texts([matrix])


def test_a_page_carries_every_value_and_no_string_of_it_ends_the_script(tmp_path: Path) -> None:
    results = results_of(tmp_path, stacks=2, workloads=1, seeds=2, missing={"xfs.postgresql.s2"})
    raw = raw_values(results)
    rate = next(each for each in raw["workloads"][0]["metrics"] if each["metric"] == "transactions_per_s")

    series = results.cells["ext4", "postgresql"].series("transactions_per_s").values
    assert rate["values"][0] == [series[1], series[2]]
    assert rate["values"][1][1] is None
    script = in_script({"question": "</script><!-- & ü"})
    assert "<" not in script
    assert json.loads(script) == {"question": "</script><!-- & ü"}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> ResultsFolder:
    """ext4 is unsteady in one of two seeds, xfs is cached; both know of too little data."""
    stacks, seeds = {"ext4": 329.0, "xfs": 344.0}, (1, 2)
    snapshot = snapshot_of(stacks, seeds, ("oltp",))
    workloads = {"oltp": WorkloadRecord(rationale="A ledger.")}
    folder = ResultsFolder.create(
        tmp_path_factory.mktemp("warnings") / "results", snapshot.model_copy(update={"workloads": workloads})
    )
    for stack, level in stacks.items():
        for seed in seeds:
            plan = plan_of(stack, "oltp", seed)
            attempt = store_trial(folder, plan, metrics_of("oltp", level, seed), good_log(plan, level))
            steady = UNSTEADY if (stack, seed) == ("ext4", 2) else STEADY
            checks = (steady, SMALL, OWN, *([CACHED, LOSING] if stack == "xfs" else []))
            attempt.write_result(attempt.read_result().model_copy(update={"checks": checks}))
    return folder


def test_failed_checks_stand_beside_the_answer_and_the_numbers(checked: ResultsFolder) -> None:
    report = Report(gather(checked))
    answer, workload = (texts([present(section(report, name))]) for name in ("answer", "workload-oltp"))
    within = walked([present(section(report, "workload-oltp"))])
    found = [block for block in within if isinstance(block, Table)]
    heads = {tuple(column.title for column in table.columns): table for table in found}
    checks = heads["stack", "check", "answer", "why"]

    assert "Warning: not steady on ext4 (1 of 2 seeds)." in answer
    assert "Warning: cached: the measured window did not reach the disks on xfs." in answer
    assert not any(text.startswith("Warning: db") for text in answer)
    assert any("xfs (not durable when the power fails)" in text for text in answer)
    assert "A ledger." in workload
    assert any("ext4: not steady in 1 of 2 seeds: they differ by 45.0%" in text for text in workload)
    assert ("ext4", "was the steady state reached?", "yes 1, no 1") in {row[:3] for row in checks.rows}


def test_a_terminal_has_the_failed_checks_and_not_the_undecided_ones(checked: ResultsFolder) -> None:
    text = " ".join(str(document(Report(gather(checked)))).split())

    assert "ext4: not steady in 1 of 2 seeds: they differ by 45.0%" in text
    assert "xfs: cached: the measured window did not reach the disks" in text
    assert text.count("db: the data set fits into memory") == 1  # a warning of every stack is one line
    assert "no transaction failed" not in text
