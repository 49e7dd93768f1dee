# SPDX-License-Identifier: Apache-2.0
"""For each option that a study may give: words with which its program should take it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from strata.layers.btrfs import Btrfs
from strata.layers.ext import Ext4
from strata.layers.f2fs import F2fs
from strata.layers.filesystem import Filesystem
from strata.layers.xfs import Xfs
from strata.model.allowed import Form, Forms

# ext2 and ext3 are made by the same program as ext4, and their list is the same.
LAYERS: Final[Mapping[str, type[Filesystem]]] = {"ext4": Ext4, "xfs": Xfs, "btrfs": Btrfs, "f2fs": F2fs}
# Options of versions newer than Debian 12's.
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
        **{
            f"-O {name}": ["-O", f"extra_attr,{name}"]
            for name in (
                *("compression", "flexible_inline_xattr", "inode_checksum", "inode_crtime", "project_quota"),
            )
        },
    },
}


# Values of options that 8 is none of.
VALUES: Final = {
    "allocsize": "64m",
    "commit": "30",
    "compress-force": "zstd:3",
    "compress_algorithm": "zstd:3",
    "compress_extension": "txt",
    "nocompress_extension": "mp4",
    "inline_xattr_size": "50",
    "inode_readahead_blks": "64",
    "journal_ioprio": "3",
    "logbsize": "256k",
    "max_atomic_write": "4k",
    "max_inline": "2048",
    "mpol": "local",
    "nr_inodes": "100k",
    "sunit": "128,swidth=256",
    "swidth": "256,sunit=128",
    "dedup_table_quota": "10G",
    "special_small_blocks": "4K",
    "version": "28",
}


# Words with values beyond the limits of the programs and the kernel, or that do not go together, with causes.
LIMITED: Final = [
    ("xfs", "mkfs", ["-l", "su=512k"], 'the mkfs option -l su cannot be "512k"'),
    ("xfs", "mkfs", ["-l", "size=1m"], 'the mkfs option -l size cannot be "1m"'),
    ("xfs", "mkfs", ["-l", "sunit=1024"], 'the mkfs option -l sunit cannot be "1024"'),
    ("xfs", "mkfs", ["-b", "size=3k"], 'the mkfs option -b size cannot be "3k"'),
    ("xfs", "mkfs", ["-i", "size=256"], 'the mkfs option -i size cannot be "256"'),
    ("xfs", "mkfs", ["-n", "size=2k"], 'the mkfs option -n size cannot be "2k"'),
    ("xfs", "mkfs", ["-s", "size=64k"], 'the mkfs option -s size cannot be "64k"'),
    ("xfs", "mkfs", ["-d", "agsize=8m"], 'the mkfs option -d agsize cannot be "8m"'),
    ("xfs", "mkfs", ["-d", "su=64k"], "-d su needs -d sw"),
    ("xfs", "mkfs", ["-d", "sunit=128,swidth=192"], "-d swidth is no multiple of sunit, which is 128"),
    ("xfs", "mkfs", ["-d", "sunit=128,swidth=256,su=64k,sw=2"], "exclude each other"),
    ("xfs", "mkfs", ["-d", "agcount=4,agsize=1g"], "-d agcount and -d agsize exclude each other"),
    ("xfs", "mkfs", ["-l", "su=64k", "-l", "sunit=128"], "-l sunit and -l su exclude each other"),
    ("xfs", "mount", ["logbufs=99"], 'the mount option logbufs cannot be "99"'),
    ("xfs", "mount", ["logbsize=48k"], 'the mount option logbsize cannot be "48k"'),
    ("xfs", "mount", ["allocsize=1k"], 'the mount option allocsize cannot be "1k"'),
    ("xfs", "mount", ["sunit=128"], "sunit needs swidth"),
    ("ext4", "mkfs", ["-b", "512"], 'the mkfs option -b cannot be "512"'),
    ("ext4", "mkfs", ["-i", "512"], 'the mkfs option -i cannot be "512"'),
    ("ext4", "mkfs", ["-I", "300"], 'the mkfs option -I cannot be "300"'),
    ("ext4", "mkfs", ["-g", "300"], 'the mkfs option -g cannot be "300"'),
    ("ext4", "mkfs", ["-G", "3"], 'the mkfs option -G cannot be "3"'),
    ("ext4", "mkfs", ["-m", "51"], 'the mkfs option -m cannot be "51"'),
    ("ext4", "mkfs", ["-J", "size=2"], "a journal has 1,024 to "),
    ("ext4", "mkfs", ["-J", "size=5000"], "a journal has 1,024 to "),
    ("xfs", "mkfs", ["-l", "size=2000m,agnum=0", "-d", "agcount=8"], "does not fit into an allocation group"),
    ("ext4", "mkfs", ["-C", "64k"], "-C needs -O bigalloc"),
    ("ext4", "mkfs", ["-O", "^extent"], "-O ^extent needs -O ^64bit"),
    ("ext4", "mount", ["inode_readahead_blks=3"], 'the mount option inode_readahead_blks cannot be "3"'),
    ("ext4", "mount", ["journal_async_commit"], "journal_async_commit needs data=writeback or data=journal"),
    ("ext4", "mount", ["data=journal", "delalloc"], "data=journal and delalloc exclude each other"),
    ("btrfs", "mkfs", ["-n", "128k"], 'the mkfs option -n cannot be "128k"'),
    ("btrfs", "mkfs", ["--sectorsize=2k"], 'the mkfs option --sectorsize cannot be "2k"'),
    ("btrfs", "mount", ["thread_pool=0"], 'the mount option thread_pool cannot be "0"'),
    ("f2fs", "mount", ["inline_xattr_size=50"], "inline_xattr_size needs -O flexible_inline_xattr"),
    ("f2fs", "mount", ["mode=lfs", "atgc"], "atgc and mode=lfs exclude each other"),
]


def making(layer: str, words: list[str]) -> Filesystem:
    """A layer with these options of mkfs."""
    # Mixed groups hold data and metadata, which then have one profile.
    mixed = layer == "btrfs" and ({"-M", "--mixed", "mixed-bg"} & set(words))
    return LAYERS[layer].model_validate({"mkfs": words, **({"metadata": "single"} if mixed else {})})


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


def settings_of(forms: Forms) -> Iterator[str]:
    """Each option of a list as ``name`` and ``name=value``; of a choice with every value."""
    for name, form in forms.items():
        if form.instead is not None:
            continue
        if form.fits(None):
            yield f"{name},data=writeback" if name == "journal_async_commit" else name
        if form.pattern is not None:
            choice = form.meaning.removeprefix("one of ").split(", ")
            values = choice if form.meaning.startswith("one of ") else [VALUES.get(name, "8")]
            yield from (f"{name}={value}" for value in values)
