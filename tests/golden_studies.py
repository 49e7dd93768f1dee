# SPDX-License-Identifier: Apache-2.0
"""The studies behind the golden plans: each layer and each workload alone, and their variants."""

from __future__ import annotations

import tempfile
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.plan.sheets import workload_sheet
from study_texts import read, stack_text

_LAYERS: Final = {
    "layer-ext4": (1, '{ layer = "ext4", mkfs = ["-E", "stride=16"], mount = ["noatime"] }'),
    "layer-xfs": (1, '{ layer = "xfs", mkfs = ["-i", "maxpct=5"], mount = ["noatime"] }'),
    "layer-btrfs-nocow-raid1": (2, '{ layer = "btrfs", cow = false, data = "raid1" }'),
    "layer-btrfs-compressed-spare": (
        3,
        '{ layer = "btrfs", data = "raid1", compression = "zstd", compression_level = 3, autodefrag = true, '
        'barriers = false, spares = ["disk2"] }',
    ),
    "layer-btrfs-attribute": (1, '{ layer = "btrfs", cow = "attribute" }'),
    "layer-ext3": (1, '{ layer = "ext3", barriers = false }'),
    "layer-ext4-quota": (1, '{ layer = "ext4", project_quota = true, align = false, barriers = false }'),
    "layer-xfs-quota": (1, '{ layer = "xfs", project_quota = true, align = false }'),
    "layer-f2fs": (1, '{ layer = "f2fs", mkfs = ["-l", "strata"], mount = ["noatime"] }'),
    "layer-f2fs-quota": (1, '{ layer = "f2fs", project_quota = true, barriers = false }'),
    "layer-tmpfs": (1, '{ layer = "tmpfs", size = "2GiB" }'),
    "layer-zpool": (4, '{ layer = "zpool", vdev = "mirror", width = 2 }, { layer = "zfs" }'),
    "layer-zpool-raidz2-everything": (
        9,
        '{ layer = "zpool", vdev = "raidz2", ashift = 12, log = ["disk4", "disk5"], cache = ["disk6"], '
        'special = ["disk7"], spares = ["disk8"], arc_max = "256MiB", autotrim = true, barriers = false, '
        'compatibility = "openzfs-2.1-linux", properties = { failmode = "continue" }, '
        'parameters = { zfs_txg_timeout = 10 } }, { layer = "zfs" }',
    ),
    "layer-zfs": (
        1,
        '{ layer = "zpool" }, { layer = "zfs", recordsize = "16KiB", compression = "zstd-3", atime = false, '
        'sync = "always", properties = { redundant_metadata = "most" } }',
    ),
    "layer-zfs-encrypted": (1, '{ layer = "zpool" }, { layer = "zfs", encryption = true }'),
    "layer-zvol-sparse-ext4": (
        1,
        '{ layer = "zpool" }, { layer = "zvol", size = "1TiB", volblocksize = "8KiB", sparse = true }, '
        '{ layer = "ext4" }',
    ),
    "layer-partition": (
        2,
        '{ layer = "partition", disk = "disk1", sizes = { cache = "60%", spare = "rest" } }, '
        '{ layer = "bcache", cache = "disk1.cache" }, { layer = "ext4" }',
    ),
    "layer-partition-roles": (
        3,
        '{ layer = "partition", disk = "disk2", sizes = { esp = "64MiB", log = "256MiB", rest = "rest", '
        'special = "25%", cache = "10%" }, starts = { special = "1GiB" } }, '
        '{ layer = "zpool", vdev = "mirror", log = ["disk2.log"], special = ["disk2.special"], '
        'cache = ["disk2.cache"] }, { layer = "zfs" }',
    ),
    "layer-bcache": (2, '{ layer = "bcache", cache = "disk1" }, { layer = "ext4" }'),
    "layer-bcache-writeback": (
        2,
        '{ layer = "bcache", cache = "disk1", mode = "writeback", bucket = "1MiB", block = "4KiB", '
        'replacement = "fifo", sequential_cutoff = "0B", writeback_percent = 40, writeback_delay = "5s", '
        'congested_read_threshold = "0s", congested_write_threshold = "10ms" }',
    ),
    "layer-dm-cache": (2, '{ layer = "dm-cache", cache = "disk1" }, { layer = "ext4" }'),
    "layer-dm-cache-writeback": (
        2,
        '{ layer = "dm-cache", cache = "disk1", mode = "writeback", chunk = "1MiB", '
        'migration_threshold = "16MiB" }',
    ),
    "layer-dm-writecache": (2, '{ layer = "dm-writecache", cache = "disk1" }, { layer = "ext4" }'),
    "layer-dm-writecache-settings": (
        2,
        '{ layer = "dm-writecache", cache = "disk1", block_size = 512, high_watermark = 80, '
        'low_watermark = 70, writeback_jobs = 64, autocommit_blocks = 1024, autocommit_time = "100ms", '
        'max_age = "60s" }',
    ),
    "layer-crypt": (1, '{ layer = "crypt" }, { layer = "ext4" }'),
    "layer-crypt-cbc": (
        1,
        '{ layer = "crypt", cipher = "aes-cbc-essiv:sha256", key_bits = 128, sector_size = 4096, '
        'discard = true, workqueues = "none" }',
    ),
    "layer-integrity": (1, '{ layer = "integrity" }, { layer = "ext4" }'),
    "layer-integrity-keyed": (
        1,
        '{ layer = "integrity", checksum = "hmac-sha256", tag_size = 16, sector_size = 4096, '
        'mode = "bitmap", journal_size = "16MiB" }, { layer = "crypt" }, { layer = "xfs" }',
    ),
    "layer-md": (4, '{ layer = "md", level = 10 }, { layer = "ext4" }'),
    "layer-md-raid0": (2, '{ layer = "md", level = 0, chunk = "64KiB" }, { layer = "xfs" }'),
    "layer-md-raid1-spare": (
        3,
        '{ layer = "md", level = 1, initial_sync = "wait", spares = ["disk2"] }, { layer = "ext4" }',
    ),
    "layer-md-raid4": (3, '{ layer = "md", level = 4, bitmap = "none" }, { layer = "ext4" }'),
    "layer-md-raid5": (3, '{ layer = "md", level = 5, initial_sync = "background" }, { layer = "xfs" }'),
    "layer-md-raid5-journal": (
        4,
        '{ layer = "md", level = 5, journal = "disk3", journal_mode = "write-back", '
        'sync_speed_min = "9MB/s", stripe_cache_size = 512, sync_speed_max = "100MB/s" }, { layer = "ext4" }',
    ),
    "layer-md-raid5-ppl": (3, '{ layer = "md", level = 5, partial_parity_log = true }, { layer = "ext4" }'),
    "layer-ext4-journal": (2, '{ layer = "ext4", journal = "disk1" }'),
    "layer-xfs-log": (2, '{ layer = "xfs", log = "disk1" }'),
    "layer-md-raid6": (4, '{ layer = "md", level = 6, layout = "right-asymmetric" }, { layer = "ext4" }'),
    "layer-md-raid10-far": (
        3,
        '{ layer = "md", level = 10, layout = "far", copies = 3 }, { layer = "ext4" }',
    ),
    "layer-lvm": (1, '{ layer = "lvm", snapshot_size = "64MiB" }, { layer = "ext4" }'),
    "layer-lvm-linear-size": (2, '{ layer = "lvm", size = "1200MiB" }, { layer = "ext4" }'),
    "layer-lvm-striped": (
        4,
        '{ layer = "lvm", type = "striped", stripes = 2, stripe_size = "128KiB", snapshot_size = "64MiB", '
        'snapshots = 2, snapshot_chunk = "64KiB" }, { layer = "xfs" }',
    ),
    "layer-lvm-raid1": (2, '{ layer = "lvm", type = "raid1", initial_sync = "wait" }, { layer = "ext4" }'),
    "layer-lvm-raid10-spare": (
        5,
        '{ layer = "lvm", type = "raid10", snapshot_size = "64MiB", spares = ["disk4"] }, { layer = "xfs" }',
    ),
    "layer-lvm-raid5": (3, '{ layer = "lvm", type = "raid5" }, { layer = "ext4" }'),
    "layer-lvm-raid6": (5, '{ layer = "lvm", type = "raid6" }, { layer = "ext4" }'),
    "layer-lvm-thin": (1, '{ layer = "lvm-thin" }, { layer = "ext4" }'),
    "layer-lvm-thin-everything": (
        3,
        '{ layer = "lvm-thin", size = "1TiB", overcommit = true, zero = false, chunk = "128KiB", '
        'discards = "nopassdown", stripes = 2, metadata = "disk2", metadata_size = "64MiB" }, '
        '{ layer = "btrfs" }',
    ),
    "layer-lvm-thin-on-lvm-on-md": (
        3,
        '{ layer = "md", level = 5, chunk = "64KiB" }, { layer = "lvm" }, '
        '{ layer = "lvm-thin", chunk = "128KiB" }, { layer = "xfs" }',
    ),
    "layer-raw": (1, '{ layer = "ext4" }, { layer = "raw" }'),
    "layer-raw-nbd": (
        1,
        '{ layer = "ext4" }, { layer = "raw", size = "8GiB", preallocation = "falloc", cache = "writeback", '
        'server = "qemu-nbd", discard = false }',
    ),
    "layer-raw-loop": (
        1,
        '{ layer = "btrfs" }, { layer = "raw", preallocation = "full", server = "loop", sector = 4096, '
        "nocow = true }",
    ),
    "layer-qcow2": (1, '{ layer = "xfs" }, { layer = "qcow2", preallocation = "metadata" }'),
    "layer-qcow2-overlay-nbd": (
        1,
        '{ layer = "xfs" }, { layer = "qcow2", size = "8GiB", backing = true, cluster = "128KiB", '
        'extended_l2 = true, lazy_refcounts = true, l2_cache = "1MiB", cache = "directsync", '
        'aio = "io_uring", server = "qemu-nbd" }',
    ),
    "layer-guest": (
        1,
        '{ layer = "ext4" }, { layer = "raw" }, { layer = "guest", memory = "256MiB" }, { layer = "xfs" }',
    ),
    "layer-guest-limits": (
        1,
        '{ layer = "ext4" }, { layer = "raw" }, '
        '{ layer = "guest", memory = "192MiB", cpus = 1, io = { weight = 200, latency = "20ms" } }, '
        '{ layer = "xfs" }',
    ),
    "layer-incus": (1, '{ layer = "incus", memory = "128MiB" }'),
    "layer-incus-lvm-thin": (1, '{ layer = "incus", pool = "lvm-thin", filesystem = "xfs" }'),
    "layer-incus-zfs": (1, '{ layer = "incus", pool = "zfs", arc_max = "64MiB", write_max = "20MB/s" }'),
    "layer-incus-dir": (1, '{ layer = "xfs" }, { layer = "incus-dir" }'),
    "layer-nspawn": (1, '{ layer = "xfs" }, { layer = "nspawn", memory = "128MiB" }'),
    "layer-nfs": (1, '{ layer = "xfs" }, { layer = "nfs", sync = false, mount = ["nconnect=4"] }'),
    "layer-overlay": (1, '{ layer = "xfs" }, { layer = "overlay", mount = ["metacopy=on"] }'),
    "layer-vm": (1, '{ layer = "lvm" }, { layer = "vm" }, { layer = "ext4" }'),
    "layer-vm-qemu": (
        1,
        '{ layer = "vm", emulator = "qemu", bus = "virtio-scsi", cache = "directsync" }, { layer = "xfs" }',
    ),
    "layer-vm-qcow2": (
        1,
        '{ layer = "xfs" }, { layer = "qcow2", cache = "writeback", discard = false, l2_cache = "1MiB" }, '
        '{ layer = "vm", cache = "writeback" }, { layer = "ext4" }',
    ),
    "layer-vm-qemu-raw": (
        1,
        '{ layer = "ext4" }, { layer = "raw" }, { layer = "vm", emulator = "qemu", cache = "unsafe" }, '
        '{ layer = "xfs" }',
    ),
    "layer-vm-iothread": (1, '{ layer = "vm", iothread = true }, { layer = "xfs" }'),
    "layer-vm-qemu-iothread": (1, '{ layer = "vm", emulator = "qemu", iothread = true }, { layer = "xfs" }'),
    "layer-vm-writethrough": (
        1,
        '{ layer = "vm", memory = "128MiB", cache = "writethrough", aio = "io_uring" }, { layer = "xfs" }',
    ),
    "layer-md-read-ahead": (2, '{ layer = "md", level = 0, read_ahead_kb = 4096 }, { layer = "ext4" }'),
    "layer-lvm-read-ahead": (1, '{ layer = "lvm", read_ahead_kb = 4096 }, { layer = "ext4" }'),
}
_WORKLOADS: Final = {
    "workload-fio": 'workload = "fio"\npreset = "random-mix-4k"\nwarmup = "5s"\nduration = "10s"',
    "workload-fio-verify": 'workload = "fio"\npreset = "verify-random-write-4k"\nsize = "32MiB"',
    "workload-pgbench": (
        'workload = "pgbench"\nscale = 10\nclients = 10\nwarmup = "5s"\nduration = "20s"\n'
        "settings = { synchronous_commit = false }"
    ),
    "workload-pgbench-open-loop": (
        'workload = "pgbench"\nscale = 2\nclients = 4\nduration = "10s"\nrate = 50\nlatency_limit = "500ms"\n'
        'script_text = "SELECT abalance FROM pgbench_accounts WHERE aid = 100000 * :scale;"'
    ),
    "workload-sysbench-oltp": (
        'workload = "sysbench-oltp"\nserver = "postgresql"\ntables = 2\nthreads = 4\nduration = "10s"\n'
        'rate = 100\nsettings = { shared_buffers = "64MB" }'
    ),
    "workload-sysbench-oltp-legacy": (
        'workload = "sysbench-oltp"\nserver = "mariadb"\nscript = "legacy-complex"\nthreads = 4\n'
        'duration = "10s"\nsettings = { innodb_buffer_pool_size = "64M", innodb_doublewrite = false }'
    ),
    "workload-sql-suite": 'workload = "sql-suite"\nrows = 5000\nsettings = { innodb_page_size = "8k" }',
    "workload-load": (
        'workload = "load"\npersonality = "fileserver"\nfiles = 1000\nwarmup = "2s"\nduration = "5s"\n'
        'deletes = "next"'
    ),
    "workload-load-open-loop": (
        'workload = "load"\npersonality = "webserver"\nthreads = 20\nfile_size = "32KiB"\nduration = "5s"\n'
        "rate = 500\ncompressibility_percent = 30\nduplication_percent = 10"
    ),
    "workload-load-definition": (
        'workload = "load"\nduration = "5s"\ndefinition = """\nname = "looks"\n[[sets]]\nname = "set"\n'
        "files = 100\nfile_bytes = 4096\nfile_shape = 1.5\ndirectory_width = 10\ndirectory_shape = 1.5\n"
        'preallocated_percent = 100\n[[groups]]\nname = "readers"\nthreads = 2\n'
        'loop = [{ op = "stat", set = "set" }]\n"""'
    ),
    "workload-dd": 'workload = "dd"\ncontent = "random"\nsize = "256MiB"',
    "workload-dd-direct": (
        'workload = "dd"\ncontent = "zeros"\nsize = "64MiB"\nbs = "64KiB"\noflag = ["direct", "dsync"]\n'
        'conv = "fdatasync"\niflag = ["direct"]'
    ),
    "workload-pgbench-own-tables": (
        'workload = "pgbench"\nscale = 2\nclients = 4\nduration = "10s"\n'
        'init_text = "CREATE TABLE item (id int PRIMARY KEY);"\nscript_text = "SELECT count(*) FROM item;"'
    ),
    "workload-sysbench-fileio": (
        'workload = "sysbench-fileio"\npreset = "random-mix-4k-fsync"\nwarmup = "5s"\nduration = "20s"'
    ),
    "workload-sysbench-fileio-pass": (
        'workload = "sysbench-fileio"\nmode = "seqwr"\nblock = "64KiB"\nsize = "64MiB"\nfiles = 16\n'
        'threads = 4\nio_mode = "async"\nflags = ["direct"]\nfsync_every = 0\nvalidate = false'
    ),
    "workload-bonnie": 'workload = "bonnie"\nsize = "1GiB"',
    "workload-bonnie-synchronous": (
        'workload = "bonnie"\nsize = "64MiB"\nchunk = "64KiB"\nbyte_size = "0B"\nseeks = 512\nseekers = 3\n'
        'files = 1024\nfile_size_max = "16KiB"\nfile_size_min = "1KiB"\ndirectories = 8\n'
        "synchronous = true\ndirect = true"
    ),
    "workload-tree": 'workload = "tree"\nmembers = ["linux-*/fs", "linux-*/mm"]',
    "workload-filesystem-life": 'workload = "filesystem-life"\nmembers = ["linux-*/fs"]',
    "workload-blog": 'workload = "blog"\nreaders = 10\nintervals = 3\ninterval = "1s"\nreader_pause = "1ms"',
    "workload-fill-and-fragment": (
        'workload = "fill-and-fragment"\nwriters = 2\nsize = "16MiB"\nextents = 500\nsync_every = "1MiB"\n'
        "direct = true"
    ),
    "workload-fill-and-fragment-joint": (
        'workload = "fill-and-fragment"\njoint = true\nsize = "16MiB"\ncompressibility_percent = 0'
    ),
    "workload-file-storm": 'workload = "file-storm"\nfiles = 2000\nfsync = true\nzeros = true',
    "workload-fio-new-file": (
        'workload = "fio"\nfile = "new"\nwarmup = "1s"\nduration = "2s"\n'
        'options = { rw = "write", bs = 2300, fdatasync = 1, numjobs = 2, refill_buffers = true }'
    ),
    "workload-sysbench-oltp-own": (
        'workload = "sysbench-oltp"\nserver = "mariadb"\nduration = "5s"\nrate = 50\nrows = 500\n'
        'init_text = "CREATE TABLE item (id INT);"\nscript_text = "UPDATE item SET id = 1 WHERE id = :id;"'
    ),
    "workload-command-everything": (
        'workload = "command"\nprepare = [\'make ${data}/a "two words" $$5\']\nwarmup = ["cat ${data}/a"]\n'
        'load = [{ name = "settle", run = "cat a", cold = true }, { name = "n", run = "cat ${count}" }]\n'
        'end = [{ name = "server", run = "du -s ${data}" }]\nvariables = { count = 3 }\nmemory = "64MiB"\n'
        'serve = { run = "served ${data}", port = 2379 }\nscripts = { "a.sql" = "SELECT $1;" }'
    ),
}
_MEMBERS: Final = """
[[workloads.load.tenants]]
name = "db"
memory = "128MiB"
load = { workload = "pgbench", scale = 2, clients = 4, duration = "10s" }

[[workloads.load.tenants]]
name = "file"
count = 2
before = { workload = "fio", preset = "sequential-write-1m", size = "16MiB" }
load = { workload = "fio", preset = "random-mix-4k", size = "16MiB", warmup = "1s", duration = "10s" }
"""
_CALM: Final = f'workload = "tenants"\nalone = "2s"\n{_MEMBERS}'
_SMALL: Final = f'workload = "tenants"\n{_MEMBERS[_MEMBERS.rindex("[[") :]}'
_SNAPSHOTS: Final = (
    'workload = "tenants"\nscrub = true\nbefore_measure = ["snapshot"]\nsnapshot_every = "4s"\n' + _MEMBERS
)
_MIRROR: Final = '{ layer = "zpool", vdev = "mirror", arc_max = "256MiB" }'
_STORES: Final = 'snapshot_size = "1GiB", snapshots = 3'
_GUEST: Final = '{ layer = "guest", memory = "128MiB" }, { layer = "ext4" }'
_OWN_SYSTEM: Final = '{ layer = "vm", image = "system.raw", memory = "512MiB", disk = "/dev/vtbd1" }'
# Disks, what tenants share, what each has of its own, what they run.
_SHARES: Final = {
    "workload-fio-device": (
        1,
        "",
        "",
        'workload = "fio"\npreset = "random-mix-4k"\nwarmup = "1s"\nduration = "2s"',
    ),
    # On hosts only: no layer's case, as those run in the lab.
    "layer-vm-image": (
        1,
        f'{_OWN_SYSTEM}, {{ layer = "ext4" }}',
        "",
        'workload = "fio"\npreset = "fsync-write-4k"\nsize = "1MiB"',
    ),
    "layer-commands": (
        1,
        f'{_OWN_SYSTEM}, {{ layer = "commands", make = ["zpool create -f -m ${{mount}} tank ${{disk}}"] }}',
        "",
        'workload = "fio"\npreset = "random-mix-4k"\nduration = "10s"',
    ),
    "workload-container-life": (1, '{ layer = "incus" }', "", 'workload = "container-life"\nsize = "64MiB"'),
    "workload-tenants": (1, '{ layer = "ext4" }', "", _CALM),
    "workload-tenants-xfs-on-lvm": (
        1,
        f'{{ layer = "lvm", {_STORES} }}, {{ layer = "xfs" }}',
        "",
        _SNAPSHOTS,
    ),
    "workload-tenants-containers": (1, '{ layer = "incus", memory = "128MiB" }', "", _SNAPSHOTS),
    "workload-tenants-tmpfs": (1, '{ layer = "tmpfs", size = "256MiB" }', "", _SMALL),
    "workload-tenants-btrfs": (2, '{ layer = "btrfs", data = "raid1", cow = "attribute" }', "", _SNAPSHOTS),
    "workload-tenants-directory": (1, '{ layer = "ext4" }, { layer = "directory" }', "", _SNAPSHOTS),
    "workload-tenants-zfs": (2, f'{_MIRROR}, {{ layer = "zfs", recordsize = "16KiB" }}', "", _SNAPSHOTS),
    "workload-tenants-zpool": (2, _MIRROR, f'{{ layer = "zvol" }}, {_GUEST}', _SNAPSHOTS),
    "workload-tenants-lvm": (4, f'{{ layer = "lvm", type = "raid10", {_STORES} }}', _GUEST, _SNAPSHOTS),
    "workload-tenants-lvm-thin": (1, '{ layer = "lvm-thin" }', '{ layer = "xfs" }', _SNAPSHOTS),
    "workload-tenants-images": (
        1,
        '{ layer = "btrfs" }',
        f'{{ layer = "raw", size = "8GiB", nocow = true }}, {_GUEST}',
        _SNAPSHOTS,
    ),
    # Options of every workload around its measurement window.
    "window-snapshots-fragmentation": (
        1,
        '{ layer = "xfs" }, { layer = "qcow2" }, { layer = "guest" }, { layer = "btrfs" }',
        "",
        'workload = "fio"\npreset = "random-write-4k"\nduration = "30s"\nsnapshot_every = "10s"\n'
        "fragmentation = true\nlinear_read = true",
    ),
}
# Further keys of [study]; then the number of disks, the layers, each tenant's own layers, the workload.
_AGED: Final = {
    "age": (
        'age = { fill = "40%", overwrites = 1.5, file_size = "1MiB" }',
        (1, '{ layer = "xfs" }', "", 'workload = "dd"\nsize = "1GiB"\ncontent = "random"'),
    ),
    "age-snapshots": (
        'age = { fill = "20%", file_size = "1MiB", snapshots = 2 }',
        (1, '{ layer = "btrfs" }', "", 'workload = "dd"\nsize = "1GiB"\ncontent = "random"'),
    ),
    "age-tenants-in-guests": ('age = { fill = "20%" }', (1, '{ layer = "lvm-thin" }', _GUEST, _CALM)),
    "age-without-overwrites": (
        'age = { fill = "10%", overwrites = 0 }',
        (1, '{ layer = "zpool" }, { layer = "zfs" }', "", 'workload = "bonnie"\nsize = "1GiB"'),
    ),
}
_FIO: Final = 'workload = "fio"\npreset = "random-mix-4k"\nduration = "10s"'
_BELOW: Final = {"block": "", "filesystem": '{ layer = "ext4" }, ', "pool": '{ layer = "zpool" }, '}


