# SPDX-License-Identifier: Apache-2.0
"""``strata replay``: a trial's requests on another modelled disk."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from strata.cli.application import examples
from strata.cli.output import print_json
from strata.console import Terminal
from strata.errors import ResultError
from strata.spec.device import find_device

_SAME: Final = "same"

if TYPE_CHECKING:
    from strata.explanation.replay import Latencies, Replay
    from strata.explanation.source import Source
    from strata.results.store import ResultsFolder
    from strata.results.trace import Trace
    from strata.spec.device import Device


class Mode(StrEnum):
    """When a request arrives."""

    OPEN = "open"
    CLOSED = "closed"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "replay",
        epilog=examples(
            "strata replay results/quickstart/ext4.oltp.s1 --device wd-re4-500gb --mode closed",
            "strata replay results/quickstart/ext4.oltp.s1 --device same",
        ),
    )(replay)


def replay(
    trial: Annotated[
        list[str],
        typer.Argument(
            help="RESULTS/TRIAL, the results folder and then the trial's id, or a trace.parquet.",
            metavar="TRIAL",
        ),
    ],
    device: Annotated[
        str,
        typer.Option(
            help='The disk to replay on: a bundled device, a device file ending in .toml, or "same" for the '
            "trial's own.",
            metavar="DEVICE",
        ),
    ],
    disk: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whose requests, where the trial has several disks: such as disk0."
        ),
    ] = None,
    mode: Annotated[
        Mode, typer.Option(help="open: at the recorded arrivals; closed: as requests complete.")
    ] = Mode.OPEN,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Replay a trial's requests on another modelled disk.

    It prints their latencies beside the recorded ones.
    """
    # NumPy and DuckDB take a second to load, which no other command should pay.
    from strata.explanation import replay as replaying  # noqa: PLC0415
    from strata.lab.bindings import disk_seed  # noqa: PLC0415

    trace, source = _read(trial)
    name = _chosen(trace, disk)
    target = find_device(device, Path()) if device != _SAME else _own_device(source, name)
    capacities = {each.name: each.capacity_bytes for each in source[1].plan.devices} if source else {}
    capacity_bytes = capacities.get(name)
    if capacity_bytes is not None and capacity_bytes > target.capacity_bytes:
        capacity_bytes = None
    seed = disk_seed(source[1].plan, name) if source else 0
    found = replaying.replay(
        trace.of_disk(name), target, capacity_bytes=capacity_bytes, mode=mode.value, seed=seed
    )
    if as_json:
        print_json(_plain(found, name, target.name, mode))
    else:
        _print(found, name, target.name, mode)


def _read(words: list[str]) -> tuple[Trace, tuple[ResultsFolder, Source] | None]:
    """The trace, and where it is from unless it is a table alone."""
    from strata.explanation.source import find_trials, read_source  # noqa: PLC0415
    from strata.results.trace import read_parquet  # noqa: PLC0415

    if len(words) == 1 and words[0].endswith(".parquet"):
        return read_parquet(Path(words[0])), None
    named = find_trials(words)
    if len(named) > 1:
        raise ResultError(f"{len(named)} trials were named", place="strata replay", remedy="name one")
    source = read_source(*named[0])
    return source.trace(), (named[0][0], source)


def _own_device(source: tuple[ResultsFolder, Source] | None, disk: str) -> Device:
    """The device as the study declares it, with its options."""
    from strata.plan.catalogue import catalogue  # noqa: PLC0415
    from strata.spec.load import load_study  # noqa: PLC0415

    if source is None:
        raise ResultError(
            "a table alone does not say which device it is of",
            place="--device same",
            remedy="name the device",
        )
    snapshot = source[0].study()
    with tempfile.TemporaryDirectory(prefix="strata-study-") as folder:
        file = Path(folder) / "study.toml"
        file.write_text(snapshot.text)
        return load_study(file, catalogue()).devices[disk].device


def _chosen(trace: Trace, disk: str | None) -> str:
    disks = trace.disks[1:]
    if disk is None and len(disks) == 1:
        return disks[0]
    if disk not in disks:
        raise ResultError(
            f'the trial has no disk "{disk}"' if disk else f"the trial has {len(disks)} disks",
            place="--disk",
            remedy=f"there are: {', '.join(disks)}",
        )
    return disk


def _plain(found: Replay, disk: str, device: str, mode: Mode) -> dict[str, object]:
    return {
        "disk": disk,
        "device": device,
        "mode": mode.value,
        "recorded_span_ns": found.recorded_span_ns,
        "replayed_span_ns": found.replayed_span_ns,
        "latency_ns": {
            kind: {"recorded": asdict(found.recorded[kind]), "replayed": asdict(found.replayed[kind])}
            for kind in found.recorded
        },
    }


def _print(found: Replay, disk: str, device: str, mode: Mode) -> None:
    from strata.explanation.sentences import KIND_WORDS  # noqa: PLC0415
    from strata.report.table import Table, columns, terminal  # noqa: PLC0415
    from strata.units import format_value  # noqa: PLC0415

    console = Terminal(highlight=False)
    spans = (found.recorded_span_ns, found.replayed_span_ns)
    first, second = (format_value(span, "ns") for span in spans)
    console.print(f"[bold]{disk}[/bold] on [bold]{device}[/bold], {mode.value}: {second}, recorded {first}")
    rows: list[tuple[object, ...]] = []
    for kind, recorded in found.recorded.items():
        replayed = found.replayed[kind]
        ratio = replayed.mean / recorded.mean if recorded.mean else None
        name = KIND_WORDS.get(kind, "all requests")
        rows.append((name, recorded.requests, "recorded", *_times(recorded), ""))
        rows.append(("", "", "replayed", *_times(replayed), ratio))
    titles = columns(
        ("mean", "ns"), ("p50", "ns"), ("p99", "ns"), ("max", "ns"), ("mean to recorded", "ratio")
    )
    console.print(terminal(Table((*columns("", ("requests", "count"), ""), *titles), rows)))


def _times(each: Latencies) -> tuple[float, ...]:
    return (each.mean, each.p50, each.p99, each.max)
