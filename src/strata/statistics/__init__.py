# SPDX-License-Identifier: Apache-2.0
"""What results say: summaries over seeds, ratios, merged distributions, and how sure they are."""
