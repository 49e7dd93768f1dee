# SPDX-License-Identifier: Apache-2.0
"""Probes that try what a stack can do: `strata capabilities`."""
