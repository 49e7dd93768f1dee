# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import duckdb
from markupsafe import Markup
from rich.console import Console

from strata.report.table import (
    Cell,
    Column,
    Table,
    Written,
    csv_text,
    html,
    markdown,
    objects,
    parquet,
    terminal,
)

TABLE = Table(
    (
        Column("stack", "stack"),
        Column("n", "count"),
        Column("99 % within", "ns", name="latency_ns_p99"),
        Column("share", "share"),
        Column("sound", "truth"),
        Column("verdict"),
    ),
    [
        ("ext4", 1200, 78_400_000, 0.025, True, Cell("better", tone="better", remark="6 seeds")),
        ("a|b <i>", 6, None, 0.5, False, Cell(None)),
    ],
    title="Latency",
    note="less is better",
)


def shown(width: int = 120) -> list[str]:
    file = StringIO()
    Console(file=file, width=width).print(terminal(TABLE))
    return [" ".join(line.split()) for line in file.getvalue().splitlines()]


def test_people_get_quantities_with_units() -> None:
    assert shown() == [
        "Latency less is better",
        "stack n 99 % within share sound verdict",
        "ext4 1,200 78.4 ms 2.5 % yes better",
        "6 seeds",
        "a|b <i> 6 – 50 % no –",
    ]


def test_markdown_aligns_numbers_and_keeps_others_text_text() -> None:
    lines = markdown(TABLE).splitlines()

    assert lines[0] == "Latency; less is better."
    assert lines[3] == "| :-- | --: | --: | --: | --: | :-- |"
    assert lines[4] == "| ext4 | 1,200 | 78.4 ms | 2.5 % | yes | **better** (6 seeds) |"
    assert lines[5] == r"| a\|b \<i\> | 6 | – | 50 % | no | – |"
    assert "| `a\\|b` |" in markdown(Table((Column("x"),), [(Written("`a|b`"),)]))
    assert markdown(Table(TABLE.columns, [])) == ""


def test_a_page_marks_stacks_and_escapes_text() -> None:
    page = html(TABLE, lambda name: Markup("<b>{}</b>").format(name))
    root = ElementTree.fromstring(page)

    rows = list(root.iter("tr"))
    assert [row.get("data-stack") for row in rows] == [None, "ext4", "a|b <i>"]
    assert [cell.get("class") for cell in rows[1]] == [None, None, None, None, None, "text is-better"]
    assert "".join(rows[1][5].itertext()) == "better6 seeds"
    assert root.findtext(".//caption") == "Latency "


def test_programs_get_the_values(tmp_path: Path) -> None:
    assert csv_text(TABLE).splitlines() == [
        "stack,n,latency_ns_p99,share,sound,verdict",
        "ext4,1200,78400000,0.025,true,better",
        "a|b <i>,6,,0.5,false,",
    ]
    first = objects(TABLE)[0]
    assert first["latency_ns_p99"] == 78_400_000
    assert first["verdict"] == "better"
    file = tmp_path / "table.parquet"
    file.write_bytes(parquet(TABLE))
    found = duckdb.connect().execute(f"select n, latency_ns_p99, sound from '{file}'").fetchall()
    assert found == [(1200, 78_400_000.0, True), (6, None, False)]
