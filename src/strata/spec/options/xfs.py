# SPDX-License-Identifier: Apache-2.0
"""The options of mkfs.xfs(8) and the mount options of xfs(5) that a study may give."""

from __future__ import annotations

from typing import Final

from strata.spec.allowed import INTEGER, Forms, form, one_of, suboptions
from strata.spec.options.common import (
    CAPACITY,
    HERE_ALREADY,
    LABEL,
    MOUNT,
    NOTHING_MADE,
    OPTIONAL_SWITCH,
    PROJECT_QUOTA,
    UUID,
    flags,
    numbers,
    switches,
)

_SIZE: Final = form(r"\d{1,15}[bskmgtBSKMGT]?", "a size such as 64k")
_BYTES: Final = form(r"\d{1,15}[kKmMgG]?", "a size such as 64k")

MKFS: Final[Forms] = {
    "-b": suboptions({"size": _SIZE}),
    "-d": suboptions(
        {
            **dict.fromkeys(("agsize", "su", "sectsize", "extszinherit", "cowextsize"), _SIZE),
            **numbers("agcount sw sunit swidth"),
            **flags("noalign"),
            "daxinherit": one_of("0", "1"),
            "size": CAPACITY,
        }
    ),
    "-i": suboptions(
        {
            "size": _SIZE,
            "perblock": INTEGER,
            "maxpct": form(r"\d{1,3}", "a percentage"),
            "attr": one_of("0", "1", "2"),
            **switches("exchange nrext64 projid32bit sparse"),
        }
    ),
    "-l": suboptions(
        {
            **dict.fromkeys(("size", "su"), _SIZE),
            **numbers("sunit agnum"),
            "internal": one_of("1", optional=True),
            "version": one_of("1", "2"),
            "lazy-count": OPTIONAL_SWITCH,
        }
    ),
    "-m": suboptions(
        {**switches("autofsck bigtime crc finobt inobtcount metadir reflink rmapbt"), "uuid": UUID}
    ),
    "-n": suboptions({"size": _SIZE, "version": one_of("2", "ci"), **switches("ftype parent")}),
    "-s": suboptions({"size": _SIZE, "sectsize": _SIZE}),
    "-L": LABEL,
    **dict.fromkeys(("-f", "-K", "-q"), HERE_ALREADY),
    "-N": NOTHING_MADE,
}

MOUNT_OPTIONS: Final[Forms] = {
    **MOUNT,
    **flags("discard nodiscard filestreams grpid nogrpid bsdgroups sysvgroups inode32 inode64 largeio"),
    **flags("nolargeio noalign swalloc wsync"),
    **flags("quota noquota usrquota grpquota uquota gquota qnoenforce uqnoenforce gqnoenforce"),
    # It was removed in Linux 4.19: trials with it are skipped with that reason.
    **flags("nobarrier"),
    **numbers("logbufs sunit swidth"),
    **dict.fromkeys(("allocsize", "logbsize", "max_atomic_write"), _BYTES),
    "dax": one_of("always", "inode", "never", optional=True),
    **PROJECT_QUOTA,
}
