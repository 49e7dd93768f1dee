# SPDX-License-Identifier: Apache-2.0
"""Rules over a whole study: what fits, what survives, what its data do not reach."""
