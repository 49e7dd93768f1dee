# SPDX-License-Identifier: Apache-2.0
"""The mount options of tmpfs(5) that a study may give."""

from __future__ import annotations

from typing import Final

from strata.spec.allowed import Forms, form, given, one_of
from strata.spec.options.common import MOUNT, flags

_NODES: Final = r"\d{1,4}(-\d{1,4})?"
_SIZE: Final = given('write size = "512MiB" as a key of the layer instead')

MOUNT_OPTIONS: Final[Forms] = {
    **MOUNT,
    **flags("inode32 inode64 noswap quota usrquota grpquota"),
    "huge": one_of("always", "advise", "never", "within_size"),
    "mpol": form(
        rf"(default|local|(prefer|bind|interleave)(=static|=relative)?:{_NODES}(,{_NODES})*)",
        "a policy such as interleave:0-1",
    ),
    "nr_inodes": form(r"\d{1,12}[kKmMgG]?", "a number such as 100k"),
    **dict.fromkeys(("size", "nr_blocks"), _SIZE),
    "mode": given("the folder is root's alone: leave it out"),
}
