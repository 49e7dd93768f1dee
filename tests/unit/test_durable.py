# SPDX-License-Identifier: Apache-2.0
"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strata.durable import write_durably


def test_an_interrupt_during_writing_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    (tmp_path / "study.json").write_text("before")
    monkeypatch.setattr(os, "fsync", interrupted)

    with pytest.raises(KeyboardInterrupt):
        write_durably(tmp_path / "study.json", b"after")

    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("study.json", "before")]
