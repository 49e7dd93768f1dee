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
# A line alone, so that it is whole however it is pasted.
_UNUSED: Final = (
    'test -b "$disk" && ! lsblk --noheadings --raw --output TYPE,MOUNTPOINTS "$disk" '
    "| grep -Eqv '^(disk|part) ?$' || { echo \"$disk is no disk, or is in use\" >&2; exit 1; }"
)
_WITHOUT_UUID: Final = ("zfs", "tmpfs")
_KERNEL: Final = ("/sys/", "/proc/")
_MACHINE: Final = {"mount": "/mnt/{}", "mounts": "/mnt/{}-parts", "scratch": "/root/{}", "stack": "{}"}


def build_commands(study: Study, stack: str) -> list[str]:
    """The lines that build a stack, to paste into a shell after naming the disks in the first of them.

    A shell of their own runs them, which an error ends, or a disk in use. They are the steps of a trial, as
    measured, without what a trial alone needs; and a RAID synchronises its disks, which hold zeros in a trial
    only. The last lines make the machine bring the stack up when it starts.
    """
    declared = study.stacks[stack]
    steps = [step for part in declared.parts for step in _steps(study, part)]
    nodes = {step.argv[5]: step.argv[4] for step in steps if step.argv[:4] == _COPIED_NODE}
    kept = [step for step in steps if _acts(step, steps, nodes)]
    lines = [_OF_TRIALS.sub("", line) for step in kept for line in _lines(step, nodes)]
    lines += _at_boot(stack, kept)
    uuids = {each: f"uuid{number}" for number, each in enumerate(dict.fromkeys(_UUID.findall(str(lines))), 1)}
    lines = [_UUID.sub(lambda found: f"${{{uuids[found[0]]}}}", line) for line in lines]
    made = [f"{name}=$(uuidgen)" for name in uuids.values()]
    return [*_head(study, declared, lines), *made, *lines, ")"]


def _steps(study: Study, stack: Stack) -> Iterator[Step]:
    # A study uses a part of each disk, a machine all of it.
    disks = {
        name: replace(each, capacity_bytes=each.device.capacity_bytes) for name, each in study.devices.items()
    }
    study = replace(study, devices=disks)
    ratio = study.machine_ratio
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
        yield f"{_shell(disk)}='/dev/disk/by-id/CHOOSE'  # {title}; its content is destroyed"
    if stack.all_devices:
        names = " ".join(f'"${{{_shell(disk)}}}"' for disk in stack.all_devices)
        yield f"for disk in {names}; do {_UNUSED}; done"
    for name, value in _MACHINE.items():
        if f"${{{name}}}" in "\n".join(lines):
            yield f"{name}={value.format(stack.name)}"


def _at_boot(stack: str, steps: Sequence[Step]) -> Iterator[str]:
    """The lines that make the machine bring it up: mounts, arrays, encrypted volumes, settings."""
    for step in steps:
        match step.argv:
            case ("mount", *_, source, target):
                yield _fstab(step.argv, _word(source), _word(target))
            case ("mdadm", "--create", array, *_):
                yield f"mdadm --detail --brief {_word(array)} >> /etc/mdadm/mdadm.conf"
                yield "update-initramfs -u"
            case ("cryptsetup", "open", *_, source, name):
                yield f"printf '%s %s none luks\\n' {_word(name)} {_uuid(_word(source))} >> /etc/crypttab"
            case ("zpool", "create", *_):
                yield "systemctl enable zfs-import-cache.service zfs-import.target zfs.target"
            case (program, *_) if step.undo is not None and not _is_kept(step):
                yield f"# {program} is not repeated when the machine starts: repeat its lines above yourself"
    yield from _unit(stack, [line for step in steps for line in _settings(step)])


def _unit(stack: str, settings: Sequence[str]) -> Iterator[str]:
    """The lines that make a service of these."""
    if settings:
        head = ["[Unit]", f"Description=Settings of {stack}", "After=local-fs.target zfs-import.target"]
        unit = [*head, "[Service]", "Type=oneshot", *settings, "[Install]", "WantedBy=multi-user.target"]
        words = " ".join(f'"{line}"' for line in unit)
        yield f"printf '%s\\n' {words} > /etc/systemd/system/strata-{stack}.service"
        yield f"systemctl enable strata-{stack}.service"


def _is_kept(step: Step) -> bool:
    """Whether the machine repeats by itself what the step does: udev finds volumes of LVM and bcache."""
    return step.argv[0] in {"lvcreate", "vgchange", "vgcreate", "lvconvert", "lsblk"} or bool(_settings(step))


def _settings(step: Step) -> list[str]:
    """The lines of a unit that repeat the step, if it sets something of the kernel; they may fail."""
    path = _inner(step.argv[-1])
    if not path.startswith(_KERNEL) or step.argv[0] not in ("tee", "mkdir"):
        return []
    if step.argv[0] == "mkdir":
        return [f"ExecStart=-/bin/mkdir {path}"]
    return [f"ExecStart=-/bin/sh -c 'echo {_inner((step.stdin or '').rstrip())} > {path}'"]


def _fstab(argv: Sequence[str], source: str, target: str) -> str:
    kind = argv[argv.index("-t") + 1]
    options = argv[argv.index("-o") + 1] if "-o" in argv else "defaults"
    after = ",x-systemd.requires=zfs-import.target" if kind == "zfs" else ""
    what = source if kind in _WITHOUT_UUID else _uuid(source)
    checked = 2 if kind.startswith("ext") else 0
    words = f"{what} {target} {kind} {_word(f'{options},nofail{after}')} {checked}"
    return f"printf '%s %s %s %s 0 %s\\n' {words} >> /etc/fstab"


def _uuid(source: str) -> str:
    return f'"UUID=$(blkid --match-tag UUID --output value {source})"'


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


def _inner(word: str) -> str:
    """A word within double quotes of a shell."""
    quoted = re.sub(r'(["`\\])', r"\\\1", word)
    return _VARIABLE.sub(lambda found: f"${{{_shell(found[1])}}}", quoted).replace("$$", r"\$")


def _word(word: str) -> str:
    if _VARIABLE.search(word):
        return f'"{_inner(word)}"'
    plain = word.replace("$$", "$")
    return plain if _PLAIN.fullmatch(plain) else shlex.quote(plain)
