# SPDX-License-Identifier: Apache-2.0
"""Lists of the options of other programs that a study may give; all others are refused.

A list of forbidden options is never complete: programs take abbreviations, aliases and new options. So each
option is listed by its whole name with the form of its value, and no form has a path, a command or a device.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from strata.spec.names import Diagnostic, nearest

# An unlisted option is often not misspelt but forbidden: suggest another only for an evident typing error.
_SIMILARITY: Final = 0.75


@dataclass(frozen=True)
class Form:
    """What the value of an option may be.

    Attributes:
        pattern: Matches the whole value; None: the option has no value, or one that `parts` describes.
        meaning: The value, for people: ``a size such as 64k``.
        optional: Whether the option may stand without its value.
        parts: The forms of the options in the value, which are separated by commas.
        instead: The remedy where Strata gives the option itself.
    """

    pattern: re.Pattern[str] | None
    meaning: str
    optional: bool = False
    parts: Mapping[str, Form] | None = None
    instead: str | None = None

    @property
    def has_value(self) -> bool:
        return not self.optional and (self.pattern is not None or self.parts is not None)

    def fits(self, value: str | None) -> bool:
        """Whether an option without parts may have this value; None: it stands alone."""
        if value is None:
            return not self.has_value
        return self.pattern is not None and self.pattern.fullmatch(value) is not None


class Allowing:
    """A layer or a workload; ``allowed`` lists the permitted options of each key that holds some."""

    allowed: ClassVar[Mapping[str, Mapping[str, Form]]] = {}


def form(pattern: str, meaning: str, *, optional: bool = False) -> Form:
    """A form with a pattern of ASCII characters."""
    return Form(re.compile(pattern, re.ASCII), meaning, optional)


def one_of(*values: str, optional: bool = False) -> Form:
    return form("|".join(map(re.escape, values)), f"one of {', '.join(values)}", optional=optional)


FLAG: Final = Form(None, "no value")
INTEGER: Final = form(r"\d{1,18}", "a whole number")
NUMBER: Final = form(r"\d{1,15}(\.\d{1,9})?", "a number")
SIZE: Final = form(r"\d{1,15}([kKmMgGtTpP]([iI]?[bB])?|[bBsS])?", "a size such as 64k")
SWITCH: Final = one_of("0", "1")

Forms = Mapping[str, Form]
"""Options by their names, with their dashes if they have some."""


def named(names: str, shape: Form) -> dict[str, Form]:
    """Options of one form; ``names`` are separated by spaces."""
    return dict.fromkeys(names.split(), shape)


def by_form(forms: Forms) -> Mapping[str, tuple[str, ...]]:
    """The sorted names of options, by the meaning of their values, in which code is between backticks."""
    names = sorted(forms, key=lambda name: (name.lower(), name))
    meanings = {name: _meaning(forms[name]) for name in names}
    return {each: tuple(name for name in names if meanings[name] == each) for each in meanings.values()}


def _meaning(form: Form) -> str:
    if form.instead is not None:
        return f"given by Strata: {form.instead}"
    if form.parts is None or all(part == FLAG for part in form.parts.values()):
        return form.meaning + (", or no value" if form.optional else "")
    parts = [
        f"{', '.join(f'`{name}`' for name in names)}: {each}" for each, names in by_form(form.parts).items()
    ]
    return "separated by commas; " + "; ".join(parts)


def suboptions(forms: Forms) -> Form:
    """Several options in the value of one: ``stride=16,lazy_itable_init=1``."""
    return Form(None, f"some of {', '.join(forms)}, separated by commas", parts=forms)


def features(names: str) -> Form:
    """Features of a filesystem, separated by spaces, each of which a ``^`` in front turns off."""
    each = names.split()
    meaning = f"some of {', '.join(each)}, separated by commas; ^ in front turns one off"
    return Form(None, meaning, parts=dict.fromkeys([*each, *(f"^{name}" for name in each)], FLAG))


def given(instead: str) -> Form:
    """The form of an option that Strata gives itself; ``instead`` is the remedy."""
    return Form(None, "no value", instead=instead)


def pair_diagnostics(
    what: str, pairs: Mapping[str, object], forms: Forms, *, key: str
) -> Iterable[Diagnostic]:
    """Refuse the options of the table ``key`` that are not listed, or whose values have another form.

    In messages the options are called ``what``: ``fio option``.
    """
    for name, value in pairs.items():
        yield from _diagnostics(what, name, option_text(value), forms, key)


def option_text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def item_diagnostics(what: str, items: Iterable[str], forms: Forms, *, key: str) -> Iterable[Diagnostic]:
    """Refuse items ``name`` or ``name=value`` that are not listed, or whose values have another form."""
    for item in items:
        name, equals, value = item.partition("=")
        yield from _diagnostics(what, name, value if equals else None, forms, key)


def word_diagnostics(what: str, words: Iterable[str], forms: Forms, *, key: str) -> Iterable[Diagnostic]:
    """Refuse words of a command line that are neither a listed option nor a value of its form.

    An option's value is the rest of its word (``-m0``, ``--nodesize=16k``) or the next word.
    """
    for name, value in _options(words, forms):
        yield from _diagnostics(what, name, value, forms, key)


def _options(words: Iterable[str], forms: Forms) -> Iterator[tuple[str, str | None]]:
    waiting = deque(words)
    while waiting:
        word = waiting.popleft()
        name, equals, rest = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        known = forms.get(name)
        value = rest if equals or rest else None
        if value is None and waiting and _takes_next(known, waiting[0]):
            value = waiting.popleft()
        yield name if known else word, value


def _takes_next(known: Form | None, following: str) -> bool:
    """Whether the next word is the option's value, judged by its look for an option that is refused."""
    if known is None or known.instead is not None:
        return not following.startswith("-")
    return known.has_value


def _diagnostics(what: str, name: str, value: str | None, forms: Forms, key: str) -> Iterable[Diagnostic]:
    known = forms.get(name)
    if known is None:
        free = [each for each, form in forms.items() if form.instead is None]
        cause = f'the {what} "{name[:60]}" is not one that a study may give'
        yield Diagnostic(cause, remedy=nearest(name, free, _SIMILARITY), key=key)
    elif known.instead is not None:
        yield Diagnostic(f"Strata gives the {what} {name} itself", remedy=known.instead, key=key)
    elif known.parts is not None and value is not None:
        for part in value.split(","):
            inner, equals, rest = part.partition("=")
            yield from _diagnostics(f"{what} {name}", inner, rest if equals else None, known.parts, key)
    elif not known.fits(value):
        said = "without a value" if value is None else f'"{value[:60]}"'
        yield Diagnostic(f"the {what} {name} cannot be {said}", remedy=f"it takes {known.meaning}", key=key)
