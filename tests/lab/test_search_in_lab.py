# SPDX-License-Identifier: Apache-2.0
"""The highest rate that a real load keeps a target at, on a modelled disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_factory import environment, public_folder, shared_lab, strata

from record_hashes import hashes
from strata.lab import Lab
from strata.results.store import ResultsFolder
from strata.statistics.study import StudyResults, gather

TEXT = """\
[study]
name = "knee"
question = "How many random reads a second within 60 ms?"
seeds = [1]
phases = "fixed"
cpu = "free"
[devices.hdd]
model = "wd-re4-500gb"
[stacks.bare]
layers = []
[workloads.reads]
workload = "fio"
size = "64MiB"
duration = "4s"
options = { rw = "randread", bs = "4k", iodepth = 32, ioengine = "libaio", direct = 1 }
rate = 40
find = { metric = "read_latency_ns_p99", below = "60ms", within = "25%" }
"""

# A program of one's own: it appends and flushes at given times, and is late where the disk is.
COMMAND = (
    TEXT.replace("cpu = ", "time_limit = '1h'\ncpu = ").partition("[stacks")[0]
    + """\
[stacks.ext4]
layers = [{ layer = "ext4" }]
[workloads.appends]
workload = "command"
scripts."append.pl" = '''
use strict; use warnings; use IO::Handle; use Time::HiRes qw(clock_gettime sleep CLOCK_MONOTONIC);
my ($path, $rate, $seconds) = @ARGV;
open(my $file, ">>", $path) or die "$path: $!";
my ($begun, @times) = (clock_gettime(CLOCK_MONOTONIC));
for my $count (1 .. $rate * $seconds) {
    my $early = $begun + $count / $rate - clock_gettime(CLOCK_MONOTONIC);
    sleep($early) if $early > 0;
    print $file "x" x 4096;
    $file->flush; $file->sync or die "sync: $!";
    push @times, clock_gettime(CLOCK_MONOTONIC) - $begun - $count / $rate;
}
my $took = clock_gettime(CLOCK_MONOTONIC) - $begun;
@times = sort { $a <=> $b } @times;
printf qq({"p99": %.6f, "rate": %.3f}\\n), $times[$#times * 0.99], @times / $took;
'''
load = ["perl ${files}/append.pl ${data}/log ${rate} ${duration}"]
duration = "4s"
metrics = [
    { name = "latency_ns_p99", json = "p99", factor = 1e9 },
    { name = "operations_per_s", unit = "1/s", json = "rate" },
]
rate = 10
find = { metric = "latency_ns_p99", below = "60ms", within = "25%" }
"""
)


def run(folder: Path, lab: Lab, text: str, *words: str) -> StudyResults:
    (folder / "study.toml").write_text(text)
    env = environment(folder / "cache", shared_lab(lab, folder / "shared"), HOME="/root")
    strata("run", "study.toml", "--results", "results", *words, env=env, cwd=folder)
    return gather(ResultsFolder.open(folder / "results"))


@pytest.mark.parametrize("text", [TEXT, COMMAND], ids=["fio", "command"])
def test_a_rate_is_found_by_real_trials_and_again_the_same(lab: Lab, text: str) -> None:
    with public_folder() as folder:
        results = run(folder, lab, text)
        first = hashes(folder / "results")

        assert {key.seed for key in results.searches} == {1}
        for search in results.searches.values():
            assert search.is_ended
            assert search.kept is not None
            assert search.missed is not None
            assert search.kept.value is not None
            assert search.kept.value <= 60_000_000
            # A drive of 7200 rpm does about 75 random reads a second one at a time, and twice that in order.
            assert 20 <= search.kept.rate < search.missed.rate <= 300
        (cell,) = results.cells.values()
        assert set(cell.series("operations_within_target_per_s").values) == {1}

        run(folder, lab, text)
        assert hashes(folder / "results") == first
