# SPDX-License-Identifier: Apache-2.0
"""Forms of options that several filesystems have."""

from __future__ import annotations

from functools import partial
from typing import Final

from strata.spec.allowed import FLAG, INTEGER, SWITCH, Form, form, given, one_of


def named(names: str, shape: Form) -> dict[str, Form]:
    """Options of one form; ``names`` are separated by spaces."""
    return dict.fromkeys(names.split(), shape)


flags: Final = partial(named, shape=FLAG)
numbers: Final = partial(named, shape=INTEGER)
switches: Final = partial(named, shape=SWITCH)

# A machine may look for its own disks by their labels, and its udev sees these.
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
PROJECT_QUOTA: Final = named("pquota prjquota pqnoenforce", given("write project_quota = true instead"))

MOUNT: Final = flags(
    "async sync dirsync atime noatime diratime nodiratime relatime norelatime strictatime nostrictatime "
    "lazytime nolazytime iversion noiversion nodev noexec nosuid nosymfollow defaults"
)
"""The options of mount(8) that every filesystem takes."""
