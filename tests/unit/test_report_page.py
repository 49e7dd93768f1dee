# SPDX-License-Identifier: Apache-2.0
"""The page's text beside its charts: the answer to all workloads, cells, stacks, advice, options, data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from made_results import made_results
from strata.errors import ResultError
from strata.report import heat_map
from strata.report.answer import answer, overall
from strata.report.data import raw_values
from strata.report.heat_map import cells_view
from strata.report.origin import options
from strata.report.page import page_of, render
from strata.report.stack import stack_views, study_of
from strata.report.templates import in_script
from strata.report.wording import coded
from strata.results.capabilities import Capabilities, Capability, ProbeTitle
from strata.results.declared import declared_study
from strata.statistics.study import StudyResults, gather


def results_of(path: Path, **made: Any) -> StudyResults:
    return gather(made_results(path / "results", **made))


def all_in_one(results: StudyResults) -> str:
    return str(overall([answer(results, workload, Markup) for workload in results.workloads], Markup))


def test_one_stack_that_leads_everywhere_is_the_answer(tmp_path: Path) -> None:
    said = all_in_one(results_of(tmp_path, stacks=3, workloads=2, seeds=4, gains={"btrfs": 20}))

    assert said == "btrfs is the best under both workloads."


def test_stacks_that_lead_in_different_places_are_named_with_them(tmp_path: Path) -> None:
    gains = {"btrfs.mail": 20.0, "ext4.postgresql": 20.0, "ext4.files": 20.0}
    said = all_in_one(results_of(tmp_path, stacks=3, workloads=3, seeds=4, gains=gains))

    assert said == (
        "No stack is best everywhere: ext4 leads, or equals the leader, under <em>postgresql</em> and "
        "<em>files</em>; btrfs under <em>mail</em>."
    )


def test_a_workload_that_one_stack_was_measured_under_does_not_make_it_a_leader(tmp_path: Path) -> None:
    alone = {f"{stack}.mail.s{seed}" for stack in ("xfs", "btrfs") for seed in (1, 2, 3, 4)}
    said = all_in_one(
        results_of(tmp_path, stacks=3, workloads=3, seeds=4, gains={"btrfs": 20.0}, missing=alone)
    )

    assert said == "btrfs is the best under both workloads."


def test_an_answer_from_two_seeds_says_that_it_is_unsure(tmp_path: Path) -> None:
    assert "fewer than three seeds" in all_in_one(results_of(tmp_path, stacks=2, workloads=2, seeds=2))


def test_the_answer_names_the_next_and_the_last_of_many_stacks_behind_the_leader(tmp_path: Path) -> None:
    results = results_of(tmp_path, stacks=8, workloads=1, seeds=4, gains={"zfs": 20.0})
    said = answer(results, "postgresql", Markup).sentence

    assert re.search(
        r"as many as xfs \(the next; .*\) and .* as many as btrfs \(the last of 7; [^)]*\)\.$", said
    )
    assert "ext4-thin" not in said


def test_cells_are_compared_with_the_chosen_stack(tmp_path: Path) -> None:
    results = results_of(tmp_path, stacks=3, workloads=2, seeds=4, gains={"btrfs": 20.0})
    view = cells_view(results, "btrfs")

    assert view is not None
    assert [cell.text for cell in view.rows[0][2]][2] == "1"
    assert {cell.verdict for *_, row in view.rows for cell in row[:2]} == {"worse", "doubtful"}
    assert view.data["against"][view.choices.index("btrfs")][0][2] == 0
    assert view.has_all


def test_a_large_study_carries_one_reference_and_says_how_to_choose_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heat_map, "_COMPARISONS_MAX", 1)
    results = results_of(tmp_path, stacks=3, workloads=2, seeds=4)
    view = cells_view(results)

    assert view is not None
    assert [each is None for each in view.data["against"]] == [False, True, True]
    assert "strata report --reference NAME" in render(results)


def test_a_stack_that_is_not_there_cannot_be_the_reference(tmp_path: Path) -> None:
    folder = made_results(tmp_path / "results", stacks=2, workloads=1, seeds=1)

    with pytest.raises(ResultError, match="no stack") as raised:
        page_of(folder, "reiserfs")
    assert "there are: ext4, xfs" in str(raised.value)


def test_a_page_has_the_advice_of_the_uses_that_something_can_be_said_of(tmp_path: Path) -> None:
    page = page_of(made_results(tmp_path / "results", stacks=3, workloads=2, seeds=6))

    assert "Which stack for which use" in page
    assert "Choose xfs" in page
    assert "Too little was measured to say anything of" in page


def test_a_page_without_a_covered_use_gives_no_advice(tmp_path: Path) -> None:
    folder = made_results(tmp_path / "results", stacks=2, workloads=["random-mix"], seeds=3)

    assert "Which stack for which use" not in page_of(folder)


def test_stacks_are_drawn_from_the_study_file_with_what_each_layer_gives(tmp_path: Path) -> None:
    snapshot = results_of(tmp_path, stacks=["ext4-thin"], workloads=1, seeds=1).snapshot
    (drawn,) = stack_views(snapshot, study_of(snapshot))

    assert [level.name for level in drawn.levels] == ["ext4", "lvm-thin", "md"]
    assert [level.provides for level in drawn.levels] == ["filesystem", "block", "block"]
    assert "block device, 64 GiB" in drawn.levels[2].notes
    assert [disk.name for disk in drawn.disks] == ["disk0", "disk1", "disk2", "disk3"]


def test_stacks_are_drawn_from_a_study_whose_files_are_not_there_any_more(tmp_path: Path) -> None:
    snapshot = results_of(tmp_path, stacks=["ext4-thin"], workloads=1, seeds=1).snapshot
    recorded = '\n[workloads.recorded]\nworkload = "trace"\ntrace = "gone.iolog"\n'
    kept = snapshot.model_copy(update={"text": snapshot.text + recorded})
    study = study_of(kept)

    assert study is not None
    assert "recorded" in study.workloads
    assert [level.name for level in stack_views(kept, study)[0].levels] == ["ext4", "lvm-thin", "md"]
    with pytest.raises(ResultError, match=r"gone\.iolog"):
        declared_study(kept)


def test_stacks_are_drawn_from_their_titles_where_the_study_file_cannot_be_read(tmp_path: Path) -> None:
    snapshot = results_of(tmp_path, stacks=["ext4-thin"], workloads=1, seeds=1).snapshot
    changed = snapshot.model_copy(update={"text": "[study]\nname = 5"})
    (drawn,) = stack_views(changed, study_of(changed))

    assert [(level.name, level.declared) for level in drawn.levels] == [
        ("ext4", ""),
        ("lvm-thin", ""),
        ("md", "level 10"),
    ]
    assert [disk.name for disk in drawn.disks] == ["4 x wd-re4-500gb"]


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
    page = render(results_of(tmp_path, stacks=2, workloads=1, seeds=1), found)

    assert 'class="text is-bad" data-stack="ext4">no<' in page
    assert 'class="text is-good" data-stack="xfs">yes<small>1.2' in page
    assert "Snapshots: nothing below has them" in page


def test_every_option_is_a_line() -> None:
    described = {"study": {"seeds": [1, 2]}, "stacks": {"a": {"layers": [{"layer": "xfs", "cow": False}]}}}

    assert options(described) == [
        ("study.seeds", "1, 2"),
        ("stacks.a.layers[0].layer", "xfs"),
        ("stacks.a.layers[0].cow", "false"),
    ]


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


def test_what_stands_between_backticks_is_code_and_nothing_else_is_markup() -> None:
    assert coded("run `strata <x>` & see") == "run <code>strata &lt;x&gt;</code> &amp; see"
