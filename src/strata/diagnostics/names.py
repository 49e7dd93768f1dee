# SPDX-License-Identifier: Apache-2.0
"""Names in study files: their form, and the nearest valid one to a wrong one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Any, Final

from pydantic import AfterValidator, StrictStr

from strata.errors import StudyError

Path = tuple[str | int, ...]
"""The keys and indices that lead from the top of a file to a value."""

_LISTED_MAX: Final = 40
_KEBAB: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)


class Diagnostic(ValueError):  # noqa: N818  it is an answer, often yielded and not raised
    """A mistake in a value: raised in pydantic validators, and yielded by the checks of layers and workloads.

    ``key`` is the key that it concerns, if not the one being validated; ``within`` are the keys that lead to
    that key's table, if it is another one.
    """

    def __init__(
        self, cause: str, *, remedy: str | None = None, key: str | None = None, within: Path = ()
    ) -> None:
        super().__init__(cause)
        self.cause, self.remedy, self.key, self.within = cause, remedy, key, within


def checked(holds: Callable[[Any], bool], cause: str | Callable[[Any], str], remedy: str) -> AfterValidator:
    """A pydantic validator of one condition; ``{}`` in the cause stands for the value."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise Diagnostic(cause.format(value) if isinstance(cause, str) else cause(value), remedy=remedy)
        return value

    return AfterValidator(check)


# The folder of a trial is called STACK.WORKLOAD.sSEED, and a file system takes 255 bytes.
_NAME_LENGTH_MAX: Final = 100


def is_kebab(name: str) -> bool:
    return _KEBAB.fullmatch(name) is not None


def to_kebab(name: str) -> str | None:
    """The kebab-case name nearest to ``name``, or None without letters and digits."""
    kebab = "-".join(re.findall(r"[a-z0-9]+", name.lower()))
    return kebab if is_kebab(kebab) else None


def kebab_remedy(name: str) -> str:
    if kebab := to_kebab(name):
        return f'write "{kebab}"'
    return "begin with a letter; use lower-case letters and digits, joined by hyphens"


def kebab_diagnostics(name: str) -> Iterable[Diagnostic]:
    if not is_kebab(name):
        yield Diagnostic(f'the name "{name[:60]}" is not in kebab case', remedy=kebab_remedy(name))
    elif len(name) > _NAME_LENGTH_MAX:
        cause = f'the name "{name[:60]}…" has {len(name)} characters'
        yield Diagnostic(cause, remedy=f"a trial's folder has it: shorten it to {_NAME_LENGTH_MAX}")


def _check_kebab(name: str) -> str:
    for diagnostic in kebab_diagnostics(name):
        raise diagnostic
    return name


KebabName = Annotated[StrictStr, AfterValidator(_check_kebab)]
"""A name as a key of a file."""


def disk_of(device: str) -> str:
    """The disk of a partition, such as ``ssd`` of ``ssd.log``; a disk itself."""
    return device.partition(".")[0]


def did_you_mean(names: Iterable[str]) -> str:
    return "did you mean " + " or ".join(f'"{name}"' for name in names) + "?"


def nearest(wrong: str, valid: Iterable[str], similarity: float = 0.6) -> str:
    """A sentence with the nearest valid names, or with all of them if none is near and they are few."""
    names = sorted(valid)
    if not names:
        return "there are none here"
    near = [name for name in names if name.lower() == wrong.lower()]
    near = near or difflib.get_close_matches(wrong, names, n=2, cutoff=similarity)
    if near:
        return did_you_mean(near)
    if len(names) > _LISTED_MAX:
        return f"none of the {len(names)} valid names is near; the reference lists them"
    return "valid here: " + ", ".join(f'"{name}"' for name in names)


def require_known(what: str, names: Iterable[str], known: Collection[str], place: str) -> None:
    """Raise StudyError for a name that is none of the known ones."""
    for name in names:
        if name not in known:
            raise StudyError(f'there is no {what} "{name}"', place=place, remedy=nearest(name, known))
