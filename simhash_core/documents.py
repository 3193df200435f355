"""What comes in: a raw record, its place in the log, and the document read from it.

Structs of which many are alive have ``gc=False``, here and where they go: none can refer to itself,
and Python's collector need not walk through all documents under way again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

_NOTHING: Mapping[str, str] = MappingProxyType({})


Headers = tuple[tuple[str, bytes | None], ...]
"""Names and values of a record, in their order: Kafka allows a name more than once."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """``topic/partition``."""
        return f"{self.topic}/{self.partition}"


class SourcePosition(msgspec.Struct, frozen=True, gc=False, array_like=True, order=True):
    """Topic, partition and offset of a raw record: the identity of one *arrival*.

    Two arrivals of the same document id are two positions, and a record that is processed
    again after a crash keeps its position; that distinguishes the two cases.
    """

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        """``topic/partition@offset``, as it stands in headers and messages."""
        return f"{self.topic}/{self.partition}@{self.offset}"


class RawRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A record as it was read: carried along to be put out unchanged, never looked into.

    ``timestamp_ms`` is the record's own time in milliseconds since 1970, UTC; ``headers`` are
    name and value pairs in their order, since Kafka allows a name more than once.
    """

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


class Content(msgspec.Struct, frozen=True, gc=False):
    """What of a document is fingerprinted and sketched."""

    text: str
    title: str = ""
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


class Document(msgspec.Struct, frozen=True, gc=False):
    """A document as its fields say; ``id`` is the source position where the record has none.

    ``event_time_ms`` is the document's own time (else its record's), milliseconds since 1970.
    ``scope``: documents of different scopes are never compared; empty where there are none.
    """

    id: str
    text: str
    source: SourcePosition
    event_time_ms: int
    title: str = ""
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    scope: str = ""

    @property
    def content(self) -> Content:
        """What of it is fingerprinted and sketched."""
        return Content(self.text, self.title, self.keywords, self.tags, self.references)
