# SPDX-License-Identifier: Apache-2.0
"""Keys of workloads that cannot be run: each is refused at its key, with the cause or a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from workload_factory import refused

from for_all import for_all
from strata.model.stack import room_bytes
from strata.model.workload import Workload
from strata.workloads.bonnie import Bonnie
from strata.workloads.dd import Dd
from strata.workloads.fio import Fio
from strata.workloads.generator.blog import Blog
from strata.workloads.generator.file_storm import FileStorm
from strata.workloads.generator.fill_and_fragment import FillAndFragment
from strata.workloads.generator.load import Load
from strata.workloads.os_installation import OsInstallation
from strata.workloads.pgbench import Pgbench
from strata.workloads.sql_suite import SqlSuite
from strata.workloads.sysbench.fileio import SysbenchFileio
from strata.workloads.sysbench.oltp import SysbenchOltp
from strata.workloads.tree import Tree

MIB: Final = 1 << 20
GIB: Final = 1 << 30
VARMAIL = (Path(__file__).parents[2] / "crates" / "load" / "personalities" / "varmail.toml").read_text()
MAKE: Final = "CREATE TABLE item AS SELECT generate_series(1, 10 * :scale) AS id;"
ASK: Final = "SELECT count(*) FROM item;"
PAY: Final = "BEGIN;\nUPDATE item SET amount = amount - 1 WHERE id = :id;\nCOMMIT;"
# Keys with which each can be run.
SOUND: Final[dict[type[Workload], dict[str, Any]]] = {
    Bonnie: {"size": "256MiB"},
    Dd: {"content": "random", "size": "128MiB"},
    Fio: {"preset": "random-mix-4k", "duration": "10s"},
    Blog: {"readers": 10, "intervals": 3, "interval": "1s", "reader_pause": "10ms"},
    FileStorm: {"files": 2000, "folders": 20},
    FillAndFragment: {"writers": 4, "size": "32MiB", "extents": 1000},
    Load: {"personality": "varmail", "duration": "3s"},
    OsInstallation: {},
    Pgbench: {"scale": 10, "clients": 10, "duration": "2s"},
    SqlSuite: {"rows": 4000, "commits": 200},
    SysbenchFileio: {"mode": "rndrw", "duration": "5s", "size": "128MiB"},
    SysbenchOltp: {"server": "mariadb", "threads": 4, "duration": "5s"},
    Tree: {},
}
# The changed keys, the key that is refused, and words of the cause or the remedy.
REFUSED: Final[dict[type[Workload], list[tuple[dict[str, Any], str, str]]]] = {
    Bonnie: [
        ({"size": "0B", "files": 0}, "size", "nothing is left"),
        ({"file_size_min": "1KiB"}, "file_size_min", "raise file_size_max"),
        ({"files": 0, "directories": 2}, "directories", "without files"),
        ({"direct": True, "chunk": "512B"}, "chunk", "4KiB"),
        ({"size": "2TiB"}, "size", "do not fit"),
        ({"files": 1 << 20, "file_size_max": "2MiB"}, "files", "do not fit"),
        ({"size": "100KiB"}, "size", "whole MiB"),
        ({"chunk": "3KiB"}, "chunk", "power of two"),
        ({"files": 1000}, "files", "1024"),
    ],
    Dd: [
        ({"bs": "3MiB"}, "size", "multiple of bs"),
        ({"bs": "512B", "oflag": ["direct"]}, "bs", "multiple of 4KiB"),
        ({"content": None}, "content", "required"),
    ],
    Fio: [
        *(
            ({"options": {option: "1"}}, "options", words)
            for option, words in (
                ("runtime", "duration"),
                ("runti", "duration"),
                ("time-b", "duration"),
                ("time-based", "duration"),
                ("ramp_time", "warmup"),
                ("size", "size ="),
                ("filename", "one file"),
                ("output", "metrics are read"),
                ("output-format", "metrics are read"),
                ("clocksource", "virtual time"),
                ("write_lat_log", "leaves them"),
                ("write-bw-log", "leaves them"),
                ("aux-path", "leaves them"),
                ("verify_state_save", "leaves them"),
                ("allrandrepeat", "seed"),
            )
        ),
        ({"preset": None, "options": {"bs": "4k"}}, "None", "does not say"),
        ({"preset": "verify-random-write-4k"}, "duration", "leave duration out"),
        ({"options": {"verify": "md5"}}, "duration", "leave duration out"),
        ({"options": {"verify": True}}, "duration", "leave duration out"),
    ],
    Blog: [
        ({"writers": 0}, "writers", "without writers"),
        ({"zeros": True, "compressibility_percent": 30}, "zeros", "leave compressibility_percent out"),
        ({"interval": "1us"}, "interval", "whole milliseconds"),
    ],
    FileStorm: [
        ({"files": 10}, "folders", "there are more folders than files"),
        ({"size": "2GiB"}, "size", "these are no small files"),
    ],
    FillAndFragment: [
        ({"extent_size": "5000B"}, "extent_size", "it is no whole number of blocks"),
        ({"write_size": "64MiB"}, "write_size", "64MiB at once"),
    ],
    Load: [
        ({"personality": "filesrver"}, "personality", "fileserver"),
        ({"personality": None}, "personality", "fileserver"),
        ({"definition": VARMAIL}, "personality", "fileserver"),
        ({"personality": None, "definition": "sets = 1"}, "definition", "crates/load/personalities"),
        ({"io_size": "2GiB"}, "io_size", "1MiB"),
    ],
    Pgbench: [
        *(
            ({"settings": {name: "1"}}, "settings", name)
            for name in ("port", "listen_addresses", "data_directory", "Two Words")
        ),
        ({"script": "select-only", "script_text": ASK}, "script_text", "two scripts"),
        ({"script_text": " "}, "script_text", "empty"),
        ({"latency_limit": "60ms"}, "latency_limit", "rate = 200"),
        ({"init_text": MAKE}, "init_text", "need pgbench's own tables"),
        ({"init_text": " ", "script_text": ASK}, "init_text", "no SQL"),
        ({"init_text": "\\! id", "script_text": ASK}, "init_text", "backslash"),
        ({"init_text": "SELECT 1 \\g |id", "script_text": ASK}, "init_text", "backslash"),
        ({"duration": "1500ms"}, "duration", "whole seconds"),
        ({"duration": "0s"}, "duration", "whole seconds"),
    ],
    SqlSuite: [
        ({"commits": 3000}, "commits", "lower commits"),
        ({"settings": {"datadir": "/x"}}, "settings", "datadir"),
    ],
    SysbenchFileio: [
        ({"mode": None}, "mode", "does not say"),
        ({"preset": "random-mix-4"}, "preset", "random-mix-4k"),
        ({"block": "3KiB"}, "size", "multiple of 384KiB"),
        ({"files": 100}, "size", "whole blocks"),
        ({"duration": None}, "duration", "fsync_every = 0"),
        ({"flags": ["direct"], "block": "512B"}, "block", "4KiB"),
        ({"size": "2TiB"}, "size", "do not fit"),
        ({"duration": "1500ms"}, "duration", "whole seconds"),
    ],
    SysbenchOltp: [
        ({"script": "legacy-complex", "tables": 2}, "tables", "one table"),
        ({"script": "legacy-complex", "rand_type": "pareto"}, "rand_type", "no pareto"),
        ({"extra_update": "on"}, "extra_update", "legacy-complex"),
        ({"rows": 1_000_000_000, "tables": 1000}, "rows", "do not fit"),
        ({"settings": {"socket": "/run/x"}}, "settings", "private socket"),
        ({"server": "postgresql", "settings": {"port": 1}}, "settings", "port"),
        ({"init_text": MAKE}, "init_text", "need sysbench's own tables"),
        ({"init_text": MAKE, "init": "a", "script_text": PAY}, "init", "made twice"),
        ({"script_text": "SELECT 1"}, "script_text", "no transaction in SQL"),
        ({"script_text": "SELECT 1;]========]\nos.exit();"}, "script_text", "no transaction in SQL"),
        ({"script_text": PAY, "script": "oltp_insert"}, "script_text", "two scripts"),
        ({"duration": "1500ms"}, "duration", "whole seconds"),
        ({"duration": "0s"}, "duration", "whole seconds"),
    ],
}
# Too small a capacity, one that suffices, and words about the first.
ROOM: Final[list[tuple[type[Workload], dict[str, Any], int, int, str]]] = [
    (Dd, {}, 128 * MIB, 256 * MIB, "do not fit"),
    (Fio, {"preset": None, "options": {"rw": "read"}, "size": "1GiB"}, GIB, 2 * GIB, "do not fit"),
    (Blog, {"writers": 3}, 30 * MIB, 40 * MIB, "writers: blogs of 29MiB do not fit"),
    (FileStorm, {}, 4 * MIB, GIB, "files: files of"),
    (FillAndFragment, {}, 128 * MIB, GIB, "size: files and rewritten data of"),
    # 1000 files of 16 KiB, each appended to once, in whole blocks: 35 MiB.
    (Load, {}, 36 * MIB, 40 * MIB, "file_size: "),
    (Load, {"files": 2000}, 40 * MIB, 80 * MIB, "files: "),
    (OsInstallation, {}, 128 * MIB, GIB, "do not fit"),
    (SqlSuite, {}, MIB, GIB, "rows: "),
    # 1 GiB of logs and an empty cluster.
    (SysbenchOltp, {"server": "postgresql"}, 1100 * MIB, 1200 * MIB, "rows: tables and logs"),
    (Tree, {}, GIB, 4 * GIB, "members: "),
]


def refusal(workload: type[Workload], keys: dict[str, Any], held_bytes: int = 1 << 40) -> str:
    stated = {key: value for key, value in {**SOUND[workload], **keys}.items() if value is not None}
    try:
        return refused(workload.model_validate(stated), room_bytes("filesystem", held_bytes))
    except ValidationError as error:
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())


@for_all("workload", SOUND)
def test_what_can_be_run_is_not_refused(workload: type[Workload]) -> None:
    assert refusal(workload, {}) == ""


@for_all(
    ("workload", "keys", "key", "words"),
    [(workload, *row) for workload, rows in REFUSED.items() for row in rows],
)
def test_what_cannot_be_run_is_refused_at_its_key(
    workload: type[Workload], keys: dict[str, Any], key: str, words: str
) -> None:
    said = refusal(workload, keys)

    assert f"{key}: " in said
    assert words in said


@for_all(("workload", "keys", "small", "enough", "words"), ROOM)
def test_what_does_not_fit_is_refused(
    workload: type[Workload], keys: dict[str, Any], small: int, enough: int, words: str
) -> None:
    assert words in refusal(workload, keys, small)
    assert not refusal(workload, keys, enough)
