# SPDX-License-Identifier: Apache-2.0
"""The options of mkfs.btrfs(8) and the mount options of btrfs(5) that a study may give."""

from __future__ import annotations

from typing import Final

from strata.layers.options import CAPACITY, HERE_ALREADY, LABEL, MOUNT, UUID, flags, named, numbers
from strata.spec.allowed import Forms, features, form, given, one_of

_SIZE: Final = form(r"\d{1,12}[bBkKmM]?", "a size such as 16k")
_FEATURES: Final = features(
    "block-group-tree extref free-space-tree mixed-bg no-holes quota raid1c34 raid56 skinny-metadata squota"
)

MKFS: Final[Forms] = {
    **named("-n --nodesize -s --sectorsize", _SIZE),
    **named("--csum --checksum", one_of("crc32c", "xxhash", "sha256", "blake2")),
    **named("-O --features", _FEATURES),
    **named("-R --runtime-features", features("free-space-tree quota")),
    **flags("-M --mixed"),
    **named("-L --label", LABEL),
    **named("-d --data", given('write data = "raid1" instead')),
    **named("-m --metadata", given('write metadata = "raid1" instead')),
    **named("-U --uuid", UUID),
    "--device-uuid": given("the version of Debian 12 lacks it: leave it out"),
    **named("-b --byte-count", CAPACITY),
    **named("-f --force -K --nodiscard -q --quiet", HERE_ALREADY),
}

MOUNT_OPTIONS: Final[Forms] = {
    **MOUNT,
    **flags(
        "acl noacl noautodefrag barrier nobarrier datasum nodatasum clear_cache degraded nodiscard "
        "flushoncommit noflushoncommit nospace_cache ssd nossd ssd_spread nossd_spread treelog notreelog"
    ),
    **numbers("commit metadata_ratio thread_pool"),
    "compress-force": form(r"(zlib|lzo|zstd)(:-?\d{1,2})?", "such as zstd:3"),
    "discard": one_of("sync", "async", optional=True),
    "max_inline": form(r"\d{1,9}[kK]?", "a size such as 2048"),
    "space_cache": one_of("v1", "v2", optional=True),
    "nodatacow": given("write cow = false instead"),
    "datacow": given("write cow = true instead"),
    "autodefrag": given("write autodefrag = true instead"),
    "compress": given('write compression = "zstd" instead'),
    "device": given("name the disks in the stack's `devices` instead"),
    **named("subvol subvolid", given("the stack lies in a subvolume of its own already: leave it out")),
}
