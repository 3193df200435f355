"""The rules by which raw records are read, as a text that is kept beside the index identity.

The identity says what makes two documents near. These rules say what the document of a raw record
is: workers that read by different ones would send different documents for one record.
"""

from __future__ import annotations

from typing import Final

import msgspec

from streams.documents.schema_framing import SCHEMA_FORMATS
from streams.settings.settings import Settings

READER_VERSION: Final = 1
"""Of what ``streams.documents.raw_documents`` makes of a record with the same settings: JSON, plain
text and CloudEvents. Raise it when the same bytes become another document."""

SCHEMA_READER_VERSION: Final = 1
"""The same of ``streams.registry``, for values that have schemas."""


def reading_rules(settings: Settings) -> str:
    """Return the rules, ``name=value`` a line, always in the same order.

    An end of line in a value is escaped, so that a rule is one line. ``fields.scope`` is a rule
    only where it is set: indexes without scopes are older than the setting.
    """
    rules = {
        "reader": str(READER_VERSION),
        **{
            f"fields.{name}": value
            for name, value in msgspec.structs.asdict(settings.fields).items()
            if value or name != "scope"
        },
        "max_record_bytes": str(settings.max_record_bytes),
        **_of_the_registry(settings),
    }
    return "\n".join(f"{name}={_on_a_line(value)}" for name, value in rules.items())


def _of_the_registry(settings: Settings) -> dict[str, str]:
    """Return the rules that only a format with schemas has.

    Not where the registry is: it may move, and a copy with the same ids gives the same documents.
    """
    if settings.fields.format not in SCHEMA_FORMATS:
        return {}
    rules = {"schema_reader": str(SCHEMA_READER_VERSION)}
    if settings.fields.format == "json-schema":
        rules["registry.validate"] = str(settings.registry.validate).lower()
    return rules


def _on_a_line(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")
