# SPDX-License-Identifier: Apache-2.0
"""A study for articles and other programs: Markdown, CSV, Parquet, JSON, figures as files."""
