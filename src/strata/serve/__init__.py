# SPDX-License-Identifier: Apache-2.0
"""Results in a browser, on this machine alone, while a study runs and afterwards."""
