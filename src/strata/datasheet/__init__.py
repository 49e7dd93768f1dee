# SPDX-License-Identifier: Apache-2.0
"""The data sheet of a modelled device: what the model does, beside the published figures of the drive."""
