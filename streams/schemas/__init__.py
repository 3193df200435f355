"""The JSON Schemas (2020-12) of the records; docs/formats.md describes the records in words.

``unique-record``, ``tagged-record`` and ``dead-letter`` describe whole records, in the form that
``record_view`` returns; ``raw-document`` and ``duplicate-of`` describe the JSON in a value, and
``unreadable-line`` a line that ``firstseen dedup`` cannot read. A released schema never changes,
except in its descriptions: another form gets another number.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

import msgspec

from simhash_core.errors import UnknownNameError

SCHEMAS: Final = (
    "dead-letter.v1",
    "duplicate-of.v2",
    "raw-document.v1",
    "tagged-record.v1",
    "unique-record.v1",
    "unreadable-line.v1",
)


def load(name: str) -> dict[str, Any]:
    """Return the schema called ``name``; raises ``UnknownNameError`` for an unknown name."""
    if name not in SCHEMAS:
        raise UnknownNameError("schema", name, SCHEMAS)
    text = (files(__name__) / f"{name}.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, Any])
