# SPDX-License-Identifier: Apache-2.0
"""``[survival]`` in the lab: stacks that do not keep their word lose acknowledged operations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lab_factory import oltp, surveyed

from command_line import shown, shown_json
from examples import SHARE
from strata.lab import Lab
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.results.capabilities import PowerCutFinding, lost_words
from study_texts import disk

LIAR = disk("liar", capacity="4GiB") + 'faults = [{ fault = "ignores-flush" }]\n'
DISKS = disk("disk0", capacity="4GiB") + LIAR
HEAD = """\
[study]
name = "survival"
question = "Which stack keeps what it acknowledges?"
seeds = [1]
"""
HONEST = """\
[stacks.honest]
devices = ["disk0"]
layers = [{ layer = "ext4" }]
"""
LYING = """\
[stacks.lying-drive]
devices = ["liar"]
layers = [{ layer = "ext4" }]
"""
STACKS = f"""\
{HONEST}{LYING if SHARE == 1 else ""}[stacks.no-fsync]
devices = ["disk0"]
layers = [{{ layer = "ext4" }}]
settings = {{ postgresql = {{ fsync = false }} }}
"""
OLTP = oltp(4, "2s")
MAIL = """\
[workloads.mail]
workload = "load"
personality = "varmail"
files = 200
deletes = "next"
duration = "2s"
"""
SYSBENCH = """\
[workloads.maria]
workload = "sysbench-oltp"
server = "mariadb"
threads = 4
duration = "2s"
[workloads.legacy]
workload = "sysbench-oltp"
server = "postgresql"
script = "legacy-complex"
threads = 4
duration = "2s"
[workloads.updates]
workload = "sysbench-oltp"
server = "mariadb"
script = "oltp_update_index"
threads = 4
duration = "2s"
"""
CUT = "[survival]\npower_cuts = 1\n"
PLANTED = {
    "settings": """\
[stacks.planted]
devices = ["disk0"]
layers = [{ layer = "ext4", barriers = false }]
""",
    "drive": LYING.replace("lying-drive", "planted"),
}


def cut(lab: Lab, folder: Path, text: str) -> dict[tuple[str, str], PowerCutFinding]:
    file = folder / "study.toml"
    file.write_text(f"{HEAD}{DISKS}{text}{CUT}")
    study = load_study(file, catalogue())
    return {(each.stack, each.workload): each for each in surveyed(lab, study, folder).cuts}


def test_only_the_stack_that_keeps_its_word_has_everything_and_findings_are_kept(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cut(lab, tmp_path, STACKS + OLTP)

    honest = found["honest", "oltp"]
    assert (honest.verdict, honest.lost) == ("sound", 0)
    assert (honest.acknowledged or 0) > 50
    assert honest.recovery_ns
    for name in ("no-fsync", "lying-drive") if SHARE == 1 else ("no-fsync",):
        broken = found[name, "oltp"]
        assert (broken.acknowledged or 0) > 50, broken
        assert (broken.lost or 0) > 0, broken
        assert "acknowledged operations lost" in lost_words([broken])
        assert broken.lost_by_disks > 0 or name == "no-fsync"

    def again(*arguments: object) -> None:
        raise AssertionError("a finding that is kept was made again")

    monkeypatch.setattr("strata.experiment.strategies.power_cuts.cut_and_recover", again)
    assert cut(lab, tmp_path, STACKS + OLTP) == found


def test_a_mail_server_has_what_it_synced_unless_the_drive_lies(lab: Lab, tmp_path: Path) -> None:
    # ZFS deletes hundreds of files a second, some of them between the question and the cut.
    layers = '{ layer = "zpool", arc_max = "64MiB" }, { layer = "zfs" }'
    # An ext4 that the lie leaves damaged can be mounted, and what is in it is not counted.
    lying = LYING.replace("ext4", "xfs")
    found = cut(lab, tmp_path, HONEST.replace('{ layer = "ext4" }', layers) + lying + MAIL)

    kept, lost = found["honest", "mail"], found["lying-drive", "mail"]
    assert (kept.verdict, kept.lost) == ("sound", 0), kept
    assert (kept.acknowledged or 0) > 100
    assert (lost.lost or 0) > 0, lost


@pytest.mark.slow
def test_transactions_of_sysbench_are_there_unless_the_drive_lies(lab: Lab, tmp_path: Path) -> None:
    found = cut(lab, tmp_path, HONEST + LYING + SYSBENCH)

    for workload in ("maria", "legacy", "updates"):
        kept, lost = found["honest", workload], found["lying-drive", workload]
        assert (kept.verdict, kept.lost) == ("sound", 0), kept
        assert (kept.acknowledged or 0) > 20, kept
        assert lost.durability_held is False, lost
    assert sum(each.lost or 0 for each in found.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_stack_is_the_fastest_and_the_advice_refuses_it_and_says_why(
    lab: Lab, tmp_path: Path, kind: str
) -> None:
    file, results = tmp_path / "study.toml", tmp_path / "results"
    xfs = HONEST.replace("honest", "xfs").replace("ext4", "xfs")
    head = HEAD.replace("[1]", "[1, 2, 3]")
    file.write_text(f"{head}{DISKS}{HONEST}{xfs}{PLANTED[kind]}{OLTP}{CUT}")

    shown("run", file, "--results", results)
    [advice] = shown_json("advise", results, "--use", "postgresql-server")["advices"]
    shown("export", results, "--format", "markdown")
    [row] = re.findall(r"^\| oltp \| planted \|.*$", (results / "export" / "report.md").read_text(), re.M)

    [out] = [each for each in advice["out"] if each["stack"] == "planted"]
    assert out["capability"] == "durable"
    assert {"settings": "barriers = false", "drive": "ignores-flush"}[kind] in out["text"]
    assert "acknowledged operations lost" in out["text"]
    assert out["price"]["ratio"]["ratio"] < 0.5  # of the leader's waiting
    assert "planted" not in advice["candidates"]
    assert not {*advice["leaders"]} - {"honest", "xfs"}
    assert int(row.split("|")[6].replace(",", "")) > 0
