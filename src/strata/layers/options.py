# SPDX-License-Identifier: Apache-2.0
"""What the options of the filesystems have in common."""

from __future__ import annotations

from typing import Final

from strata.spec.allowed import FLAG, INTEGER, SWITCH, Form, Forms, form, given, one_of


def flags(names: str) -> dict[str, Form]:
    """Options without a value.

    Args:
        names: Separated by spaces.
    """
    return dict.fromkeys(names.split(), FLAG)


def numbers(names: str) -> dict[str, Form]:
    """Options whose values are whole numbers; ``names`` are separated by spaces."""
    return dict.fromkeys(names.split(), INTEGER)


def switches(names: str) -> dict[str, Form]:
    """Options that are 0 or 1; ``names`` are separated by spaces."""
    return dict.fromkeys(names.split(), SWITCH)


# A machine may look for disks of its own by their labels, and these are seen by its udev.
LABEL: Final = form(
    r"strata[A-Za-z0-9._-]{0,6}", 'a label that begins with "strata", of 12 characters at most'
)
ON_OFF: Final = one_of("on", "off")
OPTIONAL_INTEGER: Final = form(r"\d{1,9}", "a whole number", optional=True)
OPTIONAL_SWITCH: Final = one_of("0", "1", optional=True)
UUID: Final = given("the UUID derives from the trial's seed: leave it out")
HERE_ALREADY: Final = given("it is given already: leave it out")
NOTHING_MADE: Final = given("it would make nothing: leave it out")
CAPACITY: Final = given("give the device less `capacity` instead")
PROJECT_QUOTA: Final[Forms] = dict.fromkeys(
    ("pquota", "prjquota", "pqnoenforce"), given("write project_quota = true instead")
)

MOUNT: Final[Forms] = {
    **flags("async sync dirsync atime noatime diratime nodiratime relatime norelatime strictatime"),
    **flags("nostrictatime lazytime nolazytime iversion noiversion nodev noexec nosuid nosymfollow defaults"),
}
"""The options of mount(8) that every filesystem takes."""
