# SPDX-License-Identifier: Apache-2.0
"""Runs in the lab: files whose content tells what it must be, and what a cut of the power has left of them.

    files.py work FOLDER NOTES SEED EPOCH WORKERS CUT_AFTER_US
    files.py verify FOLDER NOTES SEED EPOCH WORKERS

Each worker has a folder of its own and does one operation after the other, each of which ends in fsync of all
that it changed and then in a note. What operation N does follows from seed, epoch, worker and N, so that the
verifier can derive the content of each file. The operation after the last noted one may have
happened, or not, or in part; all that it left must be its own data, or zeros.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from notes import EPOCHS_KEPT, Dice, Notes, cut_power_unless_failed, start

SECTOR = 512
NAMES = [f"d{folder}/f{number}" for folder in range(2) for number in range(5)]
SIZE_MAX = 128 << 10
NOISE_FILES = 24

State = dict[str, bytes]
Legal = Callable[[str, "bytes | None"], bool]


class Operation:
    """One operation: a change of files, and what may be seen of it when the power was cut meanwhile."""

    def __init__(self, kind: str, name: str, target: str, offset: int, payload: bytes) -> None:
        self.kind, self.name, self.target, self.offset, self.payload = kind, name, target, offset, payload

    def apply(self, state: State) -> State:
        """The files when it is done."""
        after = dict(state)
        before = state.get(self.name, b"")
        match self.kind:
            case "create" | "replace":
                after[self.name] = self.payload
            case "append" | "overwrite":
                end = self.offset + len(self.payload)
                after[self.name] = before[: self.offset] + self.payload + before[end:]
            case "truncate":
                after[self.name] = before[: self.offset]
            case "rename":
                after[self.target] = after.pop(self.name)
            case "unlink":
                del after[self.name]
        return after

    def may_leave(self, name: str, found: bytes | None, before: bytes | None, after: bytes | None) -> bool:
        """Whether a file that it touches may look so after a cut in the middle of it."""
        if found in (before, after):
            return True
        if found is None or self.kind in {"rename", "unlink", "replace"}:
            return False
        old, new = before or b"", after or b""
        if not min(len(old), len(new)) <= len(found) <= max(len(old), len(new)):
            return False
        # A file grows over blocks that are zero until their data is there, and what a truncation cuts off
        # is made zero before the file is shorter.
        zeros_from = self.offset if self.kind == "truncate" else len(old)
        return all(
            byte in (old[at : at + 1], new[at : at + 1]) or (at >= zeros_from and byte == b"\0")
            for at, byte in enumerate(map(bytes, zip(found, strict=True)))
        )


def content(size: int, *key: int) -> bytes:
    """``size`` bytes that say where they belong."""
    head = " ".join(map(str, key))
    sectors = (f"{head} {sector} ".ljust(64, ".") * 8 for sector in range(-(-size // SECTOR)))
    return "".join(sectors).encode()[:size]


def operation(state: State, *key: int) -> Operation:
    """A worker's next operation; ``key`` is seed, epoch, worker and the operation's number."""
    dice = Dice(*key)
    free = [name for name in NAMES if name not in state]
    kinds = ["append", "append", "overwrite", "overwrite", "replace", "rename", "unlink", "truncate"]
    kind = "create" if free and (len(free) > 6 or dice.below(4) == 0) else kinds[dice.below(len(kinds))]
    name = dice.pick(free if kind == "create" else list(state))
    old = len(state.get(name, b""))
    if kind == "append" and old > SIZE_MAX:
        kind = "truncate"
    size = 1 + dice.below(1 << (6 + dice.below(10)))
    offset = 0
    if kind in {"overwrite", "truncate"}:
        offset = dice.below(old + 1)
    elif kind == "append":
        offset = old
    if kind == "overwrite":
        size = min(size, old - offset)
    if kind in {"rename", "unlink", "truncate"}:
        size = 0
    target = dice.pick([other for other in NAMES if other != name]) if kind == "rename" else ""
    return Operation(kind, name, target, offset, content(size, *key))


def sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def write_file(path: str, flags: int, offset: int, payload: bytes, sync: Callable[[int], None]) -> None:
    file = os.open(path, os.O_WRONLY | flags, 0o644)
    while payload:
        written = os.pwrite(file, payload[: 16 << 10], offset)
        offset, payload = offset + written, payload[written:]
    sync(file)
    os.close(file)


def carry_out(operation: Operation, root: str) -> None:
    """Do it, and return when it is durable."""
    path = f"{root}/{operation.name}"
    match operation.kind:
        case "create":
            write_file(path, os.O_CREAT | os.O_EXCL, 0, operation.payload, os.fsync)
        case "replace":
            write_file(f"{root}/new", os.O_CREAT | os.O_TRUNC, 0, operation.payload, os.fsync)
            os.rename(f"{root}/new", path)
            sync_folder(root)
        case "append" | "overwrite":
            write_file(path, 0, operation.offset, operation.payload, os.fdatasync)
        case "truncate":
            os.truncate(path, operation.offset)
            write_file(path, 0, 0, b"", os.fsync)
        case "rename":
            os.rename(path, f"{root}/{operation.target}")
            sync_folder(os.path.dirname(f"{root}/{operation.target}"))
        case "unlink":
            os.unlink(path)
    sync_folder(os.path.dirname(path))


def work_of(root: str, notes: Notes, key: tuple[int, int, int]) -> None:
    """One worker, until the power is cut."""
    _, epoch, worker = key
    for folder in ("", "/d0", "/d1"):
        os.mkdir(root + folder)
    sync_folder(root)
    sync_folder(os.path.dirname(root))
    notes.acknowledge(epoch, worker, 0)
    state: State = {}
    number = 0
    while True:
        number += 1
        following = operation(state, *key, number)
        carry_out(following, root)
        notes.acknowledge(epoch, worker, number)
        state = following.apply(state)


def make_noise(root: str, seed: int, epoch: int) -> None:
    """Write files without syncing them, so that there is something to write back and to allocate late."""
    os.mkdir(root)
    number = 0
    while True:
        number += 1
        dice = Dice(seed, epoch, number)
        size = dice.below(256 << 10)
        path = f"{root}/{number % NOISE_FILES}.{number}"
        write_file(path, os.O_CREAT, 0, content(size, seed, epoch, number), lambda file: None)
        old = f"{root}/{number % NOISE_FILES}.{number - NOISE_FILES}"
        if number > NOISE_FILES:
            os.unlink(old)
        if dice.below(10) == 0:
            os.sync()
        time.sleep(0.001 * (1 + dice.below(30)))


def remove(path: str) -> None:
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            remove(entry.path)
        else:
            os.unlink(entry.path)
    os.rmdir(path)


def work(folder: str, notes: Notes, seed: int, epoch: int, workers: int, cut_after_us: int) -> None:  # noqa: PLR0917  the command line's words
    top = f"{folder}/e{epoch}"
    os.mkdir(top)
    sync_folder(folder)
    start(make_noise, f"{top}/noise", seed, epoch)
    for worker in range(workers):
        start(work_of, f"{top}/w{worker}", notes, (seed, epoch, worker))
    for name in sorted(os.listdir(folder)):
        if name.startswith("e") and int(name[1:]) <= epoch - EPOCHS_KEPT:
            remove(f"{folder}/{name}")
    time.sleep(cut_after_us / 1e6)
    cut_power_unless_failed()


def read(path: str) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    parts = []
    while part := os.read(file, 1 << 20):
        parts.append(part)
    os.close(file)
    return b"".join(parts)


def describe(found: bytes | None, wanted: bytes | None) -> str:
    if found is None or wanted is None:
        return f"is {'gone' if found is None else 'there'}, should be {'gone' if wanted is None else 'there'}"
    pairs = zip(found, wanted, strict=False)
    first = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(found), len(wanted)))
    return (
        f"{len(found)} bytes for {len(wanted)}; from byte {first} on {found[first : first + 48]!r} "
        f"for {wanted[first : first + 48]!r}"
    )


def verify_worker(root: str, key: tuple[int, int, int], last: int, remarks: list[str]) -> list[str]:
    """The damage to a worker's files, given its last acknowledged operation."""
    state: State = {}
    for number in range(1, last + 1):
        state = operation(state, *key, number).apply(state)
    following = operation(state, *key, last + 1)
    after = following.apply(state)
    touched = {following.name, following.target} - {""}
    found = {name: read(f"{root}/{name}") for name in NAMES}
    damage = []
    for name in NAMES:
        seen, before = found[name], state.get(name)
        if name in touched and following.may_leave(name, seen, before, after.get(name)):
            continue
        if seen != before:
            damage.append(f"{root}/{name} after operation {last}: {describe(seen, before)}")
    if following.kind == "rename" and not damage:
        pair = (found[following.name], found[following.target])
        if pair == (state[following.name], after[following.target]):
            remarks.append(f"{root}: {following.name} has the name {following.target}, too")
        elif pair not in [(at.get(following.name), at.get(following.target)) for at in (state, after)]:
            left = ", ".join(f"{name} {describe(found[name], state.get(name))}" for name in sorted(touched))
            damage.append(f"{root}: renaming {following.name} to {following.target} left {left}")
    listed = {f"{folder}/{name}" for folder in ("d0", "d1") for name in os.listdir(f"{root}/{folder}")}
    damage += [f"{root}/{name}: nobody made it" for name in sorted(listed - set(NAMES))]
    return damage


