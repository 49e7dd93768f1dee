# SPDX-License-Identifier: Apache-2.0
"""One document with every block and every piece of text, as each medium renders it."""

from __future__ import annotations

import io
from typing import Final

from rich.console import Console

from golden_text import Golden
from strata.report.document import (
    Bullets,
    Code,
    Document,
    Drawn,
    Figure,
    Fold,
    Group,
    Heading,
    Item,
    Note,
    Paragraph,
    Section,
    Terms,
    html_of,
    marker,
)
from strata.report.palette import PARTS
from strata.report.spans import (
    Amount,
    Link,
    Mono,
    StackName,
    Text,
    Times,
    Toned,
    VerdictSign,
    escaped,
    listing,
    plain,
    said,
)
from strata.report.svg import Drawing
from strata.report.table import Table, columns
from strata.statistics.interval import Interval

WHOLE: Final = Times(1.13, Interval(1.10, 1.16), is_named=True)
TABLE: Final = Table(
    columns(("stack", "stack"), ("rate", "1/s"), ("to the best", "figure")),
    [("xfs", 353.0, "best"), ("ext4", 312.5, Times(0.88, Interval(0.86, 0.91), "marginal"))],
    "Transactions per second",
    "more is better",
)
DOCUMENT: Final = Document(
    [
        Paragraph(said("{} leads: {} as good as {}.", StackName("xfs"), WHOLE, StackName("ext4")), "lead"),
        Section(
            "oltp",
            "oltp & <more>",
            [
                Paragraph(
                    said("{} is {}; see {}, {} or {}.", Toned("It"), Amount(4.2e6, "ns"), *(
                        Link("the cells", "#cells"), Mono("a|b"), Toned("elsewhere", "em")
                    ))
                ),
                Paragraph("Set `memory = 1GiB` *or* [less]; 2 < 3.", "remark"),
                Bullets(
                    [
                        said("{}: {}", StackName("ext4", "ruled out"), VerdictSign("worse")),
                        Item("Run it:", [Code("strata run a.toml\nstrata show b", "sh")]),
                    ]
                ),
                Terms([("n", "the seeds"), ("disk", said("{} of time", Amount(0.25, "share")))]),
                TABLE,
                Figure(
                    "oltp-rate", "Rate", "All seeds.", Drawing("<svg></svg>", "Bars & lines"),
                    note="more is better",
                    legend={"seek": PARTS["seek"]}, numbers=TABLE,
                ),
                Note([Paragraph("Cached.", "warning")], "Before you trust these numbers"),
                Fold("Details", [Paragraph("Folded away.")]),
                Fold("Commands", [Code("mkfs")], frozenset({"page", "markdown", "terminal"})),
                Group([Heading("ext4", 4, "a filesystem")], "pair", "oltp"),
                Drawn(marker(["xfs"])("xfs")),
            ],
            said("{} clients", "10"),
            workload="oltp",
        ),
    ],
    ["ext4", "xfs"],
)  # fmt: skip


def terminal() -> str:
    file = io.StringIO()
    Console(file=file, width=72, force_terminal=True, color_system="standard").print(DOCUMENT)
    return file.getvalue()


MEDIA: Final = {
    "page.html": lambda: html_of(DOCUMENT.blocks, marker(DOCUMENT.stacks)),
    "document.md": DOCUMENT.markdown,
    "terminal.txt": terminal,
}


def test_each_medium_renders_every_block(golden: Golden) -> None:
    for name, render in MEDIA.items():
        golden(f"documents/{name}", render())


def test_a_notebook_shows_the_page_without_its_controls() -> None:
    shown = DOCUMENT._repr_html_()

    assert html_of(DOCUMENT.blocks, marker(DOCUMENT.stacks), medium="notebook") in shown
    assert ".strata .s1::before" in shown
    assert html_of([Drawn(marker(["xfs"])("xfs"))], marker([]), medium="notebook") == ""


def test_a_text_is_the_same_without_its_form() -> None:
    pieces: list[Text] = [StackName("xfs"), (StackName("ext4"), "!"), "zfs"]

    assert plain(listing(pieces)) == "xfs, ext4! and zfs"
    assert (
        plain(said("{} of {}", Amount(1e9, "ns", Interval(9e8, 2e9)), "3"))
        == "1.00 s (900 ms to 2.00 s) of 3"
    )
    assert escaped("a `b_c` d_e \\ ` f") == "a `b_c` d\\_e \\\\ \\` f"
