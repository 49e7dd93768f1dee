# SPDX-License-Identifier: Apache-2.0
"""Stores that users share, by an option or their configuration file, and results in several places."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import platformdirs
from pydantic import BaseModel, ConfigDict, ValidationError

from strata.errors import ResultError, ToolError
from strata.lab.cache import cache_root
from strata.plan.model import canonical_json, sha256_hex
from strata.results.merged import merge
from strata.results.record import ResultRecord
from strata.results.records import Attempt
from strata.results.shared import SharedStore, is_url
from strata.results.store import ResultsFolder
from strata.words import counted

NO_STORE: Final = "none"
_GIVEN: Final[dict[Path, str]] = {}


class Configured(BaseModel):
    """``~/.config/strata/config.toml``.

    Attributes:
        store: The URL or folder of a store of records; empty: none.
        store_traces: Whether it keeps traces, too.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    store: str = ""
    store_traces: bool = False


def configured() -> Configured:
    """The user's settings. Raises ToolError if the file cannot be used."""
    path = platformdirs.user_config_path("strata") / "config.toml"
    try:
        return Configured.model_validate(tomllib.loads(path.read_text()))
    except FileNotFoundError:
        return Configured()
    except ValidationError as error:
        said = [f"{'.'.join(map(str, each['loc']))}: {each['msg'].lower()}" for each in error.errors()]
    except (OSError, ValueError) as error:
        said = [str(error)]
    remedy = 'it has store = "s3://bucket/folder" and store_traces = false'
    raise ToolError("; ".join(said), place=str(path), remedy=remedy)


def shared_store(url: str | None, say: Callable[[str], None]) -> SharedStore | None:
    """The store of this URL; the configured one for None. Raises ResultError for a URL that none can have."""
    mine = configured()
    chosen = mine.store if url is None else url
    return None if chosen in {"", NO_STORE} else SharedStore(absolute(chosen), mine.store_traces, say)


def shareable(folder: ResultsFolder) -> Iterator[tuple[Attempt, ResultRecord]]:
    """The attempts of the lab that count, with their records; a host's are its own."""
    for reading in folder.readings():
        record, attempt = reading.record, reading.attempt
        if record is not None and attempt is not None and reading.usable and record.time_domain == "virtual":
            yield attempt, record


def absolute(url: str) -> str:
    """The URL, or the absolute path of a folder."""
    return url if is_url(url) else str(Path(url).expanduser().absolute())


def name_records(folder: ResultsFolder) -> None:
    """Write into the shared store which of its records are the study's, for whoever reads it there."""
    if (shared := folder.store.shared) is not None:
        labs = {record.spec_sha256: record.fingerprint for _, record in shareable(folder)}
        shared.named(folder.study(), labs)


def results_at(place: str, say: Callable[[str], None]) -> Path:
    """The results folder of this name.

    Of several, with commas between them, and of stores (``URL``, or ``URL#STUDY`` where it has several
    studies) it is a folder of the cache that has what all of them have.

    Raises ResultError if they have no results, or those of several studies.
    """
    names = [place] if Path(place).exists() else place.split(",")
    if len(names) == 1 and not _is_store(place):
        return Path(place)
    named = [name if is_url(name) else str(Path(name).absolute()) for name in names]
    sources = [_taken(each, say) if _is_store(each) else ResultsFolder.open(Path(each)) for each in named]
    into = _cached("merged", [sources[0].name, *named])
    for each in merge(sources, into, keep=False).unreadable:
        say(f"left out: {each}")
    _GIVEN[into.path] = place
    return into.path


def as_given(path: Path) -> str:
    """A results folder as the user named it, also where one of the cache stands for several."""
    return _GIVEN.get(path, str(path))


def _is_store(place: str) -> bool:
    """Whether it is a URL, or a folder that a store is in."""
    folder = Path(place.partition("#")[0])
    return is_url(place) or all((folder / name).is_dir() for name in ("studies", "records"))


def _taken(url: str, say: Callable[[str], None]) -> ResultsFolder:
    """The results of a store's study."""
    place, _, name = url.partition("#")
    shared = SharedStore(place, say=say)
    names = shared.studies()
    if not name and len(names) == 1:
        (name,) = names
    stored = shared.get_study(name) if name in names else None
    if stored is None:
        there = f"there are: {', '.join(names)}" if names else "run one with --store"
        cause = (
            f'the store has no study "{name}"' if name else f"the store has {counted(len(names), 'study')}"
        )
        raise ResultError(cause, place=place, remedy=f"{there}; choose by URL#NAME")
    folder = _cached("taken", [place, name], shared)
    with folder.lock():
        folder.write_study(stored.study)
        folder.store.ask(stored.labs.items())
    return folder


def _cached(kind: str, names: list[str], shared: SharedStore | None = None) -> ResultsFolder:
    return ResultsFolder(cache_root() / kind / sha256_hex(canonical_json(names))[:32], shared=shared)
