# SPDX-License-Identifier: Apache-2.0
"""A page of the documentation about a study with claims, as Markdown, made of its results alone.

The user's remark is added as it stands. Verdicts, reasons and figures come from records.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.tree import Tree

from strata.model.trial import CellKey
from strata.report.claims import claims, found_words
from strata.report.document import Block, Bullets, Code, Heading, Paragraph, markdown_of
from strata.report.origin import cost_line
from strata.report.spans import Mono, Text, Toned, escaped, joined, said
from strata.report.stack import stack_views, study_of, text_tree
from strata.statistics.claims import Judgement, Verdict, cells_of
from strata.statistics.levels import LevelFinding
from strata.statistics.study import StudyResults
from strata.units import format_share
from strata.words import counted, listed

_GROUPS: Final[tuple[tuple[str, tuple[Verdict, ...]], ...]] = (
    ("It is so", ("reproduced",)),
    ("The direction is right, the size differs", ("direction only",)),
    ("It is not so", ("not reproduced",)),
    ("It is the other way round", ("reversed",)),
    ("It stands in another regime", ("in another regime",)),
    ("Plausible test beds disagree", ("open",)),
    ("These results do not decide it", ("undecided",)),
    ("It cannot be tested here", ("not testable",)),
)
_SETTLED: Final[frozenset[Verdict]] = frozenset({"reproduced", "direction only", "not testable", "testable"})
_WIDTH: Final = 300


def claims_page(
    results: StudyResults,
    judged: Sequence[Judgement],
    reasons: Mapping[str, str],
    levels: Sequence[LevelFinding] = (),
    *,
    image: str = "",
    alternative: str = "",
    remark: str = "",
) -> str:
    """The page, with ``reasons`` for the claims whose verdict was explained, and the user's ``remark``.

    The ``image`` of the ratios lies beside it; empty: there is none.
    """
    snapshot = results.snapshot
    made = (
        "`strata claims RESULTS --page FILE` made this page: figures, verdicts and reasons come from the "
        "results."
    )
    head: list[Block] = [
        Heading(snapshot.question, 1),
        Paragraph(said("The comparison {}, {}. {}", Mono(snapshot.name), _size(results), made)),
    ]
    found: list[Block] = [
        Heading("What to believe today", 2),
        *_believed(results, judged, reasons),
        Heading("The claims", 2),
        *claims(judged, levels=levels),
        *_without_level(judged, levels),
        *_tried([each for each in judged if not _is_unmeasured(results, each)], reasons),
    ]
    drawn = f"## Beside the published figures\n\n![{escaped(alternative)}]({image})" if image else ""
    rest: list[Block] = [
        Heading("The stacks", 2),
        Code(_stacks(results), "text"),
        Heading("How it was measured", 2),
        *_measured(results),
    ]
    parts = (markdown_of(head), remark, markdown_of(found), drawn, markdown_of(rest))
    return "\n\n".join(filter(None, (part.strip() for part in parts))) + "\n"


def _size(results: StudyResults) -> str:
    scale = results.snapshot.scale
    share = "at its full size" if scale == 1 else f"at {format_share(scale)} of its time and data"
    counts = {len(cell.records) for cell in results.cells.values() if cell.records}
    fewest = f"{min(counts)} to " if len(counts) > 1 else ""
    return f"{share}, with {fewest}{counted(max(counts, default=0), 'seed')}"


def _believed(
    results: StudyResults, judged: Sequence[Judgement], reasons: Mapping[str, str]
) -> Iterator[Block]:
    unmeasured = {each.claim.id for each in judged if _is_unmeasured(results, each)}
    for title, verdicts in _GROUPS:
        mine = [each for each in judged if each.verdict in verdicts and each.claim.id not in unmeasured]
        if mine:
            yield Paragraph(Toned(f"{title}:"))
            yield Bullets([_line(each, reasons.get(each.claim.id, "")) for each in mine])
    if unmeasured:
        yield Paragraph(Toned("Not measured:"))
        yield Bullets([said("{}.", _named(each)) for each in judged if each.claim.id in unmeasured])


def _is_unmeasured(results: StudyResults, judged: Judgement) -> bool:
    """Whether every comparison that leaves it undecided lacks a trial that was not run."""
    return judged.verdict == "undecided" and all(
        any(not _was_run(results, cell) for cell in cells_of(finding)) for finding in judged.deciding
    )


def _was_run(results: StudyResults, cell: CellKey) -> bool:
    return any(each.attempts for each in results.readings_of(*cell))


def _named(judged: Judgement) -> Text:
    return said("{} ({})", judged.claim.claim, Mono(judged.claim.id))


def _line(judged: Judgement, reason: str) -> Text:
    found = found_words(judged.deciding[0]) if judged.deciding else ""
    if judged.anchored or judged.verdict in {"undecided", "not testable", "in another regime"}:
        found = judged.why
    more = [each for each in (found, reason) if each and judged.verdict != "reproduced"]
    return joined([joined([_named(judged), *more], "; "), "."], "")


def _without_level(judged: Sequence[Judgement], levels: Sequence[LevelFinding]) -> Iterator[Block]:
    """Which claims compare with stacks of which no absolute value was published."""
    known = {each.key for each in levels}
    compared = {
        each.claim.id: {
            (pair.against, pair.expectation.other_workload, pair.expectation.metric)
            for pair in each.findings
            if pair.against
        }
        for each in judged
    }
    lacking = [name for name, cells in compared.items() if cells and not cells & known]
    if lacking:
        said_of = f"of the stacks that {counted(len(lacking), 'claim')} of {len(judged)} compare with"
        yield Paragraph(
            f"No published level {said_of}: their ratios stand without a regime ({_some(lacking)})."
        )


def _tried(judged: Sequence[Judgement], reasons: Mapping[str, str]) -> Iterator[Block]:
    """What was tried for each claim that did not come out as it says."""
    mine = [each for each in judged if each.verdict not in _SETTLED]
    if mine:
        yield Heading("What was tried", 2)
        yield Bullets([said("{}: {}.", Mono(each.claim.id), _efforts(each, reasons)) for each in mine])


def _efforts(judged: Judgement, reasons: Mapping[str, str]) -> str:
    efforts = [f"{each.what}: {each.outcome}" for each in judged.claim.tried]
    explained = reasons.get(judged.claim.id)
    return "; ".join([*efforts, *([explained] if explained else [])]) or "nothing yet"


def _stacks(results: StudyResults) -> str:
    trees = (text_tree(each) for each in stack_views(results.snapshot, study_of(results.snapshot)))
    return "".join(map(_plain, trees))


def _plain(tree: Tree) -> str:
    out = io.StringIO()
    Console(file=out, width=_WIDTH, color_system=None).print(tree)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _measured(results: StudyResults) -> Iterator[Block]:
    snapshot, records = results.snapshot, results.records
    if not records:
        yield Paragraph("Nothing was measured yet.")
        return
    kernels = listed(list(dict.fromkeys(each.versions.kernel for each in records)))
    of = f"Linux {kernels}" if snapshot.time_domain == "wall" else f"the lab's Linux {kernels}"
    yield Paragraph(said("{}, on {}. {}.", Mono(snapshot.command), of, cost_line(results)))
    missing = [
        f"{cell[0]}.{cell[1]}"
        for cell, each in results.cells.items()
        if not each.records and cell not in snapshot.skipped
    ]
    if missing:
        counts = f"{counted(len(missing), 'cell')} of {len(results.cells)}"
        yield Paragraph(f"Not measured: {counts} ({_some(missing)}).")


def _some(names: Sequence[str]) -> str:
    return listed([*names] if len(names) <= 6 else [*names[:5], f"{len(names) - 5} more"])
