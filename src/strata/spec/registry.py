# SPDX-License-Identifier: Apache-2.0
"""The layers and workloads that a study may name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Generic, TypeVar

from pydantic import BaseModel

from strata.spec.layer import Layer
from strata.spec.workload import Workload

T = TypeVar("T", bound=BaseModel)


class Registry(Mapping[str, type[T]], Generic[T]):
    """Types by name, in alphabetical order.

    The key ``discriminator`` of a study file holds the name: ``layer``, ``workload`` or ``fault``. It is the
    default of this field of each type.
    """

    def __init__(self, discriminator: str, types: list[type[T]]) -> None:
        self.discriminator = discriminator
        self._types: dict[str, type[T]] = {}
        for registered in types:
            name = registered.model_fields[discriminator].default
            if not isinstance(name, str) or name in self._types:
                raise TypeError(f"{registered.__name__} has no name of its own: {name!r}")
            self._types[name] = registered
        self._types = dict(sorted(self._types.items()))

    def __getitem__(self, name: str) -> type[T]:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


def discover(package: ModuleType, base: type[T], discriminator: str) -> Registry[T]:
    """Import every module below ``package`` and register the subclasses of ``base`` that have a name."""
    types: list[type[T]] = []
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        types.extend(
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, base)
            and value.__module__ == module.__name__
            and isinstance(value.model_fields[discriminator].default, str)
        )
    return Registry(discriminator, types)


@dataclass(frozen=True)
class Catalogue:
    """The layers and workloads that a study file may name: `strata.plan.catalogue.catalogue()`."""

    layers: Registry[Layer]
    workloads: Registry[Workload]
