# SPDX-License-Identifier: Apache-2.0
"""What an operation costs by the load generator, fio and a C loop: `python -m bench.load` prints it."""
