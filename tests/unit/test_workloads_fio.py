# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from workload_factory import refused

from strata.errors import RunError
from strata.model.metric import Metric, of_open_loop
from strata.model.step import Window
from strata.model.study import Study
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.plan.compile import compile_trial
from strata.workloads.fio import Fio
from strata.workloads.tenants import tails_of
from study_texts import mistakes, read

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


def test_verifying_can_be_off_within_a_time() -> None:
    for off in ("0", 0, False):
        assert refused(fio(options={"verify": off})) == ""


def test_metrics_equal_the_report_of_fio() -> None:
    for version in ("3.33", "3.39"):
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


def test_notes_before_the_json_are_skipped() -> None:
    text = (SAVED / "fio-3.39-random-mix.json").read_text()

    assert metrics("note: both iodepth >= 1 and synchronous I/O engine\n" + text) == metrics(text)


def test_output_that_cannot_be_read_shows_the_step_and_its_end() -> None:
    for stdout in (
        "",
        "fio: bad option <bss=4k>\n",
        '{\n "jobs": [{}]}',
        '{\n "jobs": 3}',
        '{\n "jobs" : [\n',
    ):
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


WRITES: dict[str, Any] = {"preset": None, "options": {"rw": "write", "bs": 2300, "fdatasync": 1}}


def test_a_write_finds_what_fio_itself_would_have_it_find_or_what_the_study_says() -> None:
    keys: dict[str, Any]
    for keys, measured in (
        (WRITES, "preallocated"),
        (WRITES | {"file": "new"}, "new"),
        (WRITES | {"file": "overwritten"}, "overwritten"),
        ({"preset": None, "options": {"rw": "randwrite", "overwrite": 1}}, "overwritten"),
        ({"preset": None, "options": {"rw": "write", "fallocate": "none"}}, "new"),
        ({"preset": None, "options": {"rw": "write", "file_append": True}}, "new"),
        ({"preset": None, "options": {"rw": "write", "create_on_open": 1}}, "new"),
        ({"preset": None, "options": {"rw": "randrw"}}, "overwritten"),
        ({"preset": None, "options": {"rw": "randread"}}, "overwritten"),
        ({"preset": "fsync-write-4k"}, "overwritten"),
        ({"preset": "fsync-write-4k", "file": "preallocated"}, "preallocated"),
    ):
        load = fio(**keys)
        steps = {step.id: step for step in load.steps(WorkloadContext(name="mix", seed=1))}

        assert load.measured_file == measured
        assert ("fio-layout" in steps) == (measured == "overwritten")
        assert load.streamed_bytes == (load.size_bytes if measured == "overwritten" else 0)
        assert not list(load.diagnostics(1 << 40))
        is_reading = str(load.all_options.get("rw")).endswith("read")
        assert [f'(file = "{measured}")' in text for text in load.remarks("filesystem")] == [True] * (
            not is_reading
        )


def test_a_key_for_the_file_reaches_fio_and_fios_own_default_is_left_to_fio() -> None:
    def words(window: Window = "", **keys: Any) -> dict[str, tuple[str, ...]]:
        steps = fio(warmup="1s", **keys).steps(WorkloadContext(name="mix", seed=1, window=window))
        return {step.id: step.argv for step in steps}

    assert "--fallocate=none" in words(**WRITES, file="new")["fio-measure"]
    assert "--fallocate=native" in words(**WRITES, file="preallocated")["fio-measure"]
    plain = words(**WRITES)
    assert not [word for word in plain["fio-measure"] if "fallocate" in word or "unlink" in word]
    # A file is new once.
    assert "--unlink=1" in plain["fio-warmup"]
    assert "--unlink=1" in words("alone", **WRITES)["fio-measure"]
    assert not [word for argv in words(preset="fsync-write-4k").values() for word in argv if "unlink" in word]


def test_a_key_for_the_file_that_contradicts_the_rest_is_refused() -> None:
    keys: dict[str, Any]
    for keys, key in (
        ({"preset": "random-read-4k", "file": "new"}, "file"),
        ({"preset": None, "options": {"rw": "randrw"}, "file": "preallocated"}, "file"),
        (WRITES | {"options": {"rw": "write", "fallocate": "none"}, "file": "overwritten"}, "options"),
        (WRITES | {"options": {"rw": "write", "overwrite": 1}, "file": "new"}, "options"),
    ):
        assert [each.key for each in fio(**keys).diagnostics(1 << 40)] == [key]


BARE = """
[study]
name = "raw"
question = "Which?"
seeds = [1]
[devices.disk0]
model = "{model}"
{keys}
[stacks.raw]
layers = []
[workloads.rr]
workload = "fio"
size = "{size}"
duration = "60s"
options = {{ rw = "randread" }}
"""


@pytest.mark.parametrize(
    ("model", "keys", "is_written"),
    [
        ("generic-desktop-hdd", "", False),
        ("samsung-870-evo-1tb", "", True),
        ("samsung-870-evo-1tb", 'precondition = "filled"', False),
    ],
)
def test_a_disk_without_layers_is_written_before_only_where_a_read_would_cost_less_without(
    tmp_path: Path, model: str, keys: str, is_written: bool
) -> None:
    study = read(tmp_path, BARE.format(model=model, keys=keys, size="100GiB"))

    def written(of: Study) -> bool:
        return "fio-layout" in [step.id for step in compile_trial(of, "raw", "rr", 1).steps]

    assert written(study) == is_written
    assert written(study.on_host())  # of a loop device's file nothing is read where nothing is


def test_all_of_a_disk_without_layers_is_room_for_data_and_nine_tenths_of_a_filesystem(
    tmp_path: Path,
) -> None:
    whole = BARE.format(model="generic-desktop-hdd", keys="", size="931GiB")
    [(place, said)] = mistakes(
        tmp_path, whole.replace("layers = []", 'layers = [{ layer = "ext4" }]')
    ).items()

    assert mistakes(tmp_path, whole) == {}
    assert place == "workloads.rr.size"
    assert "of a filesystem or pool 90 % count" in said


def test_a_load_that_syncs_is_judged_by_its_syncs_alone_in_an_open_loop_and_as_a_tenant() -> None:
    found = metrics((SAVED / "fio-3.39-verify-fsync.json").read_text())
    each = list(found.values())

    assert [metric.name for metric in each if metric.headline] == ["operations_per_s", "sync_latency_ns_p99"]
    assert [metric.name for metric in of_open_loop(each) if metric.headline] == ["sync_latency_ns_p99"]
    assert tails_of(each) == ["sync_latency_ns_p99"]
    without = list(metrics((SAVED / "fio-3.39-random-mix.json").read_text()).values())
    assert tails_of(without) == ["read_latency_ns_p99", "write_latency_ns_p99"]
