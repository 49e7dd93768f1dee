# SPDX-License-Identifier: Apache-2.0
"""Prices of processor time, measured on a host: of programs, and of the kernel's work."""
