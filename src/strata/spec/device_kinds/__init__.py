# SPDX-License-Identifier: Apache-2.0
"""The kinds of modelled device: one file each, with the parameters it needs."""
