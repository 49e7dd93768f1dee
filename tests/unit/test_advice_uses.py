# SPDX-License-Identifier: Apache-2.0
"""Uses as data: Strata's own, a user's, and every mistake that a file of uses can have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest

from strata.advice.uses import (
    DURABLE,
    Use,
    bundled_uses,
    read_pattern,
    read_uses,
    reweighted,
)
from strata.capabilities.probes import PROBES
from strata.diagnostics.mistakes import Diagnostics
from strata.errors import DiagnosticsError, StudyError
from strata.model.asked import REQUIREMENTS, UseName
from strata.plan.catalogue import catalogue
from strata.reading.entries import read_workload

PROBE_NAMES = [probe.name for probe in PROBES]
SOUND = """\
[uses.spool]
title = "Print spool"
about = "Files come and go."
source = "an estimate"

[uses.spool.weights.files]
weight = 3
why = "they are written"
fits = [{ workload = "load", personality = ["varmail", "fileserver"] }]
metrics = { headline = 2, pass_latency_ns_p99 = 1.5 }

[[uses.spool.needs]]
capability = "quota"
level = "wished"
why = "paper is dear"
"""


def read(tmp_path: Path, text: str) -> dict[str, Use]:
    file = tmp_path / "uses.toml"
    file.write_text(text)
    return read_uses(file, catalogue())


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(DiagnosticsError) as caught:
        read(tmp_path, text)
    return [str(each) for each in caught.value.diagnostics]


def fits(declared: Mapping[str, object], **workload: object) -> bool:
    diagnostics = Diagnostics("uses.toml", "")
    pattern = read_pattern(diagnostics, catalogue(), declared, ("fits",))
    diagnostics.raise_all()
    assert pattern is not None
    table = {"workload": declared["workload"], **workload}
    read = read_workload(diagnostics, catalogue().workloads, table, ("w",))
    diagnostics.raise_all()
    assert read is not None
    return pattern.fits(read.model_dump(mode="json"))


def test_a_study_can_ask_for_every_bundled_use_and_require_every_probe() -> None:
    assert [*get_args(UseName)] == list(bundled_uses(catalogue()))
    assert [*REQUIREMENTS] == [DURABLE, *PROBE_NAMES]


def test_every_bundled_need_is_a_probe_and_every_weight_says_that_it_is_an_estimate() -> None:
    for use in bundled_uses(catalogue()).values():
        assert {need.capability for need in use.needs} <= {DURABLE, *PROBE_NAMES}
        assert "estimate" in use.source
        assert use.total == 100  # so that a weight reads as a percentage


def test_the_workload_that_an_advice_asks_for_is_sound_and_is_what_the_weight_means() -> None:
    uses = bundled_uses(catalogue()).values()
    for pattern in (pattern for use in uses for each in use.weights for pattern in each.fits):
        diagnostics = Diagnostics("study.toml", "")
        table = pattern.example(catalogue())
        workload = read_workload(diagnostics, catalogue().workloads, table, ("workloads", "example"))
        diagnostics.raise_all()

        assert workload is not None, pattern
        assert pattern.fits(workload.model_dump(mode="json")), pattern
        assert not list(workload.diagnostics(1 << 40)), pattern


def test_a_metric_that_no_workload_of_its_weight_yields_is_refused(tmp_path: Path) -> None:
    [mistake] = mistakes(tmp_path, SOUND.replace("pass_latency_ns_p99", "latency_ns_p99"))

    assert "weights.files.metrics.latency_ns_p99: no workload that it fits yields the metric" in mistake
    assert "strata list workloads load" in mistake


def test_a_use_of_ones_own_is_read(tmp_path: Path) -> None:
    use = read(tmp_path, SOUND)["spool"]

    assert (use.title, use.weights[0].weight, dict(use.weights[0].metrics)) == (
        "Print spool",
        3,
        {"headline": 2, "pass_latency_ns_p99": 1.5},
    )
    assert [(need.capability, need.level) for need in use.needs] == [("quota", "wished")]


def test_all_mistakes_of_a_file_are_reported_at_once_each_at_its_key(tmp_path: Path) -> None:
    text = (
        SOUND.replace('title = "Print spool"', 'titel = "Print spool"')
        .replace("weight = 3", "weight = -3")
        .replace('"varmail", "fileserver"', '"varmial"')
        .replace('capability = "quota"', 'capability = "quotas"')
        + '\n[uses.Bad]\ntitle = ""\nabout = "a"\nsource = "s"\n'
        + '[uses.Bad.weights.w]\nweight = 1\nwhy = "w"\n'
        + 'fits = [{ workload = "pgbnch" }, { workload = "fio", presett = "x" }, '
        + '{ workload = "fio", size = "1Gib" }]\n'
        + "\n[others]\n"
    )

    found = mistakes(tmp_path, text)

    expected = [
        "uses.spool.title: this key is missing",
        'uses.spool.titel: unknown key "titel"\n  did you mean "title"?',
        "uses.spool.weights.files.weight: -3 is too small",
        'fits[0].personality: "varmial" is not valid here\n  did you mean "varmail"?',
        'uses.Bad: the name "Bad" is not in kebab case',
        "uses.Bad.title: this text is empty",
        'fits[0].workload: there is no workload "pgbnch"\n  did you mean "pgbench"?',
        'fits[1].presett: fio has no key "presett"\n  did you mean "preset"?',
        "fits[2].size",
        'others: unknown key "others"',
    ]
    text = "\n".join(found)
    for each in expected:
        assert each in text
    assert all(each.startswith("line ") for each in found)


def test_a_capability_that_no_probe_finds_out_is_refused(tmp_path: Path) -> None:
    [mistake] = mistakes(tmp_path, SOUND.replace('"quota"', '"quotas"'))

    assert 'uses.spool.needs[0].capability: there is no capability "quotas"' in mistake


def test_a_file_without_a_use_is_refused(tmp_path: Path) -> None:
    for text in ("", "uses = 3\n", "[uses]\n"):
        assert "there is no use" in mistakes(tmp_path, text)[0]


def test_a_pattern_means_workloads_of_its_kind_with_its_values_defaults_included() -> None:
    postgresql = {"workload": "sysbench-oltp", "server": "postgresql", "script": "oltp_read_write"}

    assert fits(postgresql, server="postgresql", duration="10s")
    assert not fits(postgresql, server="mariadb", duration="10s")
    assert not fits(postgresql, server="postgresql", script="legacy-complex", duration="10s")
    assert fits({"workload": "fio", "size": "1024MiB"}, preset="random-mix-4k", size="1GiB")
    assert not fits({"workload": "fio", "size": "1GiB"}, preset="random-mix-4k", size="2GiB")


def test_a_list_of_values_means_any_of_them_unless_the_key_itself_is_a_list() -> None:
    several = {"workload": "fio", "preset": ["random-mix-4k", "random-read-4k"]}

    assert fits(several, preset="random-read-4k")
    assert not fits(several, preset="random-write-4k")
    assert fits(
        {"workload": "pgbench", "before_measure": ["snapshot"]}, **PGBENCH, before_measure=["snapshot"]
    )


PGBENCH = {"scale": 1, "clients": 1, "duration": "10s"}


def test_a_workload_whose_stack_is_altered_is_only_meant_by_a_pattern_that_says_so() -> None:
    assert fits({"workload": "pgbench"}, **PGBENCH)
    assert not fits({"workload": "pgbench"}, **PGBENCH, before_measure=["snapshot"])
    assert not fits({"workload": "pgbench"}, **PGBENCH, snapshot_every="5s")


def test_weights_can_be_changed_and_left_out() -> None:
    use = bundled_uses(catalogue())["mail-server"]

    changed = reweighted(use, ["delivery=20", "mailboxes=0"])

    assert [(each.name, each.weight) for each in changed.weights] == [("delivery", 20)]
    assert changed.adjusted == ("delivery", "mailboxes")


def test_a_weight_that_cannot_be_is_refused() -> None:
    for words, cause in (
        *((f"delivery{value}", "is no weight") for value in ("", "=much", "=-1", "=nan")),
        ("delivry=1", 'has no weight "delivry"'),
        ("delivery=0 mailboxes=0", "no weight is left"),
    ):
        with pytest.raises(StudyError, match=cause):
            reweighted(bundled_uses(catalogue())["mail-server"], words.split())
