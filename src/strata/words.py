# SPDX-License-Identifier: Apache-2.0
"""Words into sentences: lists, numbers of things, capitals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

Text = TypeVar("Text", bound=str)


def listed(parts: Sequence[Text], last: str = "and") -> Text:
    """``a, b and c``; Markup stays Markup."""
    if len(parts) < 2:
        return parts[0] if parts else cast("Text", "")
    kind = type(parts[0])
    return cast("Text", kind(f" {last} ").join([kind(", ").join(parts[:-1]), parts[-1]]))


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 trial``, ``36 trials``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def sentence_case(text: str) -> str:
    """The first letter in upper case, the others as they are."""
    return text[:1].upper() + text[1:]
