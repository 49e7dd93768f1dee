# SPDX-License-Identifier: Apache-2.0
"""The names under which results use `strata.durable`."""

from strata.durable import explained, make_folder, write_durably
from strata.durable import sync as sync_folder

__all__ = ["explained", "make_folder", "sync_folder", "write_durably"]
