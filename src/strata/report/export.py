# SPDX-License-Identifier: Apache-2.0
"""A folder of exported files, which of them may be overwritten, and the report in short as Markdown."""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from markupsafe import Markup

from strata.advice.asked import advise_on_all, answer_of, the_answer
from strata.advice.model import Advice
from strata.errors import ResultError
from strata.files import explained, make_folder, open_plain, read_plain, refuse_link, write_durably
from strata.model.study import Study
from strata.plan.commands import build_commands
from strata.printable import JSON_FORMAT, json_text
from strata.report.advice_tables import advice_section, is_said
from strata.report.advice_text import lead
from strata.report.answer import Answer, answer, check_reportable, objections, overall, shown_kinds, standings
from strata.report.capability_table import capability_table
from strata.report.data import TABLES, study_data
from strata.report.document import markdown_of
from strata.report.figures import figures, to_svg
from strata.report.origin import command, declared_seeds, origin, precision_notes, seeds_words
from strata.report.sections import comparison_table
from strata.report.spans import escaped
from strata.report.stack import study_of
from strata.report.stack_facts import SOURCES, facts_of, facts_table
from strata.report.survival import TITLE as SURVIVAL_TITLE
from strata.report.survival import survival_tables
from strata.report.svg import to_png
from strata.report.table import Table, csv_text, markdown, parquet
from strata.report.warnings import grouped_warnings
from strata.report.wording import covered_words
from strata.results.capabilities import Capabilities
from strata.statistics.study import StudyResults
from strata.words import sentence_case

# A folder with an export.json of another version is not written to.
MANIFEST_VERSION: Final = 1
MANIFEST: Final = "export.json"

