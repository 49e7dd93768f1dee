# SPDX-License-Identifier: Apache-2.0
"""Steps in a virtual machine from a user's image: ssh runs their programs, as no agent is in it.

The machine has the trial's folders under the same names, and is thrown away at the end of the trial: nothing
in it is undone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Final

from strata.errors import PlanError
from strata.layers.own_image import ssh_argv
from strata.model.step import BROUGHT, INPUT_PREFIX, Command, Step

_STOPPED: Final = 255  # ssh(1)


def all_by_ssh(steps: Iterable[Step], configuration: str, cgroup: str | None) -> list[Step]:
    """The steps, whose programs run in the machine that ``configuration`` leads to.

    Raises PlanError if one needs a file that only the machine below has, is limited by a control group (by
    ``cgroup`` all are), stops a server or ends early: the end of its login does not end a program.
    """
    held = list(steps)
    for step in held:
        if step.until:
            _refuse(step, "its window ends early by a signal", "leave `until` out")
        if step.cgroup or cgroup:
            _refuse(step, "it is limited by a control group", "limit the machine by its `memory` instead")
    services = {step.id for step in held if step.background and step.stop_signal}
    for step in held:
        files = [name for name in sorted(step.variables) if name in BROUGHT or name.startswith(INPUT_PREFIX)]
        if files:
            _refuse(step, f"it needs {files[0]} of the machine below")
        if services & {*step.takes_down}:
            _refuse(step, "it stops a server")
    return [_by_ssh(step, configuration) for step in held]


_OTHER_LOAD: Final = "take a workload whose programs are in the image, such as command, fio or pgbench"


def _refuse(step: Step, cause: str, remedy: str = _OTHER_LOAD) -> None:
    raise PlanError(
        f"a machine from an image cannot run it: {cause}",
        place=f"step {step.id} ({step.title})",
        remedy=remedy,
    )


def _by_ssh(step: Step, configuration: str) -> Step:
    run = _over(step, configuration)
    copies = {f"{configuration}.{step.id}.{each.name}": each for each in step.collect}
    if copies:
        login = _joined(ssh_argv(configuration))
        fetched = [f"{login} {_quoted(f'cat {each.path}')} > {copy}" for copy, each in copies.items()]
        run = run.model_copy(update={"argv": ("sh", "-c", " && ".join([_joined(run.argv), *fetched]))})
    changed = {name: getattr(run, name) for name in Command.model_fields} | {
        "ready": step.ready and _over(step.ready, configuration),
        "collect": tuple(each.model_copy(update={"path": copy}) for copy, each in copies.items()),
        # A login that a signal stops ends so.
        "expect_exit": (*step.expect_exit, *([_STOPPED] if step.background and step.stop_signal else [])),
        "undo": None,
    }
    return step.model_copy(update=changed)


def _over(command: Command, configuration: str) -> Command:
    """The command as root of the machine runs it, as another user where it says so."""
    settings = [f"{name}={value}" for name, value in command.environment.items()]
    said = _joined([*(["env", *settings] if settings else []), *command.argv])
    if command.user != "root":
        # The one form of su that Linux and FreeBSD share, also for users without a shell.
        said = f"SHELL=/bin/sh su -m {command.user} -c {_quoted(f'exec {said}')}"
    changed = {"argv": (*ssh_argv(configuration), f"cd {_quoted(command.cwd)} && {said}"), "user": "root"}
    return command.model_copy(update=changed | {"environment": {}, "cwd": "${scratch}"})


# Words that no shell changes; these variables stand for paths and names of such characters.
_PLAIN: Final = re.compile(r"(?:[\w@%+=:,./-]|\$\{(?:mounts?|scratch|stack)\})+", re.ASCII)


def _quoted(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else shlex.quote(word)


def _joined(words: Iterable[str]) -> str:
    return " ".join(map(_quoted, words))
