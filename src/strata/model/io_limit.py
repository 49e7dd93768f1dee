# SPDX-License-Identifier: Apache-2.0
"""Limits of a control group's requests to the disks of its stack (controller ``io``)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_validator

from strata.diagnostics.names import Diagnostic
from strata.model.knobs import find_number
from strata.model.layer import LayerContext
from strata.model.step import Prerequisites, Step
from strata.units import Duration, Rate, describe_duration, describe_size

Operations = Annotated[StrictInt, Field(ge=1, le=10**9)]
Throughput = Annotated[Rate, Field(ge=4096)]

# Of the root group alone: in the sandbox of a host there is none.
_COST: Final = "/sys/fs/cgroup/io.cost.qos"
_WEIGHT_MAX: Final = 1000  # of bfq; io.weight takes ten times as much


class IoLimits(BaseModel):
    """What a group may ask of each disk of the stack; writing back counts for the group that wrote."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    read_iops: Operations | None = Field(None, examples=[500])
    """Requests to read, a second; default: no limit"""
    write_iops: Operations | None = Field(None, examples=[500])
    """Requests to write, a second; default: no limit"""
    read_bytes_per_s: Throughput | None = Field(None, alias="read_rate", examples=["20MB/s"])
    """Data read; default: no limit"""
    write_bytes_per_s: Throughput | None = Field(None, alias="write_rate", examples=["20MB/s"])
    """Data written; default: no limit"""
    latency_ns: Annotated[Duration, Field(ge=1000)] | None = Field(None, alias="latency", examples=["20ms"])
    """io.latency: groups with a higher target are slowed down while this one's requests take longer;
    default: none"""
    weight: Annotated[StrictInt, Field(ge=1, le=_WEIGHT_MAX)] | None = Field(None, examples=[200])
    """Its share beside other groups: of a disk whose `queue` states bfq by that (io.bfq.weight), of others by
    a model of the disk's cost (io.weight), which the lab switches on; on a host the administrator does
    (io.cost.qos); default: 100"""

    @model_validator(mode="after")
    def _some(self) -> IoLimits:
        if not any(value is not None for _, value in self):
            raise Diagnostic("no limit is stated", remedy="write for example { read_iops = 500 }")
        return self

    def needs(self) -> Prerequisites:
        found = ["cgroup:io"]
        found += ["io:latency"] if self.latency_ns is not None else []
        found += ["io:weight"] if self.weight is not None else []
        return Prerequisites(tools=("stat", "tee"), features=tuple(found))

    def steps(self, context: LayerContext, group: str, whose: str) -> list[Step]:
        """Set the limits of a group ``whose`` parent passes the controller on."""
        texts = {
            "riops": self.read_iops,
            "wiops": self.write_iops,
            "rbps": self.read_bytes_per_s,
            "wbps": self.write_bytes_per_s,
        }
        most = " ".join(f"{name}={value}" for name, value in texts.items() if value is not None)
        target = None if self.latency_ns is None else f"target={self.latency_ns // 1000}"
        found = []
        for disk in context.disks:
            is_by_cost = self.weight is not None and disk not in context.bfq
            if not (most or target or is_by_cost):
                continue
            number = f"{context.name}-{disk}-number"
            found.append(context.step(f"number-{disk}", *find_number(disk), binds=number))
            if is_by_cost:
                title, line = f"Weigh requests to {disk} by their cost", f"${{{number}}} enable=1 ctrl=auto\n"
                found.append(
                    context.step(f"io-cost-{disk}", title, "tee", _COST, stdin=line, expect_exit=(0, 1))
                )
            for file, text in (("max", most), ("latency", target)):
                if text:
                    title, line = f"Limit the requests of {whose} to {disk}", f"${{{number}}} {text}\n"
                    found.append(
                        context.step(f"io-{file}-{disk}", title, "tee", f"{group}/io.{file}", stdin=line)
                    )
        if self.weight is not None:
            title, bfq = f"Weigh the requests of {whose}", f"{self.weight}\n"
            line, file = f"default {self.weight}\n", f"{group}/io.bfq.weight"
            found.append(context.step("io-weight", title, "tee", f"{group}/io.weight", stdin=line))
            # The file is there if a disk has bfq, as it may on a host without being stated.
            found.append(
                context.step("io-bfq", f"{title} by bfq", "tee", file, stdin=bfq, expect_exit=(0, 1))
            )
        return found

    def __str__(self) -> str:
        stated = self.model_dump(exclude_none=True, by_alias=True)
        sizes = {name: f"{describe_size(value)}/s" for name, value in stated.items() if "rate" in name}
        times = {name: describe_duration(value) for name, value in stated.items() if name == "latency"}
        return ", ".join(f"{name} {value}" for name, value in {**stated, **sizes, **times}.items())
