# SPDX-License-Identifier: Apache-2.0
"""The calls of the load generator: strace's counts compared with the generator's own trace."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strata.lab import Lab

_CALLS = "openat,newfstatat,statx,unlinkat,fsync,close,read,write,lseek"
_PIECE_BYTES = 1 << 20
_LINE = re.compile(r"^\d+ +(?P<call>\w+)\((?P<words>.*)\) += (?P<result>-?\d+)")


@dataclass
class Seen:
    """The calls on files of the sets, by what they mean."""

    calls: Counter[str] = field(default_factory=Counter)
    written: list[int] = field(default_factory=list)
    asked_to_read: set[int] = field(default_factory=set)
    read_bytes: int = 0


def seen_by_strace(text: str, files: Path) -> Seen:
    """Parse the output of strace -y; calls that other threads interrupted are joined again."""
    seen = Seen()
    cut: dict[str, str] = {}
    for line in text.splitlines():
        thread, _, rest = line.partition(" ")
        if rest.endswith("<unfinished ...>"):
            cut[thread] = rest.removesuffix("<unfinished ...>").strip()
            continue
        resumed = re.match(r" *<\.\.\. \w+ resumed>", rest)
        whole = f"{thread} {cut.pop(thread, '')}{rest[resumed.end() :]}" if resumed else line
        if f"{files}/" not in whole or (match := _LINE.match(whole)) is None:
            continue
        call, words, result = match["call"], match["words"], int(match["result"])
        assert result >= 0, whole
        if call == "openat":
            seen.calls["create" if "O_CREAT" in words else "open"] += 1
        elif call == "write":
            seen.written.append(result)
        elif call == "read":
            seen.asked_to_read.add(int(words.rpartition(", ")[2]))
            seen.read_bytes += result
            seen.calls["read at the end" if result == 0 else "read"] += 1
        else:
            seen.calls["stat" if call in ("newfstatat", "statx") else call] += 1
    return seen


def issued(trace: Path) -> tuple[Counter[str], list[int], int]:
    """Operations by kind with the seeks in them, sizes of writes, and bytes read, as the trace tells them."""
    kinds: Counter[str] = Counter()
    written, read_bytes = [], 0
    for line in trace.read_text().splitlines()[1:]:
        _, kind, _, _, size = line.split("\t")
        kinds[kind] += 1
        if kind in ("append", "write_whole"):
            written += [min(_PIECE_BYTES, int(size) - at) for at in range(0, int(size), _PIECE_BYTES)]
        if kind == "read_whole" or (kind == "append" and size != "0"):
            kinds["lseek"] += 1
        if kind == "read_whole":
            read_bytes += int(size)
    return kinds, written, read_bytes


@pytest.mark.parametrize("personality", ["fileserver", "varmail", "webserver", "webproxy"])
def test_system_calls_are_those_of_the_trace(personality: str, lab: Lab, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is missing here")
    if lab.load is None:
        pytest.skip("the load generator is not built: strata lab build --only load")
    files, state, log, trace = (tmp_path / name for name in ("files", "state", "strace", "trace"))
    files.mkdir()
    common = [f"--personality={personality}", f"--directory={files}", f"--state={state}", "--seed=3"]
    # Files are many for the threads there are: no deletion is left out, and no set runs out.
    common += ["--files=500", "--threads=4"]
    program = str(lab.load.path)
    subprocess.run([program, "prepare", *common], check=True, capture_output=True)
    run = [program, "run", *common, "--duration-ms=600000", "--passes=10", f"--trace={trace}"]
    strace = ["strace", "-f", "-qq", "-y", "-e", f"trace={_CALLS}", "-e", "signal=none", "-o", str(log)]
    done = subprocess.run([*strace, *run], check=False, capture_output=True, text=True)
    if done.returncode and "ptrace" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr

    kinds, written, read_bytes = issued(trace)
    seen = seen_by_strace(log.read_text(), files)
    assert seen.calls["open"] == kinds["open"]
    assert seen.calls["create"] == kinds["create"]
    assert seen.calls["unlinkat"] == kinds["delete"]
    assert seen.calls["fsync"] == kinds["fsync"]
    # As in filebench, stat is called on the folder before a file is created in it.
    assert seen.calls["stat"] == kinds["stat"] + kinds["create"]
    # As in filebench, a file is read from its beginning to its end, and appended to at its end.
    assert seen.calls["lseek"] == kinds["lseek"]
    assert seen.calls["read at the end"] == kinds["read_whole"]
    assert seen.read_bytes == read_bytes
    assert seen.asked_to_read == {_PIECE_BYTES}
    assert sorted(seen.written) == sorted(written)
    assert kinds["close"] <= seen.calls["close"] <= kinds["close"] + 4
