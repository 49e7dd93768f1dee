# SPDX-License-Identifier: Apache-2.0
"""The commands that build a stack on a real machine, from its layers' steps: shown to people, never run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from strata.model.stack import Stack
from strata.model.step import Step
from strata.model.study import Study
from strata.plan.placement import placed_layers
from strata.units import describe_size

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VARIABLE: Final = re.compile(r"\$\{([a-z0-9][a-z0-9.-]*)\}")
_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+")
# What a trial needs and a machine does not: identifiers that repeat, a pool that nothing else imports, and
# an LVM that looks at its own devices only.
_OF_TRIALS: Final = re.compile(
    rf" (?:-U|--uuid[ =]|-m uuid=) ?{_UUID.pattern}(?= )|(?<= )hash_seed={_UUID.pattern},"
    rf"|(?<=\n)label-id: {_UUID.pattern}\n| uuid={_UUID.pattern},"
    r"| --norestorefile --uuid \S+| -o cachefile=none| --setautoactivation n| --config=none"
    r"| --homehost=strata| --config '[^']*'| --devices \S+(?: --devices \S+)*"
    r"| --volume-key-file \S+| --key-file -| --batch-mode"
)
_READING: Final = ("awk", "cat", "lsblk", "realpath")
_COPIED_NODE: Final = ("cp", "--archive", "--dereference", "--no-target-directory")
_MACHINE: Final = {"mount": "/mnt/{}", "mounts": "/mnt/{}-parts", "scratch": "/root/{}", "stack": "{}"}


def build_commands(study: Study, stack: str) -> list[str]:
    """The lines that build a stack, to paste into a shell after naming the disks in the first of them.

    A shell of their own runs them, which an error ends. They are the steps of a trial, as measured, without
    what a trial alone needs; and a RAID synchronises its disks, which hold zeros in a trial only.
    """
    declared = study.stacks[stack]
    steps = [step for part in declared.parts for step in _steps(study, part)]
    nodes = {step.argv[5]: step.argv[4] for step in steps if step.argv[:4] == _COPIED_NODE}
    kept = [step for step in steps if _acts(step, steps, nodes)]
    lines = [_OF_TRIALS.sub("", line) for step in kept for line in _lines(step, nodes)]
    uuids = {each: f"uuid{number}" for number, each in enumerate(dict.fromkeys(_UUID.findall(str(lines))), 1)}
    lines = [_UUID.sub(lambda found: f"${{{uuids[found[0]]}}}", line) for line in lines]
    return [*_head(study, declared, lines), *(f"{name}=$(uuidgen)" for name in uuids.values()), *lines, ")"]


def _steps(study: Study, stack: Stack) -> Iterator[Step]:
    # A study uses a part of each disk, a machine all of it.
    disks = {
        name: replace(each, capacity_bytes=each.device.capacity_bytes) for name, each in study.devices.items()
    }
    study = replace(study, devices=disks)
    ratio = (study.machine_memory_bytes or study.memory_bytes) / study.memory_bytes
    used = replace(stack, layers=tuple(each.on_used_disks().with_memory(ratio) for each in stack.layers))
    for layer, context in placed_layers(study, used, 1):
        if not (stack.own and layer.beside):  # which the stack's own layers have made
            yield from (step for step in layer.build(context) if step.phase == "build")


def _acts(step: Step, steps: Sequence[Step], nodes: dict[str, str]) -> bool:
    """Whether a machine needs the step: it changes something, or another one needs what it finds."""
    if step.argv[0] == "mkdir" and any(node.startswith(f"{step.argv[-1]}/") for node in nodes):
        return False
    if step.argv[:4] == _COPIED_NODE or (step.argv[0] == "tee" and step.argv[1].endswith("-volume-key")):
        return False
    if step.argv[0] not in _READING:
        return True
    needed = f"${{{step.binds}}}"
    return step.binds is not None and any(needed in str((each.argv, each.stdin)) for each in steps)


def _head(study: Study, stack: Stack, lines: Sequence[str]) -> Iterator[str]:
    yield "( set -e  # an error ends these commands, not your shell"
    own = [each for each in stack.every_layer if each.with_memory(2) != each]
    if own and study.machine_memory_bytes is None:
        share = f"those of {describe_size(study.memory_bytes)}: give them the same share of your machine's"
        yield f"# sizes of memory are {share}"
    for disk in stack.all_devices:
        title = study.devices[disk].device.title
        yield f"{_shell(disk)}=/dev/disk/by-id/CHOOSE  # {title}; its content is destroyed"
    for name, value in _MACHINE.items():
        if f"${{{name}}}" in "\n".join(lines):
            yield f"{name}={value.format(stack.name)}"


def _shell(name: str) -> str:
    """The name of a variable of a plan, in a shell."""
    return re.sub(r"[.-]", "_", name)


def _lines(step: Step, nodes: dict[str, str]) -> Iterator[str]:
    line = " ".join(_word(nodes.get(word, word)) for word in step.argv)
    if step.stdin and step.argv[0] == "cryptsetup":
        line += "  # asks for a passphrase of yours"
    elif step.stdin:
        line += f" <<< {_word(step.stdin.rstrip())}"
    if step.binds:
        line = f"{_shell(step.binds)}=$({line})"
    yield f"{line} &" if step.background else line


def _word(word: str) -> str:
    if _VARIABLE.search(word):
        quoted = re.sub(r'(["`\\])', r"\\\1", word)
        return (
            '"' + _VARIABLE.sub(lambda found: f"${{{_shell(found[1])}}}", quoted).replace("$$", r"\$") + '"'
        )
    plain = word.replace("$$", "$")
    return plain if _PLAIN.fullmatch(plain) else shlex.quote(plain)
