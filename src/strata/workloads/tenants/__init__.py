# SPDX-License-Identifier: Apache-2.0
"""Several workloads at once."""
