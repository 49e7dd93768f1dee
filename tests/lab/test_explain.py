# SPDX-License-Identifier: Apache-2.0
"""`strata explain` in the lab, compared with independent counts: of the block layer, and of the programs.

The trace is the driver's; /sys/block/*/stat is the kernel's block layer's. A third count, blktrace, needs a
kernel that the lab has not got: docs/reference/trace-format.md says how it compared in one that had it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lab_factory import head, run_text, stacks

from present import present
from strata.devices.device import find_device
from strata.devices.plausible import plausible_drive
from strata.explanation.analysis import Explanation, explain
from strata.explanation.comparison import compare
from strata.explanation.replay import replay
from strata.explanation.sentences import sentences
from strata.explanation.source import Source, read_source
from strata.lab import Lab
from strata.lab.initrd import disk_seed
from strata.model.trial import TrialKey
from strata.results.counts import counts_of
from strata.results.events import read_events
from strata.results.store import ResultsFolder
from strata.runners.lab import LabRunner
from strata.units import format_value, significant

FILESYSTEMS = ("ext4", "btrfs")
CAPACITY = 20 << 30
FILES = """
[workloads.oltp]
workload = "sysbench-fileio"
preset = "random-mix-4k-fsync"
size = "16MiB"
files = 16
duration = "2s"
"""
# Buffered writes with one fsync, direct writes, and one through the page cache of another size.
SCRIPT = """
[workloads.writes]
workload = "script"
script = '''
dd if=/dev/zero of=MOUNT/buffered bs=64k count=100 conv=fsync &&
dd if=/dev/zero of=MOUNT/direct bs=16k count=50 oflag=direct &&
dd if=/dev/zero of=MOUNT/synced bs=4k count=7 oflag=sync
'''
"""
WRITES = 100 + 50 + 7
WRITE_BYTES = (100 << 16) + (50 << 14) + (7 << 12)
SYNCS = 1 + 7


def measured(lab: Lab, folder: Path, load: str, options: str = "") -> dict[str, Source]:
    """The trials of a load on each filesystem; ``options`` are the disk's."""
    text = head("explain", [1], capacity="20GiB") + options + stacks(*FILESYSTEMS) + load
    run_text(text, folder, LabRunner(lab))
    results = ResultsFolder.open(folder / "results")
    return {stack: read_source(results, TrialKey(stack, "oltp", 1)) for stack in FILESYSTEMS}


@pytest.fixture(scope="module")
def uncached(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Source]:
    return measured(lab, tmp_path_factory.mktemp("uncached"), FILES, "write_cache = false\n")


@pytest.fixture(scope="module")
def files(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Source]:
    """A window that begins and ends at rest, so that both sides count the same requests."""
    return measured(lab, tmp_path_factory.mktemp("files"), FILES)


@pytest.fixture(scope="module")
def found(files: dict[str, Source]) -> dict[str, Explanation]:
    return {stack: explain(source, source.trace()) for stack, source in files.items()}


def block_statistics(source: Source) -> dict[str, int]:
    """The increase of /sys/block/sda/stat over the measuring step, as the agent sampled it."""
    steps = {step.id for step in source.plan.steps if step.phase == "measure" and not step.background}
    samples = [each for each in read_events(source.attempt.events_path).samples if each.step in steps]
    first = next(each for each in samples if each.at == "step_start").disks["disk0"]
    last = next(each for each in reversed(samples) if each.at == "step_end").disks["disk0"]
    return {key: last[key] - first[key] for key in first}


def traced(explanation: Explanation, prefix: str, what: str) -> int:
    """A count of the trace's kinds that begin with a word."""
    return sum(getattr(kind, what) for kind in explanation.disks[0].kinds if kind.name.startswith(prefix))


@pytest.mark.parametrize("stack", FILESYSTEMS)
def test_the_trace_and_the_block_layer_count_the_same(uncached: dict[str, Source], stack: str) -> None:
    source = uncached[stack]
    kernel, explanation = block_statistics(source), explain(source, source.trace())

    assert kernel["writes"] > 100
    for name in ("write", "read"):
        assert traced(explanation, name, "requests") == kernel[f"{name}s"] == explanation.sum(f"{name}s")
        size = kernel[f"{name}_bytes"]
        assert traced(explanation, name, "bytes") == size == explanation.sum(f"{name}_bytes")
    assert explanation.count("requests", "flush") == kernel["flushes"] == explanation.sum("flushes")


