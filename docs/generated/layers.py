# SPDX-License-Identifier: Apache-2.0
"""Every layer: its interfaces, abilities, prerequisites and options."""

from __future__ import annotations

from typing import Final

from generated.markdown import INTERFACES, codes, prose, table
from strata.plan.catalogue import catalogue
from strata.spec.abilities import Abilities
from strata.spec.allowed import FLAG, Form, Forms, by_form
from strata.spec.layer import Layer

_ABILITIES: Final = {
    "snapshot": "snapshots",
    "clone": "clones of them",
    "restore": "going back to one",
    "send": "sending differences",
    "quota": "limiting a folder",
    "resize": "resizing in use",
    "scrub": "scrubbing",
    "rebuild": "rebuilding onto a spare",
    "allocated": "telling what it has taken",
    "free_space": "telling how its free space is divided",
    "share": "being shared by tenants",
}


def part() -> str:
    """A table of all, then a section for each."""
    found = catalogue().layers
    rows = [
        (f"[`{name}`](#{name})", str(layer.requires), INTERFACES[layer.provides], _abilities(layer))
        for name, layer in found.items()
    ]
    text = table(("Layer", "Stands on", "Gives", "Can try"), rows)
    return text + "".join(_section(name, layer) for name, layer in found.items())


def _section(name: str, layer: type[Layer]) -> str:
    needs = layer.prerequisites
    facts = [
        ("Stands on", str(layer.requires)),
        ("Gives", INTERFACES[layer.provides]),
        ("Can try", _abilities(layer) or "nothing besides"),
        ("Programs", codes(needs.tools)),
        ("Of the kernel", codes((*needs.features, *(f"module:{each}" for each in needs.modules)))),
    ]
    return (
        f"## `{name}`\n\n{prose(layer.__doc__ or '')}\n\n"
        + table(("", ""), [fact for fact in facts if fact[1]])
        + "".join(_allowed(name, key, forms) for key, forms in layer.allowed.items())
        + f"Its keys: [study file](study-file.md#{name}).\n\n"
    )


def _allowed(name: str, key: str, forms: Forms) -> str:
    """The options allowed in a key, by form."""
    rows = [(codes(names), meaning) for meaning, names in by_form(forms, _meaning).items()]
    return f"### Allowed in `{key}` of `{name}`\n\n" + table(("Option", "Takes"), rows)


def _meaning(form: Form) -> str:
    if form.instead is not None:
        return f"given by Strata: {prose(form.instead)}"
    if form.parts is None or all(part == FLAG for part in form.parts.values()):
        return prose(form.meaning) + (", or no value" if form.optional else "")
    parts = [f"{codes(names)}: {meaning}" for meaning, names in by_form(form.parts, _meaning).items()]
    return "separated by commas; " + "; ".join(parts)


def _abilities(layer: type[Layer]) -> str:
    """The abilities that it overrides; `strata capabilities` tries whether they work with given keys."""
    able = [
        words
        for ability, words in _ABILITIES.items()
        if getattr(layer, ability) is not getattr(Layer if ability == "share" else Abilities, ability)
    ]
    return ", ".join(able)
