# SPDX-License-Identifier: Apache-2.0
"""Options that attack: every free key of every layer and workload, crossed with what lies outside a trial.

`drawn` draws any number of them, the same for the same seed; `hostile_corpus` has attacks that people found.
The attacks aim at decoys made for the test: a file, a folder, a device, and names that do not exist.
"""

from __future__ import annotations

import random
import tomllib
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from golden_studies import layers_of
from option_names import names_for
from small_loads import LOWEST, SMALL
from strata.model.duties import RunsPrograms
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from study_texts import toml

Kind = Literal["layers", "workloads"]

_HEAD: Final = (
    '[study]\nname = "hostile"\nquestion = "What is outside?"\nseeds = [1]\nphases = "fixed"\n'
    'time_limit = "60s"\nsample_interval = "500ms"\n'
)
_FIO: Final[dict[str, object]] = {
    "workload": "fio",
    "preset": "random-mix-4k",
    "size": "1MiB",
    "duration": "10ms",
}
# Options that keep the workloads short; all others are as in `SMALL`.
_SHORT: Final[dict[str, dict[str, object]]] = {
    "fio": _FIO,
    "pgbench": {"workload": "pgbench", "scale": 1, "clients": 1, "warmup": "1s", "duration": "1s"},
}
_DEVICE_BYTES: Final = {"layers": "512MiB", "workloads": "8GiB"}


@dataclass(frozen=True)
class Decoys:
    """The targets of the attacks.

    Attributes:
        file: A file that is there; ``new`` is one that is not, beside it.
        device: A block device that is no part of any trial.
    """

    file: Path
    device: str

    @property
    def new(self) -> str:
        """A path at which nothing is."""
        return str(self.file.with_name("attack-new"))

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts in a command line that name a decoy."""
        return (self.file.parent.name, self.device, "attack-new")


@dataclass(frozen=True)
class Attack:
    """One value of one key of a layer or workload.

    Attributes:
        option: The option that it draws on, as its program writes it.
    """

    kind: Kind
    name: str
    key: str
    value: Any
    option: str = ""

    @property
    def place(self) -> str:
        return f"{self.kind}.{self.name}.{self.key}"

    @property
    def tables(self) -> tuple[int, list[dict[str, object]], dict[str, object]]:
        """Disks, layers and workload, with the value in its place."""
        disks, layers, load = base(self.kind, self.name)
        table = (
            load if self.kind == "workloads" else next(each for each in layers if each["layer"] == self.name)
        )
        table[self.key] = self.value
        return disks, layers, load


def base(kind: Kind, name: str) -> tuple[int, list[dict[str, object]], dict[str, object]]:
    """Disks, layers and workload of the small sound study around a layer or a workload."""
    if kind == "layers":
        return (*layers_of(name), dict(_FIO))
    short = _SHORT.get(name) or {"workload": name, **tomllib.loads(SMALL[name])}
    return 1, [{"layer": LOWEST.get(name, "ext4")}], dict(short)


def study_text(attacks: list[Attack]) -> str:
    """A study of several attacks of one kind: stacks ``s0``, ``s1``, … or workloads ``w0``, ``w1``, …"""
    tables = [attack.tables for attack in attacks]
    kind, disks = attacks[0].kind, max(count for count, _, _ in tables)
    parts = [_HEAD]
    for index in range(disks):
        parts.append(f'[devices.disk{index}]\nmodel = "wd-re4-500gb"\ncapacity = "{_DEVICE_BYTES[kind]}"\n')
    for index, (count, layers, load) in enumerate(tables):
        if kind == "layers" or index == 0:
            named = {
                name
                for each in layers
                for key in catalogue().layers[str(each["layer"])].device_keys
                for name in _words(each.get(key))
            }
            below = [f"disk{number}" for number in range(count) if f"disk{number}" not in named]
            below = [] if layers[0]["layer"] == "tmpfs" else below
            parts.append(f"[stacks.s{index}]\ndevices = {toml(below)}\nlayers = {toml(layers)}\n")
        if kind == "workloads" or index == 0:
            parts.append(f"[workloads.w{index}]\n" + "".join(f"{key} = {toml(load[key])}\n" for key in load))
    return "\n".join(parts)


def _words(value: object) -> list[str]:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, list) else []


def unchecked(study: Study, attacks: list[Attack]) -> Study:
    """A sound study with the values of attacks in it, as if the check had a hole."""
    stacks, loads = {}, {}
    for index, attack in enumerate(attacks):
        if attack.kind == "layers":
            stack = study.stacks["s0"]
            layers = tuple(
                each.model_copy(update={_field(each, attack.key): attack.value})
                if each.layer == attack.name
                else each
                for each in stack.layers
            )
            stacks[f"s{index}"] = replace(stack, name=f"s{index}", layers=layers)
        else:
            load = study.workloads["w0"]
            loads[f"w{index}"] = load.model_copy(update={_field(load, attack.key): attack.value})
    return replace(study, stacks=stacks or study.stacks, workloads=loads or study.workloads)


def _field(model: Any, key: str) -> str:
    fields: dict[str, Any] = type(model).model_fields
    return next(name for name, field in fields.items() if (field.alias or name) == key)


@cache
def free_keys() -> tuple[tuple[Kind, str, str, str], ...]:
    """Every key that takes text of the user's own: kind, name, key, and its shape: words, table or text."""
    known = catalogue()
    registries: tuple[tuple[Kind, Any], ...] = (("layers", known.layers), ("workloads", known.workloads))
    return tuple(
        (kind, name, field.alias or key, shape)
        for kind, registry in registries
        for name, model in registry.items()
        # Whose keys are programs to run.
        if not issubclass(model, RunsPrograms) and not getattr(model, "runs_commands", False)
        for key, field in model.model_fields.items()
        if (shape := _shape(field.annotation))
    )


