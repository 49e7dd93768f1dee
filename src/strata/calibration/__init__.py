# SPDX-License-Identifier: Apache-2.0
"""A drive's measurements turned into a modelled device, with the uncertainty of each value."""
