# SPDX-License-Identifier: Apache-2.0
"""What some workloads say or do besides, a small class each: ``isinstance`` tells whether one has the duty.

`strata.model.find.OpenLoop` and `strata.model.survival.CountsAcknowledged` are others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self

from pydantic import Field

from strata.diagnostics.names import checked
from strata.model.step import Until
from strata.model.workload import Outputs, Workload, WorkloadContext
from strata.units import NS_PER_S, Share

if TYPE_CHECKING:  # a processor file is read like a device, and devices have faults, which a registry names
    from strata.devices.processor import Program

FILLED_BYTES_PER_REAL_S: Final = 500_000_000
"""Of data that are written in sequence: measured with fio on ext4 and XFS, where a modelled disk keeps a few
bytes of each block."""


class CostsRealTime:
    """A workload that costs a lab more real seconds than its windows and the writing of its data."""

    @property
    def fill_bytes_per_real_s(self) -> float:
        return FILLED_BYTES_PER_REAL_S

    @property
    def work_real_s(self) -> float:
        """For a fixed amount of work; 0 if there is none."""
        return 0.0

    @property
    def cached_readers(self) -> int:
        """Its threads that read cached files as fast as they can, and so keep a processor busy each."""
        return 0


class LogsThroughput(ABC):
    """A workload that reports its throughput over the window."""

    @abstractmethod
    def rates_per_s(self, outputs: Outputs) -> Sequence[float]:
        """Its throughput in equal intervals of the window, to see whether it was steady."""

    @property
    def rates_interval_ns(self) -> int:
        return NS_PER_S

    def spans_ns(self, outputs: Outputs) -> Sequence[tuple[int, int]]:
        """When each operation of the window began and ended, since the epoch; none: it keeps no such log."""
        return ()


_Precision = Annotated[
    Share,
    checked(lambda share: 0.001 <= share <= 0.5, "it must be from 0.1% to 50%", 'write for example "1%"'),
]


class EndsWhenKnown(Workload):
    """A workload whose measured window can end as soon as its result is known well enough."""

    until: _Precision | None = Field(None, examples=["1%"], exclude_if=lambda until: until is None)
    """End the measured window before `duration` is over, as soon as the 95 % intervals of its rate and of its
    99th percentile are within this share of them, and the kernel's and the server's periods have passed.
    Default: the window is as long as `duration` says"""

    telling_tools: ClassVar[tuple[str, ...]] = ()
    """The programs that tell its intervals, where ``until`` is set and a shell runs them"""

    def until_known(self, context: WorkloadContext, of: str) -> Until | None:
        """For the step of the measured window; ``of``: see `Until`."""
        share = None if context.window or context.is_cut else self.until
        return None if share is None else Until(of=of, share=share, window_ns=self.window_ns)


class RunsPrograms(ABC):
    """A workload of programs that the study names, which no list of allowed options confines."""

    @property
    def needs_permission(self) -> bool:
        return True

    @abstractmethod
    def priced_programs(self) -> Mapping[str, Program]:
        """Its own prices of programs, by their names."""

    @abstractmethod
    def implied(self) -> Collection[str]:
        """The names of keys that another key has set, such as a preset: people need not see them."""

    @abstractmethod
    def packages_asked(self) -> Sequence[str]:
        """The Debian packages that its programs come from, as far as the lab's image may lack them."""

    @abstractmethod
    def memory_limit_bytes(self) -> int | None:
        """The memory limit of its programs and their page cache, where no guest and no tenant limits them."""


class SharesPreparation(Workload):
    """A workload with keys that have no influence on the data that it prepares.

    Attributes:
        load_keys: These keys, by their fields, with values for preparing once: loads that differ only in them
            share what is prepared.
    """

    load_keys: ClassVar[Mapping[str, object]]

    def preparing(self) -> Self:
        """The load whose preparation all these loads share."""
        return self.model_copy(update=dict(self.load_keys))


class HasServer(Workload):
    """A workload with a database server of its own."""

    if TYPE_CHECKING:
        settings: Any  # of its server, by name: a key of each

    @property
    @abstractmethod
    def server_kind(self) -> str:
        """The kind of its server, by which a stack's settings name it."""

    @property
    @abstractmethod
    def periods_ns(self) -> Mapping[str, int]:
        """The intervals at which its server works by itself, by the name of the work."""

    @abstractmethod
    def power_risks(self, *, whole_blocks: bool) -> Iterable[str]:
        """The settings of its server by which a power failure takes what that acknowledged, with the effect.

        ``whole_blocks``: see `Layer.writes_whole_blocks`.
        """

    def with_settings(self, settings: Mapping[str, Mapping[str, Any]]) -> Self:
        """The workload on a stack with these settings, by kind of server; they precede its own."""
        if not (given := settings.get(self.server_kind)):
            return self
        return self.model_copy(update={"settings": {**self.settings, **given}})
