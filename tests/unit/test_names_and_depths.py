# SPDX-License-Identifier: Apache-2.0
"""Names that no file system takes, and keys that no reader takes, are mistakes with their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.diagnostics.mistakes import parse_toml
from strata.errors import DiagnosticsError, StudyError
from study_texts import SOUND, mistakes, read

LONG, LONGER = "n" * 300, "n" * 5000


def test_a_name_too_long_for_a_file_has_its_place(tmp_path: Path) -> None:
    for old, new, place in (
        ("[stacks.ext4]", f"[stacks.{LONG}]", f"stacks.{LONG}"),
        ("seeds = [1, 2]\n", f'seeds = [1, 2]\nkernel = "./{LONG}"\n', "study.kernel"),
        ("seeds = [1, 2]\n", f'seeds = [1, 2]\nkernel = "./{LONGER}"\n', "study.kernel"),
        ("seeds = [1, 2]\n", f'seeds = [1, 2]\ncpu = "./{LONGER}.toml"\n', "study.cpu"),
    ):
        assert place in mistakes(tmp_path, SOUND.replace(old, new, 1))


def test_a_name_of_a_hundred_characters_is_taken(tmp_path: Path) -> None:
    name = "n" * 100
    assert name in read(tmp_path, SOUND.replace("[stacks.ext4]", f"[stacks.{name}]", 1)).stacks


def test_a_key_of_very_many_parts_is_refused() -> None:
    for parts in (41, 500, 20_000):
        for form in ("{} = 1", "[{}]\nb = 1", "a = {{ {} = 1 }}"):
            with pytest.raises(StudyError, match="nested too deeply"):
                parse_toml(form.format(".".join(["a"] * parts)), "study.toml")


def test_so_is_the_key_of_a_factor(tmp_path: Path) -> None:
    key = ".".join(["a"] * 20_000)
    text = SOUND + f'\n[matrix]\nf = {{ key = "workloads.{key}", values = [1, 2] }}\n'

    with pytest.raises(DiagnosticsError) as caught:
        read(tmp_path, text)

    assert "has 20001 parts" in str(caught.value)
    assert len(str(caught.value)) < 1000
