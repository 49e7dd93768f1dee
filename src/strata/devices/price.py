# SPDX-License-Identifier: Apache-2.0
"""The price of a disk, as a study states it: an amount with its currency, such as ``"45 EUR"``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema

from strata.diagnostics.names import Diagnostic

_FORM: Final = re.compile(r"(\d{1,9}(?:\.\d{1,2})?) ([A-Z]{3})")


@dataclass(frozen=True)
class Price:
    """An amount in a currency, by its three letters of ISO 4217."""

    amount: float
    currency: str

    def __str__(self) -> str:
        return f"{self.amount:,.2f} {self.currency}"


def read_price(value: object) -> Price:
    """Raises Diagnostic for anything but an amount and a currency."""
    if isinstance(value, Price):
        return value
    found = _FORM.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        unnamed = isinstance(value, int | float) or re.fullmatch(r"[\d.,]+", str(value)) is not None
        cause = "a price has a currency" if unnamed else f'"{str(value)[:40]}" is not a price'
        raise Diagnostic(cause, remedy='write an amount and the three letters of a currency: "45 EUR"')
    return Price(float(found[1]), found[2])


PriceText = Annotated[
    Price, BeforeValidator(read_price), WithJsonSchema({"type": "string", "examples": ["45 EUR"]})
]
