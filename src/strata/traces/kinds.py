# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of traces, as the driver of the modelled disks counts it."""

from typing import Final

OPS: Final = ("read", "write", "flush", "discard")
"""enum disk_op."""
KINDS: Final = (
    *("read", "read_metadata", "write", "write_sync", "write_metadata", "write_journal", "flush", "discard"),
)
"""enum trace_kind: the purpose of a request, by the block layer's flags."""
FLAGS: Final = ("fua", "read_ahead", "failed", "zeroes", "overdue")
"""The bits of a record's flags, from the lowest."""

# The parts into which a modelled disk divides a request's time: struct disk_parts in kernel/disk/model.h.
TIME_PARTS: Final = (
    *("queue_ns", "overhead_ns", "seek_ns", "rotation_ns", "transfer_ns", "cell_ns", "cache_ns"),
    *("throttle_ns", "cleaning_ns", "flush_ns", "fault_ns"),
)
