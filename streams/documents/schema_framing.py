"""Values of a schema registry: the schema's id, and where the content begins.

A serializer writes the schema's id before the content: a zero and four bytes, big-endian, or a one
and the sixteen bytes of a GUID. A header may hold the id instead. Keys work the same way. For
Protobuf the numbers of the message in its file follow the id. Source: the wire format in
Confluent's documentation of its Schema Registry.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol
from uuid import UUID

from simhash_core.documents import Headers
from simhash_core.verdicts import RejectionReason
from streams.documents.json_values import UnreadableError

SCHEMA_FORMATS: Final = ("avro", "protobuf", "json-schema")
"""The values of ``fields.format`` that need a schema registry."""


class Part(NamedTuple):
    """``name`` and ``setting`` are for messages; ``id_header`` may hold the schema's id."""

    name: str
    setting: str
    id_header: str


VALUE: Final = Part("the value", "fields.format", "__value_schema_id")
KEY: Final = Part("the key", "fields.key_format", "__key_schema_id")

_ID_BYTES: Final = {0: 5, 1: 17}  # length of an id with its first byte, by that byte
_NUMBER_MAX: Final = 2**31 - 1


class SchemaId(NamedTuple):
    """The id of a schema: a ``number``, or None and a ``guid``."""

    number: int | None
    guid: str

    @property
    def is_possible(self) -> bool:
        return self.number is None or 0 < self.number <= _NUMBER_MAX

    def __str__(self) -> str:
        return self.guid or str(self.number)


class SchemaDecoder(Protocol):
    """Decodes values or keys without waiting, because their schemas have been fetched."""

    def decode(self, headers: Headers, data: bytes) -> object: ...


class SchemaDecoders(NamedTuple):
    value: SchemaDecoder | None = None
    key: SchemaDecoder | None = None


NO_SCHEMAS: Final = SchemaDecoders()


def unframed(headers: Headers, data: bytes, part: Part = VALUE) -> tuple[SchemaId, bytes]:
    """Split schema and content; raise ``UnreadableError`` (``NO_SCHEMA_ID``)."""
    for name, header in headers:
        if name == part.id_header and header is not None:
            schema, rest = _split(header, f"the header {part.id_header}", part)
            return schema, rest + data
    return _split(data, part.name, part)


def _split(data: bytes, where: str, part: Part) -> tuple[SchemaId, bytes]:
    length = _ID_BYTES.get(data[0]) if data else None
    if length is None or len(data) < length:
        raise UnreadableError(
            RejectionReason.NO_SCHEMA_ID,
            f"{where} does not begin with the id of a schema: send it through a serializer of the "
            f"schema registry, or set {part.setting} to the format of the records",
        )
    if data[0] == 0:
        return SchemaId(int.from_bytes(data[1:length], "big"), ""), data[length:]
    return SchemaId(None, str(UUID(bytes=data[1:length]))), data[length:]
