# SPDX-License-Identifier: Apache-2.0
"""How the numbers were made and compared, how to reproduce them, and the data in a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from markupsafe import Markup

from strata.report.data import raw_values
from strata.report.document import (
    PAGES,
    WRITTEN,
    Block,
    Code,
    Drawn,
    Fold,
    Group,
    Heading,
    Note,
    Paragraph,
    Section,
    Terms,
)
from strata.report.origin import command, declared_seeds, options, precision_notes, seeds_words
from strata.report.report import Report
from strata.report.spans import Mono, StackName, Text, Toned, joined, said
from strata.report.table import Cell, Table, columns
from strata.report.templates import in_script
from strata.report.wording import covered_words
from strata.statistics.interval import CONFIDENCE, PRACTICAL_ZONE
from strata.units import format_share

_TRIALS_MAX: Final = 400  # with up to this many trials, the page lists their hashes
_PACKAGES_MAX: Final = 12
_ZONE: Final = f"±{format_share(PRACTICAL_ZONE)}".replace(" ", "\N{NO-BREAK SPACE}")
_CONFIDENCE: Final = format_share(CONFIDENCE).replace(" ", "\N{NO-BREAK SPACE}")


def methods(report: Report) -> Iterator[Section]:
    """What the numbers include, and how they were made and compared."""
    blocks = [
        Heading("What these numbers include"),
        *_included(report),
        Group([Heading("How they were made and compared"), Terms([*_terms(report)])], where=PAGES),
    ]
    yield Section("methods", "Methods", blocks, where=WRITTEN)


def _included(report: Report) -> Iterator[Block]:
    if not report.is_virtual:
        yield Paragraph(
            "Wall time on a real machine: everything that ran beside the workload is in these numbers, and "
            "another run will differ. They are not to be compared with results in virtual time."
        )
    else:
        prices = [_price(each) for each in report.origin["processors"]]
        virtual = (
            "The programs and the filesystems are the real ones, on a real Linux kernel; the disks are "
            "models, and time is virtual: it passes when a disk works, a program sleeps, or computing is "
            "paid for."
        )
        yield Paragraph(joined([virtual, *prices]))
        for cost in report.origin["charges"]:
            if cost.syscall_ns:
                reclaim = f", {cost.reclaim_ns:,} ns per page looked at in reclaim" if cost.reclaim_ns else ""
                yield Paragraph(
                    f"Charged explicitly, so that time passes even in a loop: {cost.syscall_ns:,} ns per "
                    f"system call, {cost.clock_read_ns:,} ns per reading of the clock, {cost.yield_ns:,} ns "
                    f"per yield{reclaim}."
                )
        covered = covered_words(report.results.snapshot)
        yield Paragraph(
            "A trial is a function of its specification and its seed alone: run again, anywhere, it yields "
            f"the same bytes. {covered}"
        )
    if report.origin["labs"] > 1:
        labs = f"these results come from {report.origin['labs']} different builds or settings of the lab."
        fresh = "`strata run --fresh` measures them all on one."
        yield Note([Paragraph(said("{} {} {}", Toned("Warning:"), labs, fresh))])


def _price(each: Any) -> Text:
    if each.priced:
        priced = f"Computing has the price of {each.processors} × {each.name}"
        return said(
            "{}: the kernel’s work is counted, that of programs is charged by system call, page fault and "
            "byte. Where the processors were busy, a rate is as sure as these prices.",
            Toned(priced),
        )
    free = "so these numbers hold the time of I/O and of waiting, not that of the processor."
    return said("{}, {}", Toned("Computing is free"), free)


def _terms(report: Report) -> Iterator[tuple[str, Text]]:
    snapshot = report.results.snapshot
    stacks = joined([StackName(name) for name in snapshot.stacks], ", ")
    yield "stack", said("What lies between the disk and the application: here {}.", stacks)
    seeds = declared_seeds(snapshot)
    were = "seeds were" if len(seeds) > 1 else "seed was"
    yield (
        "seed, n",
        "Each trial builds its stack anew and runs with another seed, which decides what the workload "
        f"touches and when. n is the number of valid trials; the {were} {seeds_words(seeds)}. In the bar "
        "charts each point is one seed.",
    )
    if precision := precision_notes(snapshot):
        yield "precision", " ".join(precision)
    drawn = ", and so over what a seed draws, such as drives" if report.is_virtual else ""
    drive = ", and so of one drive," if report.is_virtual else ""
    yield "mean", "The geometric mean over the seeds, because stacks are compared by ratios."
    yield (
        "percentile",
        "The 99th percentile is the time within which 99 of 100 requests were answered. Percentiles are "
        "taken from the histograms of all seeds added up, each seed with the same weight; they are never "
        "averaged.",
    )
    yield (
        "ratio",
        "Of two stacks, seed by seed in pairs, which removes what a seed does to both. It is always turned "
        "so that above 1 is better: twice the operations per second, or half of the latency, is 2.",
    )
    yield (
        f"{_CONFIDENCE} interval",
        f"It is of the mean over seeds{drawn}: how far the mean might move with other seeds. Student’s "
        "interval of the logarithms, extended to where the seeds are skewed (Hall’s transformation); of "
        "merged histograms, with the standard error of a bootstrap over the seeds. By simulation it holds "
        "what it should in 93 to 97 of 100 studies with six seeds or more, whether the seeds are normal, "
        "skewed or heavy-tailed; with three or four, in as few as 82. Below three there is none. The "
        "intervals of the ratios of all stacks under a workload hold together, however many are compared and "
        "whichever turns out best (Tukey’s method, with variances that the stacks share where they "
        "are alike).",
    )
    yield (
        "another seed",
        f"Where the value of another seed{drive} lies in 95 of 100 studies (a prediction interval by "
        "Student’s t). It hardly narrows with more seeds: the drives differ.",
    )
    yield "verdict", _verdicts()
    yield "disk’s time", _disks_time(report)


def _verdicts() -> Text:
    return said(
        f"A difference within {_ZONE} has no practical weight. {{}} or {{}}: the whole interval lies beyond "
        "that zone. {}: all of it lies within. {}: it reaches across the zone’s edge, so that more seeds are "
        "needed; {} if it is narrow already, so that the difference is about as large as the zone. {}: a "
        "check denies the numbers of one of the two. {}: neither disks nor processors were busy in at least "
        "half of the trials, so that the numbers are not of the stack.",
        *map(Toned, ("Better", "worse", "Equal", "Undecided", "marginal", "Doubtful", "Not ranked")),
    )


def _disks_time(report: Report) -> Text:
    parts = said(
        "{}: the arm moves. {}: it waits for the sector to come round. {}: sectors pass under the head or "
        "over the link. {}: commands were decoded, or on their way through a network. {}: flash was sensed "
        "or programmed. {}: there was no room in the write cache. {}: it was emptied because a program asked "
        "for that. {}: the drive made room. {}: the volume’s limit was reached. {}: no request was there.",
        *map(Toned, ("Seek", "Rotation", "Transfer", "Overhead", "Cell", "Cache", "Flush", "Cleaning")),
        *map(Toned, ("Throttle", "Idle")),
    )
    explain = (
        " `strata explain RESULTS TRIAL` divides it by kind of request; given two trials, it says why one is "
        "faster."
    )
    return (*parts, explain) if report.is_virtual else parts


def reproduce(report: Report) -> Iterator[Section]:
    """The command and the study, versions, hashes and options."""
    snapshot, found = report.results.snapshot, report.origin
    blocks: list[Block] = []
    if typed := command(snapshot):
        blocks.append(Code(typed, "sh"))
    if snapshot.text:
        file = said(", {}", Mono(snapshot.file)) if snapshot.file else ""
        study: list[Block] = [
            Paragraph(said("with this study{}:", file)),
            Code(snapshot.text.strip(), "toml"),
        ]
        blocks.append(Group(study, where=PAGES))
    seeds = declared_seeds(snapshot)
    strata = f"{', '.join(found['strata'])}, agent {', '.join(found['agents'])}, runner {snapshot.runner}"
    packages = [f"{name} {version}" for name, version in found["packages"].items()]
    terms: list[tuple[str, Text]] = [
        ("trials", f"{found['valid']} of {found['trials']} are valid; seeds {seeds_words(seeds)}"),
        ("kernel", f"Linux {', '.join(filter(None, found['kernels'])) or 'of an unknown version'}"),
        ("Strata", strata),
        *([("host", ", ".join(found["hosts"]))] if found["hosts"] else []),
    ]
    is_short = len(packages) <= _PACKAGES_MAX
    if packages and is_short:
        terms.append(("packages", ", ".join(packages)))
    terms += [("precision", note) for note in precision_notes(snapshot)]
    blocks.append(Terms(terms, "origin"))
    if not is_short:
        blocks.append(Fold(f"{len(packages)} packages", [Paragraph(", ".join(packages))], WRITTEN))
    hashes = [
        (f"{name} hash", Mono(sha256))
        for each in found["fingerprints"]
        for name, sha256 in (
            *(("kernel", each.kernel_sha256), ("root image", each.image_sha256)),
            ("agent", each.agent_sha256),
        )
        if sha256
    ]
    blocks.append(Group([Terms(hashes, "origin")], where=PAGES))
    if chosen := options(snapshot):
        blocks.append(
            Fold(f"Every option, with its defaults: {len(chosen)}", [Terms(chosen, "origin options")])
        )
    trials = _trials(report)
    if len(trials.rows) <= _TRIALS_MAX:
        blocks.append(Fold("Hashes of every trial", [trials]))
    else:
        hashes_of = f"The hashes of the {len(trials.rows)} trials: `strata show RESULTS --json`."
        blocks.append(Group([Paragraph(hashes_of)], where=PAGES))
    yield Section("reproduce", "How to reproduce", blocks, where=WRITTEN)


def _trials(report: Report) -> Table:
    rows: list[tuple[Any, ...]] = []
    for reading in report.results.readings:
        if reading.record is None:
            rows.append((reading.trial_id, reading.problem, ""))
        else:
            hashes = (reading.record.spec_sha256[:16], reading.record_sha256)
            rows.append((reading.trial_id, *(Cell(text, tone="code") for text in hashes)))
    return Table(columns("trial", "specification", "result"), rows)


_BUTTONS: Final = Markup(
    '<p class="js-only buttons"><button type="button" id="save-csv">Save as CSV</button> '
    '<button type="button" id="save-json">Save as JSON</button></p>\n'
)


def data(report: Report) -> Iterator[Section]:
    """The values of every trial within a page, to be saved."""
    raw = Markup('<script type="application/json" id="raw-data">{}</script>\n')
    blocks: list[Block] = [
        Paragraph("This page holds every metric of every valid trial."),
        Drawn(_BUTTONS),
        Paragraph(
            "A row of the CSV is one value: workload, stack, seed, metric, value, unit, and which direction "
            "is better. `strata query RESULTS` asks for more than that in SQL, and the results folder holds "
            "all there is."
        ),
        Drawn(raw.format(in_script(raw_values(report.results)))),
    ]
    yield Section("data", "The data", blocks, where=PAGES)
