# SPDX-License-Identifier: Apache-2.0
"""The records of a study and the vocabulary of layers, workloads, steps and metrics."""
