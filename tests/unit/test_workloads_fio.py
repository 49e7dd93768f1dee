# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from workload_factory import refused

from strata.errors import RunError
from strata.spec.histogram import decode
from strata.spec.metric import Metric
from strata.spec.workload import Outputs, StepOutput, WorkloadContext
from strata.workloads.fio import PRESETS, Fio

SAVED = Path(__file__).parents[1] / "golden" / "outputs"
MIX = {"preset": "random-mix-4k", "duration": "10s"}


def fio(**keys: object) -> Fio:
    return Fio.model_validate({**MIX, **keys})


def argv(workload: Fio, phase: str = "measure") -> list[str]:
    steps = workload.steps(WorkloadContext(name="mix", seed=1))
    return list(next(step.argv for step in steps if step.id == f"fio-{phase}"))


def metrics(stdout: str, workload: Fio | None = None) -> dict[str, Metric]:
    found = (workload or fio()).metrics(Outputs({"fio-measure": StepOutput(stdout=stdout)}))
    assert len({metric.name for metric in found}) == len(found)
    return {metric.name: metric for metric in found}


def saved_job(name: str) -> dict[str, Any]:
    job: dict[str, Any] = json.loads((SAVED / name).read_text())["jobs"][0]
    return job


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_is_accepted(name: str) -> None:
    assert refused(Fio(preset=name)) == ""


def test_each_option_overrides_only_its_namesake_in_the_preset() -> None:
    words = argv(fio(options={"iodepth": 64, "numjobs": 2, "refill_buffers": True}))

    assert "--iodepth=64" in words
    assert "--rwmixread=75" in words
    assert "--refill_buffers=1" in words
    assert "--iodepth=16" not in words


def test_time_is_virtual_and_randomness_is_seeded_in_every_run() -> None:
    workload = fio(warmup="5s")

    for phase in ("layout", "warmup", "measure"):
        words = argv(workload, phase)
        assert "--clocksource=clock_gettime" in words
        # fio ignores randseed unless randrepeat is off.
        assert "--randrepeat=0" in words
        assert any(word.startswith("--randseed=") for word in words)


def test_the_window_is_timed_or_one_pass() -> None:
    assert "--runtime=10000ms" in argv(fio())
    assert not any(word.startswith("--runtime") for word in argv(Fio(preset="random-write-4k")))


def test_verifying_can_be_off_within_a_time() -> None:
    for off in ("0", 0, False):
        assert refused(fio(options={"verify": off})) == ""


@pytest.mark.parametrize("version", ["3.33", "3.39"])
def test_metrics_equal_the_report_of_fio(version: str) -> None:
    name = f"fio-{version}-random-mix.json"
    job = saved_job(name)

    found = metrics((SAVED / name).read_text())

    assert found["operations_per_s"].value == pytest.approx(job["read"]["iops"] + job["write"]["iops"])
    assert found["operations_per_s"].headline
    assert found["operations"].value == job["read"]["total_ios"] + job["write"]["total_ios"]
    assert (found["operations"].unit, found["operations"].headline) == ("1", False)
    assert found["read_bytes_per_s"].value == job["read"]["bw_bytes"]
    for direction in ("read", "write"):
        latency = job[direction]["lat_ns"]
        assert found[f"{direction}_latency_ns_mean"].value == pytest.approx(latency["mean"])
        assert found[f"{direction}_latency_ns_max"].value == latency["max"]
        each_ns = sorted(int(ns) for ns, count in latency["bins"].items() for _ in range(count))
        p95_ns = each_ns[int(len(each_ns) * 0.95 + 0.5) - 1]
        assert found[f"{direction}_latency_ns_p95"].value == pytest.approx(p95_ns, rel=1e-3)


def test_the_histogram_counts_every_request() -> None:
    name = "fio-3.39-random-mix.json"
    encoded = metrics((SAVED / name).read_text())["read_latency_ns_p99"].histogram

    assert encoded is not None
    assert decode(encoded).get_total_count() == saved_job(name)["read"]["total_ios"]


def test_reads_that_verify_are_not_added_to_the_writes_before_them() -> None:
    name = "fio-3.39-verify-fsync.json"
    job = saved_job(name)

    found = metrics((SAVED / name).read_text(), Fio(preset="verify-random-write-4k"))

    assert found["operations_per_s"].value == job["write"]["iops"]
    assert found["operations"].value == job["write"]["total_ios"]
    assert found["verify_operations_per_s"].value == job["read"]["iops"]
    assert found["sync_latency_ns_max"].value == job["sync"]["lat_ns"]["max"]


def test_notes_before_the_json_are_skipped() -> None:
    text = (SAVED / "fio-3.39-random-mix.json").read_text()

    assert metrics("note: both iodepth >= 1 and synchronous I/O engine\n" + text) == metrics(text)


@pytest.mark.parametrize(
    "stdout", ["", "fio: bad option <bss=4k>\n", '{\n "jobs": [{}]}', '{\n "jobs": 3}', '{\n "jobs" : [\n']
)
def test_output_that_cannot_be_read_shows_the_step_and_its_end(stdout: str) -> None:
    with pytest.raises(RunError) as caught:
        metrics(stdout)

    assert "step fio-measure" in str(caught.value)
    assert (stdout.strip().splitlines() or ["(it is empty)"])[-1] in str(caught.value)


def test_a_run_without_requests_is_no_result() -> None:
    saved = json.loads((SAVED / "fio-3.39-random-mix.json").read_text())
    for direction in ("read", "write"):
        saved["jobs"][0][direction]["total_ios"] = 0

    with pytest.raises(RunError, match="no request"):
        metrics(json.dumps(saved, indent=1))
