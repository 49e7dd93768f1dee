# SPDX-License-Identifier: Apache-2.0
"""The fixtures of watched.py, for every test here."""

from __future__ import annotations

from watched import browser, idle, new_page, page

__all__ = ["browser", "idle", "new_page", "page"]
