# SPDX-License-Identifier: Apache-2.0
"""Any choice of a cloud volume is refused, or the volume is as chosen and the driver takes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from strata.datasheet.measure import Subject
from strata.devices.device import bundled_devices, find_device
from strata.devices.provisioning import provision

VOLUMES = [name for name in bundled_devices() if find_device(name).provisioning]
GIB = 1 << 30
MIB = 1 << 20
CHOICE = st.none() | st.integers(1, 100_000)


@examples(100)
@given(st.sampled_from(VOLUMES), CHOICE, st.none() | st.integers(1, 300_000), CHOICE)
def test_a_volume_is_refused_or_is_as_it_was_asked_for(
    name: str, gib: int | None, iops: int | None, mib_per_s: int | None
) -> None:
    device, refused = provision(find_device(name), gib and gib * GIB, iops, mib_per_s and mib_per_s * MIB)

    wrong = {each.key for each in refused}
    asked = {"capacity": gib and gib * GIB, "iops": iops, "throughput": mib_per_s}
    parameters = {"capacity": "capacity", "iops": "operation_rate", "throughput": "byte_rate"}
    for key, value in asked.items():
        if value is not None and key not in wrong:
            assert device.number(parameters[key]) == value
    assert not list(device.model.diagnostics(device))
    Subject(device).open()
