# SPDX-License-Identifier: Apache-2.0
"""A finding, written once, as blocks; a page, a notebook, Markdown and a terminal render them.

A section is one function in the list `strata.report.sections.SECTIONS`. This one is complete in every medium:

    def flushes(report: Report) -> Iterator[Section]:
        blocks: list[Block] = []
        for workload in report.results.workloads:
            gains = flushes_against_the_best(report.results, workload)
            rows = [(each.stack, Times.of(each)) for each in gains]
            blocks += [
                Heading(workload),
                Paragraph(said("{} flushes least.", StackName(gains[0].baseline))),
                Table(columns(("stack", "stack"), ("to the best", "figure")), rows),
                Fold("How it was counted", [Paragraph("By the disks, over the measured window.")]),
            ]
        yield Section("flushes", "Who flushes least", blocks)

Text holds typed pieces (`strata.report.spans`), so that a number is formatted in one place. In a terminal a
command prints ``Document(blocks)``; in a notebook it shows itself.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from markupsafe import Markup
from rich.console import Console, RenderableType
from rich.console import Group as Rendered
from rich.padding import Padding
from rich.text import Text as RichText

from strata.report.palette import Colour, stack_colours
from strata.report.spans import (
    Mark,
    Text,
    WorkloadName,
    as_html,
    as_markdown,
    as_rich,
    escaped,
    joined,
    plain,
    spans,
)
from strata.report.svg import Drawing
from strata.report.table import Table, facts, html, markdown, terminal

Medium = Literal["page", "notebook", "markdown", "terminal"]
ALL: Final[frozenset[Medium]] = frozenset({"page", "notebook", "markdown", "terminal"})
PAGES: Final[frozenset[Medium]] = frozenset({"page", "notebook"})
WRITTEN: Final[frozenset[Medium]] = PAGES | {"markdown"}

Role = Literal[
    "",
    "lead",
    "remark",
    "warning",
    "key",
    "other",
    "about",
    "note",
    "overall",
    "sure",
    "stands-for",
    "remark warning",
]
_STYLES: Final[Mapping[Role, str]] = {
    "lead": "bold",
    "overall": "bold",
    "key": "dim",
    "remark": "dim",
    "warning": "yellow",
}


@dataclass(frozen=True)
class Heading:
    """A heading within a section; ``note`` qualifies it."""

    text: Text
    level: int = 3
    note: Text = ""


@dataclass(frozen=True)
class Paragraph:
    """Sentences: an answer (``lead``), a qualification (``remark``, ``warning``), or a key to a figure."""

    text: Text
    role: Role = ""


@dataclass(frozen=True)
class Item:
    """An item of a list with blocks below its text."""

    text: Text
    blocks: Sequence[Block] = ()


@dataclass(frozen=True)
class Bullets:
    items: Sequence[Text | Item]
    kind: str = ""


@dataclass(frozen=True)
class Terms:
    """Names with their meanings or values."""

    rows: Sequence[tuple[Text, Text | Item]]
    kind: str = "terms"


@dataclass(frozen=True)
class Code:
    """Lines of a program, or of a file."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Figure:
    """A drawing with its title, caption and legend, how to read it, and the table of its numbers.

    The name is WORKLOAD-METRIC in kebab case, unique in its study: a file's name without its suffix. The
    workload is empty for a figure of the whole study.
    """

    name: str
    title: str
    caption: str
    drawing: Drawing
    workload: str = ""
    note: str = ""
    reading: str = ""
    legend: Mapping[str, Colour] = field(default_factory=dict)
    numbers: Table | None = None

    @property
    def full_title(self) -> str:
        """With the workload, for where no heading names it."""
        return f"{self.workload}: {self.title}" if self.workload else self.title


@dataclass(frozen=True)
class Note:
    """Blocks that stand out, because a reader must know of them."""

    blocks: Iterable[Block]
    title: str = ""


@dataclass(frozen=True)
class Fold:
    """Details that a page folds away; other media leave them out, unless they are ``where``."""

    summary: Text
    blocks: Iterable[Block]
    where: frozenset[Medium] = PAGES


