# SPDX-License-Identifier: Apache-2.0
"""The smallest load of each workload that still measures something: what the tests on the real lab run."""

from __future__ import annotations

from typing import Final

from study_texts import CALLS, TRACE

SMALL: Final = {
    "fio": 'preset = "random-mix-4k"\nsize = "32MiB"\nwarmup = "1s"\nduration = "2s"',
    "pgbench": 'scale = 1\nclients = 4\nwarmup = "1s"\nduration = "1s"',
    "sysbench-oltp": (
        'server = "mariadb"\nscript = "legacy-complex"\nrows = 2000\nthreads = 4\nwarmup = "1s"\n'
        'duration = "1s"\nsettings = { innodb_buffer_pool_size = "32M" }'
    ),
    "sql-suite": "rows = 1000\ncommits = 20\ntables = 4\ncolumns = 20\nbig_rows = 5",
    "dd": 'content = "random"\nsize = "16MiB"',
    "sysbench-fileio": 'preset = "random-mix-4k-fsync"\nsize = "16MiB"\nfiles = 16\nduration = "2s"',
    "bonnie": 'size = "128MiB"\nchunk = "64KiB"\nbyte_size = "0B"\nseeks = 128\nfiles = 1024',
    "tree": 'members = ["linux-*/mm"]',
    "filesystem-life": 'members = ["linux-*/ipc"]',
    "load": (
        'personality = "varmail"\nfiles = 200\nthreads = 8\ndeletes = "next"\nwarmup = "1s"\nduration = "2s"'
    ),
    "blog": 'intervals = 1\ninterval = "2s"\nreaders = 4\nreader_pause = "50ms"',
    "fill-and-fragment": 'size = "8MiB"\nextents = 50',
    "file-storm": "files = 200\nfolders = 4",
    "container-life": 'size = "16MiB"',
    "trace": f'trace = "{TRACE}"',
    "calls": f'calls = "{CALLS}"',
    "os-installation": "",
    "command": (
        "load = ['dd if=/dev/urandom of=${data}/a bs=64k count=16 conv=fsync']\n"
        "metrics = [{ name = 'bytes_per_s', unit = 'B/s', operations = 1048576 }]"
    ),
    "tenants": (
        'alone = "1s"\ntenants = [\n'
        '  { name = "db", memory = "128MiB", '
        'load = { workload = "pgbench", scale = 1, clients = 2, warmup = "1s", duration = "2s" } },\n'
        '  { name = "disk", count = 2, memory = "64MiB", '
        'load = { workload = "fio", preset = "random-mix-4k", size = "8MiB", duration = "2s" } },\n]'
    ),
}
"""The keys beside ``workload``, by its name."""


LOWEST: Final = {"container-life": "incus"}
"""The layer below a load that runs on no filesystem; these loads have lab tests of their own."""


def small_load(name: str) -> str:
    """The table of a workload, for ``[workloads.NAME]``."""
    return f'workload = "{name}"\n{SMALL[name]}\n'
