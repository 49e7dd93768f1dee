# SPDX-License-Identifier: Apache-2.0
"""The command line. One module per command; each registers itself on the application."""

from __future__ import annotations

import sys

import typer

from strata.cli import (
    capabilities,
    check,
    clean,
    devices,
    explain,
    lab,
    new,
    plan,
    query,
    replay,
    report,
    run,
    schema,
    show,
    stacks,
    trace,
    validate,
    workloads,
)
from strata.durable import refused
from strata.errors import StrataError

app = typer.Typer(
    name="strata",
    help="Which storage stack should hold this workload, on these disks?",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

for command in (
    *(check, schema, stacks, capabilities, plan, run, show, query, report, explain, trace, replay),
    *(workloads, devices, validate, lab, new, clean),
):
    command.register(app)


def main() -> None:
    """Run the command line; an error that the user can act on ends it in two lines, not a traceback."""
    try:
        app()
    except StrataError as error:
        print(f"strata: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        # Whoever met it could not say what it was for; a full disk still is no reason for a traceback.
        print(f"strata: {refused(error, 'go on', kind=StrataError)}", file=sys.stderr)
        sys.exit(StrataError.exit_code)
    except KeyboardInterrupt:
        print("strata: interrupted; what was measured is kept", file=sys.stderr)
        sys.exit(130)
