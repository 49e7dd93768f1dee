# SPDX-License-Identifier: Apache-2.0
"""Reading study.json, result.json and capabilities.json; an unusable file is refused with a remedy."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from strata.errors import ResultError
from strata.files import explained, read_plain, write_durably
from strata.model.histogram import BadHistogram, bins
from strata.plan.model import sha256_hex
from strata.results.record import RESULT_VERSION, STUDY_VERSION, ResultRecord, StudySnapshot, record_sha256

Model = TypeVar("Model", bound=BaseModel)

_DAMAGED: Final = (
    "the file was damaged or edited; run the study again: this trial is measured anew, the others are kept"
)
_STUDY_DAMAGED: Final = (
    "the file was damaged or edited: bring it back from a copy, or run the study into another folder; "
    "the results under trials/ are not touched"
)
# The parts outside the hash, as `result_text` writes them. A line break cannot stand in a JSON string.
_OUTSIDE_HASH: Final = re.compile(
    rb'\n "real_time": \{\n(?:  [^\n]*\n)+ \},(\n "record_sha256": "([0-9a-f]{64})",)(?=\n)'
)
_VERSION: Final = re.compile(rb'\n "result_version": (\d{1,9}),?\n')
# No record is written deeper; a deeper one is read the slow way.
_DEPTH_MAX: Final = 5


@dataclass(frozen=True)
class Sealed:
    """A record, and the hash that it matches."""

    record: ResultRecord
    record_sha256: str


def result_text(record: ResultRecord) -> bytes:
    return json.dumps(record.to_plain(), indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def read_record(path: Path) -> Sealed:
    """A result.json. Raises ResultError if it is missing, damaged or of an unknown version."""
    with explained(path, "read the file", reading=True):
        content = read_plain(path)
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
    """Read the bytes that ``result_text`` makes in half the time; None for any other file.

    The hash is of the canonical JSON without ``real_time``, which is the text without its indentation: the
    bytes are hashed as they are, and turned into a record only once.
    """
    left_out, version = _OUTSIDE_HASH.search(content), _VERSION.search(content)
    # A colon after a quotation mark within a text looks like the colon after a key.
    if left_out is None or version is None or b'\\": ' in content:
        return None
    if int(version[1]) != RESULT_VERSION:
        return None
    stated = left_out[2].decode()
    if sha256_hex(_unindented(content[: left_out.start()] + content[left_out.end() :])) != stated:
        return None
    try:
        plain = content[: left_out.start(1)] + content[left_out.end(1) :]
        return Sealed(ResultRecord.model_validate_json(plain), stated)
    except ValidationError:
        return None


def _unindented(text: bytes) -> bytes:
    for depth in range(_DEPTH_MAX, -1, -1):
        text = text.replace(b"\n" + b" " * depth, b"")
    return text.replace(b'": ', b'":')


def _read_any(content: bytes, path: Path) -> Sealed:
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


def read_findings(model: type[Model], path: Path, version: tuple[str, int], again: str) -> Model | None:
    """The content of a file that ``again``, a command, makes beside results; None if there is none."""
    with explained(path, "read the file"):
        if not path.exists():
            return None
    anew = f"remove the file and run `{again}` again; what it measured is kept beside it"
    older = f"use the Strata that wrote it, or {anew}"
    return read_model(model, path, version, damaged=anew, older=older)


def write_model(path: Path, model: BaseModel) -> None:
    text = json.dumps(model.model_dump(mode="json"), indent=1, ensure_ascii=False)
    write_durably(path, text.encode() + b"\n")


def _validated(
    model: type[Model], plain: dict[str, Any], version: tuple[str, int], path: Path, remedies: tuple[str, str]
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


def _json_object(content: bytes, path: Path, remedy: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:  # thousands of brackets exhaust the parser's stack
        raise ResultError(f"not JSON: {error}", place=str(path), remedy=remedy) from error
    if not isinstance(value, dict):
        raise ResultError("not a JSON object", place=str(path), remedy=remedy)
    return value
