# SPDX-License-Identifier: Apache-2.0
"""`strata bisect` on a tree of 64 commits, one of which adds a flush to ext4's fsync."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planted_tree import PLANTED, planted_tree
from strata.cli import app
from strata.lab import Lab
from strata.lab.cache import Cache, cache_root
from strata.model.kernel import DEFAULT_VERSION
from study_texts import HEAD, disk, pgbench

pytestmark = pytest.mark.slow  # two kernels are compiled, and parts of six more

STUDY = HEAD + disk("disk0") + '[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n'
STUDY += pgbench("oltp").replace("clients = 1", "clients = 4")


def test_the_commit_that_adds_a_flush_is_found_and_the_flush_is_named(lab: Lab, tmp_path: Path) -> None:
    wanted = f"linux-source-{DEFAULT_VERSION}"
    sources = [
        each for each in Cache(cache_root()).entries("source") if each.inputs.wanted.get("package") == wanted
    ]
    if not sources:
        pytest.skip("the cache has no kernel source: the lab was built elsewhere")
    tree, study = tmp_path / "linux", tmp_path / "fsync.toml"
    study.write_text(STUDY)
    planted = planted_tree(sources[0].path / "linux", tree, commits=64, at=41)
    search = [
        "bisect",
        str(study),
        "--tree",
        str(tree),
        "--results",
        str(tmp_path / "found"),
        "--good",
        "base",
    ]

    shown = CliRunner().invoke(app, [*search, "--bad", "main"])

    assert shown.exit_code == 0, shown.output
    assert f"{planted[:12]} changed it from" in shown.stdout
    assert PLANTED in shown.stdout
    assert re.search(r"1\.0\d\s+and\s+2\.0\d\s+flushes", shown.stdout)
    again = json.loads(CliRunner().invoke(app, [*search, "--bad", "main", "--json"]).stdout)
    assert again["first"]["name"] == planted  # of what is kept, in seconds
    assert len(again["tried"]) <= 9
