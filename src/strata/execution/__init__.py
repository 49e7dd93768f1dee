# SPDX-License-Identifier: Apache-2.0
"""A study carried out: which trials are still to run, on which CPU, in which order, until when."""
