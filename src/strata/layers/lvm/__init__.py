# SPDX-License-Identifier: Apache-2.0
"""LVM and the caches of the device mapper that it makes."""
