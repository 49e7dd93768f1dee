# SPDX-License-Identifier: Apache-2.0
"""A stack's facts besides its speed: capacity, price, losses, durability, memory, each with its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strata.devices.price import Price
from strata.model.stack import Stack
from strata.model.study import Study
from strata.report.capability_table import TONES
from strata.report.table import Cell, Column, Table
from strata.results.capabilities import Capabilities, PowerCutFinding, lost_words
from strata.rules.redundancy import losses_survived
from strata.words import counted, listed

_TB: Final = 10**12
# Probes of changes to a filesystem in use. "no": it must be unmounted for them, or cannot make them.
_IN_USE: Final = {"grow": "grow", "shrink": "shrink", "snapshot": "take snapshots"}
TITLE: Final = "What the stacks give and cost"
SOURCES: Final = (
    "usable capacity and memory: derived from the layers' declarations for whole disks, without metadata and "
    "page cache",
    "disks that may fail: measured by `strata capabilities --probe disk-loss` where so marked, else declared",
    "price: as the study states it",
    "durable when the power fails: by the settings of disks, layers and servers, and by the power cuts of "
    "[survival] where so marked",
    "not while mounted: measured by `strata capabilities`",
    "measured on: the study",
)


@dataclass(frozen=True)
class StackFacts:
    """A stack's facts; None: not known.

    Attributes:
        losses: How many disks may be lost, whichever they are, by the layers' declarations.
        survives: Whether it survived the loss of any disk when that was tried.
        price: Of all its disks.
        price_per_tb: Of a usable terabyte.
        memory_bytes: The memory of its layers: the ARC, tables of caches, a virtual machine.
        risks: The settings by which a power failure loses acknowledged data, and the losses by power cuts.
        cuts_survived: The power cuts that lost nothing acknowledged, if all of them did.
        unable: The changes that it cannot make while it is mounted.
    """

    stack: str
    raw_bytes: int
    usable_bytes: int
    losses: int
    survives: str | None
    price: Price | None
    price_per_tb: Price | None
    memory_bytes: int
    risks: tuple[str, ...]
    cuts_survived: int
    unable: tuple[str, ...] | None
    aged: str


def facts_of(study: Study, capabilities: Capabilities | None) -> list[StackFacts]:
    """The facts of each stack, in the study's order."""
    return [_facts(study, stack, capabilities) for stack in study.stacks]


def _facts(study: Study, name: str, capabilities: Capabilities | None) -> StackFacts:
    stack = study.stacks[name]
    # Of whole disks, also where a study uses a part of them to be faster.
    capacities = {each: used.device.capacity_bytes for each, used in study.devices.items()}
    # The datasets of one pool share its space.
    apart = (part for part in stack.parts if not part.in_pool)
    usable_bytes = sum(part.offers(capacities)[-1].smallest_bytes for part in apart)
    price = _price_of(study, name)
    per_tb = Price(price.amount * _TB / usable_bytes, price.currency) if price and usable_bytes else None
    found = capabilities.cuts if capabilities is not None else ()
    cuts = [cut for cut in found if cut.stack == name and not _was_degraded(study, cut)]
    risks = [risk for workload in study.workloads for risk in study.power_risks(name, workload)]
    risks += filter(None, [lost_words(cuts)])
    cells = capabilities.cells if capabilities is not None else ()
    verdicts = {cell.probe: cell.verdict for cell in cells if cell.stack == name}
    tried = [probe for probe in _IN_USE if verdicts.get(probe) in ("yes", "no")]
    unable = tuple(_IN_USE[probe] for probe in tried if verdicts[probe] == "no")
    return StackFacts(
        stack=name,
        raw_bytes=sum(capacities[used.name] for used in study.stack_devices(name)),
        usable_bytes=usable_bytes,
        losses=losses_survived(stack, capacities),
        survives=verdicts.get("disk-loss"),
        price=price,
        price_per_tb=per_tb,
        memory_bytes=_memory_bytes(study, stack, capacities),
        risks=tuple(dict.fromkeys(risks)),
        cuts_survived=0 if risks else sum(cut.durability_held is True for cut in cuts),
        unable=unable if tried else None,
        aged=f"aged: {study.age}" if study.age is not None else "new filesystems",
    )


def _was_degraded(study: Study, cut: PowerCutFinding) -> bool:
    load = study.workloads.get(cut.workload)
    return load is not None and load.loses_disk


def _price_of(study: Study, name: str) -> Price | None:
    """The price of a stack's disks, if each has one."""
    prices = [used.price for used in study.stack_devices(name)]
    known = [each for each in prices if each is not None]
    if not known or len(known) < len(prices):
        return None
    return Price(sum(each.amount for each in known), known[0].currency)


def _memory_bytes(study: Study, stack: Stack, capacities: Mapping[str, int]) -> int:
    """The memory of the layers; that of what is in a virtual machine is a part of the machine's.

    Of machines, and of other layers of their own, each tenant has one.
    """
    layers, named = stack.every_layer, stack.capacities(capacities)
    machine = next((index for index, each in enumerate(layers, 1) if each.machine_bytes()), None)
    tenants = max(len(load.tenants()) for load in study.workloads.values()) or 1
    return sum(
        (each.kernel_memory_bytes() + each.tables_bytes(named) + each.machine_bytes())
        * (tenants if len(stack.common) <= index < len(stack.layers) else 1)
        for index, each in enumerate(layers[:machine])
    )


def facts_table(facts: Sequence[StackFacts]) -> Table:
    """A row per stack; columns that no stack knows anything of are left out."""
    columns: dict[Column, list[Any]] = {
        Column("stack", "stack"): [each.stack for each in facts],
        Column("usable", "B"): [each.usable_bytes for each in facts],
        Column("of its disks", "B"): [each.raw_bytes for each in facts],
        Column("disks that may fail"): [_losses(each) for each in facts],
        Column("durable"): [_durable(each) for each in facts],
        Column("price"): [each.price and str(each.price) for each in facts],
        Column("per usable TB"): [each.price_per_tb and str(each.price_per_tb) for each in facts],
        Column("memory", "B"): [each.memory_bytes for each in facts],
        Column("not while mounted"): [
            None if each.unable is None else listed(list(each.unable)) or "nothing" for each in facts
        ],
        Column("measured on"): [each.aged for each in facts],
    }
    kept = {column: cells for column, cells in columns.items() if any(each is not None for each in cells)}
    return Table(tuple(kept), [*zip(*kept.values(), strict=True)], TITLE)


def _losses(facts: StackFacts) -> Cell:
    if facts.survives in ("yes", "no", "partial"):
        said = {"yes": str(max(1, facts.losses)), "no": "none", "partial": "one, then read only"}
        return Cell(f"{said[facts.survives]} (measured)", tone=TONES[facts.survives])  # type: ignore[index]
    return Cell(str(facts.losses) if facts.losses else "none")


def _durable(facts: StackFacts) -> Cell:
    if not facts.risks:
        cuts = facts.cuts_survived
        said = f"yes (measured in {counted(cuts, 'power cut')})" if cuts else "yes"
        return Cell(said, tone="good")
    # "zfs: sync = disabled: it acknowledges …": the place and the setting, without the effect.
    settings = (": ".join(risk.split(": ")[:2]) for risk in facts.risks)
    return Cell("no", tone="bad", remark="; ".join(settings))
