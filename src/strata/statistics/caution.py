# SPDX-License-Identifier: Apache-2.0
"""Why a number should not be trusted, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Caution:
    """A reason to doubt a number.

    Attributes:
        code: In kebab case, such as ``few-seeds``, for programs.
        text: The reason as a sentence with figures.
        remedy: What to do about it.
        warned: Whether whoever reads the answer must know it; otherwise it can stand with the numbers.
    """

    code: str
    text: str
    remedy: str
    warned: bool = False
