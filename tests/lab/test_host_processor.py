# SPDX-License-Identifier: Apache-2.0
"""What the lab shows of the host's processor: nothing that could tell two of them apart."""

from __future__ import annotations

import json
from pathlib import Path

from lab_factory import head, run_text, stacks

from record_hashes import attempt_of
from strata.lab import Lab
from strata.runners.lab import LabRunner

# The C library chooses functions by these, each in a line such as x86.cpu_features.xsave_state_size=0x0.
SCRIPT = """
[workloads.look]
workload = "script"
script = '''
cat /proc/cpuinfo
/lib64/ld-linux-x86-64.so.2 --list-diagnostics | sed -n 's/^x86.cpu_features.//p'
'''
"""


def test_nothing_in_the_lab_depends_on_the_kind_of_processor(lab: Lab, tmp_path: Path) -> None:
    run_text(head("processor", [1]) + stacks("ext4") + SCRIPT, tmp_path, LabRunner(lab), scripts=True)

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
