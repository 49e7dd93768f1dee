# SPDX-License-Identifier: Apache-2.0
"""Lists of calls: one hand-over to the lab's kernel gives what the same calls one by one give."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_factory import head, records, run_text, stacks, valid_record

from strata.lab import Lab
from strata.runners.lab import LabRunner
from strata.workloads.generator.output import HandsOver

LOADS = """[workloads.pages]
workload = "load"
personality = "webserver"
threads = 20
duration = "100ms"

[workloads.mail]
workload = "load"
personality = "varmail"
duration = "500ms"

[workloads.storm]
workload = "file-storm"
files = 1000

"""


def test_lists_give_what_their_calls_one_by_one_give(lab: Lab, tmp_path: Path) -> None:
    study = head("lists", [1]).replace("time_limit", "cpus = 4\ntime_limit") + stacks("ext4")
    found = []
    for lists in ("true", "false"):  # plans of one length: reading it takes time
        text = study + "\n" + LOADS.replace("\n\n", f"\nlists = {lists}\n")
        run_text(text, tmp_path / lists, LabRunner(lab))
        found.append(records(tmp_path / lists / "results"))
    by_lists, by_calls = found

    assert [name for name, each in (*by_lists.items(), *by_calls.items()) if not each.validity.valid] == []
    assert len(by_lists) == 3
    for name, record in by_lists.items():
        calls = {each.name: each.value for each in by_calls[name].metrics}
        rates = {each.name: each.value for each in record.metrics if each.name.endswith("_per_s")}
        assert rates == pytest.approx({each: calls[each] for each in rates}, rel=0.02), name


def test_a_web_server_by_lists_is_that_of_a_program_that_knows_none(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = LOADS.partition("\n\n")[0].replace("100ms", "200ms") + "\n"
    study = head("lists", [1]).replace("time_limit", "cpus = 4\ntime_limit") + stacks("ext4") + pages
    found = []
    for name in ("lists", "single"):
        monkeypatch.setattr(HandsOver, "hand_over_words", (f"--hand-over={name}",))
        record = valid_record(study, tmp_path / name, LabRunner(lab))
        found.append({each.name: each.value for each in record.metrics})

    lists, single = found
    sure = [name for name in single if name.endswith(("_per_s", "_p50"))]
    assert len(sure) > 6
    assert lists != single
    assert [lists[name] for name in sure] == pytest.approx([single[name] for name in sure], rel=0.02)
