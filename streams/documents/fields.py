"""The fields of a document in an incoming object, and their types."""

from __future__ import annotations

from typing import Final, Literal
from uuid import UUID

import msgspec

from simhash_core.errors import UsageError
from simhash_core.verdicts import RejectionReason
from streams.documents.json_values import (
    UnreadableError,
    is_encodable,
    type_named,
    without_surrogates,
)
from streams.documents.timestamps import TimestampError, parse_timestamp

ID_BYTES_MAX: Final = 4_096  # in UTF-8. The id is in headers, in messages and in every entry.

ValueFormat = Literal["auto", "json", "text", "avro", "protobuf", "json-schema"]
KeyFormat = Literal["text", "avro", "protobuf", "json-schema"]


class FieldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which field of the incoming object holds what, and how a value is read.

    A name with dots (``data.body``) is a path into nested objects, unless the object has a field of
    that very name. An empty name means that there is no such field; ``text`` cannot be empty.
    Documents of different ``scope`` are never compared.

    ``format``: ``json`` and ``text`` read every value as such. ``auto`` reads JSON, or text where
    the ``content-type`` header says ``text/plain``; other values are refused, so that a broken
    producer is noticed. The other formats need a schema registry
    (``streams.documents.schema_framing``). ``key_format`` is the same for keys, which serve as ids:
    a string, or an object with the field ``id``.
    """

    text: str = "text"
    id: str = "id"
    title: str = "title"
    keywords: str = "keywords"
    tags: str = "tags"
    references: str = "references"
    timestamp: str = "timestamp"
    scope: str = ""
    format: ValueFormat = "auto"
    key_format: KeyFormat = "text"

    def __post_init__(self) -> None:
        if not self.text:
            raise UsageError(
                "fields.text is empty", setting="text", hint="name the field that holds the text"
            )
        for setting in self.__struct_fields__:
            name = getattr(self, setting)
            if not is_encodable(name):
                raise UsageError(
                    f"fields.{setting} is {name!r}",
                    setting=setting,
                    hint="it cannot be encoded as UTF-8",
                )


class Field:
    """A field; null counts as absent. Methods raise ``UnreadableError``, mostly ``WRONG_TYPE``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._path = tuple(name.split("."))
        self.roots = frozenset({name, self._path[0]} - {""})
        """An object that has this field has at least one of these names at its top level."""

    def find(self, content: dict[str, object]) -> object:
        if len(self._path) == 1 or self.name in content:
            return content.get(self.name) if self.name else None
        value: object = content
        for step in self._path:
            if not isinstance(value, dict):
                return None
            value = value.get(step)
        return value

    def string(self, content: dict[str, object]) -> str | None:
        value = self.find(content)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._wrong(type_named(value), "a string")
        return without_surrogates(value)

    def strings(self, content: dict[str, object]) -> tuple[str, ...]:
        """Return a list of strings; a string counts as a list of one, "" as empty."""
        value = self.find(content)
        if value is None or value == "":
            return ()
        if isinstance(value, str):
            return (without_surrogates(value),)
        if not isinstance(value, list):
            raise self._wrong(type_named(value), "a list of strings")
        items = []
        for item in value:
            if not isinstance(item, str):
                raise self._wrong(f"a list with {type_named(item)} in it", "a list of strings")
            items.append(without_surrogates(item))
        return tuple(items)

    def identifier(self, content: dict[str, object]) -> str | None:
        return identifier_of(self.find(content), f'field "{self.name}"')

    def time_ms(self, content: dict[str, object]) -> int | None:
        value = self.find(content)
        return None if value is None else checked_time_ms(value, f'field "{self.name}"')

    def _wrong(self, kind: str, wanted: str) -> UnreadableError:
        return UnreadableError(
            RejectionReason.WRONG_TYPE, f'field "{self.name}" is {kind}: it must be {wanted}'
        )


def identifier_of(value: object, where: str) -> str | None:
    """Return an id, None for an empty one; raise ``UnreadableError``. ``where`` is for messages.

    An integer becomes its decimal digits, because ids from databases are often numbers. Other
    numbers are refused: 1.0 and 1 are equal, but differ as text.
    """
    if value is None or value == "":
        return None
    if isinstance(value, UUID) or (isinstance(value, int) and not isinstance(value, bool)):
        value = str(value)
    if not isinstance(value, str):
        raise UnreadableError(
            RejectionReason.WRONG_TYPE,
            f"{where} is {type_named(value)}: it must be a string or an integer",
        )
    return checked_id(value, where)


def checked_id(document_id: str, where: str) -> str:
    """Return a non-empty id if it is valid; raise ``UnreadableError``."""
    if not is_encodable(document_id):  # dropping lone surrogates could make two ids equal
        raise UnreadableError(
            RejectionReason.WRONG_TYPE,
            f"{where} has an unpaired surrogate: an id must be valid Unicode",
        )
    size = len(document_id.encode())
    if size > ID_BYTES_MAX:
        raise UnreadableError(
            RejectionReason.ID_TOO_LONG,
            f"{where} has {size} bytes, the limit is {ID_BYTES_MAX}: send a digest as the id",
        )
    return document_id


def checked_time_ms(value: object, where: str) -> int:
    try:
        return parse_timestamp(value)
    except TimestampError as error:
        raise UnreadableError(RejectionReason.BAD_TIMESTAMP, f"{where} is {error}") from None
