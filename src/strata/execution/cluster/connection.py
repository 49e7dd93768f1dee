# SPDX-License-Identifier: Apache-2.0
"""A connection to a Dask cluster: on this machine, by its address, by a file that names or makes it."""

from __future__ import annotations

import atexit
import importlib
import logging
import re
import threading
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from strata.errors import LabError, StudyError, ToolError
from strata.execution.pool import Follower, Pool, WorkSite
from strata.results.store import ResultsFolder
from strata.runners.base import Runner
from strata.units import NS_PER_S, parse_duration

if TYPE_CHECKING:
    from distributed import Client

_LOCAL: Final = re.compile(r"local:([1-9]\d{0,3})")
_ADDRESS: Final = re.compile(r"((tcp|tls|ws|wss)://)?[\w.\-\[\]:]+:\d{1,5}")
_LOOPBACK: Final = "127.0.0.1"
_TIMEOUT_S: Final = 10
_WAIT: Final = "10m"
"""The time without a worker after which a run ends, unless the TOML states another one."""
_KEYS: Final = {"address", "cluster", "workers", "arguments", "security", "wait"}
_CLASS: Final = re.compile(r"((?:dask_|distributed)[\w.]*)\.(\w+)")
_FORMS: Final = "write local:N, an address such as tcp://host:8786, or a file: a scheduler's, or a TOML"


@dataclass
class Cluster:
    """A cluster, which serves all runs of a command; it is connected to when it is first used.

    ``where`` is ``local:N``, an address, or a file.
    """

    where: str
    _client: Client | None = None
    _announced: bool = False
    _wait_s: float = 0.0
    _opened: ExitStack = field(default_factory=ExitStack)

    def __str__(self) -> str:
        return self.where

    def labs(self, each_bytes: int) -> int:
        threads: dict[str, int] = self.client.nthreads()
        return max(1, sum(threads.values()))

    def pool(self, runner: Runner, folder: ResultsFolder, display: Follower, each_bytes: int) -> Pool:
        if runner.time_domain == "wall":
            raise ToolError(
                "a host's results are its own, and no other machine's trials may stand beside them",
                place="--cluster",
                remedy="`strata run STUDY --runner host --cluster` has each machine run all of a study, "
                "into a results folder of its own",
            )
        client = self.client
        if not self._announced and (link := self.dashboard) is not None:
            display.say(f"Dask's dashboard: {link}")
        self._announced = True
        from strata.execution.cluster.pool import ClusterPool  # noqa: PLC0415  it needs Dask

        site = WorkSite(runner, folder, display, threading.Event())
        return ClusterPool(client, self.where, site, each_bytes, self._wait_s, self.dashboard)

    @property
    def client(self) -> Client:
        """Raises ToolError without Dask, StudyError for a mistake, LabError where nobody answers."""
        if self._client is None:
            try:
                import distributed  # noqa: F401, PLC0415
            except ImportError as error:
                raise ToolError(
                    "a cluster needs Dask, which is not installed",
                    place="--cluster",
                    remedy="install Strata with it: pip install 'strata-storage[cluster]'",
                ) from error
            for name in [each for each in logging.root.manager.loggerDict if each.startswith("distributed")]:
                logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is said by Strata
            atexit.register(self.close)
            stated = self._stated()
            try:
                self._wait_s = parse_duration(stated.get("wait", _WAIT)) / NS_PER_S
            except ValueError as error:
                raise StudyError(str(error), place=f"{self.where}: wait", remedy=_FORMS) from error
            self._client = self._connected(stated)
        return self._client

    @property
    def dashboard(self) -> str | None:
        """The address of Dask's dashboard, where there is one."""
        services = self.client.scheduler_info().get("services", {})
        return self.client.dashboard_link if "dashboard" in services else None

    def close(self) -> None:
        self._opened.close()

    def _stated(self) -> Mapping[str, Any]:
        """The cluster in the form of a TOML."""
        if (local := _LOCAL.fullmatch(self.where)) is not None:
            own = {"host": _LOOPBACK, "threads_per_worker": 1, "memory_limit": 0}
            quiet = {"silence_logs": logging.CRITICAL, "dashboard_address": f"{_LOOPBACK}:0"}
            return {
                "cluster": "distributed.LocalCluster",
                "arguments": {"n_workers": int(local[1]), **own, **quiet},
            }
        file = Path(self.where)
        if file.suffix == ".toml":
            try:
                stated = tomllib.loads(file.read_text())
            except (OSError, ValueError) as error:
                raise StudyError(f"it cannot be read: {error}", place=str(file), remedy=_FORMS) from error
            if unknown := sorted(stated.keys() - _KEYS):
                keys = ", ".join(sorted(_KEYS))
                raise StudyError(
                    f"it has no key {unknown[0]}", place=str(file), remedy=f"its keys are {keys}"
                )
            return stated
        if file.is_file():
            return {"scheduler_file": str(file)}
        if _ADDRESS.fullmatch(self.where) is None or self.where.startswith("local:"):
            raise StudyError(f"{self.where} is no cluster", place="--cluster", remedy=_FORMS)
        return {"address": self.where}

    def _connected(self, stated: Mapping[str, Any]) -> Client:
        from distributed import Client, Security  # noqa: PLC0415  Dask takes a second to load

        options: dict[str, Any] = {"timeout": _TIMEOUT_S, "set_as_default": False}
        try:
            if (security := stated.get("security")) is not None:
                options["security"] = Security(**{"require_encryption": True, **security})
            if "scheduler_file" in stated:
                options["scheduler_file"] = stated["scheduler_file"]
            elif "cluster" in stated:
                options["address"] = self._opened.enter_context(self._made(stated, options.get("security")))
            else:
                options["address"] = stated["address"]
            client: Client = self._opened.enter_context(Client(**options))
            return client
        except (OSError, TimeoutError) as error:
            raise LabError(
                f"no scheduler answers: {error}".partition("\n")[0],
                place=f"--cluster {self.where}",
                remedy="start one with `dask scheduler`, workers with `dask worker`, and name its address",
            ) from error
        except Exception as error:  # Dask's classes raise anything for what they cannot use
            raise StudyError(f"it makes no cluster: {error}", place=self.where, remedy=_FORMS) from error

    def _made(self, stated: Mapping[str, Any], security: Any) -> Any:
        """A cluster of a class of Dask's packages."""
        if (named := _CLASS.fullmatch(stated["cluster"])) is None:
            raise ValueError(f"{stated['cluster']} is no class of distributed, dask_jobqueue and the like")
        kind = getattr(importlib.import_module(named[1]), named[2])
        made = kind(**stated.get("arguments", {}), **({} if security is None else {"security": security}))
        if (workers := stated.get("workers")) is not None:
            made.scale(workers)
        return made
