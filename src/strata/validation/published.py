# SPDX-License-Identifier: Apache-2.0
"""Every published figure of every device, and what the model does."""

from __future__ import annotations

from strata.datasheet.sheet import Figure, data_sheet
from strata.report.wording import significant
from strata.validation.check import Check, Section, Verdict
from strata.validation.library import devices

_NEAR = 0.10
_FAR = 0.25
_TEXT = """What data sheets and reviews say against the model's own data sheet. A figure that was read
somewhere must be met within 25 %; within 10 % counts as agreement without a remark. Where the published
figure was only recalled, or is itself an estimate, a difference proves nothing and is noted. Many
parameters were chosen so that the model gives the published figure: agreement there says that the model
can be that drive, not that it predicts it."""


def examine(*, quick: bool = False) -> Section:
    """The whole library."""
    checks = [
        _check(device.name, figure)
        for device in devices()
        if device.published
        for figure in data_sheet(device, quick=quick)
        if figure.ratio is not None
    ]
    return Section("published", "Published figures of the whole library", _TEXT, tuple(checks))


def _check(name: str, figure: Figure) -> Check:
    published, ratio = figure.published, figure.ratio
    assert published is not None
    assert ratio is not None
    off = abs(ratio - 1)
    verdict: Verdict = "passed"
    if off > _FAR:
        verdict = "noted" if published.estimate else "failed"
    elif off > _NEAR:
        verdict = "noted"
    return Check(
        f"{name}: {figure.title}",
        f"{significant(figure.value)} {figure.unit} ({ratio:.2f} ×)",
        f"{significant(float(published.value))} {published.unit}",
        verdict,
        published.source,
    )
