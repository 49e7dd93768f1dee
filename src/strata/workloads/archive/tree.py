# SPDX-License-Identifier: Apache-2.0
"""A source tree: unpacked, read back with cold caches, deleted."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from strata.spec import page_cache
from strata.spec.metric import Metric, MetricSpec
from strata.spec.page_cache import dropped, synced
from strata.spec.step import Step
from strata.spec.workload import Outputs, WorkloadContext
from strata.units import NS_PER_S
from strata.workloads.archive import archive
from strata.workloads.archive.archive import ArchiveWorkload

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
    tools: ClassVar[tuple[str, ...]] = (*archive.TOOLS, *page_cache.TOOLS, "rm")
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
        rates = [_rate(f"{name}_files_per_s", contents.files, "1/s", took) for name, took in whole.items()]
        rates += [
            _rate(f"{name}_bytes_per_s", contents.bytes, "B/s", whole[name]) for name in ("unpack", "read")
        ]
        return [
            *rates,
            *(Metric.of(f"{name}_ns", float(took), "ns") for name, took in parts.items()),
            Metric.of("files", float(contents.files), "1", phase="prepare"),
            Metric.of("bytes", float(contents.bytes), "B", phase="prepare"),
        ]


def _rate(name: str, amount: int, unit: str, took_ns: int) -> Metric:
    return Metric.of(name, amount * NS_PER_S / max(took_ns, 1), unit, headline=unit == "1/s")
