# SPDX-License-Identifier: Apache-2.0
"""Containers of Incus on a storage pool of their own."""
