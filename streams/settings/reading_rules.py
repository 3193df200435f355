"""The rules by which raw records are read, as a text that is kept beside the index identity.

The identity says what makes two documents near. These rules say what the document of a raw record
is: workers that read by different ones would send different documents for one record.
"""

from __future__ import annotations

from typing import Final

import msgspec

from streams.settings.registry import schema_formats
from streams.settings.settings import Settings

READER_VERSION: Final = 1
"""Of what ``streams.documents.raw_documents`` makes of a record with the same settings: JSON, plain
text and CloudEvents. Raise it when the same bytes become another document."""

_LATER_DEFAULTS: Final = frozenset({("scope", ""), ("key_format", "text")})
"""Settings of fields that came later, with the values that stand for how it was before."""

SCHEMA_READER_VERSION: Final = 1
"""The same of ``streams.registry``, for values that have schemas."""


def reading_rules(settings: Settings) -> str:
    """Return the rules, ``name=value`` a line, always in the same order.

    An end of line in a value is escaped, so that a rule is one line. ``fields.scope`` and
    ``fields.key_format`` are rules only where they are set: some indexes are older than them.
    """
    rules = {
        "reader": str(READER_VERSION),
        **{
            f"fields.{name}": value
            for name, value in msgspec.structs.asdict(settings.fields).items()
            if (name, value) not in _LATER_DEFAULTS
        },
        "max_record_bytes": str(settings.max_record_bytes),
        **_of_the_registry(settings),
    }
    return "\n".join(f"{name}={_on_a_line(value)}" for name, value in rules.items())


def _of_the_registry(settings: Settings) -> dict[str, str]:
    """Return the rules that only a format with schemas has.

    Not where the registry is: it may move, and a copy with the same ids gives the same documents.
    """
    formats = schema_formats(settings.fields)
    if not formats:
        return {}
    rules = {"schema_reader": str(SCHEMA_READER_VERSION)}
    if "json-schema" in formats.values():
        rules["registry.validate"] = str(settings.registry.validate).lower()
    return rules


def _on_a_line(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")
