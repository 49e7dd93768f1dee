# SPDX-License-Identifier: Apache-2.0
"""Measurements of the lab's speed, printed by `python -m bench`; no test asserts them."""
