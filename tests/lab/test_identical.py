# SPDX-License-Identifier: Apache-2.0
"""A lab trial is a pure function of its specification: the same bytes for every user, place, CPU and load."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_factory import (
    STRATA,
    environment,
    head,
    labs_of,
    left_in,
    mix,
    oltp,
    public_folder,
    records,
    shared_lab,
    stacks,
    strata,
)

from examples import SHARE
from record_hashes import hashes
from strata.lab import Lab

VERIFY = """
[workloads.verify]
workload = "fio"
preset = "verify-random-write-4k"
size = "8MiB"
"""
STUDY = (
    head("identical", [1]).replace('phases = "fixed"\n', "")
    + stacks("ext4", "xfs", "btrfs")
    + oltp(4)
    + mix()
    + VERIFY
)
NOBODY = 65534
ALL = pytest.mark.skipif(SHARE < 1, reason="`make test-all` runs it; test_layers_in_lab.py has each, too")
# The trials of both runs, by the number of virtual processors; `make test-all` repeats all.
FIRST = (
    {"one": ("*",), "four": ("*",)}
    if SHARE == 1
    else {"one": ("btrfs.*", "ext4.oltp.*"), "four": ("btrfs.oltp.*",)}
)
AGAIN = FIRST if SHARE == 1 else {"one": ("btrfs.[mo]*",), "four": FIRST["four"]}
COUNTS = {"one": 9, "four": 9} if SHARE == 1 else {"one": 4, "four": 1}


@dataclass(frozen=True)
class Ground:
    """The folder and environment of the module's runs."""

    path: Path
    shared: Path

    @property
    def first(self) -> Path:
        return self.path / "one"


@pytest.fixture(scope="module")
def ground(lab: Lab) -> Iterator[Ground]:
    with public_folder() as path:
        shared = shared_lab(lab, path / "shared")
        env = environment(path / "cache", shared, HOME="/root")
        for name, trials in FIRST.items():
            study = path / f"{name}.toml"
            study.write_text(STUDY.replace("time_limit", f"cpus = {4 if name == 'four' else 1}\ntime_limit"))
            study.chmod(0o644)
            for each in trials:
                strata("run", str(study), "--results", str(path / name), "--trial", each, env=env, cwd=path)
        yield Ground(path, shared)


def another_cpu() -> str:
    """A CPU that the tests themselves do not run on, where the machine has one."""
    every = [int(cpu) for cpu in os.environ["STRATA_TEST_CPUS"].split(",")]
    own = os.sched_getaffinity(0)
    return str(max(every, key=lambda cpu: (cpu not in own, cpu)))


@contextmanager
def busy(cpu: str) -> Iterator[None]:
    """Another process computes on the CPU for as long."""
    with subprocess.Popen(["taskset", "-c", cpu, "sh", "-c", "while :; do :; done"]) as neighbour:
        try:
            yield
        finally:
            neighbour.kill()


