# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import pytest
from results_factory import (
    STACKS,
    EventLog,
    S,
    make_study,
    plan_of,
    snapshot_of,
    store_trial,
)

from present import present
from strata.errors import ResultError
from strata.model.metric import Metric
from strata.model.trial import TrialKey
from strata.report.page import render
from strata.report.palette import GAINS, GRID, INK, MUTED, ON_GAINS, ON_PARTS, PAPER, PARTS
from strata.report.palette import STACKS as STACK_COLOURS
from strata.report.report import Report
from strata.report.sections import document, facts
from strata.report.wording import covered_words
from strata.results.store import ResultsFolder
from strata.statistics.study import StudyResults, gather


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyResults:
    return gather(make_study(tmp_path_factory.mktemp("report") / "results"))


@pytest.fixture(scope="module")
def page(study: StudyResults) -> str:
    return render(Report(study))


class Outline(HTMLParser):
    """The files that a page loads, and whether its elements are closed."""

    void: ClassVar = {"meta", "link", "br", "hr", "img", "input"}

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.images: list[str | None] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.loads += [str(attributes[key]) for key in ("src", "srcset", "data", "href") if key in attributes]
        if attributes.get("role") == "img":
            self.images.append(attributes.get("aria-label"))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_report_loads_nothing(page: str) -> None:
    outline = Outline(page)

    assert [load for load in outline.loads if not load.startswith("#")] == []
    assert re.search(r"https?://|@import|url\(", page) is None
    assert outline.open == []


def test_a_report_is_the_same_bytes_for_the_same_results(study: StudyResults, page: str) -> None:
    assert render(Report(study)) == page


def test_real_time_does_not_enter_a_report_in_virtual_time(tmp_path: Path, page: str) -> None:
    folder = make_study(tmp_path / "results")
    for reading in folder.readings():
        later = present(reading.record).real_time.model_copy(
            update={"duration_s": 1.0, "started_at": "2031-05-05"}
        )
        present(reading.attempt).write_result(present(reading.record).model_copy(update={"real_time": later}))

    assert render(Report(gather(folder))) == page


def test_the_command_as_it_was_typed_does_not_enter_a_report(study: StudyResults, page: str) -> None:
    typed = "strata run /home/ada/studies/quickstart.toml --results /home/ada/results"
    elsewhere = study.snapshot.model_copy(update={"command": typed})

    assert render(Report(dataclasses.replace(study, snapshot=elsewhere))) == page


def test_every_colour_of_the_charts_can_turn_dark(page: str) -> None:
    charts = " ".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL))

    for colour in set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]+)"', charts)):
        assert f'svg [fill="{colour}"]' in page


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_colours_stand_out_from_their_ground(ground: str) -> None:
    # WCAG 2.2: 4.5 : 1 for text, 3 : 1 for graphics. Grid lines may be faint.
    paper = getattr(PAPER, ground)

    assert _contrast(getattr(INK, ground), paper) > 7
    assert _contrast(getattr(MUTED, ground), paper) > 4.5
    assert _contrast(getattr(GRID, ground), paper) < 2
    for part, colour in PARTS.items():
        assert _contrast(getattr(ON_PARTS[part], ground), getattr(colour, ground)) > 4, part
    for colour in STACK_COLOURS:
        assert _contrast(getattr(colour, ground), paper) > 3, colour
    for colour, ink in zip(GAINS, ON_GAINS, strict=True):
        assert _contrast(getattr(ink, ground), getattr(colour, ground)) > 4.5, colour


