# SPDX-License-Identifier: Apache-2.0
"""Any drawn options: an accepted option holds no path, no variable and no terminal control."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from strata.model.allowed import Form, Forms
from strata.model.layer import Layer, Provided
from strata.plan.catalogue import catalogue

# A space, a slash, a dollar sign, quotes, controls and everything beyond ASCII are not among these.
CLEAN: Final = re.compile(r"[A-Za-z0-9@^*:,=._+-]*", re.ASCII)
LISTED: Final = [(layer, key) for layer in catalogue().layers.values() for key in layer.allowed]
HOSTILE: Final = st.one_of(
    st.sampled_from(
        ["/dev/loop0", "../x", "/", "--", "-", "1/", "a\n", "${disk0}", "0:/x", "\x1b[2J", "\u202e"]
    ),
    st.text(max_size=6),
)


def values(form: Form) -> st.SearchStrategy[str]:
    """Values that an option takes, and some like them."""
    if form.parts is not None:
        return st.lists(assignments(form.parts), min_size=1, max_size=3).map(",".join)
    if form.pattern is None:
        return HOSTILE
    fitting = st.from_regex(form.pattern, fullmatch=True)
    return st.one_of(fitting, HOSTILE, st.builds(str.__add__, fitting, HOSTILE))


@st.composite
def assignments(draw: st.DrawFn, forms: Forms) -> str:
    name = draw(st.sampled_from(sorted(forms)))
    text = draw(st.one_of(st.just(name), HOSTILE, st.just(name.upper()), st.just(name[:-1])))
    return draw(st.one_of(st.just(text), values(forms[name]).map(lambda value: f"{text}={value}")))


@st.composite
def words(draw: st.DrawFn, forms: Forms) -> list[str]:
    name = draw(st.sampled_from(sorted(forms)))
    value = draw(values(forms[name]))
    joined = f"{name}={value}" if name.startswith("--") else name + value
    return draw(
        st.sampled_from([[name], [joined], [name, value], [value], [name, value, value], [name[:-1], value]])
    )


@st.composite
def given_options(draw: st.DrawFn) -> tuple[type[Layer], str, Any, list[str]]:
    """A layer, one of its keys, what a study gives it, and the texts of that which reach a program."""
    layer, key = draw(st.sampled_from(LISTED))
    forms = layer.allowed[key]
    if all(name.startswith("-") for name in forms):
        several = [word for each in draw(st.lists(words(forms), min_size=1, max_size=3)) for word in each]
        return layer, key, several, several
    several = draw(st.lists(assignments(forms), min_size=1, max_size=3))
    if key == "mount":
        return layer, key, several, several
    table: Mapping[str, str] = {name: value for name, _, value in (each.partition("=") for each in several)}
    return layer, key, dict(table), [*table, *table.values()]


@given(given_options())
@examples(1000)
def test_options_that_pass_are_clean(drawn: tuple[type[Layer], str, Any, list[str]]) -> None:
    layer, key, value, texts = drawn
    try:
        made = layer.model_validate({key: value})
    except ValueError:
        return
    provided = Provided(layer.requires.kind, (8 << 30,) if layer.requires.fits(1) else ())
    refused = list(made.diagnostics(provided, {}))

    assert all(each.remedy for each in refused)
    assert refused or all(CLEAN.fullmatch(text) for text in texts), texts


def patterns(forms: Forms) -> Iterator[re.Pattern[str]]:
    for form in forms.values():
        yield from patterns(form.parts or {})
        if form.pattern is not None:
            yield form.pattern


PATTERNS: Final = sorted(
    {each for layer, key in LISTED for each in patterns(layer.allowed[key])}, key=lambda each: each.pattern
)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda each: each.pattern)
@given(data=st.data())
@settings(max_examples=30)
def test_a_value_that_an_option_takes_is_clean(pattern: re.Pattern[str], data: st.DataObject) -> None:
    value = data.draw(st.from_regex(pattern, fullmatch=True))

    assert CLEAN.fullmatch(value)
    assert not value.startswith("-"), "it would be an option of its own"
