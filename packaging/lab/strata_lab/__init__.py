# SPDX-License-Identifier: Apache-2.0
"""The built parts of Strata's lab, as a cache of which `strata.lab.cache` only reads."""