def folded(summary: Text, blocks: Sequence[Block]) -> Sequence[Block]:
    """Blocks that a page folds away, and other media show."""
    return (Fold(summary, blocks), Group(blocks, where=ALL - PAGES))


@dataclass(frozen=True)
class Group:
    """Blocks that a page sets in a way of its own, by a class of its style sheet."""

    blocks: Iterable[Block]
    kind: str = ""
    workload: str = ""  # the page's filters hide it with this workload, or with this stack
    stack: str = ""
    where: frozenset[Medium] = ALL


@dataclass(frozen=True)
class Section:
    """A part of a document with a name, to which links lead, and a title; ``note`` qualifies it."""

    name: str
    title: str
    blocks: Iterable[Block]
    note: Text = ""
    workload: str = ""
    where: frozenset[Medium] = ALL


@dataclass(frozen=True)
class Drawn:
    """Markup for a page alone: a control, or a picture made of elements."""

    html: Markup


Leaf = Heading | Paragraph | Table | Figure | Code
Block = Leaf | Bullets | Terms | Note | Fold | Group | Section | Drawn


@dataclass(frozen=True)
class Document:
    """Blocks that show themselves: printed by rich, as Markdown, or in a notebook's cell."""

    blocks: Sequence[Block]
    stacks: Sequence[str] = ()  # in the order of their colours

    def __rich__(self) -> RenderableType:
        return as_terminal(self.blocks)

    def __str__(self) -> str:
        written = io.StringIO()
        Console(file=written, width=100, color_system=None).print(self)
        return written.getvalue()

    def markdown(self) -> str:
        return markdown_of(self.blocks)

    def _repr_html_(self) -> str:
        style = "".join(
            f".strata .{_css_class(colour)}::before{{content:'● ';color:{colour.light}}}"
            for colour in stack_colours([*self.stacks]).values()
        )
        body = html_of(self.blocks, marker(self.stacks), medium="notebook")
        return f'<div class="strata"><style>{style}.strata svg{{max-width:50rem}}</style>{body}</div>'


def _css_class(colour: Colour) -> str:
    return f"s{colour.variable.removeprefix('stack-')}"


def marker(stacks: Sequence[str]) -> Mark:
    """A function that sets a stack's name with its colour, for which the style sheet has a class."""
    colours = stack_colours([*stacks])

    def mark(stack: str) -> Markup:
        colour = colours.get(stack)
        kind = f"stack {_css_class(colour)}" if colour else "stack"
        return Markup('<b class="{}">{}</b>').format(kind, stack)

    return mark


def html_of(blocks: Iterable[Block], mark: Mark, *, medium: Medium = "page") -> Markup:
    """For a page or a notebook."""
    return Markup("").join(_html(block, mark, medium) for block in blocks)


def _html(block: Block, mark: Mark, medium: Medium) -> Markup:
    found = Markup("")
    match block:
        case Bullets(items, kind):
            lines = (Markup("<li>{}</li>\n").format(_item(item, mark, medium)) for item in items)
            found = Markup("<ul{}>\n{}</ul>\n").format(_class(kind), Markup("").join(lines))
        case Terms(rows, kind):
            terms = (_term(name, meaning, mark, medium) for name, meaning in rows)
            found = Markup("<dl{}>\n{}</dl>\n").format(_class(kind), Markup("").join(terms))
        case Note(blocks, title):
            head = Markup("<h3>{}</h3>\n").format(title) if title else ""
            body = html_of(blocks, mark, medium=medium)
            found = Markup('<div class="note">\n{}{}</div>\n').format(head, body)
        case Fold(summary, blocks):
            form = Markup("<details><summary>{}</summary>\n{}</details>\n")
            found = form.format(as_html(summary, mark), html_of(blocks, mark, medium=medium))
        case Group(blocks, kind, workload, stack, where):
            if medium in where:
                marks = _class(kind) + _data("workload", workload) + _data("stack", stack)
                body = html_of(blocks, mark, medium=medium)
                found = Markup("<div{}>\n{}</div>\n").format(marks, body)
        case Section():
            if medium in block.where:
                found = _section(block, html_of(block.blocks, mark, medium=medium), mark)
        case Drawn(markup):
            found = markup if medium == "page" else found
        case _:
            found = _leaf_html(block, mark)
    return found


