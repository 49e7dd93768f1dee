# SPDX-License-Identifier: Apache-2.0
"""The output of strace 5.7 and later as system calls, each whole, in the order in which they take effect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from strata.units import NS_PER_S

_LINE: Final = re.compile(r"(\d+) +(\d+)\.(\d{9}) (.*)")
_RESUMED: Final = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_WHOLE: Final = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+|0x[0-9a-f]+|\?)(.*)")
_ENDED: Final = re.compile(r"<(\d+)\.(\d{9})>$")
_UNFINISHED: Final = "<unfinished ...>"
EXITED: Final = "+++"
"""The name of the end of a task, which is no call."""
_AT_BEGIN: Final = (
    "exit",
    "exit_group",
    "clone",
    "clone3",
    "fork",
    "vfork",
    "write",
    "writev",
    "sendto",
    "sendmsg",
)


@dataclass(slots=True)
class SystemCall:
    """A call of a task (a thread), its arguments as text; ``said`` follows the result, such as ENOENT."""

    task: int
    name: str
    arguments: str
    begin_ns: int
    end_ns: int
    result: int | None = None
    said: str = ""

    @property
    def is_failed(self) -> bool:
        return self.result is None or self.result < 0

    @property
    def effect_ns(self) -> int:
        """When others can notice it: who reads a message may end before its sender does."""
        is_early = self.name in _AT_BEGIN or (self.name == "futex" and "FUTEX_WAKE" in self.arguments)
        return self.begin_ns if is_early else self.end_ns


def options(names: Iterable[str]) -> list[str]:
    """What strace is run with to record calls of these names, so that `system_calls` reads them."""
    return [
        # Paths of descriptors, both ends of sockets; nothing of the content.
        *("--follow-forks", "--decode-fds=path,socket", "--string-limit=0", "--interruptible=waiting"),
        *("--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns"),
        # A "?" lets a machine lack the call.
        "--trace=" + ",".join(f"?{name}" for name in names),
    ]


def system_calls(lines: Iterable[str]) -> list[SystemCall]:
    """The calls that ended while they were recorded, and the ends of tasks, in the order of their effect."""
    return sorted(_joined(lines), key=lambda call: call.effect_ns)


def _joined(lines: Iterable[str]) -> Iterator[SystemCall]:
    begun: dict[int, tuple[int, str]] = {}
    for line in lines:
        found = _LINE.match(line)
        if found is None:  # a line that was cut off, or strace's own words
            continue
        task, at_ns, text = int(found[1]), int(found[2]) * NS_PER_S + int(found[3]), found[4]
        if text.startswith(EXITED):
            yield SystemCall(task, EXITED, "", at_ns, at_ns)
        elif text.endswith(_UNFINISHED):
            begun[task] = at_ns, text.removesuffix(_UNFINISHED)
        elif not text.startswith("---"):
            if (resumed := _RESUMED.match(text)) is not None:
                at_ns, first = begun.pop(task, (at_ns, ""))
                text = first + resumed[1]
            if (call := _whole(task, at_ns, text)) is not None:
                yield call


def _whole(task: int, begin_ns: int, text: str) -> SystemCall | None:
    found = _WHOLE.match(text)
    if found is None:
        return None
    name, arguments, result, said = found.groups()
    took = _ENDED.search(said)
    end_ns = begin_ns + (int(took[1]) * NS_PER_S + int(took[2]) if took else 0)
    number = None if result == "?" else int(result, 0)
    return SystemCall(task, name, arguments, begin_ns, end_ns, number, said)
