# SPDX-License-Identifier: Apache-2.0
"""A source tree: unpacked, read back with cold caches, deleted; and the base of all that unpack an archive.

Runners give the steps a plain tar (`Workload.inputs`), so that no decompression is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.model import page_cache
from strata.model.duties import CostsRealTime
from strata.model.inputs import LINUX_SOURCE
from strata.model.metric import Metric, MetricSpec
from strata.model.page_cache import dropped, synced
from strata.model.stack import space_diagnostics
from strata.model.step import LOAD_USER, Phase, Step, literal
from strata.model.workload import Outputs, Workload, WorkloadContext, unreadable
from strata.units import NS_PER_S
from strata.workloads.keys import key

TOOLS: Final = ("awk", "install", "setpriv", "tar")
"""The programs of the steps."""

# Linux 7.2 has 1.5 GiB in 94 000 files; filesystems round each up to a block. An estimate.
_LINUX_BYTES: Final = 1800 << 20
_INPUT: Final = "archive"
_FILE: Final = f"${{input-{_INPUT}}}"
# Records of 1 MiB: tar's default of 10 KiB is for tapes.
_RECORDS: Final = "--blocking-factor=2048"
# The archive may lie where only root can read, so that one right of root is kept. The number is that of
# the group "nogroup" or "nobody".
_KEPT: Final = "-all,+dac_read_search"
_AS_LOAD_USER: Final = (
    *("setpriv", f"--reuid={LOAD_USER}", "--regid=65534", "--clear-groups"),
    *(f"--inh-caps={_KEPT}", f"--ambient-caps={_KEPT}", f"--bounding-set={_KEPT}"),
)
_TITLE: Final = "Count the files and bytes of the archive"
_UNPACK_LIMIT_NS: Final = 7200 * NS_PER_S
_BLOCK_BYTES: Final = 4096
# In what `tar --list --verbose` prints, the mode comes first, the size third.
_COUNT: Final = (
    'substr($1, 1, 1) == "-" { files++; bytes += $3 } '
    'END { printf "%d entries, %d files, %.0f bytes\\n", NR, files, bytes }'
)


def _one_pattern(members: list[str]) -> list[str]:
    for member in members:
        if not member.isprintable() or not member or member.startswith("-"):
            raise Diagnostic(
                f"{member[:60]!r} is no path of a member", remedy='write for example members = ["linux-*/fs"]'
            )
    return members


Members = Annotated[list[StrictStr], AfterValidator(_one_pattern)]


@dataclass(frozen=True)
class Contents:
    """The unpacked entries of every kind, regular files, and the bytes in these."""

    entries: int
    files: int
    bytes: int


class ArchiveWorkload(CostsRealTime, Workload):
    """The base of the workloads that unpack an archive."""

    archive: StrictStr = key(
        LINUX_SOURCE,
        "A tar archive beside the study, compressed or not; strata:linux-source is the source "
        "that the lab's kernel is built from",
        "trees/project.tar.xz",
    )
    members: Members = key(
        [],
        "Only these members of the archive and everything below them; * stands for any "
        "characters but a slash. Default: all",
        ["linux-*/fs", "linux-*/mm"],
    )

    @property
    def work_real_s(self) -> float:
        # The whole source, on ten rotating disks; of another archive the size is not known here.
        return 30.0 if self.archive == LINUX_SOURCE and not self.members else 0.0

    def inputs(self) -> Mapping[str, str]:
        return {_INPUT: self.archive}

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if self.archive == LINUX_SOURCE and not self.members:
            yield from space_diagnostics("sources", _LINUX_BYTES, capacity_bytes, key="members")

    def input_diagnostics(
        self, sizes_bytes: Mapping[str, Mapping[str, int]], capacity_bytes: int
    ) -> Iterable[Diagnostic]:
        """A user's archive, or the members chosen, that do not fit."""
        if _INPUT not in sizes_bytes:
            return
        chosen = {name: size for name, size in sizes_bytes[_INPUT].items() if self._takes(name)}
        # Filesystems round the size of a file up to a block.
        needed_bytes = sum(-(-size // _BLOCK_BYTES) * _BLOCK_BYTES for size in chosen.values())
        for diagnostic in space_diagnostics("files", needed_bytes, capacity_bytes, key="members"):
            diagnostic.key = "members" if self.members else "archive"
            yield diagnostic

    def _takes(self, name: str) -> bool:
        """Whether tar unpacks a member of that name: it, or a folder above it, is one of ``members``."""
        parts = name.split("/")
        wanted = [pattern.rstrip("/").split("/") for pattern in self.members]
        return not wanted or any(
            len(pattern) <= len(parts) and all(map(fnmatchcase, parts, pattern)) for pattern in wanted
        )

    def counting(self, context: WorkloadContext, prefix: str) -> list[Step]:
        """Steps of phase ``prepare`` that count the entries to be unpacked; `counted` reads their output.

        The archive is read from end to end, so that on a host it does not come from a disk while it is
        unpacked.
        """
        index = f"{context.scratch_path}/{prefix}.list"
        listing = ("tar", "--list", "--verbose", "--no-seek", f"--index-file={index}", *self._members())
        return [
            self._step(context, f"{prefix}-list", "prepare", "List the archive", *listing),
            self._step(context, f"{prefix}-count", "prepare", _TITLE, "awk", literal(_COUNT), index),
        ]

    def unpacking(self, context: WorkloadContext, prefix: str, phase: Phase, folder: str) -> list[Step]:
        """Steps that make ``folder`` and unpack the archive there, without a sync."""
        make = ("install", "-d", "-o", LOAD_USER, folder)
        unpack = (*_AS_LOAD_USER, "tar", "--extract", f"--directory={folder}", *self._members())
        return [
            self._step(context, f"{prefix}-folder", "prepare", "Make a folder for the tree", *make),
            self._step(context, f"{prefix}-unpack", phase, "Unpack the archive", *unpack),
        ]

    def counted(self, outputs: Outputs, prefix: str) -> Contents:
        """The counts that the steps of `counting` printed; a `RunError` if there were no files."""
        step_id = f"{prefix}-count"
        text = outputs.step(step_id).stdout
        numbers = [int(word) for word in text.split() if word.isdigit()]
        if len(numbers) != 3 or not numbers[1]:
            raise unreadable(step_id, "the archive has no files", text)
        return Contents(*numbers)

    def _members(self) -> tuple[str, ...]:
        chosen = ("--wildcards", "--no-wildcards-match-slash", "--", *map(literal, self.members))
        return (f"--file={_FILE}", _RECORDS, *(chosen if self.members else ()))

    @staticmethod
    def _step(context: WorkloadContext, step_id: str, phase: Phase, title: str, *argv: str) -> Step:
        return context.step(step_id, phase, title, argv, time_limit_ns=_UNPACK_LIMIT_NS, user="root")


_PARTS: Final = ("unpack", "sync", "read", "delete", "delete_sync")


class Tree(ArchiveWorkload):
    """A source tree is unpacked, synced, read back with cold caches, and deleted.

    Prepare: the archive is listed and counted, and dirty data are written back. Measure: tar unpacks it;
    `sync`, timed apart; the caches are dropped; tar reads the tree in the order in which its folders list it;
    ``rm`` deletes it; `sync` again.
    """

    rationale: ClassVar[str] = (
        "A developer's or a package builder's daily work: a source archive is unpacked, everything in it is "
        "read once, and the tree is deleted again. Tens of thousands of small files are created by one "
        "process, so that allocation of inodes, directories and short extents counts, then how near to one "
        "another they were put, then how fast they are forgotten. The archive itself is read as a plain tar, "
        "without decompression. It leaves out concurrency, and the writes of editors and compilers."
    )
    tools: ClassVar[tuple[str, ...]] = (*TOOLS, *page_cache.TOOLS, "rm")
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("{unpack,delete}_files_per_s", "1/s", "higher", "regular files, with the sync after it"),
        MetricSpec("read_files_per_s", "1/s", "higher", "reading them back with cold caches"),
        MetricSpec("{unpack,read}_bytes_per_s", "B/s", "higher", "their bytes; unpacking with its sync"),
        MetricSpec("{unpack,sync,read,delete,delete_sync}_ns", "ns", "lower", "the parts of the window"),
        MetricSpec("files", "1", "higher", "regular files of the archive"),
        MetricSpec("bytes", "B", "higher", "their content"),
    )
    example: ClassVar[tuple[str, ...]] = ("members",)

    workload: Literal["tree"] = "tree"

    def steps(self, context: WorkloadContext) -> list[Step]:
        folder = f"{context.mount_path}/tree"
        # tar skips reading the files when it writes to /dev/null, but not when it writes to /dev/zero.
        read = ("tar", "--create", "--file=/dev/zero", f"--directory={context.mount_path}", "tree")
        made, unpacked = self.unpacking(context, "tree", "measure", folder)
        return [
            *self.counting(context, "tree"),
            made,
            synced(context, "tree-settle", "prepare", "Write back dirty data before it begins"),
            unpacked,
            synced(context, "tree-sync", "measure", "Write back what unpacking has left in memory"),
            dropped(context, "tree-drop-caches", "measure"),
            self._step(context, "tree-read", "measure", "Read every file of the tree", *read),
            self._step(context, "tree-delete", "measure", "Delete the tree", "rm", "--recursive", folder),
            synced(context, "tree-delete-sync", "measure", "Write back what deleting has left in memory"),
        ]

    def metrics(self, outputs: Outputs) -> list[Metric]:
        contents = self.counted(outputs, "tree")
        parts = {part: outputs.step(f"tree-{part.replace('_', '-')}").duration_ns for part in _PARTS}
        whole = {
            "unpack": parts["unpack"] + parts["sync"],
            "read": parts["read"],
            "delete": parts["delete"] + parts["delete_sync"],
        }
        steps = {
            "unpack": ("tree-unpack", "tree-sync"),
            "read": ("tree-read",),
            "delete": ("tree-delete", "tree-delete-sync"),
        }
        rates = [
            _rate(f"{name}_files_per_s", contents.files, took, unit="1/s", headline=True, steps=steps[name])
            for name, took in whole.items()
        ]
        rates += [
            _rate(f"{name}_bytes_per_s", contents.bytes, whole[name], unit="B/s")
            for name in ("unpack", "read")
        ]
        return [
            *rates,
            *(Metric.of(f"{name}_ns", float(took), "ns") for name, took in parts.items()),
            Metric.of("files", float(contents.files), "1", phase="prepare"),
            Metric.of("bytes", float(contents.bytes), "B", phase="prepare"),
        ]


def _rate(name: str, amount: int, took_ns: int, **fields: Any) -> Metric:
    return Metric.of(name, amount * NS_PER_S / max(took_ns, 1), **fields)
