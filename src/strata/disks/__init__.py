# SPDX-License-Identifier: Apache-2.0
"""This machine's block devices: what they are, what uses them, and whether a study may have them."""
