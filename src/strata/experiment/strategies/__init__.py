# SPDX-License-Identifier: Apache-2.0
"""Strategies: each chooses the next variations by the results so far, and says what came of them."""
