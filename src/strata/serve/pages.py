# SPDX-License-Identifier: Apache-2.0
"""The pages of `strata serve`, and their parts that are exchanged while a study runs."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from markupsafe import Markup, escape
from pydantic import ValidationError
from rich.console import Console

from strata.advice.asked import answer_of
from strata.errors import StrataError
from strata.files import open_plain, read_plain
from strata.plan.model import Plan, Trial
from strata.plan.render import plan_lines
from strata.report.advice_text import lead
from strata.report.cells import grid, legend
from strata.report.document import Code, Figure, Fold, Paragraph, Section, html_of
from strata.report.figures import metric_figure
from strata.report.heat_map import heat_map, measured_stacks
from strata.report.page import page_of
from strata.report.palette import GAINS, ON_GAINS
from strata.report.templates import page_style, page_templates
from strata.report.trial import record_blocks
from strata.results.findings import FINDINGS_NAME, read_capabilities
from strata.results.records import Attempt
from strata.results.store import ResultsFolder
from strata.serve.watch import StudyNow, Watch
from strata.statistics.study import gather
from strata.units import format_duration

_NEWEST: Final = 8
_CONSOLE_BYTES: Final = 64 << 10
_PLAN_WIDTH: Final = 110
# While a study runs, charts are drawn at most a tenth of the time.
_PAUSE_SHARE: Final = 9.0


@dataclass(frozen=True)
class Charts:
    """The charts of a study's results so far: a heat map, and each workload's first headline."""

    version: str = ""  # the study's, when they were drawn
    problem: str = ""  # why they cannot be drawn
    lead: str = ""  # the answer to what the study asks, so far
    reference: str = ""  # the stack that the heat map compares to, if there is a heat map
    heat: Markup | None = None
    figures: list[Figure] = field(default_factory=list)
    good_until_s: float = 0.0  # until then they are shown even if new results come


class Pages:
    """Writes pages. Charts and reports are kept until the results change."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._templates = page_templates("strata.serve")
        gains = list(zip(GAINS, ON_GAINS, strict=True))
        self._templates.globals.update(duration=format_duration, states=_STATES, marks=_MARKS, legend=legend)
        page_css = self._templates.get_template("page.css").render(gains=gains)
        own = self._templates.get_template("serve.css").render()
        self.style = f"{page_style(self._templates)}\n{page_css}\n{own}"
        self._clock = clock
        self._charts: dict[str, Charts] = {}
        self._reports: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()  # drawing takes a while; a second request waits for the first

    def overview(self, studies: list[StudyNow]) -> str:
        return self._page("overview.html.j2", studies=studies)

    def overview_part(self, studies: list[StudyNow]) -> str:
        return self._page("_overview.html.j2", studies=studies)

    def study(self, watch: Watch) -> str:
        return self._with_charts("study.html.j2", watch)[1]

    def progress_part(self, now: StudyNow) -> str:
        return self._page("_progress.html.j2", study=now)

    def results_part(self, watch: Watch) -> tuple[str, str]:
        return self._with_charts("_results.html.j2", watch)

    def _with_charts(self, template: str, watch: Watch) -> tuple[str, str]:
        now = watch.now()
        charts = Charts() if now.problem else self.charts(watch, now)
        now = watch.now()  # drawing takes a while; the page's trials are never older than its version
        page = self._page(template, study=now, charts=charts, newest=now.newest(_NEWEST))
        return charts.version, page

    def trial(self, watch: Watch, trial_id: str) -> str | None:
        """A trial: its metrics, checks, plan and the end of its console; None if there is no such trial."""
        now = watch.now()
        trial = next((each for each in now.trials if each.id == trial_id), None)
        if trial is None:
            return None
        folder = watch.folder
        key, identity = next(
            (key, each) for key, each in folder.study().trials.items() if str(key) == trial_id
        )
        reading, attempts = folder.read_trial(key, identity), folder.store.attempts(identity)
        last = attempts[-1] if attempts else None
        shown = last if trial.state == "running" else reading.attempt or last
        measured = record_blocks(reading.record) if reading.record else ()
        return self._page(
            "trial.html.j2",
            study=now,
            trial=trial,
            body=html_of([*measured, *_files(shown, Trial.of(folder.name, key))], escape),
            attempt=shown.path if shown else None,
        )

    def report(self, watch: Watch) -> str:
        """The report, as `strata report` writes it. Raises ResultError if there is nothing to report."""
        now = watch.now()
        stamp = now.version
        with_capabilities = watch.path / FINDINGS_NAME
        if with_capabilities.exists():
            stamp += str(with_capabilities.stat().st_mtime_ns)
        with self._lock:
            known = self._reports.get(watch.key)
            if known is None or known[0] != stamp:
                known = self._reports[watch.key] = (stamp, page_of(watch.folder))
        return known[1]

    def diagnostic(self, title: str, text: str) -> str:
        return self._page("refusal.html.j2", title=title, text=text)

    def charts(self, watch: Watch, now: StudyNow) -> Charts:
        """The charts of the results so far; older ones, to leave the processor to a run."""
        with self._lock:
            known = self._charts.get(watch.key)
            if known and (known.version == now.version or self._clock() < known.good_until_s):
                return known
            began_s = self._clock()
            try:
                drawn = _draw(watch.folder, now.version)
            except StrataError as error:
                drawn = Charts(now.version, problem=str(error))
            ended_s = self._clock()
            pause_s = _PAUSE_SHARE * (ended_s - began_s) if now.running else 0.0
            drawn = self._charts[watch.key] = replace(drawn, good_until_s=ended_s + pause_s)
        return drawn

    def _page(self, template: str, **given: Any) -> str:
        return self._templates.get_template(template).render(**given)


