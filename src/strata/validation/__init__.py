# SPDX-License-Identifier: Apache-2.0
"""The disk models against theory and against what is published: one file for each subject."""
