# SPDX-License-Identifier: Apache-2.0
"""Common to workloads: keys of whole times, command lines, mistakes, the check of zeros."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from strata.diagnostics.names import Diagnostic, KebabName, checked, nearest
from strata.model.step import Phase
from strata.model.warning import Check
from strata.units import NS_PER_MS, NS_PER_S, Duration

ZEROS: Final = Check(
    name="content-takes-room",
    verdict="no",
    detail="it writes zeros: a stack that compresses, detects zeros or deduplicates stores nothing of them",
)

ZEROS_QUESTION: Final = {ZEROS.name: "do the blocks take room below, as zeros may not?"}


def _whole(units: str, unit_ns: int, example: str) -> AfterValidator:
    cause = f"this time is counted in whole {units}, from one on"
    remedy = f'write for example "{example}"'
    return checked(lambda time_ns: time_ns >= unit_ns and not time_ns % unit_ns, cause, remedy)


WholeSeconds = Annotated[Duration, _whole("seconds", NS_PER_S, "60s")]
WholeMilliseconds = Annotated[Duration, _whole("milliseconds", NS_PER_MS, "500ms")]
WarmUp = Annotated[
    WholeSeconds, Field(alias="warmup", description="Load before the measured window", examples=["10s"])
]
Window = Annotated[WholeSeconds, Field(alias="duration", description="The measured window", examples=["60s"])]

DoublewritePlace = Annotated[
    KebabName | None,
    Field(
        description="The filesystem of the stack for MariaDB's system tablespace, in which its doublewrite "
        "buffer lies; default, and on a stack without one of that name: beside the data",
        examples=["redo"],
    ),
]


def key(default: Any, meaning: str, example: Any = None, **fields: Any) -> Any:
    """A key of a study file: its default (``...`` for none), its meaning, and an example of its value."""
    return Field(default, description=meaning, examples=None if example is None else [example], **fields)


def preset_key(what: str, presets: Iterable[str], example: str) -> Any:
    """The key that names one of several presets."""
    names = [*presets]
    meaning = f"{what}: {', '.join(names)}"
    return key(None, meaning, example, json_schema_extra={"enum": [*names, None]})


def option_words(options: Mapping[str, object]) -> tuple[str, ...]:
    """Long options: ``--name=value``, ``--name`` for True, nothing for None and False."""
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    return tuple(f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items())


def yes_or_no(name: str, is_so: bool, detail: str, *, required: bool = False) -> Check:
    """A check whose answer is known."""
    return Check(name=name, verdict="yes" if is_so else "no", detail=detail, required=required)


def window_title(phase: Phase, time_ns: int) -> str:
    return f"{'Measure' if phase == 'measure' else 'Warm up'} for {time_ns / NS_PER_S:.15g} s"


def preset_diagnostics(
    given: str | None, known: Collection[str], *, key: str = "preset"
) -> Iterator[Diagnostic]:
    if given is not None and given not in known:
        yield Diagnostic(f'there is no {key} "{given[:60]}"', remedy=nearest(given, known), key=key)


def sector_diagnostics(size_bytes: int, *, is_direct: bool, key: str) -> Iterator[Diagnostic]:
    """Refuse direct I/O in parts of sectors."""
    if is_direct and size_bytes % 4096:
        remedy = f"make {key} a multiple of 4KiB"
        yield Diagnostic("direct I/O goes in whole sectors", remedy=remedy, key=key)
