# SPDX-License-Identifier: Apache-2.0
"""Lists of the options of other programs that a study may give; all others are refused.

A list of forbidden options is never complete: programs take abbreviations, aliases and new options. So each
option is listed by its whole name with the form of its value, and no form has a path, a command or a device.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeVar

from strata.diagnostics.names import Diagnostic, nearest
from strata.units import is_power_of_two
from strata.words import listed

T = TypeVar("T")

# An unlisted option is often not misspelt but forbidden: suggest another only for an evident typing error.
_SIMILARITY: Final = 0.75


# Of mkfs and of the kernel's memparse: powers of 1024. Blocks (b) and sectors (s) depend on the filesystem.
_SUFFIXES: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_NUMBER: Final = re.compile(r"(\d+)([kmgtp]?)(?:i?b)?", re.IGNORECASE)


def binary_size(text: str) -> int | None:
    """``64k`` as 65536; None for sizes in blocks or sectors, and for no size."""
    found = _NUMBER.fullmatch(text)
    return None if found is None else int(found[1]) << _SUFFIXES[found[2].lower()]


@dataclass(frozen=True)
class Limits:
    """The values of an option's form that a program or the kernel takes.

    Attributes:
        source: Where the limits stand: a source file, or a manual page.
        is_power: Only powers of two.
        multiple: Only multiples of this.
        default: A further value, which stands for the default.
    """

    least: int
    most: int
    source: str
    is_power: bool = False
    multiple: int = 1
    default: int | None = None

    def refuse(self, text: str) -> bool:
        if (value := binary_size(text)) is None:
            return False
        fits = self.least <= value <= self.most and value % self.multiple == 0
        return value != self.default and not (fits and (is_power_of_two(value) or not self.is_power))

    def __str__(self) -> str:
        what = "a power of two, " if self.is_power else ""
        what += f"a multiple of {_binary(self.multiple)}, " if self.multiple > 1 else ""
        return f"{what}{_binary(self.least)} to {_binary(self.most)}"


def _binary(value: int) -> str:
    """``65536`` as ``64k``."""
    power = max((each for each in _SUFFIXES.values() if value and value % (1 << each) == 0), default=0)
    return f"{value >> power}{next(name for name, each in _SUFFIXES.items() if each == power)}"


@dataclass(frozen=True)
class Form:
    """What the value of an option may be.

    Attributes:
        pattern: Matches the whole value; None: the option has no value, or one that `parts` describes.
        meaning: The value, for people: ``a size such as 64k``.
        optional: Whether the option may stand without its value.
        parts: The forms of the options in the value, which are separated by commas.
        instead: The remedy where Strata gives the option itself.
        limits: The limits of a number or size.
    """

    pattern: re.Pattern[str] | None
    meaning: str
    optional: bool = False
    parts: Mapping[str, Form] | None = None
    instead: str | None = None
    limits: Limits | None = None

    @property
    def has_value(self) -> bool:
        return not self.optional and (self.pattern is not None or self.parts is not None)

    def fits(self, value: str | None) -> bool:
        """Whether an option without parts may have this value; None: it stands alone."""
        if value is None:
            return not self.has_value
        is_like = self.pattern is not None and self.pattern.fullmatch(value) is not None
        return is_like and (self.limits is None or not self.limits.refuse(value))


@dataclass(frozen=True)
class Rule:
    """An option that needs one of others, or excludes each of others.

    Options are named as in ``-d su``, ``-O ^has_journal``, ``data`` or, with their value, ``data=journal``.

    Attributes:
        source: Where the rule stands: a source file, or a manual page.
    """

    option: str
    source: str
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()


class Allowing:
    """A layer or a workload.

    Attributes:
        allowed: The permitted options of each key that holds some.
        rules: Which of them go together; an option of any key can exclude one of another.
        hints: Remedies where users give a file, by the key that they give it with.
    """

    allowed: ClassVar[Mapping[str, Mapping[str, Form]]] = {}
    rules: ClassVar[tuple[Rule, ...]] = ()
    hints: ClassVar[Mapping[str, str]] = {}


def form(pattern: str, meaning: str, *, optional: bool = False) -> Form:
    """A form with a pattern of ASCII characters."""
    return Form(re.compile(pattern, re.ASCII), meaning, optional)


def within(shape: Form, limits: Limits) -> Form:
    """The form of numbers or sizes with limits."""
    return replace(shape, meaning=f"{shape.meaning}: {limits}", limits=limits)


def one_of(*values: str, optional: bool = False) -> Form:
    return form("|".join(map(re.escape, values)), f"one of {', '.join(values)}", optional=optional)


FLAG: Final = Form(None, "no value")
INTEGER: Final = form(r"\d{1,18}", "a whole number")
NUMBER: Final = form(r"\d{1,15}(\.\d{1,9})?", "a number")
SIZE: Final = form(r"\d{1,15}([kKmMgGtTpP]([iI]?[bB])?|[bBsS])?", "a size such as 64k")
SWITCH: Final = one_of("0", "1")

Forms = Mapping[str, Form]
"""Options by their names, with their dashes if they have some."""


def named(names: str, value: T) -> dict[str, T]:
    """Names, separated by spaces, with one value: options of one form, or refused for one reason."""
    return dict.fromkeys(names.split(), value)


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
    for name, value in given_items(items):
        yield from _diagnostics(what, name, value, forms, key)


def word_diagnostics(what: str, words: Iterable[str], forms: Forms, *, key: str) -> Iterable[Diagnostic]:
    """Refuse words of a command line that are neither a listed option nor a value of its form.

    An option's value is the rest of its word (``-m0``, ``--nodesize=16k``) or the next word.
    """
    for name, value in _options(words, forms):
        yield from _diagnostics(what, name, value, forms, key)


def rule_diagnostics(
    rules: Iterable[Rule], given: Mapping[str, Iterable[tuple[str, str | None]]]
) -> Iterable[Diagnostic]:
    """Refuse options, ``given`` by key, that do not go together."""
    key_of: dict[str, str] = {}
    for key, pairs in given.items():
        for name, value in pairs:
            key_of[name] = key
            if value is not None:
                key_of[f"{name}={value}"] = key
    for rule in rules:
        others = [name for name in rule.excludes if name in key_of]
        if rule.option not in key_of:
            continue
        if rule.needs and not any(name in key_of for name in rule.needs):
            needed = listed(rule.needs, "or")
            remedy = f"give {needed}, too, or leave {rule.option} out"
            yield Diagnostic(f"{rule.option} needs {needed}", remedy=remedy, key=key_of[rule.option])
        elif others:
            cause = f"{rule.option} and {others[0]} exclude each other"
            yield Diagnostic(cause, remedy="leave one of the two out", key=key_of[others[0]])


def given_words(words: Iterable[str], forms: Forms) -> Iterable[tuple[str, str | None]]:
    """The options of a command line, parts as ``-d su``, with their values."""
    for name, value in _options(words, forms):
        known = forms.get(name)
        if known is not None and known.parts is not None and value is not None:
            for part in value.split(","):
                inner, equals, rest = part.partition("=")
                yield f"{name} {inner}", rest if equals else None
        else:
            yield name, value


def given_items(items: Iterable[str]) -> Iterable[tuple[str, str | None]]:
    """The items ``name`` or ``name=value`` with their values."""
    for item in items:
        name, equals, value = item.partition("=")
        yield name, value if equals else None


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
