# SPDX-License-Identifier: Apache-2.0
"""Windows that end as soon as their result is known: what is compiled, what is refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from shutil import which
from signal import SIGINT, SIGKILL
from subprocess import PIPE, Popen

import pytest

from strata.model.step import Until
from strata.plan.compile import compile_trial
from strata.units import NS_PER_S
from study_texts import mistakes, read

MAIL = 'workload = "load", personality = "varmail", duration = "600s"'
OLTP = 'workload = "sysbench-oltp", server = "postgresql", duration = "600s"'
PG = 'workload = "pgbench", scale = 1, clients = 2, duration = "600s"'
WINDOW_NS = 600 * NS_PER_S
FIO = 'workload = "fio", preset = "random-mix-4k", size = "16MiB", duration = "600s"'


def study_text(workloads: str) -> str:
    return (
        '[study]\nname = "small"\nquestion = "Which?"\nseeds = [1]\n'
        '[devices.disk0]\nmodel = "wd-re4-500gb"\ncapacity = "8GiB"\n'
        '[stacks.one]\nlayers = [{ layer = "ext4" }]\n[stacks.two]\nlayers = [{ layer = "f2fs" }]\n'
        f"[workloads]\n{workloads}\n"
    )


def tenants(*loads: str, **keys: str) -> str:
    members = ", ".join(f'{{ name = "t{at}", load = {{ {load} }} }}' for at, load in enumerate(loads))
    further = "".join(f", {key} = {value}" for key, value in keys.items())
    return f'{{ workload = "tenants", tenants = [{members}]{further} }}'


def test_windows_of_all_stacks_may_end_after_the_longest_periods_of_any(tmp_path: Path) -> None:
    both = tenants(f'{MAIL}, until = "2%"', f'{OLTP}, until = "1%"', alone='"5s"')
    lines = (
        f'mail = {{ {MAIL}, until = "2%" }}',
        f"plain = {{ {MAIL} }}",
        f'oltp = {{ {OLTP}, until = "1%", settings = {{ checkpoint_timeout = 500 }} }}',
        f'pg = {{ {PG}, until = "3%" }}',
        f"both = {both}",
    )
    study = read(tmp_path, study_text("\n".join(lines)))

    assert {"ls", "mawk", "tail"} <= {*compile_trial(study, "one", "pg", 1).prerequisites.tools}

    def found(stack: str, workload: str) -> dict[str, Until]:
        steps = compile_trial(study, stack, workload, 1).steps
        return {step.id: step.until for step in steps if step.until is not None}

    two_of_f2fs, checkpoint = 120 * NS_PER_S, 500 * NS_PER_S
    for stack in ("one", "two"):
        mail = Until(of="load-measure", share=0.02, after_ns=two_of_f2fs, window_ns=WINDOW_NS)
        assert found(stack, "mail") == {"load-measure": mail}
        assert found(stack, "plain") == {}
        oltp = Until(of="sysbench-load", share=0.01, after_ns=checkpoint, window_ns=WINDOW_NS)
        assert found(stack, "oltp") == {"sysbench-measure": oltp}
        pg = Until(of="pgbench-telling", share=0.03, after_ns=300 * NS_PER_S, window_ns=WINDOW_NS)
        assert found(stack, "pg") == {"pgbench-measure": pg}
        # By themselves they run as long as `alone` says.
        assert {name: (each.of, each.after_ns) for name, each in found(stack, "both").items()} == {
            "t0-load-measure": ("t0-load-measure", 300 * NS_PER_S),
            "t1-sysbench-measure": ("t1-sysbench-load", 300 * NS_PER_S),
        }


def test_only_the_measured_window_of_a_load_may_end_early(tmp_path: Path) -> None:
    until = f'{MAIL}, until = "2%"'
    tenant = f'{{ name = "t", load = {{ {until} }}, before = {{ {until} }} }}'
    renewed = f'renewed = {{ workload = "tenants", tenants = [{tenant}] }}'
    study = read(tmp_path, study_text(f"mail = {{ {until} }}\n{renewed}"))

    cut = compile_trial(study, "one", "mail", 1, cut_after_ns=NS_PER_S).steps
    with_before = compile_trial(study, "one", "renewed", 1).steps

    assert [step.id for step in cut if step.until] == []
    assert [step.id for step in with_before if step.until] == ["t-load-measure"]


@pytest.mark.skipif(not (which("fio") and which("mawk")), reason="fio or mawk is not installed")
def test_fio_tells_the_intervals_of_its_windows_and_ends_when_asked_to(tmp_path: Path) -> None:
    job = "[a]\nrw=randread\nsize=1m\n[b]\nrw=randrw\nsize=1m\n"
    lines = (
        f'one = {{ {FIO}, until = "1%" }}',
        f'job = {{ workload = "fio", job_text = """{job}""", duration = "4s", until = "5%" }}',
    )
    study = read(tmp_path, study_text("\n".join(lines)))
    (one,) = (step for step in compile_trial(study, "one", "one", 1).steps if step.until)
    (whole,) = (step for step in compile_trial(study, "one", "job", 1).steps if step.until)

    assert {"fio", "mawk"} <= {*compile_trial(study, "one", "one", 1).prerequisites.tools}
    assert one.until == Until(of="fio-measure", share=0.01, after_ns=120 * NS_PER_S, window_ns=WINDOW_NS)
    assert whole.until == Until(
        of="fio-measure-1", share=0.05, after_ns=120 * NS_PER_S, window_ns=4 * NS_PER_S
    )
    words = ("--name=x", "--size=1m", "--rw=randrw", "--time_based", "--runtime=60", "--rate_iops=200")
    run = ["sh", "-c", one.argv[2].replace("$$", "$"), f"{tmp_path}/pid"]
    printed = ("--output-format=json+", "--lat_percentiles=1", "--clat_percentiles=0", "--eta=never")
    fio = Popen(
        (*run, "fio", "--status-interval=1", *words, *printed), stdout=PIPE, stderr=PIPE, cwd=tmp_path
    )
    assert fio.stderr is not None
    told = [fio.stderr.readline().split() for _ in range(2)]
    fio.send_signal(SIGINT)
    result = json.loads(fio.communicate()[0])["jobs"][0]

    assert [word for word, *_ in told] == [b"strata-interval"] * 2
    counts = [int(count) for _, count, _ in told]
    assert 0 < sum(counts) <= result["read"]["total_ios"] + result["write"]["total_ios"]
    assert fio.returncode == 0
    assert subprocess.run((*run, "fio", "--rw=readx"), capture_output=True, check=False).returncode == 1
    killed = Popen(
        (*run, "fio", "--status-interval=1", *words, *printed), stdout=PIPE, stderr=PIPE, cwd=tmp_path
    )
    assert killed.stderr is not None
    killed.stderr.readline()
    os.kill(int((tmp_path / "pid").read_text()), SIGKILL)
    killed.communicate()
    assert killed.returncode == 128 + SIGKILL


def test_a_window_that_cannot_end_early_is_refused_with_the_reason(tmp_path: Path) -> None:
    lines = (
        'fio = { workload = "fio", preset = "random-mix-4k", size = "16MiB", until = "1%" }',
        'files = { workload = "sysbench-fileio", until = "1%" }',
        'blogs = { workload = "blog", until = "1%" }',
        f'jobs = {{ {PG}, until = "1%", jobs = 2 }}',
        f'narrow = {{ {MAIL}, until = "0.01%" }}',
        f'snapshots = {{ {MAIL}, until = "1%", snapshot_every = "10s" }}',
        "some = " + tenants(f'{MAIL}, until = "1%"', FIO),
    )

    found = mistakes(tmp_path, study_text("\n".join(lines)))

    for place, words in {
        "workloads.fio.until": "no given length",
        "workloads.files.until": "sysbench cannot be ended early",
        "workloads.blogs.until": "all of its intervals",
        "workloads.jobs.until": "a log of its own",
        "workloads.narrow.until": "from 0.1% to 50%",
        "workloads.snapshots.until": "snapshot_every happens over the whole length",
        "workloads.some.tenants": "fio has no until",
    }.items():
        assert words in found[place], found
    assert len(found) == 7, found
