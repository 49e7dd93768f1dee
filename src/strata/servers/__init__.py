# SPDX-License-Identifier: Apache-2.0
"""Private servers of databases on the measured stack, which workloads put load on."""
