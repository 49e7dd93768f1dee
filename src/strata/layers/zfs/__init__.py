# SPDX-License-Identifier: Apache-2.0
"""ZFS: pools, and the filesystems and volumes taken from them."""
