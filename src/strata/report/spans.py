# SPDX-License-Identifier: Apache-2.0
"""Text as typed pieces: a stack's name, a value with its unit, a ratio with its interval, a verdict.

A sentence is written once, with `said`, and each medium sets its pieces: a page colours a stack's name and
breaks no line within a number, Markdown sets the name bold. `strata.report.wording` formats the numbers.

>>> plain(said("{} is {} as good.", StackName("xfs"), Times(1.13, Interval(1.10, 1.16))))
'xfs is 1.13 × (1.10 to 1.16) as good.'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from markupsafe import Markup, escape
from rich.text import Text as RichText

from strata.report.wording import SIGNS, between, interval_ends, interval_words
from strata.statistics.comparison import Comparison, Verdict
from strata.statistics.interval import Interval
from strata.units import format_value, times

Tone = Literal[
    "", "best", "better", "worse", "good", "bad", "doubt", "unusual", "dim", "strong", "code", "em"
]
STYLES: Final[dict[Tone, str]] = {
    "best": "bold green",
    "better": "bold green",
    "worse": "bold red",
    "good": "green",
    "bad": "red",
    "doubt": "yellow",
    "unusual": "magenta",
    "dim": "dim",
    "strong": "bold",
    "code": "",
    "em": "italic",
}
TONES: Final[dict[Verdict, Tone]] = {
    "worse": "worse",
    "better": "better",
    "equal": "",
    "undecided": "doubt",
    "marginal": "doubt",
    "doubtful": "doubt",
    "too few seeds": "doubt",
    "not ranked": "doubt",
}


@dataclass(frozen=True)
class StackName:
    """The name of a stack; ``note`` stands behind it in brackets."""

    name: str
    note: str = ""

    @property
    def text(self) -> str:
        return f"{self.name} ({self.note})" if self.note else self.name


@dataclass(frozen=True)
class WorkloadName:
    """The name of a workload, which leads to its section."""

    text: str


@dataclass(frozen=True)
class Unbroken:
    """Text with numbers in it, such as an interval, within which a page breaks no line."""

    text: str


@dataclass(frozen=True)
class Toned:
    """Text that stands out, or stands back."""

    text: str
    tone: Tone = "strong"


@dataclass(frozen=True)
class Mono:
    text: str


@dataclass(frozen=True)
class Link:
    """Text that leads to a place of the page, ``#workload-oltp``, or to an address."""

    text: str
    target: str


@dataclass(frozen=True)
class Amount:
    """A measured value in its unit, with its interval if it is known: ``353 /s (351 to 355 /s)``."""

    value: float
    unit: str
    interval: Interval | None = None

    @property
    def text(self) -> str:
        ends = self.interval
        shown = f" ({between(ends.low, ends.high, self.unit, 'to')})" if ends else ""
        return f"{format_value(self.value, self.unit)}{shown}"


@dataclass(frozen=True)
class Times:
    """A ratio with its interval and a note: ``0.49 × (0.45 to 0.53, doubtful)``.

    ``is_named``: in a sentence, which says that it is the 95 % interval, or that there is none.
    """

    ratio: float
    interval: Interval | None = None
    note: str = ""
    is_named: bool = False

    @staticmethod
    def of(comparison: Comparison, *, is_named: bool = False) -> Times:
        """How many times as good the stack is as its baseline; above 1 is better, whatever the metric."""
        verdict = comparison.verdict
        note = "" if is_named or verdict in {"better", "worse"} else verdict
        return Times(comparison.gain, comparison.gain_interval, note, is_named)

    @staticmethod
    def over(comparison: Comparison) -> Times:
        """How many times as good the baseline is as the stack."""
        ends = comparison.gain_interval
        turned = Interval(1 / ends.high, 1 / ends.low) if ends else None
        return Times(1 / comparison.gain, turned)

    @property
    def text(self) -> str:
        interval = self.interval
        ends = interval_words(interval) if self.is_named else interval_ends(interval) if interval else ""
        noted = ", ".join(filter(None, (ends, self.note if ends else "")))
        return f"{times(self.ratio)} ({noted})" if noted else times(self.ratio)


@dataclass(frozen=True)
class VerdictSign:
    """A verdict with its sign, which does not depend on colour: ``▲ better``."""

    verdict: Verdict

    @property
    def text(self) -> str:
        return f"{SIGNS[self.verdict]} {self.verdict}"


PIECES: Final = (StackName, WorkloadName, Unbroken, Toned, Mono, Link, Amount, Times, VerdictSign)
Span = str | StackName | WorkloadName | Unbroken | Toned | Mono | Link | Amount | Times | VerdictSign
Text = Span | Sequence[Span]
"""A piece of text, or several in a row. Within a string, text between backticks is code."""


def spans(text: Text) -> tuple[Span, ...]:
    """The pieces of a text."""
    if isinstance(text, (str, *PIECES)):
        return (text,) if text != "" else ()
    return tuple(text)


