# SPDX-License-Identifier: Apache-2.0
"""Programs of a study's own in the lab: what they may do wrong, and that nothing is lost by it."""

from __future__ import annotations

from pathlib import Path

from lab_factory import head, records, run_text, stacks, valid_record

from strata.lab import Lab
from strata.results.record import record_sha256
from strata.runners.base import EVENTS_NAME
from strata.runners.lab import LabRunner

SERVER = (
    "use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die; "
    "while (my $c = $s->accept) { my $n = <$c>; print $c $n * 2, chr(10) }"
)
CLIENT = (
    "use IO::Socket::UNIX; my $c = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die; "
    "print $c '21', chr(10); print 'answer: ', <$c>"
)
# Each with the beginning of the reason that makes its result invalid, or None.
CASES: dict[str, tuple[str, str | None]] = {
    "server": (
        f'scripts = {{ "server.pl" = """{SERVER}""", "client.pl" = """{CLIENT}""" }}\n'
        "serve = { run = 'perl ${files}/server.pl ${scratch}/s', socket = '${scratch}/s' }\n"
        "prepare = ['dd if=/dev/zero of=${data}/a bs=4k count=16']\n"
        "load = ['perl ${files}/client.pl ${scratch}/s']\n"
        "metrics = [{ name = 'answer', unit = '1', regex = 'answer: ([0-9]+)' }]\n",
        None,
    ),
    "daemon": (
        "load = [{ name = 'fork', shell = 'setsid sleep 1000 & dd if=/dev/zero of=$data/a count=8' }]\n",
        "fork left sleep",
    ),
    "endless": ("load = ['sleep infinity']\ntime_limit = '30s'\n", "took longer than its time limit of 30 s"),
    "silent": (
        "load = ['sync ${data}']\nmetrics = [{ name = 'answer', unit = '1', regex = 'answer: ([0-9]+)' }]\n",
        "the metric answer is missing",
    ),
    "loud": ("load = ['seq 1000000']\noutput_limit = '64KiB'\n", "wrote more output than is kept"),
    "greedy": (
        """load = ['perl -e "my $$a = chr(1) x 200000000; print length $$a"']\nmemory = '64MiB'\n""",
        "Memory cgroup out of memory",
    ),
    "failing": ("load = ['cp ${data}/none ${data}/b']\n", "failed with exit code 1"),
    "absent": ("load = ['no-such-program']\n", "could not be started: no-such-program is not in PATH"),
    "escaped": (
        "serve = { run = 'redis-server --daemonize yes --dir ${data}', port = 6379 }\nload = ['sync']\n",
        "must stay in the foreground",
    ),
    "early": ("serve = { run = 'true', file = '${data}/x' }\nload = ['sync']\n", "exit code 0"),
}


def test_what_a_command_does_wrong_is_told_and_no_other_trial_is_lost(lab: Lab, tmp_path: Path) -> None:
    text = head("own", [1], "1GiB") + stacks("ext4")
    text += "".join(
        f'\n[workloads.{name}]\nworkload = "command"\n{keys}' for name, (keys, _) in CASES.items()
    )

    run_text(text, tmp_path, LabRunner(lab), jobs=1)

    found = {record.trial.workload: record for record in records(tmp_path / "results").values()}
    for name, (_, reason) in CASES.items():
        reasons = "; ".join(found[name].validity.reasons)
        assert found[name].validity.valid == (reason is None), f"{name}: {reasons}"
        assert (reason or "") in reasons, name
    assert {each.name: each.value for each in found["server"].metrics}["answer"] == 42


SERVED = """
[workloads.redis]
workload = "command"
serve.run = "redis-server --bind 127.0.0.1 ::1 --dir ${data} --save '' --appendonly yes --appendfsync always"
serve.port = 6379
load = ["redis-benchmark -h 127.0.0.1 -p 6379 -t set -n 500 -c 8 -d 500 --csv --seed ${seed}"]
end = [
    { name = "six", run = "redis-cli -h ::1 -p 6379 info commandstats" },
    { name = "ports", shell = "sort /proc/net/tcp /proc/net/tcp6; cat /proc/net/netstat /proc/net/snmp" },
]
metrics = [
    { name = "requests_per_s", unit = "1/s", regex = '^"SET[^"]*","([0-9.]+)"' },
    { name = "sets", unit = "1", of = "six", regex = 'cmdstat_set:calls=([0-9]+)' },
]
"""


