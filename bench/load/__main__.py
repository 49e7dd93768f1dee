# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.load``: the cost of an operation by the load generator, by fio and by a plain C loop.

On tmpfs, pinned to one CPU, in turns. A cost is the process's CPU time, of user and kernel, of a long run
less that of a short one: without start-up, and without other work of the machine.

The C loop on files is measured in a thread of its own as well, because a process with two threads pays more
for some system calls.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILE_BYTES = 64 << 20
VISITED = 1000
ROUNDS = 7

Run = Callable[[int], Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """The cost of an operation: medians of all rounds, and of the rounds' ratios to the C loop."""

    operation: str
    c_ns: float
    load_ns: float
    fio_ns: float | None
    load_per_c: float | None
    fio_per_c: float | None
    c_thread_ns: float | None
    load_per_c_thread: float | None


@dataclass(frozen=True)
class Case:
    """One operation: each program's command for ``n`` units, and the lengths of a short and a long run."""

    operation: str
    short: int
    long: int
    units: int
    c: Run
    load: Run
    fio: Run | None = None
    c_thread: Run | None = None


def _cpu_s(argv: Sequence[str], cpu: int) -> float:
    """The CPU time of a run."""
    process = subprocess.Popen(
        ("taskset", "--cpu-list", str(cpu), *argv), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"bench: {argv[0]} failed: {said.decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime


def _cost_ns(run: Run, case: Case, cpu: int) -> float:
    short_s, long_s = _cpu_s(run(case.short), cpu), _cpu_s(run(case.long), cpu)
    return (long_s - short_s) * 1e9 / ((case.long - case.short) * case.units)


def _measured(case: Case, rounds: int, cpu: int) -> Figure:
    more = {"fio": case.fio, "c_thread": case.c_thread}
    runs = {"c": case.c, "load": case.load, **{name: run for name, run in more.items() if run}}
    costs: dict[str, list[float]] = {name: [] for name in runs}
    for each in range(rounds):
        # The first and the last program find the caches in different states.
        for name in list(runs)[:: 1 if each % 2 else -1]:
            costs[name].append(_cost_ns(runs[name], case, cpu))
    middle = {name: statistics.median(found) for name, found in costs.items()}

    def ratio(mine: str, theirs: str) -> float | None:
        if mine not in costs or theirs not in costs:
            return None
        return statistics.median(a / b for a, b in zip(costs[mine], costs[theirs], strict=True))

    return Figure(
        case.operation,
        c_ns=middle["c"],
        load_ns=middle["load"],
        fio_ns=middle.get("fio"),
        load_per_c=ratio("load", "c"),
        fio_per_c=ratio("fio", "c"),
        c_thread_ns=middle.get("c_thread"),
        load_per_c_thread=ratio("load", "c_thread"),
    )


def _cases(load: str, loop: str, folder: Path) -> list[Case]:
    file = _filled(load, folder)
    layout = ("--files=1", f"--file-bytes={FILE_BYTES}", f"--directory={file.parent}")
    fio = (
        *("fio", "--name=bench", f"--filename={file}", f"--size={FILE_BYTES}", "--thread=1"),
        *("--ioengine=psync", "--output-format=json", "--fallocate=none", "--invalidate=0"),
        "--allow_file_create=0",
    )
    visit = _prepared(load, folder, "visit")
    churn = _prepared(load, folder, "churn")
    files = sorted(path for path in (folder / "visit").rglob("*") if path.is_file())
    (folder / "visited").write_text("".join(f"{path} {path.stat().st_size}\n" for path in files))
    (folder / "churned").write_text("".join(f"{path}.new {path.stat().st_size}\n" for path in files))

    def write(kib: int, short: int) -> Case:
        rewrite = (load, "fragment", "rewrite", *layout, "--seed=1", f"--extent-bytes={kib << 10}")
        return Case(
            f"{kib} KiB written at a random place",
            short,
            6 * short,
            1,
            lambda n: (loop, "write", str(file), str(n), str(kib << 10)),
            lambda n: (*rewrite, f"--extents={n}"),
            lambda n: (*fio, "--rw=randwrite", f"--bs={kib}k", f"--io_size={n * kib}k", "--norandommap"),
        )

    return [
        write(4, 100_000),
        write(64, 10_000),
        Case(
            "16 KiB file opened, read, closed (personality)",
            20,
            120,
            VISITED,
            lambda n: (loop, "visit", str(folder / "visited"), str(n), str(1 << 20)),
            lambda n: (*visit, f"--passes={n * VISITED}"),
            c_thread=lambda n: (loop, "thread", "visit", str(folder / "visited"), str(n), str(1 << 20)),
        ),
        Case(
            "16 KiB file created, written, closed, deleted (personality)",
            10,
            60,
            VISITED,
            lambda n: (loop, "churn", str(folder / "churned"), str(n)),
            lambda n: (*churn, f"--passes={n * VISITED}"),
            c_thread=lambda n: (loop, "thread", "churn", str(folder / "churned"), str(n)),
        ),
    ]


def _filled(load: str, folder: Path) -> Path:
    filled = folder / "fragment"
    layout = ("--files=1", f"--file-bytes={FILE_BYTES}", f"--directory={filled}", "--seed=1")
    subprocess.run((load, "fragment", "fill", *layout), check=True, stdout=subprocess.DEVNULL)
    return filled / "file-0.data"


def _prepared(load: str, folder: Path, name: str) -> tuple[str, ...]:
    """The command that runs a personality of this folder, on its files."""
    (folder / name).mkdir()
    common = (
        f"--personality={HERE / name}.toml",
        f"--directory={folder / name}",
        f"--state={folder / name}.state",
        "--seed=1",
    )
    subprocess.run((load, "prepare", *common), check=True, stdout=subprocess.DEVNULL)
    return (load, "run", *common, "--duration-ms=600000", "--interval-ms=600000")


def _built(folder: Path) -> str:
    """The C loop."""
    program = folder / "loop"
    subprocess.run(("cc", "-O2", "-Wall", "-pthread", "-o", str(program), str(HERE / "loop.c")), check=True)
    return str(program)


def main() -> None:
    """Measure everything and print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is measured")
    parser.add_argument("--load", help="the load generator; default: built with cargo")
    parser.add_argument("--tmpfs", type=Path, default=Path("/dev/shm"), help="a folder of a tmpfs")
    options = parser.parse_args()
    for tool in ("cc", "fio", "taskset"):
        if shutil.which(tool) is None:
            raise SystemExit(f"bench: {tool} is missing: install it with the machine's package manager")
    load = options.load
    if load is None:
        subprocess.run(("cargo", "build", "--release", "--locked", "-p", "strata-load"), cwd=ROOT, check=True)
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        load = str(target / "release" / "strata-load")
    cpu = max(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="strata-bench-", dir=options.tmpfs) as folder:
        place = Path(folder)
        figures = [_measured(case, options.rounds, cpu) for case in _cases(load, _built(place), place)]
    if options.json:
        print(json.dumps([asdict(figure) for figure in figures], indent=2))
        return
    names = ("operation", "C", "C, in a thread", "load generator", "fio")
    table = Table(*names, "load/C", "load/C in a thread", "fio/C", title="CPU ns per operation")
    for each in figures:
        costs = (each.c_ns, each.c_thread_ns, each.load_ns, each.fio_ns)
        ratios = (each.load_per_c, each.load_per_c_thread, each.fio_per_c)
        table.add_row(
            each.operation,
            *("" if cost is None else f"{cost:,.0f}" for cost in costs),
            *("" if ratio is None else f"{ratio:.3f}" for ratio in ratios),
        )
    Console().print(table)


if __name__ == "__main__":
    main()
