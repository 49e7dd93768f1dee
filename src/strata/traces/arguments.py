# SPDX-License-Identifier: Apache-2.0
"""The text of a call's arguments, as strace writes it, as values."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from typing import Final

from strata.traces.strace import SystemCall

_IOV: Final = re.compile(r"iov_len=(\d+)")


def unescaped(text: str) -> str:
    """What strace wrote as text: bytes beyond ASCII, and < and > of descriptors' names, are octal in it."""
    return codecs.escape_decode(text.encode())[0].decode(errors="surrogateescape") if "\\" in text else text


def asked(call: SystemCall) -> tuple[int, int | None]:
    """The bytes of a read or write, and its place; None: at the file's position."""
    # What follows the descriptor, or the vector of pieces; of preadv2 and pwritev2 without flags.
    words = call.arguments.rpartition("]" if "iov_len" in call.arguments else ">")[2].split(", ")
    words = words[:-1] if call.name.endswith("v2") else words
    place = int(words.pop()) if call.name.startswith("p") else -1
    pieces = [int(size) for size in _IOV.findall(call.arguments)]
    return sum(pieces) if pieces else int(words[-1]), place if place >= 0 else None


def bits(text: str, names: Sequence[str]) -> int:
    """Flags as a number: strace writes what it knows by name."""
    if text[:1].isdecimal():
        return int(text, 0)
    return sum(
        1 << bit
        for bit, name in enumerate(names)
        if any(word.endswith(f"_{name}") for word in text.split("|"))
    )
