# SPDX-License-Identifier: Apache-2.0
"""The program `strata`: loads the command line and runs it."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback while it is still being loaded, too."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plugins costs 30 ms
    try:
        from strata.cli import main as run_command_line  # noqa: PLC0415 (see above)

        run_command_line()
    except KeyboardInterrupt:
        print("strata: interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
