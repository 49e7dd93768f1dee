# SPDX-License-Identifier: Apache-2.0
"""Errors a user can act on: each states its cause, its place and the remedy."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class StrataError(Exception):
    """A failure to report to the user in one or two lines, without a traceback.

    Args:
        cause: A sentence without a full stop.
        place: The file, key path, step or folder.
        remedy: An action for the user, as a sentence without a full stop.
    """

    exit_code = 1

    def __init__(self, cause: str, *, place: str | None = None, remedy: str | None = None) -> None:
        super().__init__(cause)
        self.cause, self.place, self.remedy = cause, place, remedy

    def __str__(self) -> str:
        first = f"{self.place}: {self.cause}" if self.place else self.cause
        return f"{first}\n  {self.remedy}" if self.remedy else first


class DiagnosticsError(StrataError):
    """Several independent mistakes in one input, the ``place``, in the order of their own places."""

    exit_code = 2

    def __init__(self, diagnostics: list[StrataError], *, place: str) -> None:
        count = len(diagnostics)
        super().__init__(f"{count} mistake{'s' if count != 1 else ''}", place=place)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return "\n".join([f"{self.place}: {self.cause}", *map(str, self.diagnostics)])


class StudyError(StrataError):
    """A study or device file that cannot be used as it is.

    Its ``place`` is made of the ``key``, such as ``stacks.ext4.layers[0].mkfs``, and its ``line``, from 1.
    """

    exit_code = 2

    def __init__(
        self,
        cause: str,
        *,
        key: str | None = None,
        line: int | None = None,
        place: str | None = None,
        remedy: str | None = None,
    ) -> None:
        if place is None:
            place = ", ".join(filter(None, (f"line {line}" if line else "", key))) or None
        super().__init__(cause, place=place, remedy=remedy)
        self.key, self.line = key, line


class PlanError(StrataError):
    """A trial that cannot be compiled to steps."""

    exit_code = 2


class ToolError(StrataError):
    """A program, package or privilege that is missing on this machine."""

    exit_code = 3


class LabError(StrataError):
    """The lab's kernel or root image could not be built, or the lab did not boot."""

    exit_code = 4


class RunError(StrataError):
    """A trial could not be carried out."""

    exit_code = 5


class ResultError(StrataError):
    """A results folder that cannot be read or written."""

    exit_code = 6


def optional(module: str, what: str) -> Any:
    """A module of a package that Strata does without. Raises ToolError, which names the package."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        cause = f"{what} needs the Python package {package}"
        raise ToolError(
            cause, remedy=f"pip install {package}, or pipx inject strata-storage {package}"
        ) from error
