# SPDX-License-Identifier: Apache-2.0
"""Reading study.json, result.json and findings.json; an unusable file is refused with a remedy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from strata.errors import ResultError
from strata.files import explained, read_plain, write_durably
from strata.model.histogram import BadHistogram, bins
from strata.plan.model import canonical_json, sha256_hex
from strata.results.record import RESULT_VERSION, STUDY_VERSION, ResultRecord, StudySnapshot, record_sha256

Model = TypeVar("Model", bound=BaseModel)

_DAMAGED: Final = (
    "the file was damaged or edited; run the study again: this trial is measured anew, the others are kept"
)
_JOINT: Final = b",\n"
"""Between the two lines of a result.json; neither holds a line break."""
_STUDY_DAMAGED: Final = (
    "the file was damaged or edited: bring it back from a copy, or run the study into another folder; "
    "the records under records/ are not touched"
)


class _OutsideHash(BaseModel):
    """The first line of a result.json."""

    model_config = ConfigDict(extra="forbid", strict=True)

    record_sha256: str
    real_time: dict[str, Any]


@dataclass(frozen=True)
class Sealed:
    """A record, and the hash that it matches."""

    record: ResultRecord
    record_sha256: str


def result_text(record: ResultRecord) -> bytes:
    """Two lines, together one JSON object: first all that the hash leaves out, then canonical JSON."""
    inside = canonical_json(record.model_dump(mode="json", exclude={"real_time"}))
    outside = {"record_sha256": sha256_hex(inside), "real_time": record.real_time.model_dump(mode="json")}
    return canonical_json(outside)[:-1] + _JOINT + inside[1:] + b"\n"


def read_record(path: Path) -> Sealed:
    """A result.json. Raises ResultError if it is missing, damaged or of an unknown version."""
    with explained(path, "read the file", reading=True):
        content = read_plain(path)
    return unsealed(content, path)


def unsealed(content: bytes, path: Path | str) -> Sealed:
    """The same of its content."""
    sealed = _as_written(content) or _read_any(content, path)
    # Found here, an unusable histogram costs its own trial, not the whole table.
    for family, histogram in sealed.record.histograms.items():
        try:
            bins(histogram)
        except BadHistogram as error:
            cause = f"the histogram of {family} cannot be decoded: {error}"
            raise ResultError(cause, place=str(path), remedy=_DAMAGED) from error
    return sealed


def _as_written(content: bytes) -> Sealed | None:
    """Read the bytes of `result_text`, hashed as they are and parsed once; None for another file."""
    first, _, second = content.partition(_JOINT)
    try:
        outside = _OutsideHash.model_validate_json(first + b"}")
        if sha256_hex(b"{" + second.removesuffix(b"\n")) != outside.record_sha256:
            return None
        real_time = canonical_json({"real_time": outside.real_time})[:-1]
        return Sealed(ResultRecord.model_validate_json(real_time + _JOINT + second), outside.record_sha256)
    except ValidationError:
        return None


def _read_any(content: bytes, path: Path | str) -> Sealed:
    plain = _json_object(content, path, _DAMAGED)
    stated = plain.pop("record_sha256", None)
    version = ("result_version", RESULT_VERSION)
    older = "read it with the Strata that wrote it; `strata run` with this one measures the trial anew"
    record = _validated(ResultRecord, plain, version, path, (_DAMAGED, older))
    found = record_sha256(record)
    if found != stated:
        raise ResultError("the result does not match its own hash", place=str(path), remedy=_DAMAGED)
    return Sealed(record, found)


def read_snapshot(path: Path) -> StudySnapshot:
    """A study.json. Raises ResultError if it is damaged or of an unknown version."""
    older = "read the folder with the Strata that wrote it, or run the study into another folder"
    version = ("study_version", STUDY_VERSION)
    return read_model(StudySnapshot, path, version, damaged=_STUDY_DAMAGED, older=older)


def read_model(
    model: type[Model], path: Path, version: tuple[str, int], *, damaged: str, older: str
) -> Model:
    """The content of a JSON file with a version; ``damaged`` and ``older`` are the remedies.

    Raises ResultError if the file cannot be read, is damaged or of an unknown version.
    """
    with explained(path, "read the file", reading=True):
        content = read_plain(path)
    return _validated(model, _json_object(content, path, damaged), version, path, (damaged, older))


def write_model(path: Path, model: BaseModel) -> None:
    text = json.dumps(model.model_dump(mode="json"), indent=1, ensure_ascii=False)
    write_durably(path, text.encode() + b"\n")


def _validated(
    model: type[Model],
    plain: dict[str, Any],
    version: tuple[str, int],
    path: Path | str,
    remedies: tuple[str, str],
) -> Model:
    damaged, older = remedies
    found, known = plain.get(version[0]), version[1]
    if not isinstance(found, int) or isinstance(found, bool):
        raise ResultError("the file does not state its version", place=str(path), remedy=damaged)
    if found != known:
        cause = f"the file is of version {found}, this Strata reads version {known}"
        raise ResultError(cause, place=str(path), remedy=older)
    try:
        return model.model_validate_json(json.dumps(plain))
    except RecursionError as error:
        raise ResultError("nested too deeply", place=str(path), remedy=damaged) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        cause = f"{where}: {first['msg'].lower()}" if where else first["msg"].lower()
        raise ResultError(cause, place=str(path), remedy=damaged) from error


def _json_object(content: bytes, path: Path | str, remedy: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:  # thousands of brackets exhaust the parser's stack
        raise ResultError(f"not JSON: {error}", place=str(path), remedy=remedy) from error
    if not isinstance(value, dict):
        raise ResultError("not a JSON object", place=str(path), remedy=remedy)
    return value
