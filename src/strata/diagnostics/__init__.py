# SPDX-License-Identifier: Apache-2.0
"""The mistakes of a TOML file, each with its key path, line, cause and remedy; names and registries."""
