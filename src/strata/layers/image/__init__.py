# SPDX-License-Identifier: Apache-2.0
"""Image files on a filesystem, given as block devices."""
