# SPDX-License-Identifier: Apache-2.0
"""Results folders of any size, with plausible numbers that no trial was run for.

The numbers are drawn from the names: a cell has the same ones in every folder, however large it is.
"""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from strata.model.histogram import QUANTILES, empty_histogram, encode, record
from strata.model.metric import Metric
from strata.model.study_record import DeviceRecord, LayerRecord, StackRecord, WorkloadRecord
from strata.model.trial import TrialKey
from strata.model.warning import Check
from strata.plan.catalogue import catalogue
from strata.plan.model import Trial, sha256_hex
from strata.results.reading import result_text
from strata.results.record import (
    Charges,
    Fingerprint,
    RealTime,
    ResultRecord,
    SamplesSummary,
    StudySnapshot,
    Throughput,
    TimeDomain,
    Validity,
    Versions,
    measured,
)
from strata.results.store import ResultsFolder
from strata.traces.kinds import TIME_PARTS

_S: Final = 1_000_000_000
_DISKS: Final = ("disk0", "disk1", "disk2", "disk3")
_MODEL: Final = "wd-re4-500gb"
_WINDOW_S: Final = 30
# Where latencies are drawn: evenly in the body, and ever rarer in the tail.
_SHARES: Final = np.concatenate([np.linspace(0.005, 0.985, 50), 1 - np.geomspace(0.012, 1e-5, 18)])
_QUESTION: Final = "Which stack should hold databases, files, mail and pages on four 7200 rpm disks?"
_MD10: Final = '{ layer = "md", level = 10 }'
_BTRFS: Final = '{ layer = "btrfs", data = "raid10", metadata = "raid10"'
_POOL: Final = '{ layer = "zpool", vdev = "mirror", width = 2 }'

# Stacks with their layers, how good they are at reading and at synchronous writing.
_STACKS: Final[tuple[tuple[str, str, float, float], ...]] = (
    ("ext4", f'{_MD10}, {{ layer = "ext4" }}', 1.0, 1.0),
    ("xfs", f'{_MD10}, {{ layer = "xfs" }}', 1.04, 1.13),
    ("btrfs", f"{_BTRFS} }}", 1.01, 0.31),
    ("zfs-16k", f'{_POOL}, {{ layer = "zfs", recordsize = "16KiB" }}', 0.62, 0.92),
    ("ext4-thin", f'{_MD10}, {{ layer = "lvm-thin" }}, {{ layer = "ext4" }}', 0.93, 0.84),
    ("xfs-raid5", '{ layer = "md", level = 5 }, { layer = "xfs" }', 1.09, 0.44),
    ("zfs", f'{_POOL}, {{ layer = "zfs" }}', 0.87, 0.55),
    ("btrfs-nocow", f"{_BTRFS}, cow = false }}", 1.0, 0.82),
    ("ext4-crypt", f'{_MD10}, {{ layer = "crypt" }}, {{ layer = "ext4" }}', 0.99, 0.99),
    ("f2fs", f'{_MD10}, {{ layer = "f2fs" }}', 0.9, 0.71),
)
# Workloads with their tables, what they count, how many a second, how much of them is synchronous writing.
_WORKLOADS: Final[tuple[tuple[str, str, str, float, float], ...]] = tuple(
    (name, f'workload = {table}\nduration = "30s"', counted, per_s, synchronous)
    for name, table, counted, per_s, synchronous in (
        ("postgresql", '"pgbench"\nscale = 10\nclients = 10', "transactions", 352.0, 0.9),
        ("mail", '"load"\npersonality = "varmail"', "operations", 1420.0, 1.0),
        ("files", '"load"\npersonality = "fileserver"\nfiles = 2000', "operations", 13_300.0, 0.3),
        ("mariadb", '"sysbench-oltp"\nserver = "mariadb"', "transactions", 354.0, 0.8),
        ("pages", '"load"\npersonality = "webserver"\nfiles = 20_000', "operations", 9_100.0, 0.1),
        ("random-mix", '"fio"\npreset = "random-mix-4k"\nsize = "1GiB"', "operations", 760.0, 0.5),
    )
)


