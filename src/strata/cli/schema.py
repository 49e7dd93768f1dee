# SPDX-License-Identifier: Apache-2.0
"""``strata schema``: the JSON Schema of study files."""

from __future__ import annotations

from strata.plan.catalogue import catalogue
from strata.printable import json_text
from strata.reading.schema import study_schema


def schema() -> None:
    """Print the JSON Schema of study files, for editors.

    Begin a study file with the comment "#:schema ./study.schema.json", and editors with taplo (such as the
    extension Even Better TOML) use it.

    Examples:
        strata schema > study.schema.json
    """
    print(json_text(study_schema(catalogue()), indent=2))
