# SPDX-License-Identifier: Apache-2.0
"""A grid of like cases as one test, which goes on after a failure and reports them all."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

Test = Callable[..., None]

SHOWN_MAX: Final = 5
"""Of how many failures the traceback is shown; the others are named."""


def for_all(names: str | Sequence[str], things: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each thing; takes what ``pytest.mark.parametrize`` takes, and can be stacked as that.

    For grids of dozens of cases that are checked in no time, where a test each would take longer than what it
    checks. A ``tmp_path`` is another folder each time; other fixtures are shared.
    """
    keys = [names] if isinstance(names, str) else list(names)
    cases = [(thing,) if isinstance(names, str) else tuple(thing) for thing in things]

    def decorate(test: Test) -> Test:
        def all_of_them(**fixtures: Any) -> None:
            failed: list[str] = []
            skipped: list[str] = []
            folder: Path | None = fixtures.get("tmp_path")
            for number, case in enumerate(cases):
                if folder is not None:
                    fixtures["tmp_path"] = folder / str(number)
                    fixtures["tmp_path"].mkdir()
                try:
                    test(**dict(zip(keys, case, strict=True)), **fixtures)
                except pytest.skip.Exception as reason:
                    skipped.append(str(reason))
                except (Exception, pytest.fail.Exception) as error:
                    why = "".join(traceback.format_exception(error)[-2:]) if len(failed) < SHOWN_MAX else ""
                    failed.append(f"{', '.join(map(repr, case))}\n{why}")
            assert cases, "nothing is tested"
            assert not failed, f"{len(failed)} of {len(cases)} failed\n" + "\n".join(failed)
            if len(skipped) == len(cases):
                pytest.skip(skipped[0])

        left = [each for name, each in inspect.signature(test).parameters.items() if name not in keys]
        # Only what pytest reads: `functools.wraps` would show it the test's own parameters.
        all_of_them.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        all_of_them.__name__, all_of_them.__doc__ = test.__name__, test.__doc__
        all_of_them.__module__, all_of_them.__qualname__ = test.__module__, test.__qualname__
        return all_of_them

    return decorate
