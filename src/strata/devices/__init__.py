# SPDX-License-Identifier: Apache-2.0
"""Modelled devices: kinds, parameters, faults, plausible drives, processors and prices."""
