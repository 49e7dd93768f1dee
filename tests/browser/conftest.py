# SPDX-License-Identifier: Apache-2.0
"""The fixtures of watched.py, for every test here."""

from __future__ import annotations

from watched import browser, new_page, page

__all__ = ["browser", "new_page", "page"]
