# SPDX-License-Identifier: Apache-2.0
"""Study files and claims, from TOML to the records of the model."""
