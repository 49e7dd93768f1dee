# SPDX-License-Identifier: Apache-2.0
"""What a stack can do, found out by doing it: `strata capabilities`."""
