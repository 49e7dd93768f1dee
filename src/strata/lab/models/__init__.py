# SPDX-License-Identifier: Apache-2.0
"""From a device's parameters to the driver's keys: one file for each kind."""
