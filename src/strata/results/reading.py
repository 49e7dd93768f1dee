# SPDX-License-Identifier: Apache-2.0
"""Reading study.json and result.json; what cannot be used is refused with the reason and a remedy."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from strata.durable import explained
from strata.errors import ResultError
from strata.folders import read_plain
from strata.plan.model import sha256_hex
from strata.results.record import (
    RESULT_VERSION,
    ResultRecord,
    record_sha256,
)
from strata.results.snapshot import STUDY_VERSION, StudySnapshot
from strata.spec.histogram import BadHistogram, bins

_DAMAGED: Final = (
    "the file was damaged or edited; run the study again: this trial is measured anew, the others are kept"
)
_STUDY_DAMAGED: Final = (
    "the file was damaged or edited: bring it back from a copy, or run the study into another folder; "
    "the results under trials/ are not touched"
)
# What the hash leaves out, as `result_text` writes it. A line break cannot stand in a JSON string.
_OUTSIDE_HASH: Final = re.compile(
    rb'\n "real_time": \{\n(?:  [^\n]*\n)+ \},(\n "record_sha256": "([0-9a-f]{64})",)(?=\n)'
)
_VERSION: Final = re.compile(rb'\n "result_version": (\d{1,9}),?\n')
# Deeper than any record is written; one that is deeper is read the slow way.
_DEPTH_MAX: Final = 5


@dataclass(frozen=True)
class Sealed:
    """A record as it was written, and the hash that it was found to match."""

    record: ResultRecord
    record_sha256: str


def result_text(record: ResultRecord) -> bytes:
    """The content of result.json."""
    return json.dumps(record.to_plain(), indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def read_record(path: Path) -> Sealed:
    """A result.json.

    Raises:
        ResultError: If there is none, or it is damaged or of an unknown version.
    """
    with explained(path, "read the file", reading=True):
        content = read_plain(path)
    sealed = _as_written(content) or _read_any(content, path)
    _check_histograms(sealed.record, path)
    return sealed


def _check_histograms(record: ResultRecord, path: Path) -> None:
    """See that every histogram can be used: one that cannot must not hide the other trials from a table."""
    for family, histogram in record.histograms.items():
        try:
            bins(histogram)
        except BadHistogram as error:
            cause = f"the histogram of {family} cannot be decoded: {error}"
            raise ResultError(cause, place=str(path), remedy=_DAMAGED) from error


def _as_written(content: bytes) -> Sealed | None:
    """A record in the very bytes that ``result_text`` makes, which takes half the time to read.

    The hash is of the canonical JSON without ``real_time``, and that is the text without its indentation: so
    the bytes are hashed as they are, and turned into a record only once.

    Returns:
        None for anything else, such as a file that another program has written anew, or a damaged one.
    """
    left_out, version = _OUTSIDE_HASH.search(content), _VERSION.search(content)
    # After a quotation mark in a text, a colon would be taken for that behind a key.
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
    """Indented JSON without line breaks and spaces between its parts."""
    for depth in range(_DEPTH_MAX, -1, -1):
        text = text.replace(b"\n" + b" " * depth, b"")
    return text.replace(b'": ', b'":')


def _read_any(content: bytes, path: Path) -> Sealed:
    plain = _json_object(content, path, _DAMAGED)
    stated = plain.pop("record_sha256", None)
    _refuse_version(
        plain.get("result_version"),
        RESULT_VERSION,
        path,
        remedy="read it with the Strata that wrote it; `strata run` with this one measures the trial anew",
    )
    try:
        record = ResultRecord.model_validate_json(json.dumps(plain))
    except (ValidationError, RecursionError) as error:
        raise not_valid(error, path, _DAMAGED) from error
    found = record_sha256(record)
    if found != stated:
        raise ResultError("the result does not match its own hash", place=str(path), remedy=_DAMAGED)
    return Sealed(record, found)


def read_snapshot(path: Path) -> StudySnapshot:
    """A study.json.

    Raises:
        ResultError: If it is damaged or of an unknown version.
    """
    plain = read_json(path, _STUDY_DAMAGED)
    _refuse_version(
        plain.get("study_version"),
        STUDY_VERSION,
        path,
        remedy="read the folder with the Strata that wrote it, or run the study into another folder",
    )
    try:
        return StudySnapshot.model_validate_json(json.dumps(plain))
    except (ValidationError, RecursionError) as error:
        raise not_valid(error, path, _STUDY_DAMAGED) from error


def _refuse_version(found: object, known: int, path: Path, *, remedy: str) -> None:
    if isinstance(found, int) and not isinstance(found, bool):
        if found == known:
            return
        cause = f"the file is of version {found}, this Strata reads version {known}"
        raise ResultError(cause, place=str(path), remedy=remedy)
    damaged = _DAMAGED if path.name == "result.json" else _STUDY_DAMAGED
    raise ResultError("the file does not state its version", place=str(path), remedy=damaged)


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The object that a file holds.

    Raises:
        ResultError: If it cannot be read or holds no JSON object; then with ``remedy``.
    """
    with explained(path, "read the file", reading=True):
        content = read_plain(path)
    return _json_object(content, path, remedy)


def _json_object(content: bytes, path: Path, remedy: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:  # thousands of brackets exhaust the parser's stack
        raise ResultError(f"not JSON: {error}", place=str(path), remedy=remedy) from error
    if not isinstance(value, dict):
        raise ResultError("not a JSON object", place=str(path), remedy=remedy)
    return value


def not_valid(error: ValidationError | RecursionError, path: Path, remedy: str) -> ResultError:
    """What is wrong with a file's content, as an error that a user can act on."""
    if isinstance(error, RecursionError):
        return ResultError("nested too deeply", place=str(path), remedy=remedy)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    cause = f"{where}: {first['msg'].lower()}" if where else first["msg"].lower()
    return ResultError(cause, place=str(path), remedy=remedy)
