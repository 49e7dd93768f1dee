# SPDX-License-Identifier: Apache-2.0
"""Declarations: studies, devices, and the vocabulary of layers and workloads."""
