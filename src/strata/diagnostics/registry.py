# SPDX-License-Identifier: Apache-2.0
"""Types by the name that a study file gives them."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Generic, TypeVar

from pydantic import BaseModel

from strata.diagnostics.names import did_you_mean, nearest

T = TypeVar("T", bound=BaseModel)


class Registry(dict[str, type[T]], Generic[T]):
    """Types by name, in alphabetical order.

    The key ``discriminator`` of a study file holds the name: ``layer``, ``workload`` or ``fault``. It is the
    default of this field of each type.
    """

    def __init__(self, discriminator: str, types: list[type[T]]) -> None:
        self.discriminator = discriminator
        by_name: dict[str, type[T]] = {}
        for registered in types:
            name = registered.model_fields[discriminator].default
            if not isinstance(name, str) or name in by_name:
                raise TypeError(f"{registered.__name__} has no name of its own: {name!r}")
            by_name[name] = registered
        super().__init__(sorted(by_name.items()))

    def nearest(self, wrong: str) -> str:
        """As `strata.diagnostics.names.nearest`, first by the names that a type is `also_called`."""
        known = [name for name, each in self.items() if wrong.lower() in getattr(each, "also_called", ())]
        return did_you_mean(known) if known else nearest(wrong, self)


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
