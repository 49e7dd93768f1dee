# SPDX-License-Identifier: Apache-2.0
"""The options of filesystems and of ZFS that a study may give, as data.

What could name a file, a device, a user or a program is in no list, nor is what makes a trial meaningless (a
filesystem that is mounted read-only), or harms the machine (``errors=panic``).
"""
