# SPDX-License-Identifier: Apache-2.0
"""No value of any key that `strata check` accepts brings what lies outside a trial onto a command line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from for_all import for_all
from hostile_corpus import corpus
from hostile_options import Attack, Decoys, drawn, free_keys, study_text
from strata.plan.compile import compile_trial, trials
from study_texts import mistakes, read

SEED: Final = 11
TOGETHER: Final = 100
DECOYS: Final = Decoys(Path("/srv/attack-decoys/file"), "/dev/loop177")
# SQL is a program of the user's own, which the sandbox confines; members are names within an archive.
CONFINED: Final = ("script_text", "script_texts", "init_text", "members")


def mistakes_of(folder: Path, attacks: Sequence[Attack]) -> dict[int, str]:
    """The mistakes of several attacks of one kind, by their numbers."""
    found = {}
    for key, text in mistakes(folder, study_text(list(attacks))).items():
        number = re.match(r"(?:stacks\.s|workloads\.w)(\d+)\.", key)
        assert number, f"a mistake outside of what attacks: {key}: {text}"
        found[int(number[1])] = text
    return found


def carried(folder: Path, attack: Attack) -> list[str]:
    """The decoys' marks that an accepted attack brings into its plan.

    An attack that ends in a traceback counts, too.
    """
    words: list[str] = []
    try:
        study = read(folder, study_text([attack]))
        plans = [compile_trial(study, *each.key) for each in trials(study)]
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    for command in (command for plan in plans for step in plan.steps for command in step.commands):
        words += [*command.argv, *command.environment.values(), command.cwd, command.stdin or ""]
    # No program can be given a NUL.
    marks = ("\0",) if attack.key in CONFINED else ("\0", *DECOYS.marks)
    return [mark for mark in marks if any(mark in word for word in words)]


@pytest.mark.parametrize("kind", ["layers", "workloads"])
def test_the_studies_around_the_attacks_are_sound(tmp_path: Path, kind: str) -> None:
    for name in {name for each, name, _, _ in free_keys() if each == kind}:
        key = kind.removesuffix("s")
        assert mistakes(tmp_path, study_text([Attack(kind, name, key, name)])) == {}  # type: ignore[arg-type]


@for_all("name", corpus(DECOYS))
def test_what_people_found_is_refused(tmp_path: Path, name: str) -> None:
    attack = corpus(DECOYS)[name]

    found = mistakes(tmp_path, study_text([attack]))

    assert found, f"{attack.key} = {attack.value} of {attack.name} is accepted"
    assert all(attack.key in key for key in found)


def accepted(folder: Path, attacks: Sequence[Attack]) -> Iterator[Attack]:
    """The accepted attacks; if one ends in a traceback, its whole batch, for `carried` to judge."""
    by_kind: dict[str, list[Attack]] = defaultdict(list)
    for attack in attacks:
        by_kind[attack.kind].append(attack)
    for same in by_kind.values():
        try:
            refused = mistakes_of(folder, same)
        except Exception:
            yield from (
                each for one in same for each in (accepted(folder, [one]) if len(same) > 1 else [one])
            )
        else:
            yield from (attack for index, attack in enumerate(same) if index not in refused)


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_of_thousands_of_drawn_values_none_that_is_accepted_reaches_outside(
    tmp_path: Path, count: int
) -> None:
    options: set[tuple[str, str]] = set()
    reaching: list[str] = []
    taken = 0
    attacks = list(drawn(count, SEED, DECOYS))
    for first in range(0, count, TOGETHER):
        for attack in accepted(tmp_path, attacks[first : first + TOGETHER]):
            taken += 1
            options.add((attack.place, attack.option))
            if marks := carried(tmp_path, attack):
                reaching.append(f"{attack.place} = {attack.value!r} brings {marks}")

    print(f"{count} drawn, {taken} accepted of {len(options)} options, {count - taken} refused")
    assert reaching == []
    # Where everything is refused, nothing is tested.
    assert len(options) > 25


def test_every_free_key_is_drawn_and_the_same_seed_draws_the_same() -> None:
    attacks = list(drawn(200, SEED, DECOYS))

    assert attacks == list(drawn(200, SEED, DECOYS))
    assert {each.place for each in attacks} == {f"{kind}.{name}.{key}" for kind, name, key, _ in free_keys()}