def said(template: str, *pieces: Text) -> tuple[Span, ...]:
    """A sentence with pieces in the places of ``{}``: ``said("{} leads.", StackName("xfs"))``."""
    first, *others = template.split("{}")
    found: list[Span] = [first]
    for piece, words in zip(pieces, others, strict=True):
        found += [*spans(piece), words]
    return tuple(span for span in found if span != "")


def joined(texts: Sequence[Text], separator: str = " ") -> tuple[Span, ...]:
    """Texts in a row, with a separator between them."""
    return tuple(
        span for index, text in enumerate(texts) for span in (*([separator] if index else []), *spans(text))
    )


def listing(texts: Sequence[Text]) -> tuple[Span, ...]:
    """``a, b and c``."""
    if len(texts) < 2:
        return joined(texts)
    return (*joined(texts[:-1], ", "), " and ", *spans(texts[-1]))


def plain(text: Text) -> str:
    """A text without any form."""
    return "".join(span if isinstance(span, str) else span.text for span in spans(text))


Mark = Callable[[str], Markup]
"""The form of a stack's name in a page."""
_CODE: Final = re.compile(r"`([^`]+)`")
_BREAKS: Final = re.compile(
    r"(?<=\d) (?=\S)|(?<=%) (?=interval)|(?<=interval) (?=\d)| (?=to [\d<>])|(?<=to) (?=[\d<>])"
)


def as_html(text: Text, mark: Mark = escape) -> Markup:
    """For a page; ``mark`` sets a stack's name. A line is never broken within a number."""
    return Markup("").join(_html(span, mark) for span in spans(text))


def _html(span: Span, mark: Mark) -> Markup:
    match span:
        case str():
            found = Markup(_CODE.sub(r"<code>\1</code>", str(escape(span))))  # noqa: S704 - escaped
        case StackName(name, note):
            found = mark(name) + (f" ({note})" if note else "")
        case WorkloadName(name):
            found = Markup('<a class="workload-name" href="#workload-{}">{}</a>').format(name, name)
        case Mono(words):
            found = Markup("<code>{}</code>").format(words)
        case Link(words, target):
            found = Markup('<a href="{}">{}</a>').format(target, words)
        case Toned(words, "strong" | "em" as element):
            found = Markup(f"<{element}>{{}}</{element}>").format(_unbroken(words))  # noqa: S704 - our own
        case Toned(words, tone):
            found = Markup('<span class="is-{}">{}</span>').format(tone, _html(words, mark))
        case VerdictSign(verdict):
            found = Markup('<span class="is-{}">{}</span>').format(TONES[verdict] or "equal", span.text)
        case Amount() | Times() | Unbroken():
            found = escape(_unbroken(span.text))
    return found


def _unbroken(text: str) -> str:
    return _BREAKS.sub("\N{NO-BREAK SPACE}", text)


_MARKDOWN: Final = re.compile(r"([\\*_\[\]<>|#])")
_BOLD: Final = frozenset({"best", "better", "worse", "strong"})


def escaped(words: str) -> str:
    """Text without Markdown, but for code between backticks."""
    parts = _CODE.split(" ".join(words.split()))
    return "".join(
        f"`{part}`" if index % 2 else _MARKDOWN.sub(r"\\\1", part).replace("`", r"\`")
        for index, part in enumerate(parts)
    )


def as_markdown(text: Text) -> str:
    return "".join(map(_markdown, spans(text)))


def _markdown(span: Span) -> str:
    match span:
        case str():
            # The spaces at its ends, which `escaped` takes away, divide it from its neighbours.
            words = escaped(span)
            before, after = (" " if span[:1].isspace() else ""), (" " if span[-1:].isspace() else "")
            found = f"{before}{words}{after}" if words else before
        case StackName(name, note):
            found = f"**{escaped(name)}**" + (f" ({escaped(note)})" if note else "")
        case Mono(words):
            found = f"`{words}`"
        case WorkloadName(name):
            found = f"*{escaped(name)}*"
        case Link(words, target):
            found = escaped(words) if target.startswith("#") else f"[{escaped(words)}]({target})"
        case Toned(words, tone):
            around = "**" if tone in _BOLD else "*" if tone == "em" else ""
            found = f"{around}{escaped(words)}{around}"
        case _:
            found = escaped(span.text)
    return found


def as_rich(text: Text, style: str = "") -> RichText:
    """For a terminal."""
    made = RichText(style=style)
    for span in spans(text):
        match span:
            case str():
                made.append(span)
            case Toned(words, tone):
                made.append(words, STYLES[tone])
            case StackName() | WorkloadName():
                made.append(span.text, "bold")
            case Mono(words):
                made.append(words, "cyan")
            case VerdictSign(verdict):
                made.append(span.text, STYLES.get(TONES[verdict], ""))
            case _:
                made.append(span.text)
    return made
