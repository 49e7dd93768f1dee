# SPDX-License-Identifier: Apache-2.0
"""Whether a trial's numbers can be trusted, by its events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from checked_trials import BUFFERED, FIO, LONG, SAVED, Log, checks, finished, judged, trial
from execution_factory import TEXT
from results_factory import S

from strata.execution.validity_checks import FinishedTrial, throughput_of, without_charges
from strata.model.metric import Metric
from strata.model.warning import Check, warnings_of_checks
from strata.results.build import build_record
from strata.results.events import read_events
from strata.results.record import Charges, Fingerprint, RealTime, ResultRecord, Versions


def test_a_sound_trial_passes_every_check(tmp_path: Path) -> None:
    found = checks(tmp_path)

    assert {name: each.verdict for name, each in found.items()} == {
        "finished": "yes",
        "durable-by-settings": "yes",
        "did-io": "yes",
        "did-io-in-window": "yes",
        "limited": "yes",
        "larger-than-memory": "yes",
        "direct-io": "yes",
        "covers-periods": "no",
        "steady": "yes",
    }
    assert [name for name, each in found.items() if each.required] == ["finished", "did-io"]


def test_the_verdict_says_how_long_the_warm_up_was_and_from_when_on_the_window_was_steady(
    tmp_path: Path,
) -> None:
    without = LONG.replace('warmup = "1s"\n', "")
    assert without != LONG

    warm = checks(tmp_path)["steady"].detail
    cold = checks(tmp_path, lambda second: 40 if second < 7 else 100, text=without)["steady"].detail

    assert warm.startswith("after 1 s of warm-up: ")
    assert warm.endswith("surely less than 3 %")
    assert cold.startswith("without a warm-up: ")
    assert "by MSER-5 it is steady from 2 s on" in cold
    late = checks(tmp_path, lambda second: 40 + 8 * second, text=without)["steady"].detail
    assert "MSER-5 finds no steady part" in late


def test_a_window_without_requests_or_of_no_given_length_has_no_verdict(tmp_path: Path) -> None:
    pass_over = LONG.replace('duration = "12s"', "")

    assert "ends when its work is done" in checks(tmp_path, text=pass_over)["steady"].detail
    assert checks(tmp_path, lambda _: 0)["steady"].verdict == "unknown"


def test_a_few_requests_among_very_many_operations_do_not_make_a_window_of_the_disks(tmp_path: Path) -> None:
    found = finished(tmp_path, window_bytes=12 << 10)

    def verdicts(operations: float) -> dict[str, str]:
        counted = Metric(name="operations", value=operations, unit="1", better="higher")
        return {each.name: each.verdict for each in judged(found, counted)}

    assert verdicts(900_000)["did-io-in-window"] == "no"
    assert verdicts(900_000)["steady"] == "unknown"
    assert verdicts(1_000)["did-io-in-window"] == "yes"


def test_a_load_that_waits_for_neither_disk_nor_processor_is_found(tmp_path: Path) -> None:
    short = LONG.replace('duration = "12s"', 'duration = "200ms"')  # its step takes 12 s, start included

    for text, disk_busy_ns, computing_ns, verdict in (
        (LONG, 7 * S, 0, "yes"),
        (LONG, 4 * S, 7 * S, "yes"),  # one request at a time: disk and processor take turns
        (LONG, 0, 12 * S, "yes"),
        (LONG, 4 * S, S, "no"),
        (LONG + "options = { rate_iops = 100 }\n", 4 * S, S, "yes"),
        (short, 90 * S // 1000, 0, "no"),  # idle even if all of it were in the window
        (short, 110 * S // 1000, 0, "yes"),
        (short, 0, S, "unknown"),  # the start may be all of the computing
    ):
        found = checks(tmp_path, text=text, disk_busy_ns=disk_busy_ns, computing_ns=computing_ns)
        assert found["limited"].verdict == verdict, (text, disk_busy_ns, computing_ns)


def test_of_a_stripe_all_disks_together_count(tmp_path: Path) -> None:
    trial = finished(tmp_path)
    accounts = [
        each.model_copy(
            update={"name": f"disk{number}", "account": {"busy_ns": each.account.get("busy_ns", 0) // 4}}
        )
        for each in trial.events.accounts
        for number in range(4)
    ]

    striped = replace(trial, events=replace(trial.events, accounts=accounts))
    (found,) = (each for each in judged(striped) if each.name == "limited")

    assert found.verdict == "yes"
    assert found.detail.startswith(
        "it waited for the disks: disk0 had requests for 25 % of the window, all 4 disks for at most 100 %"
    )


def test_what_is_nothing_but_a_charge_is_no_headline(tmp_path: Path) -> None:
    for cpu, headline in (("free", False), ("generic-server-2024", True)):
        for reads_ms in (0, 500):
            text = LONG.replace("[study]", f'[study]\ncpu = "{cpu}"')
            trial = finished(tmp_path, text=text, disk_busy_ns=reads_ms * S // 1000)
            rates = [Metric.of(name, 5e6, "1/s", headline=True) for name in ("stats_per_s", "reads_per_s")]
            found = without_charges(rates, trial)
            assert [each.headline for each in found] == [headline or reads_ms > 0] * 2


def test_without_disks_the_processors_decide_whether_anything_was_busy(tmp_path: Path) -> None:
    for computing_ns, verdict in ((12 * S, "yes"), (S, "no")):
        trial = finished(tmp_path, computing_ns=computing_ns)
        trial.events.accounts.clear()
        found = {each.name: each for each in judged(trial)}
        assert found["limited"].verdict == verdict
        waited = "the processors" if verdict == "yes" else "neither disks nor processors"
        assert found["limited"].detail.startswith(f"it waited for {waited}: there are no disks")


def test_a_window_that_the_cache_served_is_said(tmp_path: Path) -> None:
    found = checks(tmp_path, window_bytes=0)

    assert found["did-io"].verdict == "yes"
    assert found["did-io-in-window"].verdict == "no"
    assert not found["did-io-in-window"].required
    assert "page cache" in found["did-io-in-window"].detail


def test_the_data_are_held_against_the_labs_memory(tmp_path: Path) -> None:
    for size, verdict, says in (
        ("512MiB", "no", "fit into the machine's memory of 1 GiB"),
        ("1536MiB", "yes", "twice the memory"),
        ("2GiB", "yes", "at least twice"),
    ):
        found = checks(tmp_path, text=BUFFERED.replace('size = "3GiB"', f'size = "{size}"'))
        assert found["larger-than-memory"].verdict == verdict
        assert says in found["larger-than-memory"].detail


def test_direct_io_has_no_memory_to_fit_into_unless_a_layer_caches_it(tmp_path: Path) -> None:
    for layers, verdict in (
        ('{ layer = "ext4" }', "yes"),
        ('{ layer = "zpool" }, { layer = "zfs" }', "no"),
        ('{ layer = "ext4" }, { layer = "raw", cache = "writeback" }, { layer = "ext4" }', "no"),
    ):
        text = LONG.replace('size = "3GiB"', 'size = "512MiB"').replace('{ layer = "ext4" }', layers)
        assert checks(tmp_path, text=text)["larger-than-memory"].verdict == verdict


def test_a_hosts_trial_is_never_judged_by_the_memory_of_who_seals_it(tmp_path: Path) -> None:
    for tells, verdict in ((True, "yes"), (False, "unknown")):
        trial = finished(tmp_path, text=BUFFERED, tells_memory=tells)
        assert trial.events.start is not None
        start = trial.events.start.model_copy(update={"runner": "host"})
        found = {
            each.name: each for each in judged(replace(trial, events=replace(trial.events, start=start)))
        }
        assert found["larger-than-memory"].verdict == verdict


TENANTS = """
[workloads.mix]
workload = "tenants"
[[workloads.mix.tenants]]
name = "blog"
load = { workload = "blog", readers = 10, intervals = 3, interval = "1s" }
before = { workload = "os-installation" }
[[workloads.mix.tenants]]
name = "db"
load = { workload = "fio", preset = "random-mix-4k", size = "1GiB", duration = "3s" }
"""


def tenants_checks(folder: Path, status: str, text: str = TENANTS) -> list[Check]:
    outputs = {
        "blog-blog-measure": (SAVED / "load" / "0.1-btrfs-blog-measure.json").read_text(),
        "blog-before-install-status": status,
        **dict.fromkeys(["db-fio-measure", "other-fio-measure"], FIO.read_text()),
    }
    return judged(finished(folder, text=TEXT.partition("[workloads")[0] + text, outputs=outputs))


def test_what_a_tenant_ran_before_its_load_is_asked_too(tmp_path: Path) -> None:
    for state, verdict in (("ii", "yes"), ("iU", "no")):
        found = tenants_checks(tmp_path, f"{state}  base-files 340\n")
        check = next(each for each in found if each.name == "before-packages-installed")
        assert (check.tenant, check.verdict, check.required) == ("blog", verdict, True)


def test_no_tenant_is_without_a_verdict_on_its_steady_state(tmp_path: Path) -> None:
    found = tenants_checks(tmp_path, "ii  base-files 340\n")
    steady = {each.tenant: each for each in found if each.name == "steady"}
    alone = (
        TENANTS.replace('"blog"', '"other"')
        .replace("before", "#")
        .replace(
            'load = { workload = "other", readers = 10, intervals = 3, interval = "1s" }',
            'load = { workload = "fio", preset = "random-mix-4k", duration = "3s" }',
        )
    )
    without = [each for each in tenants_checks(tmp_path, "", alone) if each.name == "steady"]

    assert set(steady) == {"blog", "db"}
    assert steady["db"].verdict == "unknown"
    assert "its throughput over time is not known" in steady["db"].detail
    # The disks' verdict is one for all.
    assert [each.tenant for each in without] == [None]


def record_of(trial: FinishedTrial) -> ResultRecord:
    return build_record(
        trial.plan,
        trial.events,
        metrics=[Metric(name="operations_per_s", value=1, unit="1/s", better="higher")],
        spec_sha256="0" * 64,
        fingerprint=Fingerprint(kernel_sha256=None, image_sha256=None, agent_sha256=None),
        runner="lab",
        time_domain="virtual",
        versions=Versions(strata="0", kernel="", agent=""),
        charges=Charges(),
        real_time=RealTime(started_at="", duration_s=1),
        checks=judged(trial),
    )


def test_a_trial_whose_disks_moved_nothing_is_not_valid(tmp_path: Path) -> None:
    trial = finished(tmp_path, lambda _: 0, total_bytes=0, window_bytes=0)

    validity = record_of(trial).validity

    assert not validity.valid
    assert any("no data reached the disks" in reason for reason in validity.reasons)


def test_the_throughput_over_the_window_is_kept_of_the_load_and_of_the_disks(tmp_path: Path) -> None:
    (disks,) = throughput_of(finished(tmp_path, lambda second: 100 + second))

    assert (disks.source, disks.interval_ns) == ("disks", S)
    assert len(disks.rates) > 5
    assert disks.rates == tuple(sorted(disks.rates))


def test_of_a_trial_that_did_not_finish_nothing_else_is_asked(tmp_path: Path) -> None:
    study, plan = trial(tmp_path)
    log = Log(plan, lambda _: 100)
    log.step(plan.steps[0].id, S, outcome="failed")
    log.finish("failed", plan.steps[0].id, "it failed")

    ended = FinishedTrial(study, plan, read_events(log.written(tmp_path)))

    assert [(each.name, each.verdict) for each in judged(ended)] == [("finished", "no")]
    reasons = record_of(ended).validity.reasons
    assert any("exit code 1" in reason for reason in reasons)
    assert not any("did not come to its end" in reason for reason in reasons)


def test_programs_without_a_price_are_named_with_their_share_of_the_time(tmp_path: Path) -> None:
    for default_ms, verdict in ((0, "yes"), (4, "yes"), (400, "no")):
        counted = {"user_ps": 10**12, "unpriced_calls:my-tool": default_ms * 10}
        counted |= {"unpriced_ps:my-tool": default_ms * 10**9, "unpriced_faults:my-tool": default_ms}
        priced = checks(tmp_path, computing_ns=S, counted=counted)["priced"]
        assert priced.verdict == verdict

    assert priced.detail.startswith("40 % of the processors' time rests on the default price")
    assert priced.detail.endswith("my-tool (4,000 system calls, 400 page faults)")
    assert "`strata lab price --program" in warnings_of_checks([[priced]])[0].remedy
