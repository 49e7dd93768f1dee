# SPDX-License-Identifier: Apache-2.0
"""The subjects by kind of device; every module of this package is loaded."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from strata.diagnostics.names import nearest
from strata.errors import ResultError
from strata.validation import SUBJECT_NAMES
from strata.validation.subject import REGISTERED, ExaminedSubject

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

SUBJECTS: Final = {name: REGISTERED[name] for name in SUBJECT_NAMES}


def examine(
    names: Sequence[str] = (), *, quick: bool = False, step: Callable[[str], None] = lambda _: None
) -> Iterator[ExaminedSubject]:
    """Examine the named subjects, or all; raises `ResultError` if one is unknown."""
    for name in names:
        if name not in SUBJECTS:
            raise ResultError(f'there is no subject "{name}"', remedy=nearest(name, SUBJECTS))
    for name in names or SUBJECTS:
        step(name)
        yield SUBJECTS[name](quick)