def _shape(annotation: Any) -> str:
    """The form in which a key takes text: ``words``, ``table``, ``text``; empty if it takes none."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape(inner[0])
    if origin in (Union, types.UnionType):
        return next(filter(None, map(_shape, inner)), "")
    if origin is list:
        return "words" if _shape(inner[0]) == "text" else ""
    if origin is dict:
        return "table"
    return "text" if annotation is str else ""


_BENIGN: Final = (
    *("0", "1", "2", "4", "5", "16", "512", "4096", "64k", "1m", "16MB", "on", "off", "none", "ordered"),
    *("lz4", "zstd", "sha256", "internal", "^has_journal", "strata", "true", "replica", "O_DIRECT"),
    *("randwrite", "psync"),
)
_LOOKALIKES: Final = str.maketrans(
    {"-": "\u2010", "/": "\u2215", "=": "\uff1d", "e": "\u0435", "o": "\u03bf"}
)


def hostile_values(decoys: Decoys) -> tuple[str, ...]:
    """Values that reach outside a trial if a program interprets them."""
    file, new, device = str(decoys.file), decoys.new, decoys.device
    touch = f"touch {new}"
    relative = "../" * 12 + file.lstrip("/")
    return (
        *(
            file,
            new,
            device,
            relative,
            f"{file}/..",
            f"//{file}",
            f"./../..{new}",
            f"mmap:{file}",
            f"external:{new}.so",
        ),
        *(
            f"/dev/fd/../..{new}",
            f"{device}:{file}",
            f"{file}:{new}",
            f"file://{file}",
            f"exec:{touch}",
            f"sh -c '{touch}'",
        ),
        *(
            touch,
            f"|{touch}",
            f"; {touch}",
            f"&& {touch}",
            f"$({touch})",
            f"`{touch}`",
            f"x\n{touch}\n",
            f"x\0{new}",
        ),
        *(
            f"0,{file}",
            f"1 {file}",
            f"1\t{device}",
            f"size=4m,device={device}",
            f"internal=0,logdev={device}",
        ),
        *(
            file.upper(),
            file.translate(_LOOKALIKES),
            file.replace("/", "%2f"),
            "%s%n%x" + new,
            f"\u202e{new}",
        ),
        *(
            new + "a" * 5000,
            f"${{mount}}/../../..{new}",
            f"${{disk0}},{device}",
            f"$${{scratch}}{new}",
            f"~root/..{new}",
        ),
    )


def _spelled(random_: random.Random, name: str) -> str:
    """A name as programs may also understand it."""
    letters = name.lstrip("-")
    dashes = name[: len(name) - len(letters)]
    return random_.choice(
        (
            *(name, name, name, name, name.upper(), name.title(), letters, f"--{letters}", f"-{letters}"),
            *(
                dashes + letters[: max(2, len(letters) * 2 // 3)],
                name.replace("_", "-"),
                name.replace("-", "_"),
            ),
            *(
                f"loose_{letters}",
                f"skip_{letters}",
                f"maximum-{letters}",
                f"{letters}.{letters}",
                f"{name} ",
            ),
            *(name.translate(_LOOKALIKES), f"{name}\n", f" {name}", name + "\0", f"{name}0"),
        )
    )


def _value(
    random_: random.Random, shape: str, names: tuple[str, ...], hostile: tuple[str, ...]
) -> tuple[Any, str]:
    """A value of a key, and the option that it draws on."""
    option = random_.choice(names)
    name = _spelled(random_, option)
    given = random_.choice(hostile if random_.random() < 0.7 else _BENIGN)
    if shape == "table":
        return {name: random_.choice((given, given, given, 1, True, 0))}, option
    if shape == "text":
        return random_.choice(
            (given, f"{name} {given}", f"SELECT 1;\n{name} {given}\n", f"{given}{name}")
        ), option
    letter, _, inner = name.partition(" ")
    if inner:  # one of several options behind a letter
        words = random_.choice(
            (
                [letter, f"{inner}={given}"],
                [f"{letter}{inner}={given}"],
                [letter, f"size=4m,{inner}={given}"],
                [letter, inner],
            )
        )
    else:
        words = random_.choice(
            (
                [name, given],
                [f"{name}={given}"],
                [f"{name}{given}"],
                [name],
                [given],
                [f"{name} {given}"],
                ["--", given],
            )
        )
    return list(words), option


def drawn(count: int, seed: int, decoys: Decoys) -> Iterator[Attack]:
    """Attacks on all free keys in turn; those with many options come more often."""
    random_ = random.Random(seed)
    hostile = hostile_values(decoys)
    keys = free_keys()
    weights = [len(names_for(f"{kind}.{name}", key)) ** 0.5 for kind, name, key, _ in keys]
    for number in range(count):
        kind, name, key, shape = keys[number] if number < len(keys) else random_.choices(keys, weights)[0]
        value, option = _value(random_, shape, names_for(f"{kind}.{name}", key), hostile)
        yield Attack(kind, name, key, value, option)
