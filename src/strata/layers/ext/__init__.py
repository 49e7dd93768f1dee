# SPDX-License-Identifier: Apache-2.0
"""ext2, ext3 and ext4."""
