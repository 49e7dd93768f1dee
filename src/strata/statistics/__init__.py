# SPDX-License-Identifier: Apache-2.0
"""Statistics of results: summaries over seeds, ratios, merged distributions, and their uncertainty."""