# A state's mark beside its colour; a trial that is done shows its seed.
_MARKS: Final = {"done": "", "running": "▸", "failed": "✗", "damaged": "?", "interrupted": "–", "left": "·"}
_STATES: Final = {state: state for state in _MARKS} | {"damaged": "unreadable"}


def _draw(folder: ResultsFolder, version: str) -> Charts:
    figures, results = [], gather(folder)
    asked = answer_of(results, read_capabilities(folder))
    said = "" if asked is None else lead(asked)
    for workload in results.workloads:
        kinds = results.metrics(workload)[:1]
        if kinds and results.summaries(workload, kinds[0].name):
            figures.append(metric_figure(results, workload, kinds[0]))
    measured = measured_stacks(results)
    if len(measured) < 2:
        return Charts(version, lead=said, figures=figures)
    found = heat_map(results, measured[0])
    return Charts(
        version, lead=said, reference=found.reference, heat=grid(found, is_linked=False), figures=figures
    )


def _files(attempt: Attempt | None, trial: Trial) -> Iterator[Section]:
    """The plan of an attempt, and the end of its console."""
    if attempt is not None and (plan := _plan_text(attempt, trial)):
        yield Section("plan", "Plan", [Fold("What it does, step by step", [Code(plan)])])
    if attempt is not None and (console := _tail(attempt)):
        yield Section("console", "Console", [Paragraph("The end of the kernel's log."), Code(console)])


def _plan_text(attempt: Attempt, trial: Trial) -> str:
    try:
        plan = Plan.model_validate_json(read_plain(attempt.plan_path))
    except (OSError, ValidationError):
        return ""
    written = io.StringIO()
    console = Console(file=written, width=_PLAN_WIDTH, no_color=True, highlight=False)
    for line in plan_lines(plan.model_copy(update={"trial": trial})):
        console.print(line, soft_wrap=True)
    return written.getvalue()


def _tail(attempt: Attempt) -> str:
    try:
        with os.fdopen(open_plain(attempt.console_path), "rb") as file:
            size = file.seek(0, io.SEEK_END)
            file.seek(max(0, size - _CONSOLE_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[size > _CONSOLE_BYTES :])