def another_users_prefix() -> list[str]:
    """Run as nobody, which only root may."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to run as another user")
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def test_another_user_place_home_environment_cpu_load_and_time_give_the_same_records(ground: Ground) -> None:
    elsewhere = ground.path / "another user's place"
    elsewhere.mkdir()
    os.chown(elsewhere, NOBODY, NOBODY)
    prefix = another_users_prefix()
    if subprocess.run([*prefix, *STRATA, "--help"], capture_output=True, check=False).returncode:
        pytest.skip("this Python cannot be run by other users")
    padding = {f"PADDING_{index}": "x" * 1000 for index in range(30)}
    env = environment(elsewhere / "cache", ground.shared, HOME=str(elsewhere), TZ="Asia/Tokyo", **padding)
    cpu = another_cpu()

    for name, trials in AGAIN.items():
        # Another program takes half of the CPU from some, which is enough.
        with busy(cpu) if name == "four" else nullcontext():
            strata(
                *("run", str(ground.path / f"{name}.toml"), "--results", name, "--trial", *trials),
                env=env,
                cwd=elsewhere,
                prefix=["taskset", "-c", cpu, *prefix],
            )

    for name in AGAIN:
        first, second = hashes(ground.path / name), hashes(elsewhere / name)
        assert len(second) == (COUNTS[name] if AGAIN is FIRST else {"one": 2, "four": 1}[name])
        assert second == {trial: first[trial] for trial in second}


def test_a_host_whose_seccomp_cannot_notify_the_kernel_gives_the_same_records(ground: Ground) -> None:
    deaf = ground.path / "deaf"
    strata(
        *("run", str(ground.path / "one.toml"), "--results", str(deaf), "--trial", "btrfs.mix.*"),
        env=environment(ground.path / "cache", ground.shared, HOME="/root"),
        cwd=ground.path,
        prefix=[sys.executable, str(Path(__file__).with_name("deaf.py"))],
    )

    ((trial, record),) = hashes(deaf).items()
    assert record == hashes(ground.first)[trial]
    (console,) = deaf.glob("records/*/attempt-*/console.log")
    assert "seccomp can notify...missing" in console.read_text()


def test_other_processors_are_another_result(ground: Ground) -> None:
    trial = next(each for each in hashes(ground.path / "four") if each.startswith("btrfs.oltp."))
    one, four = (records(ground.path / name)[trial].metric("transactions_per_s") for name in ("one", "four"))

    assert one is not None
    assert four is not None
    assert four.value != one.value


def test_every_trial_is_valid(ground: Ground) -> None:
    found = [*records(ground.first).values(), *records(ground.path / "four").values()]

    assert [record.validity.reasons for record in found] == [()] * sum(COUNTS.values())


def test_different_seeds_differ(ground: Ground) -> None:
    study = ground.path / "seed2.toml"
    study.write_text(STUDY.replace("seeds = [1]", "seeds = [2]"))
    env = environment(ground.path / "cache", ground.shared)

    strata(
        *("run", str(study), "--results", str(ground.path / "seed2"), "--trial", "btrfs.mix.*"),
        env=env,
        cwd=ground.path,
    )

    other, first = records(ground.path / "seed2")["btrfs.mix.s2"], records(ground.first)["btrfs.mix.s1"]
    assert [each.value for each in other.metrics] != [each.value for each in first.metrics]


@pytest.mark.parametrize("stack", ["ext4", pytest.param("xfs", marks=ALL)])
def test_overwriting_in_place_beats_copy_on_write_for_a_database_on_a_rotating_disk(
    ground: Ground, stack: str
) -> None:
    found = records(ground.first)

    def rate(name: str) -> float:
        metric = found[f"{name}.oltp.s1"].metric("transactions_per_s")
        assert metric is not None
        return metric.value

    assert rate(stack) >= 1.5 * rate("btrfs")


@pytest.mark.parametrize("stack", [*(pytest.param(each, marks=ALL) for each in ("ext4", "xfs")), "btrfs"])
def test_what_was_written_is_read_back_on_every_filesystem(ground: Ground, stack: str) -> None:
    record = records(ground.first)[f"{stack}.verify.s1"]

    assert record.validity.valid
    assert record.disks["disk0"]["write_bytes"] > 1 << 20


def test_nothing_is_left_in_the_cache(ground: Ground) -> None:
    assert left_in(ground.path / "cache") == []
    assert labs_of(ground.path / "cache") == []


def test_a_result_states_what_it_ran_on(ground: Ground, lab: Lab) -> None:
    record = records(ground.first)["ext4.oltp.s1"]

    assert record.time_domain == "virtual"
    assert record.fingerprint.kernel_sha256 == lab.fingerprint.kernel_sha256
    assert record.fingerprint.image_sha256 == lab.fingerprint.image_sha256
    assert record.fingerprint.agent_sha256 == lab.fingerprint.agent_sha256
    assert record.versions.kernel.startswith("7.2")
    assert record.versions.packages["fio"]
    assert record.charges.syscall_ns == 0
    assert record.processor is not None
    assert record.processor.name == "generic-server-2024"


def test_a_second_run_skips_what_is_there_and_says_so(ground: Ground) -> None:
    env = environment(ground.path / "cache", ground.shared)

    done = strata(
        *("run", str(ground.path / "one.toml"), "--results", str(ground.first), "--trial", "btrfs.*"),
        env=env,
        cwd=ground.path,
    )

    assert "3 skipped" in done.stderr
    assert "0 measured" in done.stderr
