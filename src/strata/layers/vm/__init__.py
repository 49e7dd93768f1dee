# SPDX-License-Identifier: Apache-2.0
"""Virtual machines: a second kernel, whose virtual disk lies on the layers below."""
