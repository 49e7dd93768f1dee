# SPDX-License-Identifier: Apache-2.0
"""From system calls to a recording: whose file each concerns, what it waited for, how long it thought.

What a call waited for is known where strace shows it: the thread's own calls before, a message through a pipe
or a socket, a child's begin and end, a futex, a lock of a file, a name that another made or removed. Each is
an order that held in the recording and has to hold in a replay; what happened meanwhile elsewhere is chance.
(Weiss, Harter, Arpaci-Dusseau, Arpaci-Dusseau: ROOT: replaying multithreaded traces with resource-oriented
ordering, SOSP 2013.)
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from strata.traces.arguments import asked, bits, unescaped
from strata.traces.calls import About, Call, Names
from strata.traces.strace import EXITED, SystemCall, options
from strata.traces.tasks import Before, Descriptors, Handle, LastCall, News, TracedTask, learn

_FD: Final = re.compile(r"(\d+)<((?:[^<>]|->)*)>?(\(deleted\))?")
_PATH: Final = re.compile(r'(?:(AT_FDCWD|\d+)<(/[^<>]*)>, )?"((?:[^"\\]|\\.)*)"')
_FLAGS: Final = re.compile(r"\bO_[A-Z_|0-9]+")
_CLONE: Final = re.compile(r"flags=([A-Z_|0-9a-fx]+)")
_CLEARED: Final = re.compile(r"\bchild_tid(?:ptr)?=(0x[0-9a-f]+)")
_CHANNEL: Final = re.compile(r"\d+<(?:(pipe:\[\d+\])|[A-Z0-9-]+:\[([^\]]+?)->([^\],]+).*?\])>")
_CHILD: Final = re.compile(r"si_pid=(\d+)")
_OFFSET: Final = re.compile(r", \[(\d+)\]")
_NO_FILES: Final = ("/dev/", "/proc/", "/sys/")
_LETTERS: Final = {
    "O_RDWR": "rw",
    "O_WRONLY": "w",
    "O_CREAT": "c",
    "O_EXCL": "x",
    "O_TRUNC": "t",
    "O_APPEND": "a",
    "O_DIRECT": "d",
    "O_SYNC": "s",
    "O_DSYNC": "y",
    "O_DIRECTORY": "D",
}
# The bits of linux/falloc.h and linux/fs.h from the lowest on, and the numbers of linux/fadvise.h.
_ALLOCATIONS: Final = ("KEEP_SIZE", "PUNCH_HOLE", "NO_HIDE_STALE", "COLLAPSE_RANGE", "ZERO_RANGE")
_SYNCS: Final = ("WAIT_BEFORE", "WRITE", "WAIT_AFTER")
_ADVICE: Final = ("NORMAL", "RANDOM", "SEQUENTIAL", "WILLNEED", "DONTNEED", "NOREUSE")


class Recorder:
    """Turns the calls of tasks into calls on the files of one folder.

    Args:
        folder: The application's folder, without links.
        before: By task, the processes that ran before; the command itself is not among them.
        working_folder: Where the command starts.
        tracing_ns: What the tracer adds to each call, its entry and its end together.
    """

    def __init__(
        self,
        folder: Path,
        names: Names,
        working_folder: str,
        before: Mapping[int, Before] | None = None,
        tracing_ns: int = 0,
    ) -> None:
        self._root, self._names, self._start, self._before = str(folder), names, working_folder, before or {}
        self._tasks: dict[int, TracedTask] = {}
        self._told = News()
        self._ended: dict[int, dict[int, int]] = {}  # what an ended task knew
        self._threads: list[LastCall] = []  # of the recording
        self._sizes: dict[str, int] = {}
        self._folders = {name for name, size in names.before.items() if size is None}
        self._there = set(names.before)
        self._grown = self._grown_most = 0
        self._tracing_ns = tracing_ns
        self.calls: list[Call] = []
        self.unseen: Counter[str] = Counter()

    def record(self, calls: Sequence[SystemCall]) -> About:
        """Take all calls, in the order of their effect."""
        for call in calls:
            task = self._task(call.task, call.begin_ns)
            task.traced += 1
            if (handler := _HANDLERS.get(call.name)) is not None:
                handler(self, call, task)
        order = sorted(range(len(self.calls)), key=lambda at: self.calls[at].begin_ns)
        place = {at: number for number, at in enumerate(order)}
        self.calls = [self.calls[at] for at in order]
        threads, opened = dict[int, int](), 0
        for number, each in enumerate(self.calls):
            # A clock that was set back could turn the order.
            each.after = tuple(sorted(place[at] for at in each.after if place[at] < number))
            each.thread = threads.setdefault(each.thread, len(threads))
            if each.name == "open" and isinstance(handle := each.words[0], Handle):
                handle.number, opened = opened, opened + 1
            if each.think_ns < 0:  # it knew of no other
                each.think_ns = each.begin_ns - self.calls[0].begin_ns
        span_ns = max((each.end_ns for each in self.calls), default=0)
        bytes_before = sum(self._names.before.get(name) or 0 for name in self._names.numbers)
        return About(
            calls=len(self.calls),
            threads=len(threads),
            span_ns=span_ns - self.calls[0].begin_ns if self.calls else 0,
            bytes_before=bytes_before,
            bytes_most=bytes_before + self._grown_most,
            tracing_ns=self._tracing_ns,
            unseen=dict(self.unseen),
        )

    def _task(self, number: int, at_ns: int) -> TracedTask:
        if number in self._tasks:
            return self._tasks[number]
        before = self._before.get(number, Before(self._start))
        task = self._tasks[number] = TracedTask(Descriptors(before.folder))
        for descriptor, opened in before.opened.items():
            if (name := self._inside(opened.path)) is not None:
                call = SystemCall(number, "open", "", at_ns, at_ns)
                handle = self._open(call, task, name, opened.flags)
                handle.position = opened.position
                self._hold(task, descriptor, handle)
                if opened.position:
                    self._emit(call, task, "seek", handle, opened.position)
        return task

    def _emit(self, call: SystemCall, task: TracedTask, name: str, *words: object) -> None:
        learn(task.known, task.process.ended)
        thread = task.thread
        if thread is None or self._threads[thread].owner != call.task:
            thread = self._thread(task)
        last = self._threads[thread]
        after = self._news(task.known, thread, last.known)
        think_ns = -1
        if task.known:
            ended_ns = max(self.calls[at].end_ns for at in task.known.values())
            # Of the call itself only its entry lies in the pause.
            tracing_ns = self._tracing_ns * (2 * task.traced - 1) // 2
            think_ns = max(0, call.begin_ns - ended_ns - tracing_ns)
        task.known[thread] = len(self.calls)
        task.thread, task.traced = thread, 0
        self._threads[thread] = LastCall(len(self.calls), call.task, dict(task.known))
        self.calls.append(Call(call.begin_ns, call.end_ns, think_ns, thread, after, name, words))

    def _news(self, known: Mapping[int, int], thread: int, before: Mapping[int, int]) -> tuple[int, ...]:
        """The calls of other threads that neither the last call of its own nor one of these followed."""
        heard = {other: each.known for other, each in enumerate(self._threads) if known.get(other) == each.at}

        def is_implied(other: int, at: int) -> bool:
            told = (each.get(other, -1) for through, each in heard.items() if through not in {other, thread})
            return max(told, default=-1) >= at

        news = ((other, at) for other, at in known.items() if other != thread and before.get(other, -1) < at)
        return tuple(at for other, at in news if not is_implied(other, at))

    def _thread(self, task: TracedTask) -> int:
        """A thread for a task's first call: of an ended task whose last call it knows of, or a new one."""
        for thread, at in task.known.items():
            last = self._threads[thread]
            if last.at == at and last.owner in self._ended:
                return thread
        self._threads.append(LastCall(-1, 0, {}))
        return len(self._threads) - 1

    # Whose file it is.

    def _inside(self, path: str) -> str | None:
        """The name of a path in the folder, "." for the folder itself; None outside."""
        if path == self._root:
            return "."
        return path[len(self._root) + 1 :] if path.startswith(f"{self._root}/") else None

    def _opened(self, descriptor: re.Match[str] | None) -> str | None:
        """The name of what a descriptor is of; None outside."""
        return self._inside(unescaped(descriptor[2])) if descriptor else None

    def _path(self, call: SystemCall, task: TracedTask, which: int = 0) -> str | None:
        """The name of one of a call's paths; None outside."""
        found = [*_PATH.finditer(call.arguments)]
        if which >= len(found):
            return None
        base, folder, text = found[which].groups()
        if base == "AT_FDCWD":
            task.process.folder = unescaped(folder)
        path = unescaped(text)
        if not path:
            return None
        above, last = os.path.split(_joined(unescaped(folder or "") or task.process.folder, path))
        return self._inside(_joined(_resolved(above), last))

    def _file(self, call: SystemCall, task: TracedTask, which: int = 0) -> Handle | None:
        """The file of one of a call's descriptors; one that nobody saw opened is opened before the call."""
        found = next((each for at, each in enumerate(_FD.finditer(call.arguments)) if at == which), None)
        name = self._opened(found)
        if found is None or name is None:
            return None
        handle = task.process.handles.get(int(found[1]))
        if handle is not None and (found[3] or name in {handle.name, *handle.earlier}):
            return handle
        if found[3]:
            return None
        before = SystemCall(call.task, "open", "", call.begin_ns, call.begin_ns)
        handle = self._open(before, task, name, "rD" if name in self._folders else "rw")
        self._hold(task, int(found[1]), handle)
        return handle

    def _open(self, call: SystemCall, task: TracedTask, name: str, flags: str) -> Handle:
        handle = Handle(name, is_appending="a" in flags)
        with self._told.using(task, name, is_changed="c" in flags and name not in self._there):
            self._emit(call, task, "open", handle, self._names.number(name), flags)
        self._there.add(name)
        if "t" in flags:
            self._resize(name, 0)
        return handle

    def _hold(self, task: TracedTask, descriptor: int, handle: Handle) -> None:
        self._release(SystemCall(0, "", "", 0, 0), task, descriptor, is_shown=False)
        handle.uses += 1
        task.process.handles[descriptor] = handle

    def _release(self, call: SystemCall, task: TracedTask, descriptor: int, *, is_shown: bool = True) -> None:
        handle = task.process.handles.pop(descriptor, None)
        task.process.closed_by_exec.discard(descriptor)
        if handle is not None:
            handle.uses -= 1
            if not handle.uses and is_shown:
                self._emit(call, task, "close", handle)

    def _size(self, name: str) -> int:
        return self._sizes.get(name, self._names.before.get(name) or 0)

    def _resize(self, name: str, size: int) -> None:
        self._grown += size - self._size(name)
        self._grown_most = max(self._grown_most, self._grown)
        self._sizes[name] = size

    def _grow(self, name: str, end: int) -> None:
        if end > self._size(name):
            self._resize(name, end)

    # What calls do.

    def _on_open(self, call: SystemCall, task: TracedTask) -> None:
        if call.is_failed:
            return self._on_look(call, task)
        found = _FLAGS.search(call.arguments)
        words = found[0].split("|") if found else ["O_WRONLY", "O_CREAT", "O_TRUNC"]  # creat
        letters = "".join(_LETTERS.get(word, "") for word in words)
        letters = letters if "w" in letters else f"r{letters}"
        opened = _FD.match(f"{call.result}{call.said}")
        name = self._opened(opened)
        if name is None or opened is None:
            return None
        if opened[3] or "O_TMPFILE" in words:
            self.unseen["unnamed"] += 1
            return None
        self._hold(task, int(opened[1]), self._open(call, task, name, letters))
        if "O_CLOEXEC" in words:
            task.process.closed_by_exec.add(int(opened[1]))
        return None

    def _on_close(self, call: SystemCall, task: TracedTask) -> None:
        if found := _FD.match(call.arguments):
            self._release(call, task, int(found[1]))

    def _on_duplicate(self, call: SystemCall, task: TracedTask) -> None:
        found = _FD.match(call.arguments)
        if call.name == "fcntl" and "F_DUPFD" not in call.arguments:
            return self._on_lock(call, task)
        handle = task.process.handles.get(int(found[1])) if found else None
        if call.result is not None and call.result >= 0:
            if handle is None:
                self._release(call, task, call.result)
            elif task.process.handles.get(call.result) is not handle:
                self._hold(task, call.result, handle)
        return None

    def _on_transfer(self, call: SystemCall, task: TracedTask) -> None:
        """Read or write, at the file's position or at a place, in one piece or several; also messages."""
        reads = "read" in call.name
        if (handle := self._file(call, task)) is None:
            self._on_message(call, task, is_sent=not reads)
            found = _FD.match(call.arguments)
            if not reads and found and found[2].startswith("/") and not found[2].startswith(_NO_FILES):
                self.unseen["outside_bytes"] += max(0, call.result or 0)
        elif not call.is_failed:
            size, offset = asked(call)
            if reads:
                self._read(call, task, handle, size, offset)
            else:
                self._write(call, task, handle, offset)

    def _read(
        self, call: SystemCall, task: TracedTask, handle: Handle, size: int, offset: int | None
    ) -> None:
        """Read at a place, or at the file's position, which goes on."""
        if offset is None:
            self._emit(call, task, "read", handle, size)
            handle.position += call.result or 0
        else:
            self._emit(call, task, "pread", handle, size, offset)

    def _write(self, call: SystemCall, task: TracedTask, handle: Handle, offset: int | None) -> None:
        done = call.result or 0
        if offset is None:
            self._emit(call, task, "write", handle, done)
            if handle.is_appending:
                handle.position = self._size(handle.name)
            offset, handle.position = handle.position, handle.position + done
        else:
            self._emit(call, task, "pwrite", handle, done, offset)
        self._grow(handle.name, offset + done)

    def _on_seek(self, call: SystemCall, task: TracedTask) -> None:
        if not call.is_failed and (handle := self._file(call, task)) is not None:
            handle.position = call.result or 0
            self._emit(call, task, "seek", handle, handle.position)

    def _on_file(self, call: SystemCall, task: TracedTask) -> None:
        """Calls of one file, with numbers or words that have a number."""
        if call.is_failed or (handle := self._file(call, task)) is None:
            return
        # A name may have a comma.
        rest = _FD.sub("", call.arguments, count=1).split(", ")[1:]
        words: list[object] = []
        name = {"ftruncate": "truncate", "fadvise64": "fadvise"}.get(call.name, call.name)
        if name == "truncate":
            words = [int(rest[0])]
            self._resize(handle.name, int(rest[0]))
        elif name == "fallocate":
            words = [bits(rest[0], _ALLOCATIONS), int(rest[1]), int(rest[2])]
            if not words[0]:
                self._grow(handle.name, int(rest[1]) + int(rest[2]))
        elif name == "sync_file_range":
            words = [int(rest[0]), int(rest[1]), bits(rest[2], _SYNCS)]
        elif name == "fadvise":
            advice = rest[2].removeprefix("POSIX_FADV_")
            words = [int(rest[0]), int(rest[1]), _ADVICE.index(advice) if advice in _ADVICE else 0]
        self._emit(call, task, name, handle, *words)

    def _on_truncate(self, call: SystemCall, task: TracedTask) -> None:
        if not call.is_failed and (name := self._path(call, task)) is not None:
            handle = self._open(call, task, name, "w")
            size = int(call.arguments.rpartition(", ")[2])
            self._emit(call, task, "truncate", handle, size)
            self._emit(call, task, "close", handle)
            self._resize(name, size)

    def _on_list(self, call: SystemCall, task: TracedTask) -> None:
        if not call.is_failed and (handle := self._file(call, task)) is not None:
            self._names.list(handle.name)
            self._emit(call, task, "list", handle)

    def _on_copy(self, call: SystemCall, task: TracedTask) -> None:
        first, second = self._file(call, task), self._file(call, task, 1)
        if call.is_failed:
            return
        places = [_OFFSET.match(call.arguments, found.end()) for found in _FD.finditer(call.arguments)]
        offset, target, *_ = (*(int(place[1]) if place else None for place in places), None, None)
        done = call.result or 0
        if call.name == "sendfile":  # to the first, from the second
            first, second, offset, target = second, first, target, offset
        elif first and second and offset is target is None:
            self._emit(call, task, "copy", first, second, done)
            first.position, second.position = first.position + done, second.position + done
            self._grow(second.name, second.position)
            return
        if first is not None:
            self._read(call, task, first, done, offset)
        if second is not None:
            self._write(call, task, second, target)

    def _on_map(self, call: SystemCall, task: TracedTask) -> None:
        if call.is_failed or (handle := self._file(call, task)) is None:
            return
        _, size, access, how, _, offset = _FD.sub("", call.arguments).split(", ")
        writes = "PROT_WRITE" in access and "MAP_SHARED" in how
        self.unseen["shared_mapping" if writes else "mapping"] += 1
        self._emit(call, task, "map", handle, int(offset, 0), int(size, 0), "w" if writes else "r")

    def _on_look(self, call: SystemCall, task: TracedTask) -> None:
        if (name := self._path(call, task)) is not None:
            self._emit(call, task, "stat", self._names.number(name))

    def _on_name(self, call: SystemCall, task: TracedTask) -> None:
        """Calls that change names."""
        kind = call.name.removesuffix("2").removesuffix("at")
        kind = "rmdir" if kind == "unlink" and "AT_REMOVEDIR" in call.arguments else kind
        name = self._path(call, task, 1 if kind == "symlink" else 0)
        if call.is_failed:
            self._on_look(call, task)
        elif kind in {"rename", "link"}:
            self._on_two_names(call, task, kind, name, self._path(call, task, 1))
        elif name is not None:
            with self._told.using(task, name, is_changed=True):
                self._emit(call, task, kind, self._names.number(name))
            if kind == "mkdir":
                self._folders.add(name)
            elif kind == "unlink":
                self._resize(name, 0)
            (self._there.discard if kind in {"unlink", "rmdir"} else self._there.add)(name)

    def _on_two_names(
        self, call: SystemCall, task: TracedTask, kind: str, name: str | None, other: str | None
    ) -> None:
        if name is None or other is None:
            self.unseen["moved"] += (name or other) is not None
            return
        with (
            self._told.using(task, name, is_changed=kind == "rename"),
            self._told.using(task, other, is_changed=True),
        ):
            self._emit(call, task, kind, self._names.number(name), self._names.number(other))
        self._there.add(other)
        if kind == "rename":
            self._move(name, other)

    def _move(self, name: str, other: str) -> None:
        """Give another name to a file, or to a folder and all that is in it."""
        moved = [name]
        if name in self._folders:
            for each in self._names.below(name):  # it has to be there, to be found by its new name
                self._names.number(each)
            known = {*self._sizes, *self._folders, *self._there, *self._names.below(name)}
            moved += sorted(each for each in known if each.startswith(f"{name}/"))
        for each in moved:
            size, new = self._size(each), other + each[len(name) :]
            self._resize(each, 0)
            self._resize(new, size)
            if each in self._folders:
                self._folders.add(new)
            self._there.discard(each)
            self._there.add(new)
        for task in self._tasks.values():
            for handle in task.process.handles.values():
                if f"{handle.name}/".startswith(f"{name}/"):
                    handle.earlier.add(handle.name)
                    handle.name = other + handle.name[len(name) :]

    def _on_touch(self, call: SystemCall, task: TracedTask) -> None:
        if call.is_failed:
            return
        name = self._path(call, task)
        if name is None and call.name in {"fchmod", "fchown", "utimensat"}:
            handle = self._file(call, task)
            name = handle.name if handle else None
        if name is not None:
            with self._told.using(task, name):
                self._emit(call, task, "touch", self._names.number(name))

    def _on_sync(self, call: SystemCall, task: TracedTask) -> None:
        self._emit(call, task, "sync")

    def _on_unseen(self, call: SystemCall, _: TracedTask) -> None:
        if not call.is_failed:
            self.unseen["aio" if call.name == "io_submit" else "io_uring"] += 1

    # What a task learns of others.

    def _on_message(self, call: SystemCall, task: TracedTask, *, is_sent: bool | None = None) -> None:
        found = _CHANNEL.match(call.arguments)
        if found is None or call.is_failed:
            return
        pipe, own, other = found.groups()
        if is_sent if is_sent is not None else call.name.startswith("send"):
            self._told.send(task, pipe or own)
        else:
            self._told.receive(task, pipe or other)

    def _on_futex(self, call: SystemCall, task: TracedTask) -> None:
        is_private = "PRIVATE" in call.arguments
        key = ("futex", call.arguments.partition(",")[0], id(task.process) if is_private else None)
        if "FUTEX_WAKE" in call.arguments:
            if call.result:
                self._told.by_key[key] = dict(task.known)
        elif call.result == 0:
            self._told.receive(task, key)

    def _on_lock(self, call: SystemCall, task: TracedTask) -> None:
        if call.is_failed or not (
            ("F_" in call.arguments and "LK" in call.arguments) or call.name == "flock"
        ):
            return
        found = _FD.match(call.arguments)
        if found is None or self._opened(found) is None:
            return
        if "F_UNLCK" in call.arguments or "LOCK_UN" in call.arguments:
            self._told.send(task, ("lock", found[2]))
        elif "F_GETLK" not in call.arguments:
            self._told.receive(task, ("lock", found[2]))

    def _on_clone(self, call: SystemCall, task: TracedTask) -> None:
        if call.result is None or call.result <= 0:
            return
        flags, process = _CLONE.search(call.arguments), task.process
        if flags and "CLONE_FILES" in flags[1]:
            process.tasks += 1
        else:
            process = Descriptors(process.folder, dict(process.handles), set(process.closed_by_exec))
            for handle in process.handles.values():
                handle.uses += 1
        cleared = _CLEARED.search(call.arguments)
        woken = cleared[1] if cleared else ""
        self._tasks[call.result] = TracedTask(process, dict(task.known), traced=task.traced, woken=woken)

    def _on_wait(self, call: SystemCall, task: TracedTask) -> None:
        found = _CHILD.search(call.arguments)
        child = int(found[1]) if found else call.result or 0
        learn(task.known, self._ended.get(child, {}))

    def _on_exec(self, call: SystemCall, task: TracedTask) -> None:
        if not call.is_failed:
            for descriptor in sorted(task.process.closed_by_exec):
                self._release(call, task, descriptor)

    def _on_exit(self, call: SystemCall, task: TracedTask) -> None:
        if call.task in self._ended:  # its end is told twice
            return
        task.process.tasks = 0 if call.name == "exit_group" else task.process.tasks - 1
        if task.process.tasks <= 0:
            for descriptor in sorted(task.process.handles):
                self._release(call, task, descriptor)
        self._ended[call.task] = dict(task.known)
        # Who joins a thread that has ended need not ask the kernel.
        learn(task.process.ended, task.known)
        self._told.by_key["futex", task.woken, None] = dict(task.known)

    def _on_folder(self, call: SystemCall, task: TracedTask) -> None:
        if not call.is_failed:
            found = _FD.match(call.arguments) if call.name == "fchdir" else None
            text = _PATH.search(call.arguments)
            path = unescaped(found[2] if found else text[3] if text else ".")
            task.process.folder = _joined(task.process.folder, path)