def _add_plain_cases() -> None:
    """A case for each layer and workload that has none of its own name: as it is by default."""
    for name, layer in catalogue().layers.items():
        below = _BELOW[layer.requires.kind]
        if f"layer-{name}" not in _SHARES:
            _LAYERS.setdefault(
                f"layer-{name}", (max(1, layer.requires.minimum), f'{below}{{ layer = "{name}" }}')
            )
    own = {*_WORKLOADS, *_SHARES}
    for name in catalogue().workloads:
        if f"workload-{name}" not in own:
            _WORKLOADS[f"workload-{name}"] = workload_sheet(catalogue(), name).example.partition("\n")[2]


_add_plain_cases()
CASES: Final = [*_LAYERS, *_WORKLOADS, *_SHARES, *_AGED]
LAYER_CASES: Final = list(_LAYERS)
_MODEL: Final = "wd-re4-500gb"


def subject_of(case: str) -> str:
    """The layer that a layer's case is about: the longest name that fits, as lvm-thin's is none of lvm's."""
    return max((name for name in catalogue().layers if f"{case}-".startswith(f"layer-{name}-")), key=len)


def compile_case(name: str, folder: Path) -> Plan:
    """The plan of a case, for seed 1."""
    return compile_trial(study_of(name, folder), "stack", "load", 1)


