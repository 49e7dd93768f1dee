# SPDX-License-Identifier: Apache-2.0
"""In every layer, free text of a study reaches a program only through a list of allowed options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from for_all import for_all
from strata.model.allowed import Form, Forms
from strata.model.layer import Layer, Provided
from strata.plan.catalogue import catalogue
from strata.reading.schema import study_schema

LAYERS: Final = list(catalogue().layers.items())
SCHEMA: Final = study_schema(catalogue())
HOSTILE: Final = ("/dev/loop0", "../x", "-x", "a b", "a\nb", "$(x)", "${disk0}", "x,y", "x;y", "\u202e", "")
# Nothing of a path, a list of words, a variable or a terminal's control.
CLEAN: Final = re.compile(r"[A-Za-z0-9@^*:,=._+-]*", re.ASCII)


def free_keys(name: str) -> Iterator[tuple[str, str]]:
    """The keys whose values are no choice, number, size or device of the study, and what they hold."""
    for key, declared in SCHEMA["$defs"][f"layer-{name}"]["properties"].items():
        for kind in declared.get("anyOf", [declared]):
            held = kind.get("items", kind) if kind.get("type") == "array" else kind
            free = held.get("type") in ("string", "object") and not held.keys() & {"enum", "const", "pattern"}
            # The commands of a layer that runs some are for a machine of the user's own alone.
            layer = catalogue().layers[name]
            if free and not layer.runs_commands and key not in ("layer", *layer.device_keys):
                yield key, str(kind["type"])


FREE: Final = [(name, layer, *each) for name, layer in LAYERS for each in free_keys(name)]


def test_the_keys_that_are_written_freely_are_found() -> None:
    found = {(name, key) for name, _, key, _ in FREE}

    assert {("xfs", "mkfs"), ("tmpfs", "mount"), ("zvol", "properties"), ("zpool", "compatibility")} <= found
    assert ("zpool", "log") not in found


@for_all(("name", "layer", "key", "kind"), FREE)
@for_all("text", HOSTILE)
def test_what_is_written_freely_is_refused_unless_it_is_listed(
    name: str, layer: type[Layer], key: str, kind: str, text: str
) -> None:
    value: Any = {"array": [text], "object": {text: 1}, "string": text}[kind]
    try:
        made = layer.model_validate({key: value})
    except ValidationError:
        return
    provided = Provided(layer.requires.kind, (8 << 30,) if layer.requires.fits(1) else ())

    assert kind == "string" or key in layer.allowed, f"{name}: {key} has no list of what is allowed"
    assert [each.key for each in made.diagnostics(provided, {})] == [key]


def each_form(forms: Forms) -> Iterator[tuple[str, Form]]:
    for name, form in forms.items():
        yield name, form
        yield from each_form(form.parts or {})


@for_all(("name", "layer"), LAYERS)
def test_the_lists_are_of_keys_that_the_layer_has_and_say_what_a_value_is(
    name: str, layer: type[Layer]
) -> None:
    allowed: Mapping[str, Forms] = layer.allowed

    assert set(allowed) <= {key for key, _ in free_keys(name)}
    for option, form in (each for forms in allowed.values() for each in each_form(forms)):
        assert CLEAN.fullmatch(option), option
        assert form.instead or form.meaning, option
