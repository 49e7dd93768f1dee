# SPDX-License-Identifier: Apache-2.0
"""The store that a user shares: of an option, else of the configuration file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import platformdirs
from pydantic import BaseModel, ConfigDict, ValidationError

from strata.errors import ToolError
from strata.results.shared import SharedStore

NO_STORE: Final = "none"


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
    return None if chosen in {"", NO_STORE} else SharedStore(_absolute(chosen), mine.store_traces, say)


def _absolute(url: str) -> str:
    return url if "://" in url else str(Path(url).expanduser().absolute())
