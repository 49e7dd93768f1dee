# SPDX-License-Identifier: Apache-2.0
"""The study that results belong to, read again from the text that they keep."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strata.errors import ResultError, StrataError, StudyError
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.results.record import StudySnapshot


def scale_of(snapshot: StudySnapshot) -> float:
    """The share of the declared time and data that the results are of."""
    found = snapshot.described.get("scale", 1.0)
    return found if isinstance(found, float) and 0 < found < 1 else 1.0


def declared_study(
    snapshot: StudySnapshot,
    *,
    has_inputs: bool = True,
    full: bool = False,
    file: Path | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Study:
    """The study of the kept text, at the scale of the results unless the ``full`` one is asked for.

    Results do not keep the files beside a study: one with inputs is read from the ``file`` of the same text,
    without its inputs, or not at all. ``changes`` are those of `load_study`, which refuses some.

    Raises ResultError if no text is kept, or if it is no study: an edited one, or one with files beside it;
    StudyError if the file has another text, or the changes are refused.
    """
    scale = 1.0 if full else scale_of(snapshot)
    if file is not None:
        study = load_study(file, catalogue(), has_inputs=has_inputs, scale=scale, changes=changes)
        if file.read_text() != snapshot.text:
            cause, remedy = "this is not the study of the results", "run it again with `strata run`"
            raise StudyError(cause, place=str(file), remedy=remedy)
        return study
    if not snapshot.text:
        cause, remedy = "the results do not keep the text of their study", "run it again with `strata run`"
        raise ResultError(cause, place="study.json", remedy=remedy)
    with tempfile.TemporaryDirectory(prefix="strata-study-") as folder:
        kept = Path(folder) / "study.toml"
        kept.write_text(snapshot.text)
        try:
            return load_study(kept, catalogue(), has_inputs=has_inputs, scale=scale, changes=changes)
        except StrataError as error:
            if changes:
                raise
            first = getattr(error, "diagnostics", [error])[0]
            raise ResultError(
                f"the study that the results keep cannot be read: {first.cause}",
                place="study.json",
                remedy="run it again with `strata run`; files beside a study are not kept in its results",
            ) from error
