# SPDX-License-Identifier: Apache-2.0
"""What the load generator prints: one JSON object, with histograms that `strata.spec.histogram` can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, StrictBool, StrictInt

from strata.spec.histogram import decode, latency_metrics
from strata.spec.metric import Metric
from strata.spec.names import Refusal
from strata.spec.step import LOAD, Phase
from strata.spec.workload import Outputs, unreadable

PROGRAM: Final = f"${{{LOAD}}}"
"""The load generator, as the first word of a step's ``argv``."""

# 1 - (strata 0.3) first version; crates/load/src/report.rs has the same
_RESULT_VERSION: Final = 1

Percent = Annotated[StrictInt, Field(ge=0, le=100)]


class Content(BaseModel):
    """The keys of a workload that say what its bytes are."""

    compressibility_percent: Percent = Field(
        default=50, description="How much of each block of content a compressor saves", examples=[30]
    )
    duplication_percent: Percent = Field(
        default=0, description="How many of 100 blocks of 4 KiB repeat earlier ones", examples=[20]
    )
    zeros: StrictBool = Field(
        default=False,
        description="Write zeros instead, which flatters what compresses, deduplicates or looks for zeros",
        examples=[True],
    )

    @property
    def content_words(self) -> tuple[str, ...]:
        """The same, on the load generator's command line."""
        if self.zeros:
            return ("--zeros",)
        return (
            f"--compressibility-percent={self.compressibility_percent}",
            f"--duplication-percent={self.duplication_percent}",
        )

    def content_refusals(self) -> list[Refusal]:
        """Zeros that are said to be something else."""
        given = {"compressibility_percent", "duplication_percent"} & self.model_fields_set
        if not self.zeros or not given:
            return []
        cause = "zeros are wholly compressible, and all alike"
        return [Refusal(cause, remedy=f"leave {min(given)} out, or zeros", key="zeros")]


def load_result(outputs: Outputs, step_id: str, load: str) -> Mapping[str, Any]:
    """What the step's load generator printed; ``load`` is what it must have been.

    Raises:
        RunError: If it printed something else.
    """
    text = outputs.step(step_id).stdout
    try:
        result = json.loads(text)
        said, version = result["load"], result["result_version"]
    except (ValueError, KeyError, TypeError):
        raise unreadable(step_id, "the load generator's output is not its JSON", text) from None
    if (said, version) != (load, _RESULT_VERSION):
        raise unreadable(step_id, f"this is version {version} of {said}, not {_RESULT_VERSION} of {load}", "")
    assert isinstance(result, dict)
    return result


def operation_latencies(operation: Mapping[str, Any], prefix: str, phase: Phase = "measure") -> list[Metric]:
    """The latencies of one of a result's ``operations``, as metrics whose names begin with ``prefix``."""
    return latency_metrics(
        decode(operation["latency_ns"]),
        latency_ns_mean=float(operation["latency_ns_mean"]),
        latency_ns_max=float(operation["latency_ns_max"]),
        prefix=prefix,
        phase=phase,
    )
