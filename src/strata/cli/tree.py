# SPDX-License-Identifier: Apache-2.0
"""The command line as a table: each command's place and first line, and what earlier names are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strata.errors import StudyError

HIDDEN: Final = "hidden"
"""The panel of commands that `strata --help` does not show."""

COMMANDS_BY_PANEL: Final[dict[str, dict[str, str]]] = {
    "To begin": {
        "ask": "Ask which stack should hold a use: from question to answer.",
        "new": "Write a study, or the skeleton of a layer or workload.",
        "check": "Find every mistake in a study file: key, line and remedy.",
        "run": "Run a study, or what is missing of its results.",
        "show": "Show a study's results: stacks compared per workload.",
        "report": "Write the results as one page that works offline.",
        "calibrate": "Fit a modelled device to measurements of a real drive.",
    },
    "Look closer": {
        "plan": "Print what a trial would do, or draw its stacks. Runs nothing.",
        "list": "List layers, workloads, devices, processors, uses or disks.",
        "serve": "Watch studies in a browser, while they run and afterwards.",
        "export": "Write tables and figures for articles and other programs.",
        "merge": "Merge results of one study: of shards, users or a store.",
        "publish": "Publish results as static pages, with their records.",
        "query": "Ask a study's results anything, in SQL.",
        "explain": "Explain where a trial's time went; of two, why one is faster.",
        "trace": "Write a trial's disk requests, or replay them on another disk.",
        "record": "Record an application's calls, or a disk's requests.",
    },
    "Decide": {
        "advise": "Advise which stack to choose for which use, and why.",
        "sensitivity": "Find what would change the answer, and how near that is.",
        "confirm": "Hold the lab's prediction against this machine's disks.",
        "rebuild": "Estimate how long a lost disk takes to rebuild at full size.",
        "compare": "Compare two results: what got better or worse.",
        "gate": "Decide whether a change may pass, for CI.",
        "history": "Find the runs at which a metric changed.",
        "claims": "Judge what is claimed about stacks by results.",
        "bisect": "Find the commit of a kernel at which a metric changed.",
        "capabilities": "Probe what each stack can do: snapshots, quotas, a lost disk.",
    },
    "The lab": {
        "lab": "Build, show, carry, enter, check and clean the lab.",
        "disks": "Use modelled disks outside of the lab.",
    },
    HIDDEN: {
        "man": "Write the manual pages, one per command.",
        "schema": "Print the JSON Schema of study files, for editors.",
    },
}
"""The overview of `strata --help`: each command with the first line of its docstring."""

COMMANDS_OF_GROUPS: Final[dict[str, dict[str, dict[str, str]]]] = {
    "list": {
        "Commands": {
            "layers": "List the layers of stacks, or show one with its keys.",
            "workloads": "List the workloads, or say what one measures and needs.",
            "devices": "List the modelled devices, or show one with its data sheet.",
            "processors": "List the lab's processors, or show one.",
            "uses": "List the uses that advice knows, with their weights.",
            "disks": "List this machine's disks, and which a study could have.",
        }
    },
    "disks": {"Commands": {"serve": "Serve a modelled disk to this machine's kernel, in real time."}},
    "lab": {
        "Commands": {
            "build": "Build what is missing or stale of the lab.",
            "show": "Show what is built, from what, and whether it is current.",
            "enter": "Open a shell inside a lab, on modelled disks.",
            "export": "Write the built lab to a file, for machines without a network.",
            "import": "Take a built lab from a file of `strata lab export`.",
            "clean": "Remove what killed runs left behind. Results are kept.",
            "remove": "Delete outdated parts and build leftovers from the caches.",
            "validate": "Check the disk models against theory, figures and real drives.",
            "selftest": "Compare equal stacks: how often is a difference found?",
            "price": "Make a processor file of this machine, or price a program.",
            "power-cut": "Cut the power of a trial's disks, recover and check them.",
        },
        HIDDEN: {
            "lock": "Rewrite image/packages.lock from what the Debian mirror has now.",
            "checkpatch": "Run the kernel's own style checker over kernel/.",
        },
    },
}
"""Groups whose commands are modules of their own, in the folder of the group's name."""

# The words of an earlier command, or of its option. Of two that begin alike the longer one comes first.
RENAMED: Final[dict[str, str]] = {
    "tipping": "sensitivity",
    "stacks": "plan STUDY --stacks",
    "layers": "list layers",
    "workloads": "list workloads",
    "devices show": "list devices NAME",
    "devices": "list devices",
    "cpu show": "list processors NAME",
    "cpu measure": "lab price",
    "cpu": "list processors",
    "replay": "trace TRIAL --on DEVICE",
    "validate": "lab validate",
    "selftest": "lab selftest",
    "clean": "lab clean",
    "lab status": "lab show",
    "lab shell": "lab enter",
    "lab clean --all": "lab remove --all",
    "ask --no-run": "new study NAME",
    "ask --tipping": "ask NAME --sensitivity TIME",
    "claims --why": "claims RESULTS --what-if ID",
    "advise --list": "list uses",
    "advise --write-uses": "list uses --write FILE",
}


def refuse_renamed(words: Sequence[str]) -> None:
    """Raise StudyError, which names the new command, if the words begin with an earlier one."""
    for old, new in RENAMED.items():
        command, *more = old.split()
        options = {word.partition("=")[0] for word in words if word.startswith("-")}
        parts = [word in options if word.startswith("-") else [word] == [*words[1:2]] for word in more]
        if [command] == [*words[:1]] and all(parts):
            raise StudyError(f"`strata {old}` is now `strata {new}`")
