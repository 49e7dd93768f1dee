# SPDX-License-Identifier: Apache-2.0
"""The cost of an operation by the load generator, fio and a C loop, printed by `python -m bench.load`."""
