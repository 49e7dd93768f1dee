# SPDX-License-Identifier: Apache-2.0
"""Rules for every layer, in the stacks of its golden cases."""

from __future__ import annotations

import inspect

from for_all import for_all
from golden_studies import LAYER_CASES
from layer_cases import CASES_BY_LAYER, SPARE, own_layer, placed_in, programs, variables_of
from strata.diagnostics.names import disk_of
from strata.model.abilities import Abilities
from strata.model.layer import Geometry, LayerContext, Provided
from strata.model.step import Step
from strata.plan.catalogue import catalogue
from strata.plan.compile import check_steps
from strata.units import parse_size

LAYERS = list(catalogue().layers)
ABILITIES = [
    name for name, _ in inspect.getmembers(Abilities, inspect.isfunction) if not name.startswith("_")
]
# An ability comes with the method that reads its output or drops its result.
PAIRS = [("snapshot", "drop_snapshot"), ("scrub", "scrub_errors"), ("allocated", "allocated_bytes")]
COMES_AFTER = {"drop": "snapshot", "restore": "snapshot", "rebuilt": "rebuild"}
WITHOUT_IDENTITY = {
    "tmpfs",
    "zpool",
    "zfs",
    "zvol",
    "raw",
    "qcow2",
    "guest",
    "directory",
    "incus-dir",
    "overlay",
    "nfs",
}
ANONYMOUS = {"layer-integrity", "layer-incus-zfs"}  # cases of other layers without one
SHELLS = {"sh", "bash", "dash", "env", "sudo", "xargs"}


@for_all("name", LAYERS)
def test_a_layers_programs_are_the_programs_of_its_steps(name: str) -> None:
    """``needs`` names all that building and assembling run, and nothing that no step ever runs."""
    declared: set[str] = set()
    ever: set[str] = set()
    for case in CASES_BY_LAYER[name]:
        own = own_layer(case)
        always = programs([*own.build, *own.assemble])
        needed = set(own.layer.needs().tools)
        assert always <= needed, f"{case}: {name}.needs() lacks {always - needed}"
        declared |= needed
        ever |= always.union(*map(programs, own.abilities().values()))

    assert declared <= ever, f"no step of {name} runs {declared - ever}"


@for_all("case", LAYER_CASES)
def test_it_is_taken_down_by_the_same_undos_however_it_came_up(case: str) -> None:
    """Assembled a layer has the undos that it was built with, in the same order, and no other services."""
    for each in placed_in(case):
        built, assembled = each.build, each.assemble
        assert _undos(built) == _undos(assembled), each.layer.layer
        services = [step.argv for step in built if step.background]
        assert all(step.argv in services for step in assembled if step.background), each.layer.layer


def _undos(steps: list[Step]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(step.undo.argv for step in steps if step.undo is not None))


@for_all("case", LAYER_CASES)
def test_what_is_mounted_or_started_is_undone(case: str) -> None:
    for each in placed_in(case):
        for step in [*each.build, *each.assemble, *each.abilities().get("clone", [])]:
            if step.argv[0] == "mount" and not any("remount" in word for word in step.argv):
                assert step.undo is not None
                assert step.undo.argv == ("umount", step.argv[-1])
            assert step.undo is None or not step.background, f"{step.id} would be taken down twice"


@for_all("case", LAYER_CASES)
def test_assembling_destroys_nothing_and_building_only_what_is_the_layers_own(case: str) -> None:
    for each in placed_in(case):
        assert {name for step in each.assemble for name in step.destroys} == set(), each.layer.layer
        disks = set(map(disk_of, each.context.devices))
        assert {name for step in each.build for name in step.destroys} == disks


@for_all("case", LAYER_CASES)
def test_its_path_is_known_when_it_is_up(case: str) -> None:
    for each in placed_in(case):
        path = each.layer.path(each.context)
        for steps in (each.build, each.assemble):
            bound = {step.binds for step in steps if step.binds}
            unknown = variables_of(path) - each.known_variables - bound

            assert all(name.startswith("nbd-") for name in unknown), f"{path}: {unknown}"
        assert path == each.layer.path(each.context.during("alter", "other")), "the phase is no part of it"


@for_all("case", LAYER_CASES)
def test_it_offers_no_more_than_there_is_below(case: str) -> None:
    """Unless the case gives a size: a thin volume may be larger than its pool."""
    for each in placed_in(case):
        lower = each.context.provided
        provided = each.layer.provided(lower)

        assert provided.kind == each.layer.provides
        assert provided.geometry is None or (provided.kind == "block" and provided.geometry.stripe_bytes > 0)
        assert all(capacity_bytes > 0 for capacity_bytes in provided.capacities_bytes)
        if not any(key.startswith("size") for key in each.layer.model_fields_set):
            assert lower.count == 0 or sum(provided.capacities_bytes) <= sum(lower.capacities_bytes)
        doubled = Provided(lower.kind, tuple(2 * size for size in lower.capacities_bytes), lower.geometry)
        assert each.layer.provided(doubled).smallest_bytes >= provided.smallest_bytes


