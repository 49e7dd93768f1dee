# SPDX-License-Identifier: Apache-2.0
"""fio's job files: what of them runs on a stack, and by which line the rest is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from strata.errors import DiagnosticsError
from strata.model.study import Study
from strata.model.workload import Outputs, StepOutput
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, skipped
from strata.reading.load import load_study
from strata.workloads.fio import Fio

HEAD: Final = """\
[study]
name = "job"
question = "Which?"
seeds = [1]
time_limit = "100h"

[devices.disk0]
model = "wd-re4-500gb"

[stacks.fs]
layers = [{ layer = "ext4" }]

[stacks.disk]
layers = []

[workloads.job]
workload = "fio"
job = "load.fio"
"""

# Shortened from fio's own examples: tiobench-example.fio, waitfor.fio, latency-profile.fio.
RUN: Final = {
    "tiobench": "[global]\ndirect=1\nsize=512M\nbsrange=4k-4k\ntimeout=60\nnumjobs=4 ; 4\n[f1]\nrw=write\n"
    "[f2]\nstonewall\nrw=randwrite\n[f3]\nstonewall\nrw=read\n",
    "waitfor": "[global]\nthreads=1\ngroup_reporting\nfilename=/tmp/data\nfilesize=128m\n[writers]\n"
    "rw=write\nbs=128k\nnumjobs=4\nruntime=10\n[readers]\nnew_group\nwait_for=writers\nrw=randread\nruntime=10\n",
    "folders": "[a]\ndirectory=/mnt/x\nfilename=f\nsize=4m\n[b]\n"
    "filename=/mnt/y/f:/mnt/y/g\nsize=8m\nwrite_bw_log\n",
    "device": "[global]\nfilename=/dev/sda\nrw=randread:8\nrandom_generator=lfsr\n[device]\n"
    "latency_target=500000\n",
    "include": "include common.inc\n[j]\nsize=${SIZE}\n",
}
REFUSED: Final = {
    "exec_prerun=rm": "line 2: exec_prerun: it runs a program",
    "ioengine=rbd": "line 2: ioengine=rbd: it talks to a cluster",
    "ioengine=/lib/x.so": "line 2: the fio option ioengine cannot be",
    "zonemode=zbd": "line 2: zonemode=zbd",
    "bs=$pagesize": "line 2: the fio option bs cannot be",
    "read_iolog=x": "line 2: read_iolog",
    "filename_format=../$jobnum": "line 2: the fio option filename_format",
    "size=${NONE}": "line 2: the environment variable NONE has no value",
    "include none.inc": "there is no file",
    "wait_for_angels=1": 'line 2: the fio option "wait_for_angels"',
    "size=10%": "line 1: [j] does not state the size",
}


def read(folder: Path, job: str, extra: str = "") -> Study:
    (folder / "common.inc").write_text("[global]\nbs=4k\n")
    (folder / "load.fio").write_text(job)
    (folder / "job.toml").write_text(HEAD + extra)
    return load_study(folder / "job.toml", catalogue())


def texts(study: Study, stack: str) -> list[str]:
    steps = compile_trial(study, stack, "job", 1).steps
    return [each.stdin or "" for each in steps if each.argv[0] == "fio"]


def test_a_job_file_runs_on_the_stack_as_fio_reads_it(tmp_path: Path) -> None:
    found = {}
    for name, job in RUN.items():
        study = read(
            tmp_path, job, 'variables = { SIZE = "64m" }\n' if name == "include" else "size = '16MiB'\n"
        )
        for stack in study.stacks:
            found[name, stack] = texts(study, stack)
            for text in found[name, stack]:
                bound = text.replace("${mount}", str(tmp_path)).replace("${disk0}", str(tmp_path / "disk"))
                if shutil.which("fio"):
                    run = ("fio", "--parse-only", "-")
                    done = subprocess.run(run, input=bound, text=True, capture_output=True, check=False)
                    assert not done.returncode, (name, stack, done.stdout + done.stderr)
                assert "/tmp/data" not in text
                assert "/dev/" not in text
    layout, *groups = found["tiobench", "fs"]
    assert [each.count("\n[") + each.startswith("[") for each in groups] == [1, 1, 1]
    assert layout.count("create_only=1") == 3
    assert "numjobs=4" in groups[0]
    assert "size=16777216" in groups[0]
    assert "filename=${disk0}" in found["tiobench", "disk"][0]
    assert "directory=${mount}" in groups[0]
    assert "wait_for=writers" in found["waitfor", "fs"][1]
    assert "filename=${mount}/mnt-y-f:${mount}/mnt-y-g" in found["folders", "fs"][1]
    assert "bs=4k" in found["include", "fs"][1]
    assert "size=64m" in found["include", "fs"][1]


GROUPS: Final = """\
[global]
size=1m
direct=1
[a]
ramp_time=1
startdelay=1-2
runtime=20
time_based
[b]
wait_for_previous
wait_for=a
rw=write
write_bw_log
numjobs=2
[c]
wait_for=b
runtime=7
timeout=8
"""


def test_groups_sizes_and_times_of_a_job_file(tmp_path: Path) -> None:
    study = read(tmp_path, GROUPS)
    load = study.workloads["job"]
    assert load.data_bytes == 4 << 20, "each of two jobs has a file of its own"
    assert load.duration_ns_min == (23 + 8) * 10**9
    assert load.bypasses_page_cache
    _, first, second = texts(study, "fs")
    assert first.startswith("[a]")
    assert "[b]" not in first
    assert "wait_for=a" not in second, "a is over before"
    assert "wait_for=b" in second
    assert "write_bw_log" not in second
    seeds = [line for line in (first + second).splitlines() if line.startswith("randseed=")]
    assert len({*seeds}) == 3

    shorter = read(tmp_path, GROUPS.replace("direct=1", "", 1), 'duration = "2s"\n')
    assert shorter.workloads["job"].duration_ns_min == 2 * 2 * 10**9
    assert not shorter.workloads["job"].bypasses_page_cache
    for text in texts(shorter, "fs")[1:]:
        assert text.count("runtime=2000ms\ntime_based=1\n") == text.count("[")
        assert "timeout=" not in text

    on_files = read(tmp_path, "[j]\nioengine=filestat\nsize=1m\n")
    assert [reason for reason in skipped(on_files).values() if "needs a filesystem" in str(reason)]


def test_what_is_left_out_is_said_by_line(tmp_path: Path) -> None:
    load = read(tmp_path, RUN["folders"]).workloads["job"]
    assert any("line 8 (write_bw_log) left out" in each for each in load.remarks("filesystem"))
    assert any("are one device" in each for each in load.remarks("block"))


def test_all_that_cannot_be_honoured_is_named_by_line_at_once(tmp_path: Path) -> None:
    for line, said in REFUSED.items():
        with pytest.raises(DiagnosticsError) as error:
            read(tmp_path, f"[j]\n{line}\nioengine2=x\n")
        causes = [each.cause for each in error.value.diagnostics]
        assert any(said in cause for cause in causes), (line, causes)
        assert "include" in line or any("line 3" in cause for cause in causes)
    with pytest.raises(DiagnosticsError, match="the job file says what fio does"):
        read(tmp_path, RUN["device"], 'preset = "random-read-4k"\n')


def test_each_section_has_metrics_of_its_own(tmp_path: Path) -> None:
    part = {
        "total_ios": 10,
        "iops": 5.0,
        "bw_bytes": 20480,
        "lat_ns": {"mean": 2e6, "N": 10, "max": 2e6, "bins": {"2000000": 10}},
    }
    none = {**part, "total_ios": 0}
    jobs = [{"jobname": name, "read": none, "write": part} for name in ("f1", "f1", "F1!")]
    study = read(tmp_path, "[global]\nrw=write\nsize=1m\n[f1]\nnumjobs=2\n[F1!]\n")
    output = StepOutput(stdout=json.dumps({"jobs": jobs}, indent=1))
    metrics = {
        each.name: each.value for each in study.workloads["job"].metrics(Outputs({"fio-measure-1": output}))
    }
    assert metrics["f1_operations_per_s"] == 10
    assert metrics["f1_2_write_operations_per_s"] == 5
    specs = study.workloads["job"].metric_specs
    assert all(any(spec.is_called(name) for spec in specs) for name in metrics)


def test_the_sizes_of_sections_are_neither_scaled_nor_enlarged() -> None:
    """Neither of a job file nor of a text: a size of its own would be put over all sections."""
    text = "[small]\nrw=read\nsize=64m\n[large]\nrw=write\nsize=2g"
    for given in ({"job_text": text}, {"job_text": text, "job": "mine.fio"}):
        load = Fio.model_validate({"workload": "fio", "duration": "20s", **given})
        assert (
            load.data_bytes
            == load.scaled(0.1).data_bytes
            == load.enlarged(8).data_bytes
            == (2 << 30) + (64 << 20)
        )
        assert load.scaled(0.1).duration_ns == 2 * 10**9