Format = Literal["markdown", "csv", "parquet", "json", "svg", "png"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
_SUFFIXES: Final = {".md" if each == "markdown" else f".{each}": each for each in FORMATS}


@dataclass(frozen=True)
class Exported:
    """A file that was written, by its path in the folder."""

    path: str
    format: Format
    bytes: int
    sha256: str


def export(
    results: StudyResults,
    target: Path,
    formats: Iterable[Format] = FORMATS,
    *,
    reference: str | None = None,
    capabilities: Capabilities | None = None,
    force: bool = False,
) -> list[Exported]:
    """Write a study's tables, texts and figures into a folder, which may be new.

    An earlier export's files of the same formats are replaced or removed, with ``force`` even changed ones.

    Raises:
        ResultError: If there is no valid result, the folder holds other files than an export's or changed
            ones, or it cannot be written.
    """
    target = target.resolve()
    check_reportable(results, reference)
    chosen = [each for each in FORMATS if each in set(formats)]
    before = earlier(target)
    if not force:
        _refuse_changed(target, before, chosen)
    written = []
    make_folder(target)
    for path, content in _files(results, chosen, reference, capabilities):
        # Not durably: that takes ten times as long for a hundred figures, and they can be exported again.
        make_folder((target / path).parent)
        write_durably(target / path, content, wait=False)
        kind = _SUFFIXES[Path(path).suffix]
        written.append(Exported(path, kind, len(content), hashlib.sha256(content).hexdigest()))
    kept = _without_stale(target, before, written, chosen)
    manifest = {
        "export_version": MANIFEST_VERSION,
        "study": results.snapshot.name,
        "files": kept | {each.path: each.sha256 for each in written},
    }
    write_durably(target / MANIFEST, (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode())
    return written


def _files(
    results: StudyResults, formats: Sequence[Format], reference: str | None, capabilities: Capabilities | None
) -> Iterator[tuple[str, bytes]]:
    wanted = set(formats)
    if "markdown" in wanted:
        advice = advise_on_all(results, capabilities)
        yield "report.md", to_markdown(results, capabilities, advice)
    asked = answer_of(results, capabilities) if wanted & {"csv", "parquet"} else None
    for name, declared in TABLES.items() if wanted & {"csv", "parquet"} else ():
        if not declared.is_exported:
            continue
        table = declared.of(results, asked)
        if "csv" in wanted:
            yield f"{name}.csv", csv_text(table).encode()
        if "parquet" in wanted:
            yield f"{name}.parquet", parquet(table)
    if "json" in wanted:
        data = {"format": JSON_FORMAT, **study_data(results, capabilities)}
        yield "study.json", f"{json_text(data, indent=1)}\n".encode()
    for figure in figures(results, reference) if wanted & {"svg", "png"} else ():
        drawn = to_svg(figure)
        if "svg" in wanted:
            yield f"figures/{figure.name}.svg", drawn.encode()
        if "png" in wanted:
            yield f"figures/{figure.name}.png", to_png(drawn)


def earlier(target: Path) -> dict[str, str]:
    """The hashes of an earlier export's files, by path. Raises ResultError for a folder of other files."""
    with explained(target, "use the folder"):
        if target.exists() and not target.is_dir():
            raise ResultError("it is a file", place=str(target), remedy="name a folder, which may be new")
        if not target.exists() or not any(target.iterdir()):
            return {}
        manifest = target / MANIFEST
        if not manifest.exists():
            raise ResultError(
                "the folder holds files that are not an export's",
                place=str(target),
                remedy="name a new folder, or that of an earlier export",
            )
        return _read(manifest)


def _read(manifest: Path) -> dict[str, str]:
    try:
        plain: Any = json.loads(read_plain(manifest))
        files = plain["files"] if plain["export_version"] == MANIFEST_VERSION else None
    except (ValueError, KeyError, TypeError):
        files = None
    if not isinstance(files, dict) or not all(_is_inside(name) for name in files):
        raise ResultError(
            "it is not a list of exported files that this version of Strata knows",
            place=str(manifest),
            remedy="name a new folder",
        )
    return {str(name): str(sha256) for name, sha256 in files.items()}


def _is_inside(name: str) -> bool:
    """Whether an export can have written a file of this name; others are never touched."""
    parts = Path(name).parts
    return Path(name).suffix in _SUFFIXES and (len(parts) == 1 or (len(parts) == 2 and parts[0] == "figures"))


def _refuse_changed(target: Path, before: dict[str, str], formats: Sequence[Format]) -> None:
    changed = [
        name
        for name, sha256 in before.items()
        if _SUFFIXES[Path(name).suffix] in formats
        and (target / name).is_file()
        and _sha256(target / name) != sha256
    ]
    if changed:
        more = f" and {len(changed) - 1} more files were" if len(changed) > 1 else " was"
        raise ResultError(
            f"{changed[0]}{more} changed since the export",
            place=str(target),
            remedy="name another folder, or overwrite the changes with --force",
        )


def _sha256(path: Path) -> str:
    with os.fdopen(open_plain(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _without_stale(
    target: Path, before: dict[str, str], written: Sequence[Exported], formats: Sequence[Format]
) -> dict[str, str]:
    """The earlier export's files of other formats, which stay; stale ones of these formats are removed."""
    paths = {each.path for each in written}
    kept = {}
    for name, sha256 in before.items():
        if _SUFFIXES[Path(name).suffix] not in formats:
            kept[name] = sha256
        elif name not in paths:
            with explained(target / name, "remove the file"):
                refuse_link((target / name).parent)
                (target / name).unlink(missing_ok=True)
    return kept


def to_markdown(
    results: StudyResults, capabilities: Capabilities | None = None, advice: Sequence[Advice] = ()
) -> bytes:
    return ("\n".join(_lines(results, capabilities, advice)).rstrip() + "\n").encode()


def _lines(
    results: StudyResults, capabilities: Capabilities | None, advice: Sequence[Advice]
) -> Iterator[str]:
    snapshot = results.snapshot
    yield f"# {escaped(snapshot.question or snapshot.name)}\n"
    against = objections(the_answer(advice))
    answers = []
    for workload in results.workloads:
        found = standings(results, workload, shown_kinds(results, workload))
        answers.append(answer(results, workload, _mark, found, against))
    yield from _answers(answers, the_answer(advice), against)
    if any(map(is_said, advice)):
        yield markdown_of(advice_section(advice, {}))
    for each in answers:
        yield from _workload(
            results, each.workload, [_plain(said) for said in (*each.qualified, *each.others)], against
        )
    if (study := study_of(snapshot)) is not None:
        yield from _stacks(study, capabilities)
    if survived := survival_tables(capabilities, results):
        yield f"## {SURVIVAL_TITLE}\n"
        for table in survived:
            yield f"**{table.title}**\n"
            yield markdown(replace(table, title=""))
    if capabilities is not None:
        yield from _capabilities(capabilities)
    yield from _origin(results)


def _answers(answers: Sequence[Answer], asked: Advice | None, against: Mapping[str, str]) -> Iterator[str]:
    if asked is not None:
        yield f"**{escaped(lead(asked))}**\n"
    if said := overall(answers, _mark, against):
        yield f"{_plain(said)}\n"
    for each in answers:
        yield f"- *{each.workload}*: {_plain(each.sentence)}"
    yield ""


def _workload(
    results: StudyResults, workload: str, remarks: Sequence[str], against: Mapping[str, str]
) -> Iterator[str]:
    choice = next(each for each in results.snapshot.workloads if each.name == workload)
    yield f"## {workload}: {escaped(choice.title)}\n"
    if choice.rationale:
        yield f"{escaped(choice.rationale)}\n"
    if remarks:
        yield from (f"- {remark}" for remark in remarks)
        yield ""
    for standing in standings(results, workload, shown_kinds(results, workload)):
        yield markdown(comparison_table(results, workload, standing, against))
    if warnings := list(_warnings(results, workload)):
        yield "Warnings:\n"
        yield from warnings
        yield ""


def _warnings(results: StudyResults, workload: str) -> Iterator[str]:
    for each in grouped_warnings(results, workload):
        stacks = "All stacks" if each.everywhere and len(each.stacks) > 1 else ", ".join(each.stacks)
        remedy = f"{escaped(sentence_case(each.remedy))}."
        if not each.texts:
            yield f"- {stacks}: {escaped(each.text)}. {remedy}"
            continue
        yield f"- {stacks}. {remedy}"
        yield from (f"  - {stack}: {escaped(text)}" for stack, text in each.texts)


def _stacks(study: Study, capabilities: Capabilities | None) -> Iterator[str]:
    facts = facts_table(facts_of(study, capabilities))
    yield f"## {facts.title}\n"
    yield markdown(Table(facts.columns, facts.rows))
    yield f"Sources: {'; '.join(SOURCES)}.\n"
    yield "## The commands that build the stacks on a real machine\n"
    yield "As measured; they destroy the disks' content, and Strata does not run them there.\n"
    for name in study.stacks:
        yield f"### {name}\n"
        yield "\n".join(["```sh", *build_commands(study, name), "```\n"])


def _capabilities(found: Capabilities) -> Iterator[str]:
    if not found.cells:
        return
    yield "## What the stacks can do\n"
    yield "Found out by doing it in the lab; the times are virtual.\n"
    yield markdown(capability_table(found, has_questions=False))
    for cell in found.cells:
        if cell.note:
            yield f"- {cell.stack}, {escaped(found.title(cell.probe))}: {escaped(cell.note)}"
    yield ""


def _origin(results: StudyResults) -> Iterator[str]:
    snapshot, found = results.snapshot, origin(results)
    yield "## How it was measured\n"
    if snapshot.time_domain == "virtual":
        yield "In virtual time, on modelled disks: the same study gives the same numbers anywhere.\n"
        yield f"- {covered_words(snapshot.described)}"
    else:
        hosts = escaped(", ".join(found["hosts"]))
        yield f"In wall time, on {hosts or 'a real machine'}: these numbers hold for it alone.\n"
    seeds = declared_seeds(snapshot)
    named = f"{'seeds' if len(seeds) > 1 else 'seed'} {seeds_words(seeds)}"
    yield f"- {found['valid']} of {found['trials']} trials are valid; {named}."
    yield from (f"- {escaped(said)}" for said in precision_notes(snapshot))
    kernels = ", ".join(sorted(filter(None, found["kernels"])))
    yield f"- Linux {kernels or 'of an unknown version'}; strata {', '.join(sorted(found['strata']))}."
    if found["packages"]:
        yield f"- {'; '.join(f'{name} {versions}' for name, versions in found['packages'].items())}."
    if command(snapshot):
        yield f"- To reproduce it: `{command(snapshot)}`"
    yield "- A verdict compares the ratio's 95 % interval to the zone of ±3 % in which a difference is of no"
    yield "  practical consequence: equal inside, worse outside, undecided across its edge."


def _mark(stack: str) -> Markup:
    return Markup("<strong>{}</strong>").format(stack)


def _plain(said: Markup) -> str:
    """The page's sentences as Markdown: emphasis stays, entities become letters."""
    text = re.sub(r"</?(?:strong|b)\b[^>]*>", "**", str(said))
    text = re.sub(r"</?(?:em|i)\b[^>]*>", "*", text)
    return html.unescape(re.sub(r"<[^>]+>", "", text)).replace("\N{NO-BREAK SPACE}", " ")