@for_all("case", LAYER_CASES)
def test_what_it_says_of_its_alignment_is_what_it_does(case: str) -> None:
    own = own_layer(case)
    if own.context.provided.kind != "block" or own.context.provided.count != 1:
        return
    striped = Provided("block", own.context.provided.capacities_bytes, Geometry(64 << 10, 3))
    aligned = own.layer.alignment(striped)
    words = " ".join(" ".join(step.argv) for step in own.layer.build(_on(own.context, striped)))

    for key, value in aligned.items():
        assert key
        given = value if value.isdigit() else str(parse_size(value))
        assert f"{key.split()[-1].replace('_', '-')}={given}" in words.replace("_", "-"), f"{key}: {value}"


def _on(context: LayerContext, lower: Provided) -> LayerContext:
    fields = {name: getattr(context, name) for name in context.__dataclass_fields__}
    return LayerContext(**{**fields, "provided": lower})


@for_all("case", LAYER_CASES)
def test_what_it_can_do_keeps_the_rules_of_a_plan(case: str) -> None:
    own = own_layer(case)
    slots = {name for step in own.build for name in step.variables if name.startswith("nbd-")}
    variables = {*own.known_variables, *slots, SPARE.strip("${}")}
    abilities = own.abilities()
    for ability, steps in abilities.items():
        up = [step for step in own.build if step.phase == "build"]
        up += abilities.get(COMES_AFTER.get(ability, ""), [])
        check_steps([*up, *steps], variables, own.context.devices, place=f"{case}, {ability}")
        for step in steps:
            assert step.phase == "alter", f"{step.id} is not of the phase that was asked for"
            assert step.id.startswith(f"{own.context.name}-{ability}-"), step.id
            assert step.title
            assert not step.title.endswith(".")
            assert not step.destroys or ability == "rebuild", step.id
            for command in step.commands:
                assert command.argv[0] not in SHELLS, step.id
            assert step.cwd.startswith(("${scratch}", "${mount}", "${mounts}")), f"{step.id} stands in /"


@for_all("case", LAYER_CASES)
def test_assembling_can_follow_building_in_one_plan(case: str) -> None:
    """No two steps of a layer have the same id."""
    for each in placed_in(case):
        steps = [*each.build, *each.assemble, *(step for own in each.abilities().values() for step in own)]
        ids = [step.id for step in steps]

        assert len(ids) == len(set(ids))


@for_all("case", LAYER_CASES)
def test_what_it_looks_for_damage_with_is_a_program_that_changes_nothing(case: str) -> None:
    for each in placed_in(case):
        argv = each.layer.check_argv(each.context)
        if argv is not None:
            assert argv[0] not in SHELLS
            assert variables_of(" ".join(argv)) <= each.known_variables


@for_all("case", LAYER_CASES)
def test_it_loses_fewer_devices_than_it_has(case: str) -> None:
    for each in placed_in(case):
        lower = each.context.provided

        assert 0 <= each.layer.losses_survived(lower) < max(lower.count, 1)


@for_all("name", LAYERS)
def test_an_ability_comes_whole(name: str) -> None:
    """A layer that takes snapshots can drop them; a layer that scrubs can read the errors found."""
    layer = catalogue().layers[name]
    own = {each for each in ABILITIES if getattr(layer, each) is not getattr(Abilities, each)}

    for first, second in PAIRS:
        assert (first in own) == (second in own), f"{name} has one of {first} and {second}"
    for needing in ("restore", "clone", "send"):
        assert needing not in own or "snapshot" in own, f"{name}: {needing} needs snapshots"
    assert "receive" not in own or "send" in own


@for_all("case", LAYER_CASES)
def test_its_identities_derive_from_the_seed_and_nothing_else_is_random(case: str) -> None:
    for each in placed_in(case):
        assert each.build == each.build
        other = each.layer.build(LayerContext(**{**vars(each.context), "seed": 2}))
        assert [step.id for step in each.build] == [step.id for step in other]
        assert each.build != other or each.layer.layer in WITHOUT_IDENTITY or case in ANONYMOUS


@for_all("name", LAYERS)
def test_its_default_keys_can_be_built_somewhere(name: str) -> None:
    for case in CASES_BY_LAYER[name]:
        own = own_layer(case)
        defaults = type(own.layer).model_validate(
            {
                field.alias or key: getattr(own.layer, key)
                for key, field in type(own.layer).model_fields.items()
                if field.is_required() or key == "layer"
            }
        )
        assert defaults.unavailable() is None
