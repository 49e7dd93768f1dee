# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from strata.errors import DiagnosticsError, StrataError, StudyError


def test_an_error_reads_place_cause_remedy() -> None:
    error = StrataError("it broke", place="step x", remedy="mend it")

    assert str(error) == "step x: it broke\n  mend it"


def test_a_mistake_in_a_study_is_placed_by_line_and_key() -> None:
    assert str(StudyError("wrong", key="study.name", line=3)) == "line 3, study.name: wrong"
    assert str(StudyError("wrong", place="x.toml")) == "x.toml: wrong"


def test_mistakes_are_counted_and_all_shown() -> None:
    shown = str(
        DiagnosticsError([StudyError("a", key="x"), StudyError("b", key="y", remedy="c")], place="s.toml")
    )

    assert shown.splitlines() == ["s.toml: 2 mistakes", "x: a", "y: b", "  c"]