@lru_cache(maxsize=1 << 16)
def _resolved(folder: str) -> str:
    return os.path.realpath(folder)


def _joined(folder: str, path: str) -> str:
    return os.path.normpath(path if path.startswith("/") else f"{folder}/{path}")


_Handler = Callable[[Recorder, SystemCall, TracedTask], None]
_HANDLERS: Final[Mapping[str, _Handler]] = {
    name: handler
    for handler, names in {
        Recorder._on_open: "open openat openat2 creat",
        Recorder._on_close: "close",
        Recorder._on_duplicate: "dup dup2 dup3 fcntl",
        Recorder._on_transfer: "read readv pread64 preadv preadv2 write writev pwrite64 pwritev pwritev2",
        Recorder._on_seek: "lseek",
        Recorder._on_file: "fsync fdatasync syncfs ftruncate fallocate sync_file_range fadvise64",
        Recorder._on_truncate: "truncate",
        Recorder._on_list: "getdents getdents64",
        Recorder._on_copy: "copy_file_range sendfile",
        Recorder._on_map: "mmap",
        Recorder._on_look: "stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat",
        Recorder._on_name: "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat "
        "symlink symlinkat",
        Recorder._on_touch: "chmod fchmod fchmodat chown fchown lchown fchownat utimensat",
        Recorder._on_sync: "sync",
        Recorder._on_unseen: "io_uring_setup io_submit",
        Recorder._on_message: "recvfrom recvmsg sendto sendmsg",
        Recorder._on_futex: "futex",
        Recorder._on_lock: "flock",
        Recorder._on_clone: "clone clone3 fork vfork",
        Recorder._on_wait: "wait4 waitid",
        Recorder._on_exec: "execve execveat",
        Recorder._on_exit: f"exit exit_group {EXITED}",
        Recorder._on_folder: "chdir fchdir",
    }.items()
    for name in names.split()
}
OPTIONS: Final = options(name for name in _HANDLERS if name != EXITED)
"""What `Recorder` takes was recorded by strace with these."""
