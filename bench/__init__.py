# SPDX-License-Identifier: Apache-2.0
"""How fast the lab is. `python -m bench` prints it; no test asserts it."""
