# SPDX-License-Identifier: Apache-2.0
"""The workloads that unpack an archive."""
