# SPDX-License-Identifier: Apache-2.0
"""A host study on a cluster: each machine runs all of it itself, and its results come back as its own folder.

A host's trial is no function of its specification, so no machine's results stand among another's.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from distributed import Client, Worker

from strata.errors import LabError
from strata.execution.cluster.worker import WorkerMachine, this_machine, this_strata
from strata.files import write_durably
from strata.lab.cache import cache_root
from strata.model.study import Study
from strata.runners.base import ending_with_strata

_PROGRAM: Final = (sys.executable, "-c", "from strata.program import main; main()", "run")
_PIECE_BYTES: Final = 16 << 20
_running: Final[dict[str, asyncio.subprocess.Process]] = {}  # of this worker


@dataclass(frozen=True)
class MachineRun:
    """A machine's run: its exit code, its last lines if it failed, the bytes of each file of its results."""

    exit_code: int
    said: str
    files: Mapping[str, int] = field(default_factory=dict)


async def _machine() -> WorkerMachine:
    return this_machine()


async def _run_whole(
    run: str, strata: tuple[str, str], study: tuple[str, str, str], words: Sequence[str], dask_worker: Worker
) -> MachineRun:
    """Run a study, given by its name, file name and text; the same again goes on where it ended."""
    if this_strata() != strata:
        return MachineRun(LabError.exit_code, "it has another Strata: install the same version there")
    name, file, text = study
    place = cache_root() / "hosts" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / file).write_text(text)
    argv = [*ending_with_strata("INT"), *_PROGRAM, str(place / file), *words, "--results", f"{place}/results"]
    nothing, piped = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdin=nothing, stdout=nothing, stderr=piped)
    _running[run] = process
    last: deque[str] = deque(maxlen=4)
    while process.stderr is not None and (line := await process.stderr.readline()):
        last.append(line.decode(errors="replace").rstrip())
        dask_worker.log_event(run, f"{this_machine().host}: {last[-1]}")
    ended = await process.wait()
    code = ended if ended >= 0 else 128 - ended  # a signal's, as a shell says it
    files = [path for path in (place / "results").rglob("*") if path.is_file()]
    sizes = {path.relative_to(place / "results").as_posix(): path.stat().st_size for path in files}
    return MachineRun(code, "\n".join(last) if code else "", sizes)


async def _piece(study: str, file: str, start: int, length: int) -> bytes:
    with (cache_root() / "hosts" / study / "results" / file).open("rb") as content:
        content.seek(start)
        return content.read(length)


async def _interrupt(run: str) -> None:
    with suppress(KeyError, ProcessLookupError):
        _running[run].terminate()


def run_on_each(
    client: Client, study: Study, words: Sequence[str], place: Path, say: Callable[[str], None]
) -> dict[Path, MachineRun]:
    """Run a study on each machine of a cluster, with these options; each machine's run by its results folder.

    An interruption ends them all; what they have finished is kept there. Raises LabError without a machine,
    and for one that is lost while its results are fetched.
    """
    machines = {machine: address for address, machine in client.run(_machine).items()}
    if not machines:
        raise LabError("the cluster has no worker", remedy="start one with `dask worker` on each machine")
    run = f"strata-{uuid.uuid4().hex}"
    about = (run, this_strata(), (study.name, study.file.name, study.text), words)
    client.subscribe_topic(run, lambda event: say(event[1]))
    try:
        found = client.run(_run_whole, *about, workers=[*machines.values()], on_error="return")
    except BaseException:
        client.run(_interrupt, run, on_error="ignore")
        raise
    runs: dict[Path, MachineRun] = {}
    for number, machine in enumerate(sorted(machines, key=str), start=1):
        is_alone = sum(each.host == machine.host for each in machines) == 1
        folder = place / (machine.host if is_alone else f"{machine.host}-{number}")
        each = found.get(machines[machine])
        lost = MachineRun(LabError.exit_code, f"its worker was lost: {each!r}")
        runs[folder] = each if isinstance(each, MachineRun) else lost
        for file, size_bytes in runs[folder].files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            pieces = _pieces(client, machines[machine], study.name, file, size_bytes)
            write_durably(folder / file, pieces, wait=False)
    return runs


def _pieces(client: Client, address: str, study: str, file: str, size_bytes: int) -> Iterator[bytes]:
    """A file of a machine's results; a trace may be larger than the memory."""
    for start in range(0, size_bytes, _PIECE_BYTES):
        asked = (_piece, study, file, start, _PIECE_BYTES)
        found = client.run(*asked, workers=[address], on_error="return").get(address)
        if not isinstance(found, bytes):
            cause = f"its results cannot be fetched: {found!r}"
            raise LabError(cause, place=address, remedy="run the same command again: it goes on")
        yield found
