# SPDX-License-Identifier: Apache-2.0
"""The documentation states the figures of the kept records, sentence by sentence, and no other ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from strata.report.wording import SIGNS, interval_ends
from strata.statistics.comparison import Verdict
from strata.statistics.interval import Interval
from strata.units import format_value, times

ROOT: Final = Path(__file__).resolve().parents[2]
RECORDS: Final = ROOT / "tests/records"  # scripts/findings.py writes them
CUTS: Final = "power_cuts"
BROKEN: Final = ("zfs-no-sync", "lying-drive")
# Names with a figure in them.
NAMES: Final = re.compile(r"\bext4|RAID (10|5)|7200 rpm|zfs-16k|xfs-raid5|WD RE4|showcase-\w+\.png")


class Cell(NamedTuple):
    """A cell of a record: see `scripts/findings.py`."""

    workload: str
    stack: str
    value: str
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: Verdict | None = None

    def __str__(self) -> str:
        if self.gain is None or self.verdict is None:
            return self.value
        return f"{self.value}, {times(self.gain)} {SIGNS[self.verdict]}"


class Kept:
    """A kept record."""

    def __init__(self, name: str) -> None:
        self.record: Mapping[str, Any] = json.loads((RECORDS / f"{name}.json").read_text())
        made = [Cell(*each) for each in self.record["cells"]]
        self.cells = {(cell.workload, cell.stack): cell for cell in made}
        self.stacks = list(dict.fromkeys(cell.stack for cell in made))
        self.workloads = list(dict.fromkeys(cell.workload for cell in made))

    def rows(self, *workloads: str) -> Iterator[str]:
        """The rows of a table of these workloads, or of all, a stack each."""
        for stack in self.stacks:
            cells = (str(self.cells[workload, stack]) for workload in workloads or self.workloads)
            yield f"| {' | '.join([stack, *cells])} |"

    def words(self, workload: str, stack: str) -> str:
        """A gain with its interval."""
        cell = self.cells[workload, stack]
        assert cell.gain, cell
        assert cell.low, cell
        assert cell.high, cell
        return f"{times(cell.gain)} ({interval_ends(Interval(cell.low, cell.high, ''))})"

    def cuts(self) -> Iterator[str]:
        """The rows of a table of power cuts, a workload and a stack each."""
        for row in self.record["survival"].get(CUTS, ()):
            if row["stack"] is not None:
                recovery = row["recovery_ns"]
                took = "–" if recovery is None else format_value(recovery, "ns")
                counts = (row[key] for key in ("acknowledged", "lost"))
                told = (f"{each:,}" if isinstance(each, int) else each for each in counts)
                yield f"| {' | '.join([row['workload'], row['stack'], *told, took])} |"

    def advice(self, *uses: str) -> Iterator[str]:
        for said in (self.record["advice"][use] for use in uses):
            ruled_out = f" Ruled out: {said['Ruled out']}" if "Ruled out" in said else ""
            yield f"> **{said['use']}: {said['headline']}.** {said['How sure']}{ruled_out}"

    def tips(self) -> Iterator[str]:
        yield from (f"- {text}" for said in self.record["tipping"].values() for text in said)


def section(page: str, study: str) -> str:
    """The part of a page below the heading that names a bundled study."""
    parts = (ROOT / "docs/explanation" / page).read_text().split("\n## ")[1:]
    [found] = [part for part in parts if f"`studies/{study}.toml`" in part.partition("\n")[0]]
    return found.partition("\n")[2]


def check(text: str, claims: Iterable[str]) -> None:
    """Every claim is in the text, and no figure beside them."""
    for claim in claims:
        assert claim in text, claim
        text = text.replace(claim, "")
    text = NAMES.sub("", text)
    assert not re.search(r"\d", text), [line for line in text.splitlines() if re.search(r"\d", line)]


def test_the_durability_study_is_told_as_it_was_measured() -> None:
    kept = Kept("durability")

    def told() -> Iterator[str]:
        yield from kept.rows()
        yield from kept.cuts()
        for stack in BROKEN:
            gains = [times(kept.cells[workload, stack].gain or 0) for workload in kept.workloads]
            yield f"{stack} makes {gains[0]} as many transactions and {gains[1]} as many operations as ext4"
        yield from kept.advice("mysql-server", "mail-server")

    check(section("power-loss.md", "durability"), told())


def test_only_the_stacks_that_do_not_keep_their_word_are_the_fastest_and_lose_and_are_refused() -> None:
    kept = Kept("durability")

    for workload in kept.workloads:
        gains = {stack: kept.cells[workload, stack].gain or 1 for stack in kept.stacks}
        assert {*sorted(gains, key=gains.__getitem__)[-2:]} == {*BROKEN}, gains
    for row in kept.record["survival"][CUTS]:
        assert (row["lost"] == 0) == (row["stack"] not in BROKEN), row
    for said in kept.record["advice"].values():
        refused = said["Ruled out"].partition(", for lack of durability")[0]
        assert all(f"{stack} (" in refused for stack in BROKEN), refused


SHOWN: Final = ("postgresql", "mariadb", "files", "mail", "pages", "small-files")


def sentences(kept: Kept) -> list[str]:
    """What findings.md concludes from the cells of the showcase."""
    return [
        "No stack is best everywhere.",
        f"ZFS, whose intent log is written in order, makes {kept.words('mail', 'zfs')} as many operations "
        f"under mail as ext4, and MariaDB {kept.words('mariadb', 'zfs')} as many transactions.",
        f"XFS creates small files {kept.words('small-files', 'xfs')} as fast.",
        f"PostgreSQL makes {kept.words('postgresql', 'xfs')} as many transactions on XFS as on ext4, "
        f"{kept.words('postgresql', 'ext4-thin')} on thin LVM, "
        f"{kept.words('postgresql', 'xfs-raid5')} on RAID 5. "
        f"On btrfs it makes {kept.words('postgresql', 'btrfs')}.",
        f"btrfs makes {kept.words('files', 'btrfs')} as many operations on users' files as ext4; ZFS "
        f"makes {kept.words('files', 'zfs')}, and {kept.words('files', 'zfs-16k')} with records of 16 KiB.",
        f"btrfs makes {kept.words('mariadb', 'btrfs')} as many transactions of MariaDB, and "
        f"{kept.words('mariadb', 'btrfs-nocow')} without copying on write.",
        f"XFS on RAID 5 makes {kept.words('mail', 'xfs-raid5')} as many operations under mail. All "
        "comparisons under mail are in doubt, as the window of ext4 was not steady in every seed.",
        f"Pages, asked for at a rate, come {kept.words('pages', 'zfs')} as soon on ZFS as on ext4, and "
        f"{kept.words('pages', 'btrfs')} on btrfs.",
    ]


def test_the_showcase_is_told_as_it_was_measured() -> None:
    kept = Kept("showcase")

    def told() -> Iterator[str]:
        yield f"{kept.record['trials']:,} trials"
        yield from kept.rows(*SHOWN)
        yield from sentences(kept)
        yield from kept.cuts()
        yield from kept.advice(*kept.record["advice"])
        yield from kept.tips()

    check(section("findings.md", "showcase"), told())
    assert all(kept.cells[workload, "btrfs"].verdict == "worse" for workload in ("postgresql", "mariadb"))
    assert all(kept.cells["mail", stack].verdict == "doubtful" for stack in kept.stacks if stack != "ext4")
