# SPDX-License-Identifier: Apache-2.0
"""What a study may use of this machine beyond its own folder, as the caller permits it on the command line.

One for the process, like its umask: it belongs to the caller, and no study can change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Consent:
    """The caller's permissions."""

    inputs: tuple[Path, ...] = ()  # files, and folders with everything below them
    kernel_source: bool = False  # a kernel of the study's own source may be built and run

    def words(self) -> list[str]:
        """The options that state it."""
        named = [word for path in self.inputs for word in ("--allow-input", str(path))]
        return [*named, *(["--allow-kernel-source"] if self.kernel_source else [])]

    def covers(self, path: Path, folder: Path) -> bool:
        """Whether a study in ``folder`` may read a path: after all links it lies there, or is named."""
        real = path.resolve()
        return any(real.is_relative_to(place.resolve()) for place in (folder, *self.inputs))


_given = [Consent()]


def give_consent(inputs: Sequence[Path] | None = None, *, kernel_source: bool = False) -> None:
    """Add the permissions of a command line."""
    before = consent()
    _given[0] = Consent(
        tuple(dict.fromkeys([*before.inputs, *(inputs or ())])), before.kernel_source or kernel_source
    )


def consent() -> Consent:
    """The permissions now."""
    return _given[0]


def withdraw_consent() -> None:
    """Permit nothing again."""
    _given[0] = Consent()
