# SPDX-License-Identifier: Apache-2.0
"""What is declared: studies, devices, and the vocabulary that layers and workloads are written in."""
