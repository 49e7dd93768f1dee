# SPDX-License-Identifier: Apache-2.0
"""How true a recording is: SQLite in the lab, beside the calls of SQLite on this machine repeated there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from lab_factory import head, records, run_text, stacks

from command_line import shown
from strata.lab import Lab
from strata.runners.lab import LabRunner

STACKS = ("ext4", "xfs", "btrfs", "f2fs")
TRANSACTIONS, ROWS = 100, 5000
MAKE = f"""
CREATE TABLE item (id INTEGER PRIMARY KEY, changed INTEGER NOT NULL, content TEXT NOT NULL);
CREATE INDEX item_changed ON item (changed);
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS} - 1)
INSERT INTO item SELECT i, 0, printf('%.400c', 'y') FROM n;
"""
# The statements of applications/sqlite.toml.
LOAD = "".join(
    f"INSERT OR REPLACE INTO item VALUES ({(i * 7919 + 1) % ROWS}, {i}, '{'x' * 400}');\n"
    for i in range(1, TRANSACTIONS + 1)
)
STUDY = f"""
[workloads.sqlite]
workload = "command"
preset = "sqlite"
variables = {{ journal = "delete", transactions = {TRANSACTIONS}, rows = {ROWS} }}
[workloads.replay]
workload = "calls"
calls = "sqlite.strata-calls"
"""


@pytest.mark.slow
def test_the_replay_of_sqlite_asks_the_same_of_every_disk(lab: Lab, tmp_path: Path) -> None:
    """The figures of issue 39: requests, bytes and flushes within 10 %, ratios of times within 15 %."""
    if missing := [name for name in ("strace", "sqlite3") if shutil.which(name) is None]:
        pytest.skip(f"needs {missing[0]}")
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "load.sql").write_text(LOAD)
    subprocess.run(["sqlite3", data / "app.db"], input=MAKE, text=True, check=True)
    pragmas = ("PRAGMA journal_mode = delete", "PRAGMA synchronous = FULL")
    command = ("sqlite3", data / "app.db", *pragmas, f".read {tmp_path / 'load.sql'}")
    shown("record", "--folder", data, "-o", tmp_path / "sqlite.strata-calls", "--", *command)

    done = run_text(head("truth", [1], "2GiB") + stacks(*STACKS) + STUDY, tmp_path, LabRunner(lab))

    assert not done.invalid
    found = records(tmp_path / "results")
    times = {}
    for stack in STACKS:
        (program, replay) = (found[f"{stack}.{load}.s1"] for load in ("sqlite", "replay"))
        one, other = (next(iter(each.disks.values())) for each in (program, replay))
        for name in ("writes", "write_bytes", "flushes"):
            assert other[name] == pytest.approx(one[name], rel=0.1), (stack, name)
        times[stack] = [each.phases_ns["measure"] for each in (program, replay)]
    for stack, (program_ns, replay_ns) in times.items():
        ratio = program_ns / times["ext4"][0]
        assert replay_ns / times["ext4"][1] == pytest.approx(ratio, rel=0.15), (stack, times)
