# SPDX-License-Identifier: Apache-2.0
"""Questions that are answered by varying a study: one experiment, and a strategy for each question."""
