# SPDX-License-Identifier: Apache-2.0
"""A study file of any content yields an error message and never a traceback."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata.diagnostics.positions import key_lines
from strata.errors import StrataError
from strata.seeds import derive_seed, derive_uuid
from study_texts import SOUND, mistakes, read

LINES = SOUND.splitlines()
SCALARS = st.one_of(
    st.integers(-(1 << 70), 1 << 70),
    st.booleans(),
    st.text(max_size=8),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
KEYS = st.from_regex(r"[a-z][a-z_]{3,12}", fullmatch=True)


def toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        # A JSON text is a TOML text, but for the delete character.
        return json.dumps(value.replace("\x7f", "")).encode("utf-8", "replace").decode()
    return repr(value).lower() if isinstance(value, bool) else repr(value)


def outcome(text: str) -> str:
    """The error message for the user, empty if the study is valid."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            read(Path(folder), text)
        except StrataError as error:
            return str(error)
    return ""


@given(st.text(max_size=300))
def test_any_text_gives_a_sentence(text: str) -> None:
    assert outcome(text)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, len(LINES) - 1), VALUES), min_size=1, max_size=4))
def test_any_value_in_the_place_of_another_gives_a_sentence_or_is_fine(
    changes: list[tuple[int, Any]],
) -> None:
    lines = list(LINES)
    for index, value in changes:
        key, equals, _ = LINES[index].partition("=")
        if equals:
            lines[index] = f"{key}= {toml(value)}"

    shown = outcome("\n".join(lines))

    assert shown == "" or shown.count("\n") >= 1


@settings(max_examples=50)
@given(st.sampled_from([i for i, line in enumerate(LINES) if line.startswith("[")]), KEYS)
def test_an_unknown_key_is_always_reported_at_its_line(index: int, key: str) -> None:
    key = f"{key}zzz"
    text = "\n".join([*LINES[: index + 1], f"{key} = 1", *LINES[index + 1 :]])

    with tempfile.TemporaryDirectory() as folder:
        found = mistakes(Path(folder), text)

    assert [path for path in found if path.endswith(f".{key}")], found
    assert f"line {index + 2}," in next(iter(found.values()))


@given(st.text(max_size=200))
def test_the_lines_of_any_text_can_be_looked_for(text: str) -> None:
    for line in key_lines(text).values():
        assert 1 <= line <= text.count("\n") + 1


NAMES = st.lists(st.text(max_size=5), max_size=3)


@given(st.integers(0, (1 << 63) - 1), NAMES, st.integers(0, (1 << 63) - 1), NAMES)
def test_seeds_of_other_names_or_trials_are_others(
    seed: int, names: list[str], other_seed: int, other_names: list[str]
) -> None:
    same = (seed, names) == (other_seed, other_names)
    if any("\0" in name for name in [*names, *other_names]):
        return

    assert (derive_seed(seed, *names) == derive_seed(other_seed, *other_names)) == same
    assert (derive_uuid(seed, *names) == derive_uuid(other_seed, *other_names)) == same
