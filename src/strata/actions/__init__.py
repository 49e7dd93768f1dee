# SPDX-License-Identifier: Apache-2.0
"""What commands do, without the command line: each action takes values and returns a record."""
