# SPDX-License-Identifier: Apache-2.0
"""What a study can ask for beside its loads, a file each: ageing, snapshots, lost disks, restarts, cuts."""

from __future__ import annotations

from typing import Final

from strata.plan.aspects.aged_snapshots import AgedSnapshots
from strata.plan.aspects.ageing import Ageing
from strata.plan.aspects.aspect import Aspect
from strata.plan.aspects.fragmentation import Fragmentation
from strata.plan.aspects.interventions import Interventions
from strata.plan.aspects.power_cut import CutPower
from strata.plan.aspects.restart import Restart
from strata.plan.aspects.scrub import Scrub
from strata.plan.aspects.snapshots import WindowSnapshots
from strata.plan.aspects.tenancy import Apart, Places, Tenancy

ASPECTS: Final[tuple[Aspect, ...]] = (
    CutPower(),
    WindowSnapshots(),
    Interventions(),
    Scrub(),
    Fragmentation(),
    Restart(),
    Tenancy(),
    Ageing(),
    AgedSnapshots(),
    Apart(),
    Places(),
)
"""All aspects, in the order of their reasons, steps and metrics; steps of those that observe come first."""
