"""The value of a ``duplicate-of`` record: one form, to write it and to read it back.

docs/formats.md describes it. Earlier versions of the schema have the same fields.
"""

from __future__ import annotations

from typing import Final

import msgspec

from simhash_core.documents import SourcePosition
from simhash_core.verdicts import Method

DUPLICATE_SCHEMA: Final = "firstseen.duplicate-of/2"
READABLE_SCHEMAS: Final = frozenset({"firstseen.duplicate-of/1", DUPLICATE_SCHEMA})


class PositionValue(msgspec.Struct, frozen=True):
    """A source position with names, as it stands in JSON."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def of(cls, source: SourcePosition) -> PositionValue:
        """Return the form of a position."""
        return cls(source.topic, source.partition, source.offset)

    def position(self) -> SourcePosition:
        """Return the position."""
        return SourcePosition(self.topic, self.partition, self.offset)


class OriginalValue(msgspec.Struct, frozen=True):
    """The document that is repeated."""

    id: str
    source: PositionValue
    timestamp: str


class DuplicateValue(msgspec.Struct, frozen=True):
    """The whole value; the order of the fields is that of the JSON."""

    schema: str
    id: str
    source: PositionValue
    original: OriginalValue
    distance: int
    bits: int
    similarity: float
    block: int | None
    method: Method
    agreement: float | None
    index: str
    timestamp: str
    body: str | msgspec.UnsetType = msgspec.UNSET
    body_base64: str | msgspec.UnsetType = msgspec.UNSET


encode_duplicate = msgspec.json.Encoder().encode
decode_duplicate = msgspec.json.Decoder(DuplicateValue).decode