def test_a_server_on_tcp_is_waited_for_by_its_port_and_measured_equally_twice(
    lab: Lab, tmp_path: Path
) -> None:
    found = []
    for name, seeds in (("first", [1, 2]), ("again", [1])):
        text = head("own", seeds, "1GiB") + stacks("ext4") + SERVED
        run_text(text, tmp_path / name, LabRunner(lab), jobs=1)
        results = tmp_path / name / "results"
        files = results.glob(f"records/*/attempt-*/{EVENTS_NAME}")
        said = {file.parts[-3]: file.read_bytes() for file in files}
        found.append((records(results), said))

    (first, events), (again, events_again) = found
    for record in first.values():
        assert record.validity.valid, record.validity.reasons
        values = {each.name: each.value for each in record.metrics}
        assert values["sets"] == 500
        assert values["requests_per_s"] > 10
    # The connections' ports, sequence numbers and counters are in the output of `ports`.
    assert len(again) == len(events_again) == 1
    assert record_sha256(again["ext4.redis.s1"]) == record_sha256(first["ext4.redis.s1"])
    assert events_again.items() <= events.items()
    # Random numbers derive from the trial's seed: each has client ports of its own.
    assert len(set(events.values())) == 2


def test_pgbench_measures_tables_and_a_script_of_ones_own(lab: Lab, tmp_path: Path) -> None:
    text = head("own", [1], "4GiB") + stacks("ext4")
    text += (
        '\n[workloads.own]\nworkload = "pgbench"\nscale = 1\nclients = 2\nwarmup = "1s"\nduration = "2s"\n'
        'init_text = "CREATE TABLE item AS SELECT generate_series(1, 1000 * :scale) AS id;"\n'
        'script_text = "UPDATE item SET id = id WHERE id = 7;"\n'
    )

    record = valid_record(text, tmp_path, LabRunner(lab), jobs=1)

    assert {each.name: each.value for each in record.metrics}["transactions_per_s"] > 10


def test_sysbench_runs_a_transaction_of_ones_own_on_a_dump(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "dump.sql").write_text(
        "CREATE TABLE item AS SELECT id, 0 AS amount FROM generate_series(1, 100) AS id;\n"
    )
    text = head("own", [1], "4GiB") + stacks("ext4")
    text += (
        '\n[workloads.own]\nworkload = "sysbench-oltp"\nserver = "postgresql"\ninit = "dump.sql"\n'
        'rows = 100\nthreads = 2\nrate = 40\nwarmup = "1s"\nduration = "3s"\n'
        'script_text = """BEGIN;\nUPDATE item SET amount = amount + 1 WHERE id = :id;\n'
        'SELECT \':text\'::text;\nCOMMIT;\n"""\n'
    )

    record = valid_record(text, tmp_path, LabRunner(lab), jobs=1)

    found = {each.name: each.value for each in record.metrics}
    assert 25 < found["transactions_per_s"] < 55
    # Four queries a transaction; when the window ends, each of the two threads may be within one.
    unfinished = found["queries_per_s"] - 4 * found["transactions_per_s"]
    assert abs(unfinished) * 3 <= 2 * 4


APPEND = """use strict; use IO::Handle;
open(my $f, '>', $ARGV[0]) or die; my ($n, $end) = (0, time + $ARGV[1]);
while (time < $end) { print $f 'x' x 4096; $f->flush; $f->sync; $n++ }
print "done $n";
"""


def test_an_application_is_one_of_several_tenants(lab: Lab, tmp_path: Path) -> None:
    text = head("own", [1], "1GiB") + stacks("ext4")
    text += '\n[workloads.both]\nworkload = "tenants"\nalone = "1s"\n'
    for name in ("left", "right"):
        text += f'[[workloads.both.tenants]]\nname = "{name}"\n[workloads.both.tenants.load]\n'
        text += f"workload = 'command'\nduration = '2s'\nscripts.'append.pl' = '''{APPEND}'''\n"
        text += "load = ['perl ${files}/append.pl ${data}/log ${duration}']\n"
        text += "metrics = [{ name = 'appends', unit = '1', better = 'higher', regex = 'done ([0-9]+)' }]\n"

    record = valid_record(text, tmp_path, LabRunner(lab), jobs=1)

    found = {each.name: each.value for each in record.metrics}
    assert min(found[name] for name in ("left_appends", "right_appends", "left_alone_appends")) > 5
