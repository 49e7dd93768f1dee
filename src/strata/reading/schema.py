# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of study files, for editors that complete and check them."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from strata.devices.device import bundled_devices
from strata.devices.faults import FAULTS
from strata.diagnostics.field_meaning import description_of, models_in
from strata.diagnostics.registry import Registry
from strata.model.matrix import FactorTable
from strata.model.study import DeviceTable, HeadTable, StackTable
from strata.model.survival import Survival
from strata.reading.entries import Catalogue
from strata.units import describe_duration, describe_size

_NAME_PATTERN: Final = "^[a-z][a-z0-9]*(-[a-z0-9]+)*$"


def study_schema(catalogue: Catalogue) -> dict[str, Any]:
    """The schema of each table, with the layers and workloads of the catalogue distinguished by their names.

    Only `strata check` sees relations between tables, such as a layer on another.
    """
    definitions: dict[str, Any] = {}
    stack = _table(StackTable, definitions)
    stack["properties"]["layers"] |= {
        "items": _one_of(catalogue.layers, definitions),
        "examples": [[{"layer": name}] for name in catalogue.layers],
    }
    stack["properties"]["each"]["items"] = stack["properties"]["layers"]["items"]
    definitions["FilesystemTable"]["properties"]["layers"]["items"] = stack["properties"]["layers"]["items"]
    device = _table(DeviceTable, definitions)
    device["properties"]["model"]["examples"] = bundled_devices()
    device["properties"]["faults"] |= {
        "items": _one_of(FAULTS, definitions),
        "examples": [[{"fault": "gone", "at": "30s"}]],
    }
    workload = _one_of(catalogue.workloads, definitions)
    # Pydantic makes the base class of a workload within a workload; it may be any that is not compound.
    simple = [f"workload-{name}" for name, each in catalogue.workloads.items() if not each.is_compound]
    definitions["Workload"] = {"type": "object", "oneOf": [{"$ref": f"#/$defs/{each}"} for each in simple]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Strata study",
        "type": "object",
        "additionalProperties": False,
        "required": ["study", "devices", "stacks", "workloads"],
        "properties": {
            "study": _table(HeadTable, definitions),
            "devices": _named(device, "The disks, by name"),
            "stacks": _named(stack, "The stacks to compare, by name"),
            "workloads": _named(workload, "The workloads, by name"),
            "matrix": _named(_table(FactorTable, definitions), "The factors, by name"),
            "survival": _table(Survival, definitions),
            "exclude": {
                "type": "array",
                "description": "Combinations that are left out: levels of factors that must all be met",
                "items": {"type": "object", "minProperties": 1},
            },
        },
        "$defs": definitions,
    }


def table_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of one table alone."""
    return _table(model, {})


def _table(model: type[BaseModel], definitions: dict[str, Any]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    inner = schema.pop("$defs", {})
    definitions.update(inner)
    for table in models_in(model):
        properties = (schema if table is model else inner.get(table.__name__, {})).get("properties", {})
        for name, field in table.model_fields.items():
            if (text := description_of(table, name)) and (key := properties.get(field.alias or name)):
                key["description"] = text
    tables = [schema, *(each for each in inner.values() if "properties" in each)]
    for key in (key for table in tables for key in table["properties"].values()):
        # Models hold integers, files hold texts with units: an editor is to offer the text.
        if key.get("type") == "string" and isinstance(key.get("default"), int):
            describe = describe_duration if "ns|" in key["pattern"] else describe_size
            key["default"] = describe(key["default"])
    return schema


def _one_of(registry: Registry[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    for name, registered in registry.items():
        schema = _table(registered, definitions)
        schema["required"] = [registry.discriminator, *schema.get("required", [])]
        # Editors show the first paragraph.
        schema["description"] = (registered.__doc__ or "").strip().partition("\n\n")[0]
        definitions[f"{registry.discriminator}-{name}"] = schema
    return {
        "type": "object",
        "oneOf": [{"$ref": f"#/$defs/{registry.discriminator}-{name}"} for name in registry],
    }


def _named(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "minProperties": 1,
        "propertyNames": {"pattern": _NAME_PATTERN},
        "additionalProperties": schema,
    }
