# SPDX-License-Identifier: Apache-2.0
"""The load generator's output: one JSON object, with histograms that `strata.model.histogram` can read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, Field, StrictBool, StrictInt

from strata.diagnostics.names import Diagnostic
from strata.model.histogram import decode, latency_metrics
from strata.model.metric import Metric
from strata.model.step import LOAD
from strata.model.warning import Check
from strata.model.workload import Outputs, WorkloadContext, unreadable
from strata.workloads.keys import ZEROS, ZEROS_QUESTION, key

PROGRAM: Final = f"${{{LOAD}}}"
"""The load generator, as the first word of a step's ``argv``."""

_RESULT_VERSION: Final = 1

Percent = Annotated[StrictInt, Field(ge=0, le=100)]


class Mixture(BaseModel):
    """The keys of a workload that say how far its bytes can be compressed and deduplicated."""

    compressibility_percent: Percent = key(50, "How much of each block of content a compressor saves", 30)
    duplication_percent: Percent = key(
        0, "How many of 100 blocks of 4 KiB repeat earlier ones of the same thread", 20
    )

    @property
    def content_words(self) -> tuple[str, ...]:
        names = ("compressibility", "duplication")
        return tuple(f"--{name}-percent={getattr(self, f'{name}_percent')}" for name in names)


class Content(Mixture):
    """The keys of a workload that can write zeros instead, and the check of that."""

    check_questions: ClassVar[Mapping[str, str]] = ZEROS_QUESTION

    zeros: StrictBool = key(
        False, "Write zeros instead, which flatters what compresses, deduplicates or looks for zeros", True
    )

    @property
    def content_words(self) -> tuple[str, ...]:
        return ("--zeros",) if self.zeros else super().content_words

    def checks(self, outputs: Outputs) -> Iterable[Check]:
        return [ZEROS] if self.zeros else []

    def content_diagnostics(self) -> list[Diagnostic]:
        given = {"compressibility_percent", "duplication_percent"} & self.model_fields_set
        if not self.zeros or not given:
            return []
        cause = "zeros are wholly compressible, and all alike"
        return [Diagnostic(cause, remedy=f"leave {min(given)} out, or zeros", key="zeros")]


class HandsOver(BaseModel):
    """The key of a workload whose operations can be handed to the lab's kernel together."""

    lists: StrictBool | None = key(
        None,
        "In the lab, hand operations that are known together to the kernel as lists, which takes less real "
        "time; false: the same calls one by one. Default: lists where the results are "
        "proven to be those of a program that knows none (file-storm; varmail, webproxy, webserver)",
        False,
    )

    @property
    def hand_over_words(self) -> tuple[str, ...]:
        return () if self.lists is None else (f"--hand-over={'lists' if self.lists else 'calls'}",)


def own_folder(context: WorkloadContext, name: str) -> str:
    return "-".join(filter(None, (f"{context.mount_path}/{name}", context.window)))


def load_result(outputs: Outputs, step_id: str, load: str | None) -> Mapping[str, Any]:
    """The output of a load generator's step; ``load`` is the expected load, None: a personality."""
    text = outputs.step(step_id).stdout
    try:
        result = json.loads(text)
        said, version = result.get("load"), result["result_version"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise unreadable(step_id, "the load generator's output is not its JSON", text) from None
    if (said, version) != (load, _RESULT_VERSION):
        of = f"version {version} of {said or 'a personality'}, not {_RESULT_VERSION} of {load or 'one'}"
        raise unreadable(step_id, f"this is {of}", "")
    assert isinstance(result, dict)
    return result


def operation_latencies(operation: Mapping[str, Any], family: str) -> list[Metric]:
    """The latencies of one of a result's ``operations``, as metrics of that family."""
    mean_ns, max_ns = float(operation["latency_ns_mean"]), float(operation["latency_ns_max"])
    histogram = decode(operation["latency_ns"])
    return latency_metrics(histogram, latency_ns_mean=mean_ns, latency_ns_max=max_ns, family=family)


@dataclass(frozen=True)
class Extents:
    """How the files below a folder, without empty ones, are divided.

    Attributes:
        per_file: Extents of a file: ``mean``, ``p50``, ``p99``, ``max``.
        bytes_mean: The size of an extent; None where there are none.
    """

    files: int
    in_one_piece: int
    per_file: Mapping[str, float]
    bytes_mean: float | None


def extents_result(outputs: Outputs, step_id: str) -> Extents | None:
    """The output of the load generator's ``extents``; None without files or support of the filesystem."""
    text = outputs.step(step_id).stdout
    try:
        said = json.loads(text)
        if not said["supported"] or not said["files"]:
            return None
        per_file = {name: float(said["extents_per_file"][name]) for name in ("mean", "p50", "p99", "max")}
        mean = said["bytes_per_extent_mean"]
        bytes_mean = None if mean is None else float(mean)
        return Extents(int(said["files"]), int(said["in_one_piece"]), per_file, bytes_mean)
    except (ValueError, KeyError, TypeError):
        raise unreadable(step_id, "the load generator's output is not its JSON", text) from None
