# SPDX-License-Identifier: Apache-2.0
"""Any program as a workload: its commands, the server it talks to, the metrics it prints."""
