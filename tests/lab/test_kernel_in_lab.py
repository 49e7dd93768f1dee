# SPDX-License-Identifier: Apache-2.0
"""Faults that the lab's kernel once had, each by the smallest program that meets it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from lab_factory import head, records, run_text, stacks

from record_hashes import attempt_of
from strata.lab import Lab
from strata.results.record import ResultRecord
from strata.runners.lab import LabRunner

# A fork copies the pages of io_uring's queue as one run. The child must see what its parent wrote there, and
# its end must drop no references of other pages.
FORKED_RING = """
import ctypes, mmap, os
PAGES, IO_URING_SETUP, OFFSET_OF_ENTRIES = 4, 425, 0x10000000
ring = ctypes.CDLL(None).syscall(IO_URING_SETUP, PAGES * 4096 // 64, (ctypes.c_ubyte * 120)())
assert ring >= 0
entries = mmap.mmap(ring, PAGES * 4096, mmap.MAP_SHARED, offset=OFFSET_OF_ENTRIES)
for page in range(PAGES):
    entries[page * 4096] = page + 1
for _ in range(4):
    child = os.fork()
    if not child:
        os._exit([entries[page * 4096] for page in range(PAGES)] != [*range(1, PAGES + 1)])
    assert os.waitpid(child, 0)[1] == 0, 'the child sees other pages'
"""
# Memory without runs of pages that can be freed: between the pages of a file's cache are pages of a process.
FULL_CACHE = """
import mmap, os, threading
PAGES, MORE = 20000, 4
file = os.open('MOUNT/file', os.O_RDWR | os.O_CREAT)
os.posix_fallocate(file, 0, PAGES * MORE * 4096)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
own = mmap.mmap(-1, PAGES * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(PAGES):
    own[page * 4096] = 1
    os.pread(file, MORE * 4096, page * MORE * 4096)
threading.stack_size(65536)
end = threading.Event()
for _ in range(200):
    threading.Thread(target=end.wait, daemon=True).start()
end.set()
"""
# The limits of Linux on x86: stacks of 16 KiB may fill an eighth of memory, and one user's half of that.
LIMITS = """
import os, resource
allowed = int(open('/proc/sys/kernel/threads-max').read())
assert 1 <= allowed * 8 * 4 / os.sysconf('SC_PHYS_PAGES') < 1.1, allowed  # some memory is taken later
assert abs(resource.getrlimit(resource.RLIMIT_NPROC)[0] - allowed / 2) <= 4
"""
# Libraries choose their functions as on an old processor, whatever the host's is.
LIBRARIES = """
import os, subprocess
assert '-AVX2' in os.environ['GLIBC_TUNABLES']
said = subprocess.check_output(['openssl', 'info', '-cpusettings'], text=True)
known = said.split()[0].partition('=')[2].split(':')
assert [int(each, 16) & ~(1 << 10) for each in known] == [0x7808010] + [0] * (len(known) - 1), said
"""
# Two tasks hand a byte to one another on one processor, which is never idle.
TURNS = """
import os, time
def busy_ns():
    return next(int(line.split()[1]) for line in open('/proc/strata_cpu') if line.startswith('busy_ns '))
there, back = os.pipe(), os.pipe()
if not os.fork():
    while os.read(there[0], 1):
        os.write(back[1], b'.')
began, busy = time.monotonic_ns(), busy_ns()
for _ in range(500):
    os.write(there[1], b'.')
    os.read(back[0], 1)
took, used = time.monotonic_ns() - began, busy_ns() - busy
print(took, used)
assert took < 1.03 * used, f'the processor was idle: {took} ns for {used} ns of work'
os._exit(0)
"""
# A file that was written in large pieces is cached in large folios: most of its pages are tails of one.
FOLIOS = """
import mmap, os, struct
PAGES, TAIL = 1024, 1 << 16  # KPF_COMPOUND_TAIL
file = os.open('MOUNT/file', os.O_RDWR | os.O_CREAT)
os.write(file, b'.' * PAGES * 4096)
cached = mmap.mmap(file, PAGES * 4096)
entries, flags = (open(name, 'rb', 0) for name in ('/proc/self/pagemap', '/proc/kpageflags'))
start = next(int(line.split('-')[0], 16) for line in open('/proc/self/maps') if line.endswith('/file\\n'))
tails = 0
for page in range(PAGES):
    cached[page * 4096]
    entries.seek((start // 4096 + page) * 8)
    flags.seek((struct.unpack('Q', entries.read(8))[0] & (1 << 55) - 1) * 8)
    tails += bool(struct.unpack('Q', flags.read(8))[0] & TAIL)
assert tails > PAGES // 2, f'{tails} of {PAGES} pages are parts of larger folios'
"""
# Pages that were only read are one page of zeros, so none continues another: more mappings than the host
# allows a process (vm.max_map_count is 65530). Mapping them again takes no virtual time.
MAPPED_PAGES = 140_000
MAPPINGS = f"""
import mmap, time
PAGES, WRITTEN, MAP_NORESERVE = {MAPPED_PAGES}, 100, 0x4000
memory = mmap.mmap(-1, PAGES * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
def total():
    return sum(memory[page * 4096] for page in range(PAGES))
def write(value):
    for page in range(0, PAGES, PAGES // WRITTEN):
        memory[page * 4096] = value
assert total() == 0
write(1)
began = time.monotonic_ns()
assert total() == WRITTEN
write(2)
assert total() == 2 * WRITTEN
took = time.monotonic_ns() - began
assert took < 1000000, f'{{PAGES}} pages that were there took {{took}} ns'
"""


def workload(name: str, script: str) -> str:
    return f'\n[workloads.{name}]\nworkload = "script"\nprogram = "python3"\nscript = {json.dumps(script)}\n'


@pytest.fixture(scope="module")
def found(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ResultRecord]:
    folder = tmp_path_factory.mktemp("kernel")
    small = head("kernel", [1], "4GiB").replace("\n[devices", 'memory = "256MiB"\n\n[devices', 1)
    scripts = {
        "ring": FORKED_RING,
        "threads": FULL_CACHE,
        "limits": LIMITS,
        "libraries": LIBRARIES,
        "turns": TURNS,
        "folios": FOLIOS,
        "mappings": MAPPINGS,
    }
    workloads = "".join(workload(name, script) for name, script in scripts.items())
    run_text(small + stacks("ext4") + workloads, folder, LabRunner(lab), scripts=True)
    return records(folder / "results")


def test_a_forked_process_sees_the_pages_of_its_io_uring(found: Mapping[str, ResultRecord]) -> None:
    assert found["ext4.ring.s1"].validity.reasons == ()


def test_threads_are_made_while_the_page_cache_fills_the_memory(found: Mapping[str, ResultRecord]) -> None:
    assert found["ext4.threads.s1"].validity.reasons == ()


def test_as_many_threads_are_allowed_as_on_a_machine(found: Mapping[str, ResultRecord]) -> None:
    assert found["ext4.limits.s1"].validity.reasons == ()


def test_openssl_does_not_see_the_host_s_processor(found: Mapping[str, ResultRecord]) -> None:
    assert found["ext4.libraries.s1"].validity.reasons == ()


def test_a_processor_that_wakes_a_task_is_not_idle(found: Mapping[str, ResultRecord]) -> None:
    assert found["ext4.turns.s1"].validity.reasons == ()


def test_files_are_cached_in_large_folios(found: Mapping[str, ResultRecord]) -> None:
    assert found["ext4.folios.s1"].validity.reasons == ()


def test_a_program_has_more_mappings_than_the_host_allows(found: Mapping[str, ResultRecord]) -> None:
    allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
    if allowed >= MAPPED_PAGES:
        pytest.skip(f"the host allows a process {allowed} mappings")
    assert found["ext4.mappings.s1"].validity.reasons == ()


# The C library chooses functions by these, each in a line such as x86.cpu_features.xsave_state_size=0x0.
LOOK = """
[workloads.look]
workload = "script"
script = '''
cat /proc/cpuinfo
/lib64/ld-linux-x86-64.so.2 --list-diagnostics | sed -n 's/^x86.cpu_features.//p'
'''
"""


def test_nothing_in_the_lab_depends_on_the_kind_of_processor(lab: Lab, tmp_path: Path) -> None:
    run_text(head("processor", [1]) + stacks("ext4") + LOOK, tmp_path, LabRunner(lab), scripts=True)

    attempt = attempt_of(tmp_path / "results", "ext4.look.s1")
    events = map(json.loads, (attempt / "events.jsonl").read_text().splitlines())
    lines = "".join(each["text"] for each in events if each["type"] == "output").splitlines()
    known = dict(line.split("=", 1) for line in lines if "=" in line)
    cpuinfo = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert cpuinfo["flags"] == "fpu tsc cx8 cmov mmx fxsr sse sse2 ss lm"
    assert cpuinfo["host"] == ""
    # Else the start of each program saves the vector registers on its stack, whatever they take.
    assert known["xsave_state_size"] == "0x0"
    assert (known["non_temporal_threshold"], known["data_cache_size"]) == ("0xc0000", "0x8000")
    # CPUID 1 ECX: SSSE3, FMA, SSE4, MOVBE, POPCNT, AVX. CPUID 7 EBX: BMI1, AVX2, BMI2, ERMS, AVX-512.
    extensions = {
        "features[0x0].active[0x2]": (9, 12, 19, 20, 22, 23, 28),
        "features[0x1].active[0x1]": (3, 5, 8, 9, 16),
    }
    for name, bits in extensions.items():
        assert not any(int(known[name], 16) >> bit & 1 for bit in bits), (name, known[name])
