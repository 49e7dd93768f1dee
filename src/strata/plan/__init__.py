# SPDX-License-Identifier: Apache-2.0
"""A trial compiled to explicit steps: what ``strata plan`` prints and the agent executes."""