def test_trials_that_do_not_count_are_named_with_the_reason(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "results")
    folder.attempts(TrialKey("btrfs", "oltp", 1))[0].result_path.write_text("{")
    plan = plan_of("xfs", "oltp", 3)
    folder.attempts(plan.trial.key)[0].result_path.unlink()
    log = EventLog(plan)
    log.step("mkfs", S, "failed", stderr="<boom> & bust")
    log.finish("failed", failed_step="mkfs")
    store_trial(folder, plan, [], log)

    page = render(Report(gather(folder)))

    assert "16 of 18 trials are valid" in page
    assert "<strong>btrfs.oltp.s1</strong>: not JSON" in page
    assert "&lt;boom&gt; &amp; bust" in page
    Outline(page)


def test_a_study_without_a_valid_result_has_no_report(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="no valid result to report"):
        render(Report(gather(ResultsFolder.create(tmp_path / "results", snapshot_of(STACKS, (1,))))))


def test_a_report_in_wall_time_says_so_and_names_the_machine(tmp_path: Path) -> None:
    wall = {"time_domain": "wall", "runner": "host"}
    virtual = make_study(tmp_path / "virtual")
    folder = ResultsFolder.create(tmp_path / "wall", virtual.study().model_copy(update=wall))
    for reading in virtual.readings():
        folder.store.begin(present(reading.record).spec_sha256).write_result(
            present(reading.record).model_copy(update={**wall, "disks": {}})
        )

    page = render(Report(gather(folder)))

    assert "Measured in wall time" in page
    assert "test machine" in page
    assert "Computing is free" not in page
    assert "byte for byte" not in page


def test_the_methods_say_what_an_interval_covers() -> None:
    drawn = snapshot_of(STACKS, (1,))
    fixed = drawn.model_copy(update={"drives": "exact", "phases": "fixed"})

    for named in ("other phases", "other drives"):
        assert named in covered_words(drawn)
        assert named not in covered_words(fixed)


def test_a_report_of_nothing_yet_says_so(tmp_path: Path) -> None:
    snapshot = make_study(tmp_path / "made").study()
    for time_domain, runner in (("virtual", "lab"), ("wall", "host")):
        begun = snapshot.model_copy(update={"time_domain": time_domain, "runner": runner})
        folder = ResultsFolder.create(tmp_path / time_domain, begun)

        report = Report(gather(folder))

        assert facts(report).endswith("Nothing is measured yet.")
        assert document(report).blocks


def test_a_study_of_one_stack_and_one_seed_has_a_report(tmp_path: Path) -> None:
    page = render(Report(gather(make_study(tmp_path / "results", {"xfs": 344.0}, (1,)))))

    assert "Only <b" in page
    assert "NaN" not in page


def cost_table(page: str, noun: str) -> str | None:
    found = re.search(rf"What {noun} cost\b.*?</table>", page, flags=re.DOTALL)
    return found[0] if found else None


def direct_load(path: Path, *, counted: bool) -> str:
    """A report of 4 KiB reads past the page cache: 9,000 in 45 s of load within a step of 60 s."""
    folder = ResultsFolder.create(path, snapshot_of({"xfs": 344.0}, (1,), ("random-mix",)))
    plan = plan_of("xfs", "random-mix", 1)
    log = EventLog(plan)
    log.step("mkfs", S // 2)
    log.account("load", "step_start", {"reads": 5, "read_bytes": 20_480, "busy_ns": 0})
    log.step("load", 60 * S)
    log.account("load", "step_end", {"reads": 9_005, "read_bytes": 9_005 * 4096, "busy_ns": 45 * S})
    log.finish()
    metrics = [Metric(name="operations_per_s", value=200.0, unit="1/s", better="higher", headline=True)]
    if counted:
        metrics.append(Metric(name="operations", value=9_000.0, unit="1", better="higher"))
    store_trial(folder, plan, metrics, log)
    return render(Report(gather(folder)))


def test_an_operation_past_the_page_cache_costs_a_request_though_the_step_is_longer_than_the_load(
    tmp_path: Path,
) -> None:
    table = present(cost_table(direct_load(tmp_path / "results", counted=True), "one operation"))

    assert "<td>1.00</td>" in table
    assert "4.00 KiB" in table