def verify_noise(root: str, seed: int, epoch: int) -> list[str]:
    """Nobody has promised anything of these, but that no file holds what was not written to it."""
    damage = []
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        number = int(name.partition(".")[2])
        found = read(f"{root}/{name}") or b""
        wanted = content(Dice(seed, epoch, number).below(256 << 10), seed, epoch, number)
        sound = len(found) <= len(wanted) and all(
            block in (wanted[at : at + len(block)], bytes(len(block)))
            for at in range(0, len(found), SECTOR)
            for block in [found[at : at + SECTOR]]
        )
        if not sound:
            damage.append(f"{root}/{name} holds what was never written to it: {describe(found, wanted)}")
    return damage


def verify(folder: str, notes: Notes, seed: int, epoch: int, workers: int) -> int:
    """Everything that was acknowledged before this epoch; returns the exit status."""
    damage, remarks = [], list[str]()
    operations = 0
    for past in range(max(0, epoch - EPOCHS_KEPT), epoch):
        for worker in range(workers):
            last = notes.acknowledged(past, worker)
            if last >= 0:
                operations += last
                root = f"{folder}/e{past}/w{worker}"
                try:
                    damage += verify_worker(root, (seed, past, worker), last, remarks)
                except OSError as error:
                    damage.append(f"{root} after operation {last}: {error}")
        try:
            damage += verify_noise(f"{folder}/e{past}/noise", seed, past)
        except OSError as error:
            damage.append(f"epoch {past}, files that nobody synced: {error}")
    print(f"verified {operations}")
    print("\n".join([*damage[:20], *(f"remark: {remark}" for remark in remarks)]))
    return 1 if damage else 0


def main(mode: str, folder: str, notes: str, *numbers: str) -> int:
    arguments = list(map(int, numbers))
    if mode == "verify":
        return verify(folder, Notes(notes), *arguments)
    work(folder, Notes(notes), *arguments)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
