# SPDX-License-Identifier: Apache-2.0
"""Which stack to choose for a use, from what was measured, and how sure that is."""
