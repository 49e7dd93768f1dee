# SPDX-License-Identifier: Apache-2.0
"""``strata replay``: the requests of a trial, or of another program's trace, on another modelled disk."""

from __future__ import annotations

import math
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from strata.cli.output import print_json, stdout
from strata.cli.parameters import AsJson, argument, option
from strata.devices.device import find_device
from strata.errors import ResultError

_SAME: Final = "same"

if TYPE_CHECKING:
    from strata.devices.device import Device
    from strata.explanation.replay import Latencies, Replay
    from strata.explanation.source import Source
    from strata.results.store import ResultsFolder
    from strata.traces.table import Trace


class Mode(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


def replay(  # noqa: PLR0917  typer makes options of them
    trial: Annotated[
        list[str],
        argument(
            "RESULTS/TRIAL, the results folder and then the trial's id, or a file: a trace.parquet, "
            "fio's iolog, blkparse's text or blktrace's own.",
            "TRIAL",
        ),
    ],
    device: Annotated[
        str,
        option(
            'The disk to replay on: a bundled device, a device file ending in .toml, or "same" for the '
            "trial's own.",
            "DEVICE",
        ),
    ],
    disk: Annotated[str | None, option("Which of the trial's disks, such as disk0.", "NAME")] = None,
    mode: Annotated[Mode, option("open: at recorded arrivals; closed: as requests complete.")] = Mode.OPEN,
    whole: Annotated[
        bool, option("Latencies of all requests, not only of the measured window's.", "--whole")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Replay a trial's or a real disk's requests on a modelled disk.

    It prints their latencies beside the recorded ones, of the measured window. All requests before it are
    replayed, too. An open load that is too much for the disk is called overloaded, with the share of it that
    the disk can carry.

    Examples:
        strata replay results/quickstart/ext4.oltp.s1 --device wd-re4-500gb --mode closed
        strata replay results/quickstart/ext4.oltp.s1 --device same
        strata replay sda.blktrace.0 --device generic-nvme-consumer
    """
    # NumPy and DuckDB take a second to load.
    from strata.explanation import replay as replaying  # noqa: PLC0415
    from strata.lab.initrd import disk_seed  # noqa: PLC0415

    trace, source = _read(trial)
    name = _chosen(trace, disk)
    if mode is Mode.CLOSED and not trace.has_completions:
        cause = "the trace does not tell when requests were complete"
        raise ResultError(cause, place="--mode closed", remedy="replay it with --mode open")
    target = find_device(device, Path()) if device != _SAME else _own_device(source, name)
    plan = source[1].plan if source else None
    sizes = {each.name: each.capacity_bytes for each in plan.devices} if plan else {}
    found = replaying.replay(
        trace.of_disk(name),
        target,
        capacity_bytes=sizes[name] if sizes.get(name, math.inf) <= target.capacity_bytes else None,
        mode=mode.value,
        seed=disk_seed(plan, name) if plan else 0,
        window_ns=source[1].window_ns if source and not whole else None,
    )
    if as_json:
        named = {"disk": name, "device": target.name, "mode": mode.value}
        print_json({**named, **_plain(found, has_latencies=trace.has_completions)})
    else:
        _print(found, name, target.name, mode, has_latencies=trace.has_completions)


def _plain(found: Replay, *, has_latencies: bool) -> dict[str, object]:
    rows = {
        kind: {
            "recorded": asdict(found.recorded[kind]) if has_latencies else None,
            "replayed": asdict(found.replayed[kind]),
        }
        for kind in found.recorded
    }
    spans = {"recorded_span_ns": found.recorded_span_ns, "replayed_span_ns": found.replayed_span_ns}
    load = {"overloaded": found.carried_share is not None, "carried_share": found.carried_share}
    return {**spans, **load, "latency_ns": rows}


def _read(words: list[str]) -> tuple[Trace, tuple[ResultsFolder, Source] | None]:
    """The trace, and its trial unless it is a file alone."""
    from strata.explanation.source import find_trials, read_source  # noqa: PLC0415
    from strata.traces.requests import read_any  # noqa: PLC0415

    if len(words) == 1 and (words[0].endswith(".parquet") or Path(words[0]).is_file()):
        return read_any(Path(words[0])), None
    named = find_trials(words)
    if len(named) > 1:
        raise ResultError(f"{len(named)} trials were named", place="strata replay", remedy="name one")
    source = read_source(*named[0])
    return source.trace(), (named[0][0], source)


def _own_device(source: tuple[ResultsFolder, Source] | None, disk: str) -> Device:
    from strata.devices.plausible import recorded_drive  # noqa: PLC0415
    from strata.results.declared import declared_study  # noqa: PLC0415

    if source is None:
        raise ResultError(
            "a table alone does not name its device", place="--device same", remedy="name the device"
        )
    device = declared_study(source[0].study(), has_inputs=False).devices[disk].device
    return recorded_drive(device, source[1].record.drives)


def _chosen(trace: Trace, disk: str | None) -> str:
    disks = trace.disks[1:]
    if disk is None and len(disks) == 1:
        return disks[0]
    if disk not in disks:
        raise ResultError(
            f'the trace has no disk "{disk}"' if disk else f"the trace has {len(disks)} disks",
            place="--disk",
            remedy=f"there are: {', '.join(disks)}",
        )
    return disk


def _print(found: Replay, disk: str, device: str, mode: Mode, *, has_latencies: bool) -> None:
    from strata.explanation.sentences import KIND_WORDS  # noqa: PLC0415
    from strata.report.table import Table, columns, terminal  # noqa: PLC0415
    from strata.units import format_value, percent, significant  # noqa: PLC0415

    console = stdout()
    first, second = (format_value(span, "ns") for span in (found.recorded_span_ns, found.replayed_span_ns))
    console.print(f"[bold]{disk}[/bold] on [bold]{device}[/bold], {mode.value}: {second}, recorded {first}")

    if found.carried_share is not None:
        share = percent(float(significant(found.carried_share, 2)))
        console.print(
            f"[red]overloaded[/red]: the backlog grows to the end; {device} carries {share} of this load, "
            "and its latencies depend on how long the load lasts"
        )

    def times(each: Latencies) -> tuple[float, ...]:
        return (each.mean, each.p50, each.p99, each.max)

    rows: list[tuple[object, ...]] = []
    for kind, recorded in found.recorded.items():
        replayed = found.replayed[kind]
        ratio: float | str | None = replayed.mean / recorded.mean if recorded.mean else None
        if found.carried_share is not None:
            ratio = "overloaded"
        name = KIND_WORDS.get(kind, "all requests")
        if has_latencies:
            rows.append((name, recorded.requests, "recorded", *times(recorded), ""))
            rows.append(("", "", "replayed", *times(replayed), ratio))
        else:
            rows.append((name, recorded.requests, "replayed", *times(replayed), ""))
    titles = columns(
        ("mean", "ns"), ("p50", "ns"), ("p99", "ns"), ("max", "ns"), ("mean to recorded", "ratio")
    )
    console.print(terminal(Table((*columns("", ("requests", "count"), ""), *titles), rows)))