@pytest.mark.parametrize("stack", FILESYSTEMS)
def test_the_counts_of_the_record_are_those_of_the_trace(
    files: dict[str, Source], found: dict[str, Explanation], stack: str
) -> None:
    explanation = found[stack]
    counts = {each.name: each.value for each in counts_of(files[stack].record)}

    assert counts == pytest.approx(
        {
            "reads_per_operation": explanation.sum("reads") / explanation.operations,
            "writes_per_operation": explanation.sum("writes") / explanation.operations,
            "flushes_per_operation": explanation.count("requests", "flush") / explanation.operations,
            "journal_writes_per_operation": explanation.count("requests", "write_journal")
            / explanation.operations,
            "seeks_per_operation": explanation.seeks / explanation.operations,
            "read_bytes_per_operation": explanation.sum("read_bytes") / explanation.operations,
            "write_bytes_per_operation": explanation.sum("write_bytes") / explanation.operations,
            "processor_time_ns_per_operation": present(explanation.processor).busy_ns
            / explanation.operations,
        }
    )
    assert counts["seeks_per_operation"] > 0


@pytest.mark.parametrize("stack", FILESYSTEMS)
def test_the_disks_time_is_divided_without_remainder(found: dict[str, Explanation], stack: str) -> None:
    explanation = found[stack]
    disk = explanation.disks[0]

    assert disk.busy_ns == pytest.approx(disk.account["busy_ns"], rel=1e-3)
    assert disk.busy_ns + disk.idle_ns == pytest.approx(explanation.window_ns)
    assert disk.traced == disk.requests
    assert explanation.left_out == 0


@pytest.mark.parametrize("stack", FILESYSTEMS)
@pytest.mark.parametrize("mode", ["open", "closed"])
def test_the_same_disk_takes_as_long_when_the_trace_is_replayed(
    files: dict[str, Source], stack: str, mode: str
) -> None:
    source = files[stack]

    replayed = replay(
        source.trace().of_disk("disk0"),
        plausible_drive(find_device("wd-re4-500gb"), source.plan.trial.seed),
        capacity_bytes=CAPACITY,
        mode=mode,  # type: ignore[arg-type]
        seed=disk_seed(source.plan, "disk0"),
    )

    np.testing.assert_array_equal(replayed.complete_ns, replayed.records["complete_ns"])


def test_the_comparison_of_ext4_and_btrfs_states_the_block_layers_figures(
    files: dict[str, Source], found: dict[str, Explanation]
) -> None:
    kernel = {stack: block_statistics(source) for stack, source in files.items()}
    each = {
        stack: {name: kernel[stack][name] / found[stack].operations for name in ("flushes", "write_bytes")}
        for stack in FILESYSTEMS
    }

    comparison = compare(found["ext4"], found["btrfs"])
    said = "\n".join(sentences(comparison))

    assert (comparison.first.stack, comparison.second.stack) == ("ext4", "btrfs")
    flushes = [significant(each[stack]["flushes"]) for stack in FILESYSTEMS]
    assert f"{flushes[0]} and {flushes[1]} flushes" in said
    for stack in FILESYSTEMS:
        assert f"{stack} {format_value(each[stack]['write_bytes'], 'B')} for" in said
    writes = [significant(found[stack].sum("writes") / found[stack].operations) for stack in FILESYSTEMS]
    assert f"Per operation ext4 and btrfs make {writes[0]} and {writes[1]} writes" in said
    total = sum(part.difference_ns for part in comparison.contributions)
    assert total == pytest.approx(comparison.difference_ns)


@pytest.fixture(scope="module")
def written(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    text = head("written", [1], capacity="20GiB") + stacks(*FILESYSTEMS, "xfs") + SCRIPT
    run_text(text, folder, LabRunner(lab), scripts=True)
    return folder / "results"


@pytest.mark.parametrize("stack", [*FILESYSTEMS, "xfs"])
def test_the_filesystems_account_is_what_programs_wrote(written: Path, stack: str) -> None:
    record = read_source(ResultsFolder.open(written), TrialKey(stack, "writes", 1)).record

    assert record.filesystems == {"disk0": {"writes": WRITES, "write_bytes": WRITE_BYTES, "syncs": SYNCS}}


def test_a_study_can_do_without_a_trace(lab: Lab, tmp_path: Path) -> None:
    text = head("bare", [1], capacity="20GiB").replace("seeds =", "trace = false\nseeds =")
    run_text(text + stacks("ext4") + SCRIPT, tmp_path, LabRunner(lab), scripts=True)

    source = read_source(ResultsFolder.open(tmp_path / "results"), TrialKey("ext4", "writes", 1))

    assert source.record.trace is None
    assert not source.attempt.trace_path.exists()
    assert explain(source, None).disks[0].requests > 0
