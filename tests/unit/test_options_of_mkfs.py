# SPDX-License-Identifier: Apache-2.0
"""The lists of mkfs's options, held against the programs: each option makes a filesystem in a small file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from strata.layers.btrfs import Btrfs
from strata.layers.ext4 import Ext4
from strata.layers.f2fs import F2fs
from strata.layers.xfs import Xfs
from strata.spec.allowed import Form, Forms
from strata.spec.filesystem import Filesystem
from strata.spec.joint import Offer
from strata.spec.layer import LayerContext

BYTES: Final = 640 << 20
# ext2 and ext3 are made by the same program as ext4, and their list is the same.
LAYERS: Final[Mapping[str, type[Filesystem]]] = {"ext4": Ext4, "xfs": Xfs, "btrfs": Btrfs, "f2fs": F2fs}
# What later versions know than those of Debian 12.
NEWER: Final = {
    *(f"xfs {name}" for name in ("-i exchange", "-m autofsck", "-m metadir", "-n parent")),
    *(
        f"btrfs {option} {turned}{name}"
        for option in ("-O", "--features")
        for turned in ("", "^")
        for name in ("block-group-tree", "free-space-tree", "quota", "squota")
    ),
    "f2fs -b",
}
# Words for the options that need a value, or another option beside them.
WORDS: Final[Mapping[str, Mapping[str, list[str]]]] = {
    "ext4": {
        "-b": ["-b", "2048"],
        "-C": ["-O", "bigalloc", "-C", "64k"],
        "-i": ["-i", "8192"],
        "-I": ["-I", "512"],
        "-N": ["-N", "5000"],
        "-g": ["-g", "16384"],
        "-G": ["-G", "32"],
        "-m": ["-m", "0.5"],
        "-r": ["-r", "1"],
        "-e": ["-e", "remount-ro"],
        "-O bigalloc": ["-O", "bigalloc", "-C", "64k"],
        "-O fast_commit": ["-O", "has_journal,fast_commit"],
        "-O metadata_csum_seed": ["-O", "metadata_csum,metadata_csum_seed"],
        "-O orphan_file": ["-O", "has_journal,orphan_file"],
        "-O project": ["-O", "quota,project", "-I", "256"],
        "-O casefold": ["-O", "casefold", "-E", "encoding=utf8"],
        "-O meta_bg": ["-O", "meta_bg,^resize_inode"],
        "-O sparse_super2": ["-O", "sparse_super2,^resize_inode"],
        "-O uninit_bg": ["-O", "^metadata_csum,uninit_bg"],
        "-O ^extent": ["-O", "^extent,^64bit"],
        "-O ^extents": ["-O", "^extents,^64bit"],
        "-O ^sparse_super": ["-O", "^sparse_super,^resize_inode"],
        "-J size": ["-J", "size=8"],
        "-J fast_commit_size": ["-O", "has_journal,fast_commit", "-J", "size=8,fast_commit_size=1"],
        "-J location": ["-J", "size=4,location=1024"],
        "-E stride": ["-E", "stride=16"],
        "-E stripe_width": ["-E", "stride=16,stripe_width=32"],
        "-E stripe-width": ["-E", "stride=16,stripe-width=32"],
        "-E resize": ["-E", "resize=4000000"],
        "-E mmp_update_interval": ["-O", "mmp", "-E", "mmp_update_interval=5"],
        "-E num_backup_sb": ["-O", "sparse_super2,^resize_inode", "-E", "num_backup_sb=1"],
        "-E desc_size": ["-O", "64bit", "-E", "desc_size=64"],
        "-E orphan_file_size": ["-O", "has_journal,orphan_file", "-E", "orphan_file_size=64"],
        "-E quotatype": ["-O", "quota", "-E", "quotatype=usrquota:grpquota"],
        "-E encoding": ["-E", "encoding=utf8-12.1"],
        "-E encoding_flags": ["-E", "encoding=utf8,encoding_flags=strict"],
        "-E packed_meta_blocks": ["-O", "^meta_bg", "-E", "packed_meta_blocks=1"],
    },
    "xfs": {
        "-b size": ["-b", "size=1k"],
        "-d agsize": ["-d", "agsize=128m"],
        "-d su": ["-d", "su=64k,sw=2"],
        "-d sw": ["-d", "su=64k,sw=2"],
        "-d sunit": ["-d", "sunit=128,swidth=256"],
        "-d swidth": ["-d", "sunit=128,swidth=256"],
        "-d sectsize": ["-d", "sectsize=4096"],
        "-d extszinherit": ["-d", "extszinherit=16"],
        "-d cowextsize": ["-d", "cowextsize=16"],
        "-d agcount": ["-d", "agcount=4"],
        "-d daxinherit": ["-m", "reflink=0", "-d", "daxinherit=1"],
        "-i size": ["-i", "size=1024"],
        "-i perblock": ["-i", "perblock=8"],
        "-i maxpct": ["-i", "maxpct=5"],
        "-i attr": ["-i", "attr=2"],
        "-l size": ["-l", "size=64m"],
        "-l su": ["-l", "su=32k"],
        "-l sunit": ["-l", "sunit=64"],
        "-l agnum": ["-l", "agnum=1"],
        "-l version": ["-l", "version=2"],
        "-n size": ["-n", "size=16k"],
        "-n version": ["-n", "version=ci"],
        "-s size": ["-s", "size=4096"],
        "-s sectsize": ["-s", "sectsize=4096"],
    },
    "btrfs": {
        "-n": ["-n", "32k"],
        "--nodesize": ["--nodesize=32k"],
        "-s": ["-s", "4096"],
        "--sectorsize": ["--sectorsize", "4k"],
        "--csum": ["--csum", "xxhash"],
        "--checksum": ["--checksum=blake2"],
        "-O mixed-bg": ["-O", "mixed-bg", "-n", "4k"],
        "--features mixed-bg": ["--features", "mixed-bg", "-n", "4k"],
    },
    "f2fs": {
        "-b": ["-b", "4096"],
        "-s": ["-s", "2"],
        "-w": ["-w", "512"],
        "-z": ["-z", "2"],
        "-a": ["-a", "1"],
        "-o": ["-o", "7.5"],
        "-e": ["-e", "mp4,mkv"],
        "-E": ["-E", "db"],
        "-C": ["-O", "casefold", "-C", "utf8"],
    },
}


def names_of(forms: Forms) -> Iterator[tuple[str, Form]]:
    """Each option that a study may give; of one with parts, each part."""
    for name, form in forms.items():
        if form.parts is not None:
            yield from ((f"{name} {part}", each) for part, each in names_of(form.parts))
        elif form.instead is None:
            yield name, form


def words_for(layer: str, name: str, form: Form) -> list[str]:
    if name in WORDS[layer]:
        return WORDS[layer][name]
    option, _, part = name.partition(" ")
    value = next((each for each in ("1", "strata") if form.has_value and form.fits(each)), "")
    return [option, f"{part}={value}" if part and value else part or value] if part or value else [option]


CASES: Final = [
    pytest.param(layer, name, words_for(layer, name, form), id=f"{layer} {name}")
    for layer, kind in LAYERS.items()
    for name, form in names_of(kind.allowed["mkfs"])
]


@pytest.mark.parametrize(("layer", "name", "words"), CASES)
def test_mkfs_takes_an_option_that_a_study_may_give(
    layer: str, name: str, words: list[str], tmp_path: Path
) -> None:
    if shutil.which(f"mkfs.{layer}") is None:
        pytest.skip(f"this machine has no mkfs.{layer}")
    # Mixed groups hold data and metadata, which then have one profile.
    keys = {"metadata": "single"} if "mixed" in name.lower() or name == "-M" else {}
    made = LAYERS[layer].model_validate({"mkfs": words, **keys})
    offer = Offer("block", (BYTES,))
    assert not list(made.refusals(offer, {}))
    disk = tmp_path / "disk"
    disk.touch()
    os.truncate(disk, BYTES)
    options = made.make_options(LayerContext(layer, 1, ("${disk0}",), offer))

    done = subprocess.run([*options, disk], capture_output=True, text=True, check=False)
    disk.unlink()

    if f"{layer} {name}" in NEWER and ("unknown" in done.stderr or "unrecognized" in done.stderr):
        pytest.skip(f"this machine's mkfs.{layer} does not know it yet")
    assert done.returncode == 0, done.stderr