def stack_names(count: int) -> list[str]:
    """The first ``count`` stacks; after the last one, names repeat with a number."""
    return [_numbered(_STACKS[i % len(_STACKS)][0], i // len(_STACKS)) for i in range(count)]


def workload_names(count: int) -> list[str]:
    """The first workloads, likewise."""
    return [_numbered(_WORKLOADS[i % len(_WORKLOADS)][0], i // len(_WORKLOADS)) for i in range(count)]


def made_results(
    path: Path,
    *,
    stacks: int | Sequence[str] = 4,
    workloads: int | Sequence[str] = 3,
    seeds: int | Sequence[int] = 6,
    gains: Mapping[str, float] | None = None,
    spread: float = 0.015,
    drawn: int = 0,
    missing: Collection[str] = (),
    checks: Sequence[Check] | None = None,
    time_domain: TimeDomain = "virtual",
    name: str = "made",
    question: str = _QUESTION,
) -> ResultsFolder:
    """Write a results folder.

    Args:
        path: Where to; it must not be there yet.
        stacks: How many of ``stack_names``, or which; other names are allowed.
        workloads: The same, of ``workload_names``.
        seeds: How many, or which.
        gains: How many times better than drawn: by ``STACK`` or ``STACK.WORKLOAD``.
        spread: The standard deviation over seeds of each cell's own, relative; 0 makes all seeds alike.
        drawn: Another number draws other seeds' noise, as another day's measurement in wall time would.
        missing: Trials, as ``STACK.WORKLOAD.sSEED``, that have not been run.
        checks: Of every trial, instead of drawn ones, by which some cells are not steady.
        time_domain: Virtual or wall.
        name, question: The study's.
    """
    chosen_stacks = stack_names(stacks) if isinstance(stacks, int) else list(stacks)
    chosen_workloads = workload_names(workloads) if isinstance(workloads, int) else list(workloads)
    chosen_seeds = tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds)
    trials = [
        Trial(study=name, stack=stack, workload=workload, seed=seed, id=f"{stack}.{workload}.s{seed}")
        for stack, workload, seed in product(chosen_stacks, chosen_workloads, chosen_seeds)
    ]
    text = _study_text(name, question, chosen_stacks, chosen_workloads, chosen_seeds)
    snapshot = StudySnapshot(
        name=name,
        question=question,
        devices=dict.fromkeys(_DISKS, DeviceRecord(model=_MODEL, capacity_bytes=32 << 30)),
        stacks={each: _stack_record(each, table) for each, table in tomllib.loads(text)["stacks"].items()},
        workloads={each: _workload_record(each) for each in chosen_workloads},
        seeds=chosen_seeds,
        trials={trial.key: sha256_hex(trial.id.encode()) for trial in trials},
        time_domain=time_domain,
        runner="lab" if time_domain == "virtual" else "host",
        text=text,
        file=f"{name}.toml",
        command=f"strata run {name}.toml",
    )
    folder = ResultsFolder.create(path, snapshot)
    for trial in trials:
        if trial.id not in missing:
            names = trial.stack, f"{trial.stack}.{trial.workload}"
            gain = math.prod((gains or {}).get(each, 1.0) for each in names)
            made = made_record(trial, gain=gain, spread=spread, drawn=drawn, time_domain=time_domain)
            _write(folder, made, checks)
    return folder


def _write(folder: ResultsFolder, made: ResultRecord, checks: Sequence[Check] | None) -> None:
    """Not as `RecordStore.put`, which makes each of three thousand files durable."""
    made = made if checks is None else made.model_copy(update={"checks": tuple(checks)})
    attempt = folder.path / "records" / made.spec_sha256 / "attempt-001"
    attempt.mkdir(parents=True)
    (attempt / "result.json").write_bytes(result_text(made))


def made_record(
    trial: Trial,
    *,
    gain: float = 1.0,
    spread: float = 0.015,
    drawn: int = 0,
    time_domain: TimeDomain = "virtual",
) -> ResultRecord:
    """One trial's record, drawn from its names and its seed."""
    _, _, noun, level, synchronous = _workload(trial.workload)
    rng = _rng(trial.stack, trial.workload, trial.seed, drawn)
    cell = _rng(trial.stack, trial.workload)
    block = _rng(trial.workload, trial.seed, drawn).normal(0, 0.02)
    reading, writing = _stack(trial.stack)[2:]
    factor = math.exp((1 - synchronous) * math.log(reading) + synchronous * math.log(writing))
    rate = level * factor * gain * math.exp(cell.normal(0, 0.04) + block + rng.normal(0, spread))
    steady = cell.uniform() > 0.12
    load, disks = _throughput(rate, rng, steady=steady)
    wall = time_domain == "wall"
    return ResultRecord(
        trial=trial,
        spec_sha256=sha256_hex(trial.id.encode()),
        fingerprint=Fingerprint(
            kernel_sha256=None if wall else sha256_hex(b"kernel"),
            image_sha256=None if wall else sha256_hex(b"image"),
            agent_sha256=sha256_hex(b"agent"),
        ),
        time_domain=time_domain,
        runner="host" if wall else "lab",
        validity=Validity(valid=True),
        **measured(_metrics(noun, rate, rng)),
        phases_ns={"build": 2 * _S, "prepare": 5 * _S, "measure": _WINDOW_S * _S},
        disks={} if wall else {disk: _account(trial, disk, synchronous, rate / level) for disk in _DISKS},
        checks=_checks(trial.workload, steady=steady),
        throughput=(load, disks),
        samples=SamplesSummary(
            count=_WINDOW_S,
            dirty_bytes_max=20 << 20,
            cached_bytes_max=300 << 20,
            available_bytes_min=350 << 20,
        ),
        versions=Versions(
            strata="0.4.0",
            kernel="7.2.12-strata",
            agent="0.4.0",
            packages={"fio": "3.39-1", "mariadb-server": "1:11.8.3-0+deb13u1", "postgresql-17": "17.6-0"},
        ),
        charges=Charges() if wall else Charges(syscall_ns=200, yield_ns=1000, clock_read_ns=20),
        real_time=RealTime(
            started_at="2026-11-20T21:00:00Z",
            duration_s=12.5,
            virtual_per_real=None if wall else 3.1,
            host="a made machine",
        ),
    )


def _metrics(noun: str, rate: float, rng: np.random.Generator) -> list[Metric]:
    """The rate, the count, and a latency distribution with a tail: a log-normal one, and a second hump."""
    median_ns = 10 / rate * _S * 0.7
    sigma = 0.55 + float(rng.uniform(0, 0.1))
    count = max(2000, round(rate * _WINDOW_S))
    edges = np.concatenate([[0.0], (_SHARES[1:] + _SHARES[:-1]) / 2, [1.0]])
    counts = np.diff(np.round(edges * count).astype(int))
    values = median_ns * np.exp(sigma * _normal_quantiles()) * np.where(_SHARES > 0.985, 1.9, 1.0)
    histogram = empty_histogram()
    for value, part in zip(values, counts, strict=True):
        if part > 0:
            record(histogram, int(value), int(part))
    latency_ns_max = float(values[-1]) * 1.1
    found = {"mean": float(median_ns * math.exp(sigma**2 / 2))}
    # As `latency_metrics` does, whose library takes milliseconds for each percentile.
    for label, quantile in QUANTILES:
        place = int(np.searchsorted(np.cumsum(counts), quantile * count - 1e-6))
        highest = histogram.get_highest_equivalent_value(int(values[place]))
        found[label] = min(float(highest), latency_ns_max)
    found["max"] = latency_ns_max
    encoded = encode(histogram)
    latencies = [
        Metric(
            name=f"latency_ns_{label}",
            value=value,
            unit="ns",
            better="lower",
            family="latency_ns",
            quantile=dict(QUANTILES).get(label),
            histogram=encoded if label in dict(QUANTILES) else None,
        )
        for label, value in found.items()
    ]
    return [
        Metric(name=f"{noun}_per_s", value=rate, unit="1/s", better="higher", headline=True),
        Metric(name=noun, value=float(round(rate * _WINDOW_S)), unit="1", better="higher"),
        *latencies,
    ]


@lru_cache
def _normal_quantiles() -> np.ndarray:
    inverse = NormalDist().inv_cdf
    return np.array([inverse(float(share)) for share in _SHARES])


def _throughput(rate: float, rng: np.random.Generator, *, steady: bool) -> tuple[Throughput, Throughput]:
    seconds = np.arange(_WINDOW_S)
    shape = 1 + (0.02 if steady else 0.7) * np.exp(-seconds / 6.0)
    rates = rate * shape / shape.mean() * (1 + rng.normal(0, 0.04, _WINDOW_S))
    return (
        Throughput(source="load", unit="1/s", interval_ns=_S, rates=tuple(round(float(r), 1) for r in rates)),
        Throughput(
            source="disks",
            unit="B/s",
            interval_ns=_S,
            rates=tuple(float(round(r * 16_384)) for r in rates * (1 + rng.normal(0, 0.08, _WINDOW_S))),
        ),
    )


def _account(trial: Trial, disk: str, synchronous: float, speed: float) -> dict[str, int]:
    rng = _rng(trial.stack, trial.workload, trial.seed, disk)
    window_ns = _WINDOW_S * _S
    busy_ns = int(window_ns * min(0.97, rng.uniform(0.7, 0.95)))
    shares = dict.fromkeys(TIME_PARTS, 0.0) | {
        "seek_ns": 0.34 - 0.1 * synchronous,
        "rotation_ns": 0.3,
        "transfer_ns": 0.08,
        "overhead_ns": 0.02,
        "cache_ns": 0.05,
        "flush_ns": 0.25 * synchronous / max(speed, 0.3),
    }
    account = {key: int(busy_ns * share * rng.uniform(0.95, 1.05)) for key, share in shares.items()}
    writes = int(110 * _WINDOW_S * synchronous) + 40
    reads = int(90 * _WINDOW_S * (1 - synchronous)) + 25
    return account | {
        "queue_ns": busy_ns * 3,
        "busy_ns": busy_ns,
        "command_work_ns": busy_ns // 2,
        "reads": reads,
        "read_bytes": reads * 16_384,
        "writes": writes,
        "write_bytes": writes * 12_288,
        "flushes": int(writes * 0.4 * synchronous),
    }


def _checks(workload: str, *, steady: bool) -> tuple[Check, ...]:
    small = workload.startswith("files")
    return (
        Check(name="finished", verdict="yes", detail="all 6 steps did", required=True),
        Check(name="did-io-in-window", verdict="yes", detail="the disks moved 1.3 GiB in it"),
        Check(
            name="larger-than-memory",
            verdict="no" if small else "yes",
            detail="200 MiB of data fit into 512 MiB" if small else "2 GiB of data, 512 MiB of memory",
        ),
        Check(
            name="steady",
            verdict="yes" if steady else "no",
            detail="the five fifths of the window "
            + ("differ by 3.1% of their mean" if steady else "differ by 41.0% of their mean (at most 20%)"),
        ),
    )


def _stack(name: str) -> tuple[str, str, float, float]:
    found = {each[0]: each for each in _STACKS}
    known = found.get(name) or found.get(name.rpartition("-")[0])
    if known is not None:
        return known
    return (name, f'{_MD10}, {{ layer = "ext4" }}', 1.0, 1.0)


def _workload(name: str) -> tuple[str, str, str, float, float]:
    found = {each[0]: each for each in _WORKLOADS}
    return found.get(name) or found.get(name.rpartition("-")[0]) or (name, *_WORKLOADS[0][1:])


def _numbered(name: str, turn: int) -> str:
    return name if turn == 0 else f"{name}-{turn + 1}"


def _stack_title(name: str) -> str:
    words = _stack(name)[1].replace('"', "").replace("layer = ", "").replace(" = ", " ")
    layers = (part.strip(" {}").replace(", ", " · ") for part in words.split("}, {"))
    return " / ".join(layers) + f" on {len(_DISKS)} x {_MODEL}"


def _stack_record(name: str, table: dict[str, Any]) -> StackRecord:
    layers = [
        LayerRecord(
            layer=each.pop("layer"), stated={key: str(value) for key, value in each.items()}, keys=each
        )
        for each in map(dict, table["layers"])
    ]
    return StackRecord(title=_stack_title(name), devices=tuple(_DISKS), layers=tuple(layers))


def _workload_record(name: str) -> WorkloadRecord:
    words = _workload(name)[1].replace('"', "").replace("workload = ", "").replace(" = ", " ")
    rationale = "Short requests that wait for one another." if name != "postgresql" else "A bank's ledger."
    keys = _declared(name)
    return WorkloadRecord(
        workload=keys["workload"], title=" · ".join(words.splitlines()), rationale=rationale, keys=keys
    )


@lru_cache
def _declared(name: str) -> dict[str, Any]:
    """A workload's fields as `strata run` writes them into study.json."""
    table = tomllib.loads(_workload(name)[1])
    return catalogue().workloads[table["workload"]].model_validate(table).model_dump(mode="json")


def _study_text(
    name: str, question: str, stacks: Sequence[str], workloads: Sequence[str], seeds: Sequence[int]
) -> str:
    """A study file that `strata check` accepts."""
    parts = [f'[study]\nname = "{name}"\nquestion = "{question}"\nseeds = {list(seeds)}\n']
    parts += [f'[devices.{disk}]\nmodel = "{_MODEL}"\ncapacity = "32GiB"\n' for disk in _DISKS]
    parts += [f"[stacks.{each}]\nlayers = [{_stack(each)[1]}]\n" for each in stacks]
    parts += [f"[workloads.{each}]\n{_workload(each)[1]}\n" for each in workloads]
    return "\n".join(parts)


def _rng(*names: object) -> np.random.Generator:
    digest = hashlib.sha256("\0".join(map(str, names)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def trial_key(trial_id: str) -> TrialKey:
    """The trial that a name means, such as ``xfs.oltp.s1``."""
    stack, workload, seed = trial_id.split(".")
    return TrialKey(stack, workload, int(seed.removeprefix("s")))
