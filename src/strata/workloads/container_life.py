# SPDX-License-Identifier: Apache-2.0
"""The life of containers: one is launched, and copied, snapshot, restored, resized, moved and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, Literal

from strata.diagnostics.names import Diagnostic
from strata.model import page_cache
from strata.model.layer import Placed
from strata.model.metric import Metric, MetricSpec
from strata.model.page_cache import dropped, synced
from strata.model.stack import space_diagnostics
from strata.model.step import Step
from strata.model.workload import Outputs, Workload, WorkloadContext
from strata.units import NS_PER_S, Size, describe_size
from strata.workloads.keys import key

_ACTS: Final = ("launch", "copy", "snapshot", "restore", "resize", "move", "delete")
_BLOCK_BYTES: Final = 1 << 20
_FILL_LIMIT_NS: Final = 3600 * NS_PER_S


class ContainerLife(Workload):
    """What is done to containers as a whole, each act with the `sync` that makes it durable.

    Prepare: a file is written in the container of the stack, and written back. Measure, with cold caches
    before each act: another container is launched; the stack's container is copied as it is; the copy is
    snapshot, restored, resized, moved to another name, and deleted.
    """

    rationale: ClassVar[str] = (
        "The work of whoever runs containers: new ones from an image, copies of an existing one with its "
        "data, snapshots before an upgrade and the way back, more space, other names, and their end. A "
        "storage driver that shares blocks does most of it without reading or writing the data; a plain "
        "folder copies them each time. It leaves out the network, and images from a server."
    )
    tools: ClassVar[tuple[str, ...]] = ("dd", *page_cache.TOOLS)
    needs_layers: ClassVar[bool] = True
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec(
            f"{{{','.join(_ACTS)}}}_ns", "ns", "lower", "the act by its manager, with the sync after it"
        ),
    )
    example: ClassVar[tuple[str, ...]] = ("size",)
    amounts: ClassVar[Mapping[str, int]] = {"size_bytes": 1 << 20}

    workload: Literal["container-life"] = "container-life"
    size_bytes: Size = key(256 << 20, "Size of the file in the container", "1GiB", alias="size")

    @property
    def data_bytes(self) -> int:
        return self.size_bytes

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if not self.size_bytes or self.size_bytes % _BLOCK_BYTES:
            cause = f"{describe_size(self.size_bytes)} are no whole number of MiB"
            yield Diagnostic(cause, remedy='such as size = "256MiB"', key="size")
        # Each copy may be a full one.
        yield from space_diagnostics("data", 4 * self.size_bytes, capacity_bytes, key="size")

    def unsuited(self, layers: Sequence[Placed]) -> str | None:
        return None if _acts(layers) else "no layer of the stack is a container"

    def steps(self, context: WorkloadContext) -> list[Step]:
        words = ("if=/dev/urandom", f"of={context.mount_path}/content", "iflag=fullblock")
        size = (f"bs={_BLOCK_BYTES}", f"count={self.size_bytes // _BLOCK_BYTES}")
        title = f"Write a file of {describe_size(self.size_bytes)} in the container"
        filled = context.step(
            "life-fill", "prepare", title, ("dd", *words, *size), time_limit_ns=_FILL_LIMIT_NS
        )
        settled = synced(context, "life-settle", "prepare", "Write the file back")
        return [filled, settled, *self._measured(context)]

    def _measured(self, context: WorkloadContext) -> Iterator[Step]:
        for act, steps in _acts(context.layers).items():
            yield dropped(context, f"life-{act}-cold", "measure")
            yield from steps
            title = f"Write back what is left of it: {act}"
            yield synced(context, f"life-{act}-sync", "measure", title).model_copy(update={"outside": True})

    def metrics(self, outputs: Outputs) -> list[Metric]:
        metrics = []
        for act in _ACTS:
            own = f"life-{act}"
            steps = tuple(each for each in outputs.steps if each in (own, f"{own}-sync"))
            took_ns = sum(outputs.step(each).duration_ns for each in (own, f"{own}-sync"))
            headline = act in ("launch", "copy", "snapshot")
            metrics.append(Metric.of(f"{act}_ns", float(took_ns), "ns", headline=headline, steps=steps))
        return metrics


def _acts(layers: Sequence[Placed]) -> dict[str, list[Step]]:
    """The steps of the acts, in their order; none without a container."""
    for layer, where in reversed(layers):
        if acts := layer.container_acts(where.during("measure", "life")):
            return {act: list(acts[act]) for act in _ACTS}
    return {}