def _leaf_html(block: Leaf, mark: Mark) -> Markup:
    match block:
        case Heading(text, level, note):
            behind = Markup(" <span>{}</span>").format(as_html(note, mark)) if note else ""
            form = Markup(f"<h{level}>{{}}{{}}</h{level}>\n")  # noqa: S704 - a number
            found = form.format(as_html(text, mark), behind)
        case Paragraph(text, role):
            found = Markup("<p{}>{}</p>\n").format(_class(role), as_html(text, mark))
        case Table():
            found = html(block, mark)
        case Figure():
            found = _figure(block, mark)
        case Code(text):
            found = Markup("<pre><code>{}</code></pre>\n").format(text)
    return found


def _class(name: str) -> Markup:
    return Markup(' class="{}"').format(name) if name else Markup("")


def _data(kind: str, name: str) -> Markup:
    return Markup(' data-{}="{}"').format(kind, name) if name else Markup("")


def _term(name: Text, meaning: Text | Item, mark: Mark, medium: Medium) -> Markup:
    first = spans(name)[0]
    workload = _data("workload", first.text) if isinstance(first, WorkloadName) else ""
    form = Markup("<div{}><dt>{}</dt><dd>{}</dd></div>\n")
    if not isinstance(meaning, Item):
        return form.format(workload, as_html(name, mark), as_html(meaning, mark))
    lead = Markup('<p class="lead">{}</p>\n').format(as_html(meaning.text, mark))
    below = html_of(meaning.blocks, mark, medium=medium)
    return form.format(workload, as_html(name, mark), lead + below)


def _item(item: Text | Item, mark: Mark, medium: Medium) -> Markup:
    first, rest = _parts(item)
    return as_html(first, mark) + html_of(rest, mark, medium=medium)


def _parts(item: Text | Item) -> tuple[Text, Sequence[Block]]:
    """The text of a list's item, and the blocks below it."""
    return (item.text, item.blocks) if isinstance(item, Item) else (item, ())


def _section(section: Section, body: Markup, mark: Mark) -> Markup:
    note = Markup("<p>{}</p>").format(as_html(section.note, mark)) if section.note else ""
    return Markup(
        '<section id="{}"{}{} aria-labelledby="{}-title">\n'
        '<div class="title"><h2 id="{}-title">{}</h2>{}</div>\n{}</section>\n\n'
    ).format(
        section.name,
        _class("workload" if section.workload else ""),
        _data("workload", section.workload),
        section.name,
        section.name,
        section.title,
        note,
        body,
    )


def _figure(figure: Figure, mark: Mark) -> Markup:
    note = Markup(' <span class="better">{}</span>').format(figure.note) if figure.note else ""
    words = " ".join(filter(None, (figure.caption, figure.reading)))
    caption = Markup("<p>{}</p>").format(as_html(words, mark)) if words else ""
    keys = Markup("").join(
        Markup('<li><i style="--swatch: var(--{})"></i>{}</li>').format(colour.variable, name)
        for name, colour in figure.legend.items()
    )
    numbers = Markup("")
    if figure.numbers is not None:
        shown = html(figure.numbers, mark, label=figure.title)
        numbers = Markup("<details><summary>The numbers</summary>\n{}</details>\n").format(shown)
    return Markup(
        '<figure class="wide">\n<figcaption><h3>{}{}</h3>{}</figcaption>\n{}'
        '<div role="img" aria-label="{}">{}</div>\n{}</figure>\n'
    ).format(
        figure.title,
        note,
        caption,
        Markup('<ul class="legend">{}</ul>\n').format(keys) if keys else "",
        figure.drawing.alternative,
        Markup(figure.drawing.svg),  # noqa: S704 - drawn by us
        numbers,
    )


def markdown_of(blocks: Iterable[Block]) -> str:
    """For an article or a ticket."""
    return "\n\n".join(_all_markdown(blocks)) + "\n"


