# SPDX-License-Identifier: Apache-2.0
"""One parameter of a device file, and what a kind of device expects of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr


class Parameter(BaseModel):
    """One parameter of a device.

    Attributes:
        source: Where the value was read, or why it was assumed.
        estimate: Whether it was assumed rather than read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: StrictInt | StrictFloat | StrictStr
    unit: StrictStr
    source: StrictStr = Field(min_length=1)
    estimate: StrictBool


@dataclass(frozen=True)
class Expected:
    """What a parameter must be: its unit and range, or, of a text, what it may be."""

    meaning: str
    unit: str
    minimum: float = 0.0
    maximum: float = float("inf")
    whole: bool = False
    default: float | int | str | None = None  # of an optional parameter
    text: bool = False
    choices: tuple[str, ...] = ()  # of a text; none: any


CAPACITY: Final = Expected("addressable bytes, a multiple of 512", "B", 1 << 20, 1 << 60, whole=True)
QUEUE_DEPTH: Final = Expected("commands that the device holds at once", "1", 1, 1024, whole=True)

Parameters = Mapping[str, Parameter]

Require = Callable[[bool, str, str, str], None]
"""``require(condition, parameter, cause, remedy)`` reports a parameter that does not suit the others."""


def number(parameters: Parameters, name: str) -> float:
    """The value of a numeric parameter."""
    value = parameters[name].value
    assert not isinstance(value, str), f"{name} is a text"
    return float(value)
