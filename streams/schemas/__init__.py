"""The JSON Schemas (2020-12) of the records; docs/formats.md describes the records in words.

``unique-record``, ``tagged-record`` and ``dead-letter`` describe whole records, in the form that
``record_view`` returns; ``raw-document`` and ``duplicate-of`` describe the JSON in a value, and
``unreadable-line`` a line that ``firstseen dedup`` cannot read. A released schema never changes,
except in its descriptions: another form gets another number.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import msgspec


def load(name: str) -> dict[str, Any]:
    """Return the schema in the file ``name``, given without ``.json``."""
    text = (files(__name__) / f"{name}.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, Any])