def _markdown(block: Block) -> Iterator[str]:
    match block:
        case Bullets(items):
            yield "\n".join(_bullet(item) for item in items)
        case Terms(rows):
            yield "\n".join(_bullet(item, f"{_term_markdown(name)}: ") for name, item in rows)
        case Note(blocks, title):
            yield from [f"**{title}**"] if title else []
            yield from _all_markdown(blocks)
        case Fold(summary, blocks, where) if "markdown" in where:
            yield f"*{plain_markdown(summary)}*"
            yield from _all_markdown(blocks)
        case Group(blocks, where=where) if "markdown" in where:
            yield from _all_markdown(blocks)
        case Section() if "markdown" in block.where:
            yield f"## {_titled_markdown(block.title, block.note)}"
            yield from _all_markdown(block.blocks)
        case Heading(text, level, note):
            yield f"{'#' * level} {_titled_markdown(text, note)}"
        case Paragraph() | Table() | Code():
            yield from filter(None, [_leaf_markdown(block)])


def _all_markdown(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        yield from _markdown(block)


def _titled_markdown(title: Text, note: Text) -> str:
    return plain_markdown(joined([title, note] if note else [title], ": "))


def _leaf_markdown(block: Paragraph | Table | Code) -> str:
    match block:
        case Paragraph(text, "lead"):
            return f"**{plain_markdown(text)}**"
        case Paragraph(text):
            return as_markdown(text)
        case Table():
            return markdown(block).rstrip()
        case Code(text, language):
            return f"```{language}\n{text.rstrip()}\n```"


def plain_markdown(text: Text) -> str:
    """A text without form of its own, for a line that is set bold as a whole."""
    return as_markdown(plain(text))


def _term_markdown(name: Text) -> str:
    """A name in bold, unless it has a form of its own."""
    return f"**{escaped(name)}**" if isinstance(name, str) else as_markdown(name)


def _bullet(item: Text | Item, name: str = "") -> str:
    first, rest = _parts(item)
    below = markdown_of(rest).splitlines() if rest else []
    indented = "".join(f"\n{f'  {line}'.rstrip()}" for line in below)
    return f"- {name}{as_markdown(first)}" + (f"\n{indented}" if below else "")


def as_terminal(blocks: Iterable[Block]) -> RenderableType:
    """For a terminal of any width: an empty line between blocks."""
    parts: list[RenderableType] = []
    for part in _terminal(blocks):
        parts += [RichText(), part] if parts else [part]
    return Rendered(*parts)


def _terminal(blocks: Iterable[Block]) -> Iterator[RenderableType]:
    for block in blocks:
        match block:
            case Bullets(items):
                yield Rendered(*(_indented(_terminal_item(item), 2) for item in items))
            case Note(within, title):
                yield from [RichText(title, "bold yellow")] if title else []
                yield from _terminal(within)
            case Fold(summary, within, where) if "terminal" in where:
                yield as_rich(summary, "bold")
                yield from _terminal(within)
            case Group(within, where=where) if "terminal" in where:
                yield from _terminal(within)
            case Section() if "terminal" in block.where:
                yield _titled(block.title, "bold cyan", block.note)
                yield from _terminal(block.blocks)
            case Heading() | Paragraph() | Terms() | Table() | Code():
                yield from _leaf_terminal(block)


def _leaf_terminal(block: Heading | Paragraph | Terms | Table | Code) -> Iterator[RenderableType]:
    match block:
        case Heading(text, _, note):
            yield _titled(text, "bold", note)
        case Paragraph(text, role):
            yield as_rich(text, _STYLES.get(role, ""))
        case Terms(rows):
            yield terminal(facts((name, _parts(meaning)[0]) for name, meaning in rows), indent=2)
        case Table():
            yield from [terminal(block, indent=2)] if block.rows else []
        case Code(text):
            yield _indented(RichText(text.rstrip(), "cyan"), 4)


def _titled(title: Text, style: str, note: Text) -> RichText:
    made = as_rich(title, style)
    return made.append("  ").append_text(as_rich(note, "dim")) if note else made


def _terminal_item(item: Text | Item) -> RenderableType:
    first, rest = _parts(item)
    return Rendered(
        RichText("· ").append_text(as_rich(first)), *(_indented(part, 2) for part in _terminal(rest))
    )


def _indented(part: RenderableType, by: int) -> RenderableType:
    return Padding(part, (0, 0, 0, by))
