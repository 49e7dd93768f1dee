# SPDX-License-Identifier: Apache-2.0
"""The study that results belong to, read again from the text that they keep."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from strata.diagnostics.mistakes import parse_toml, read_toml
from strata.errors import ResultError, StrataError, StudyError
from strata.model.study import Study, StudyDevice
from strata.plan.catalogue import catalogue
from strata.reading.load import read_study
from strata.results.record import StudySnapshot

_AGAIN: Final = "run it again with `strata run`"
_NO_FOLDER: Final = Path(os.devnull)  # no file lies in it


def declared_study(
    snapshot: StudySnapshot,
    changes: Mapping[str, Any] | None = None,
    *,
    has_inputs: bool = True,
    full: bool = False,
    file: Path | None = None,
    disks: Mapping[str, StudyDevice] | None = None,
) -> Study:
    """The study of the kept text, at the scale of the results unless the ``full`` one is asked for.

    Results do not keep the files beside a study: one with inputs is read from its ``file``, without its
    inputs, or not at all. ``changes`` and ``disks`` are those of `load_study`, which refuses some.

    Raises ResultError if no text is kept, or it is no study: an edited one, or one with files beside it;
    StudyError if the file has another text, or the changes are refused.
    """
    options: dict[str, Any] = {
        "has_inputs": has_inputs,
        "scale": 1.0 if full else snapshot.scale,
        "changes": changes,
        "disks": disks,
    }
    if file is not None:
        tables, found = read_toml(file)
        if found.text != snapshot.text:
            raise StudyError("this is not the study of the results", place=str(file), remedy=_AGAIN)
        return read_study(tables, found, file, catalogue(), **options)
    if not snapshot.text:
        cause = "the results do not keep the text of their study"
        raise ResultError(cause, place="study.json", remedy=_AGAIN)
    try:
        tables, found = parse_toml(snapshot.text, "study.json")
        return read_study(tables, found, _NO_FOLDER / snapshot.file, catalogue(), **options)
    except StrataError as error:
        if changes:
            raise
        first = getattr(error, "diagnostics", [error])[0]
        raise ResultError(
            f"the study that the results keep cannot be read: {first.cause}",
            place="study.json",
            remedy=f"{_AGAIN}; files beside a study are not kept in its results",
        ) from error
