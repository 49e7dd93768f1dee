# SPDX-License-Identifier: Apache-2.0
"""A study's results for people: one self-contained HTML file that needs no network."""
