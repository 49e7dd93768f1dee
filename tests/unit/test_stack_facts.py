# SPDX-License-Identifier: Apache-2.0
"""What a stack gives and costs, with its sources, and the commands that build it on a real machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from golden_studies import LAYER_CASES, study_of
from strata.devices.price import Price
from strata.plan.commands import build_commands
from strata.report.stack_facts import StackFacts, facts_of, facts_table
from strata.report.table import markdown
from strata.results.capabilities import Capabilities, Capability, PowerCutFinding, Verdict
from study_texts import HEAD, disk, fio, mistakes, read

STUDY = HEAD + disk("disk0", capacity="16GiB") + "{price}\n" + disk("disk1", capacity="16GiB") + "{other}\n"
STUDY += """[stacks.mirror]
layers = [{{ layer = "zpool", vdev = "mirror", arc_max = "256MiB" }}, {{ layer = "zfs" }}]
[stacks.async]
layers = [{{ layer = "zpool", vdev = "mirror" }}, {{ layer = "zfs", sync = "disabled" }}]
"""
STUDY += fio("load")


def text(price: str = 'price = "45 EUR"', other: str = 'price = "55 EUR"') -> str:
    return STUDY.format(price=price, other=other)


def found(tmp_path: Path, written: str = "", capabilities: Capabilities | None = None) -> StackFacts:
    return facts_of(read(tmp_path, written or text()), capabilities)[0]


def tried(**verdicts: Verdict) -> Capabilities:
    cells = [
        Capability(stack="mirror", probe=probe.replace("_", "-"), verdict=verdict)
        for probe, verdict in verdicts.items()
    ]
    return Capabilities(study="facts", probes=(), stacks={"mirror": ""}, cells=tuple(cells))


def test_capacity_and_price_are_of_whole_disks_also_where_a_study_uses_a_part(tmp_path: Path) -> None:
    facts = found(tmp_path)

    assert facts.raw_bytes == 2 * 500107862016
    assert facts.usable_bytes == 500107862016
    assert facts.price == Price(100, "EUR")
    assert facts.price_per_tb is not None
    assert facts.price_per_tb.amount == pytest.approx(100 / 0.500107862016)
    assert facts.memory_bytes == 256 << 20


def test_the_memory_of_a_machine_holds_what_its_own_layers_take(tmp_path: Path) -> None:
    below = '{{ layer = "zpool", arc_max = "128MiB" }}, {{ layer = "zvol" }}, {{ layer = "vm" }}, '
    layers = below + '{{ layer = "zpool", arc_max = "64MiB" }}, {{ layer = "zfs" }}'
    study = STUDY.replace(
        '{{ layer = "zpool", vdev = "mirror", arc_max = "256MiB" }}, {{ layer = "zfs" }}', layers
    )
    study = study.replace("[stacks.mirror]", '[stacks.mirror]\ndevices = ["disk0"]')

    facts = found(tmp_path, study.replace(HEAD, HEAD + 'memory = "1GiB"\n').format(price="", other=""))

    assert facts.memory_bytes == (128 + 256) << 20


def test_the_datasets_of_one_pool_share_its_capacity(tmp_path: Path) -> None:
    dataset = '[stacks.mirror.filesystems.wal]\nlayers = [{ layer = "zfs" }]\nmount = "/wal"\n\n'
    facts = found(tmp_path, text().replace("[stacks.async]", f"{dataset}[stacks.async]"))

    assert facts.usable_bytes == 500107862016


def test_without_every_price_there_is_none_and_no_column_for_it(tmp_path: Path) -> None:
    study = read(tmp_path, text(other=""))

    facts = facts_of(study, None)
    assert [each.price for each in facts] == [None, None]
    assert "price" not in markdown(facts_table(facts))


def test_losses_are_declared_until_they_are_tried(tmp_path: Path) -> None:
    declared = markdown(facts_table([found(tmp_path)]))
    measured = markdown(facts_table([found(tmp_path, capabilities=tried(disk_loss="yes"))]))
    refuted = markdown(facts_table([found(tmp_path, capabilities=tried(disk_loss="no"))]))

    assert "| 1 |" in declared
    assert "1 (measured)" in measured
    assert "none (measured)" in refuted


def test_a_price_without_a_currency_is_refused(tmp_path: Path) -> None:
    for price, cause in (
        ("price = 45", "a price has a currency"),
        ('price = "45"', "a price has a currency"),
        ('price = "EUR 45"', "is not a price"),
        ('price = "-1 EUR"', "is not a price"),
        ('price = ["45 EUR"]', "is not a price"),
    ):
        assert cause in mistakes(tmp_path, text(price=price))["devices.disk0.price"]
    two = mistakes(tmp_path, text(other='price = "55 USD"'))["devices.disk1.price"]
    assert "in USD, and another one in EUR" in two


def test_a_mirror_synchronises_disks_that_hold_anything(tmp_path: Path) -> None:
    study = read(
        tmp_path,
        text().replace(
            '{ layer = "zpool", vdev = "mirror", arc_max = "256MiB" }, { layer = "zfs" }',
            '{ layer = "md", level = 1 }, { layer = "ext4" }',
        ),
    )

    commands = build_commands(study, "mirror")

    assert commands[0].startswith("( set -e"), "an error ends these commands, not the shell"
    assert commands[1].startswith("disk0='/dev/disk/by-id/CHOOSE'  # Western Digital RE4")
    assert [line for line in commands if line.startswith("mdadm --create")] == [
        'mdadm --create "/dev/md/${stack}_md" --metadata=1.2 --run "--name=${stack}_md" --level=1 '
        '--bitmap=internal --raid-devices=2 "${disk0}" "${disk1}"'
    ]
    assert "assume-clean" not in "\n".join(commands)
    mounted = "mount --mkdir -t ext4 -o noinit_itable,no_prefetch_block_bitmaps"
    assert f'{mounted} "/dev/md/${{stack}}_md" "${{mount}}"' in commands


@pytest.mark.parametrize("name", LAYER_CASES)
def test_the_commands_of_every_layer_are_a_script(name: str, tmp_path: Path) -> None:
    study = study_of(name, tmp_path)
    for stack in study.stacks:
        script = "\n".join(build_commands(study, stack))
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        assert "volume-key" not in script


def test_power_cuts_of_the_study_say_whether_a_stack_is_durable(tmp_path: Path) -> None:
    for lost, verdict, said in (
        (0, "sound", "yes (measured in 1 power cut)"),
        (7, "sound", "measured in 1 of 1 power cuts: 7 acknowledged operations lost"),
        (None, "sound", "yes"),  # nobody can say
        (None, "not mountable", "measured in 1 of 1 power cuts: not mountable after 1"),
    ):
        cut = {"stack": "mirror", "workload": "load", "seed": 1, "number": 1, "at_ns": 5, "verdict": verdict}
        cuts = (PowerCutFinding.model_validate({**cut, "lost": lost, "acknowledged": lost and 70}),)
        found = Capabilities(study="facts", probes=(), stacks={"mirror": ""}, cuts=cuts)
        study = read(tmp_path, text())

        row = next(
            line for line in markdown(facts_table(facts_of(study, found))).splitlines() if "mirror" in line
        )

        assert said in row
        assert row.count("measured") == said.count("measured")
