# SPDX-License-Identifier: Apache-2.0
"""The keys of a claims file."""

from __future__ import annotations

from pydantic import BaseModel

from generated.markdown import keys_table
from strata.reading.claims import Claim, Expectation, PublishedLevel, Suspect, TriedBefore, UnknownPart


def keys() -> str:
    """The keys of a claim, of its comparisons and suspects, and of levels."""
    tables: dict[str, type[BaseModel]] = {
        "claims": Claim,
        "claims.expect": Expectation,
        "claims.suspect": Suspect,
        "claims.tried": TriedBefore,
        "levels": PublishedLevel,
        "unknowns": UnknownPart,
    }
    return "".join(f"## `[[{name}]]`\n\n{keys_table(each)}" for name, each in tables.items())