@cache
def plan_of_case(name: str) -> Plan:
    """The same plan, compiled once."""
    with tempfile.TemporaryDirectory() as folder:
        return compile_case(name, Path(folder))


def study_of(
    name: str, folder: Path, *, model: str = _MODEL, capacity: str | None = None, workload: str = _FIO
) -> Study:
    """The study of a case: one stack and one workload; of a layer's case on other disks, with another one."""
    disks, layers = _LAYERS.get(name, (1, '{ layer = "ext4" }'))
    load, each = _WORKLOADS.get(name, workload), ""
    if name in _SHARES:
        disks, layers, each, load = _SHARES[name]
    asked = ""
    if name in _AGED:
        asked, (disks, layers, each, load) = _AGED[name]
        capacity = "8GiB"
    if '"dm-writecache"' in layers:
        capacity = capacity or "4GiB"  # its tables for 500 GB exceed the lab's memory
    if "image =" in layers:
        (folder / "system.raw").write_bytes(bytes(510) + b"\x55\xaa")
    text = stack_text(layers, disks, load, model=model, capacity=capacity, each=each)
    return read(folder, text.replace("seeds = [1]\n", f"seeds = [1]\n{asked}\n", 1))


def layers_of(layer: str) -> tuple[int, list[dict[str, object]]]:
    """The disks and the tables of the plainest case of a layer."""
    disks, layers = _LAYERS[f"layer-{layer}"]
    return disks, tomllib.loads(f"layers = [{layers}]")["layers"]
