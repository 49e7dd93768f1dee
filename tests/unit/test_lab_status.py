# SPDX-License-Identifier: Apache-2.0
"""``strata lab status`` knows every kind of thing that the cache may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.cli.lab import _row
from strata.lab.cache import KINDS, Cache, Entry, Inputs


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_entry_has_a_description(kind: str, tmp_path: Path) -> None:
    def make(folder: Path) -> dict[str, object]:
        (folder / "made").write_text("x")
        return {"sha256": "0", "size_bytes": 1}

    entry: Entry = Cache(tmp_path).build(kind, Inputs({"a": "1"}, {}), make)

    assert _row(entry, {})["what"]
