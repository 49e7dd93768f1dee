# SPDX-License-Identifier: Apache-2.0
"""Carrying out one plan: in the lab, on a host, or, for tests, not at all."""
