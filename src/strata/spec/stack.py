# SPDX-License-Identifier: Apache-2.0
"""A stack: its devices, its layers from the disks upwards, and what each of them stands on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strata.spec.joint import Offer
from strata.spec.layer import Layer, LayerContext


@dataclass(frozen=True)
class Stack:
    """A stack: its devices by name, and its layers from the disks upwards.

    Attributes:
        devices: Those that the lowest layer stands on. What layers name by their keys comes besides.
    """

    name: str
    devices: tuple[str, ...]
    layers: tuple[Layer, ...]

    @property
    def layer_names(self) -> tuple[str, ...]:
        """A name for each layer: its kind, numbered from the second of a kind on."""
        names: list[str] = []
        for index, layer in enumerate(self.layers):
            earlier = sum(other.layer == layer.layer for other in self.layers[:index])
            names.append(f"{layer.layer}-{earlier + 1}" if earlier else layer.layer)
        return tuple(names)

    @property
    def all_devices(self) -> tuple[str, ...]:
        """Its devices, and those that keys of its layers name."""
        named = [name for layer in self.layers for name in names_of(layer)]
        return tuple(dict.fromkeys([*self.devices, *named]))

    def unavailable(self) -> str | None:
        """Why no machine can build one of its layers, as a sentence."""
        return next((why for layer in self.layers if (why := layer.unavailable())), None)

    def offers(self, capacities_bytes: Mapping[str, int]) -> list[Offer]:
        """What the devices offer to the lowest layer, that to the next, and so on to what a workload gets."""
        offers = [Offer("block", tuple(capacities_bytes[name] for name in self.devices))]
        for layer in self.layers:
            offers.append(layer.offer(offers[-1]))
        return offers

    def contexts(self, capacities_bytes: Mapping[str, int], seed: int) -> list[LayerContext]:
        """What each layer needs to know, from the lowest on."""
        contexts: list[LayerContext] = []
        lower = tuple(f"${{{name}}}" for name in self.devices)
        devices = self.devices
        offers = self.offers(capacities_bytes)
        for index, (name, layer) in enumerate(zip(self.layer_names, self.layers, strict=True)):
            is_top = index == len(self.layers) - 1
            context = LayerContext(
                name=name,
                seed=seed,
                lower=lower,
                offer=offers[index],
                devices=tuple(dict.fromkeys([*devices, *names_of(layer)])),
                mount="${mount}" if is_top else f"${{mounts}}/{name}",
            )
            contexts.append(context)
            lower, devices = (layer.path(context),), ()
        return contexts


def names_of(layer: Layer) -> Iterable[str]:
    """The devices that a layer's keys name."""
    return (name for names in layer.named_devices().values() for name in names)
