# SPDX-License-Identifier: Apache-2.0
"""The data sheet of a modelled device: the model's figures beside the drive's published ones."""
