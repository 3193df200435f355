"""Raw records, their source positions, the documents read from them, and their entries."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import msgspec

# Structs that exist in great numbers have ``gc=False``, here and elsewhere. They cannot be part of
# a reference cycle, so Python's collector need not scan all documents in flight.

Headers = tuple[tuple[str, bytes | None], ...]  # Kafka allows a name more than once


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class SourcePosition(msgspec.Struct, frozen=True, gc=False, array_like=True, order=True):
    """Topic, partition and offset of a raw record: the identity of one *arrival*.

    A record that is processed again after a crash has the same position; two records with the same
    document id have different ones.
    """

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        """Return ``topic/partition@offset``, as in headers and messages."""
        return f"{self.topic}/{self.partition}@{self.offset}"


class RawRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A record as it was read; it is output unchanged, and the core never inspects it."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int  # of the record, since 1970, UTC
    headers: Headers = ()


class Content(msgspec.Struct, frozen=True, gc=False):
    """The part of a document that is fingerprinted and sketched."""

    text: str
    title: str = ""
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


class Document(msgspec.Struct, frozen=True, gc=False):
    id: str  # the source position if the record has none
    text: str
    source: SourcePosition
    event_time_ms: int  # of the document or else its record, since 1970, UTC
    title: str = ""
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    scope: str = ""  # documents of different scopes are never compared

    @property
    def content(self) -> Content:
        return Content(self.text, self.title, self.keywords, self.tags, self.references)


# Documents of different scopes are never compared. A scope XORs each fingerprint with a mask and is
# part of the content digest. Documents of one scope still differ in the same bits; those of
# different scopes are as far apart as unrelated texts. If two are candidates by chance, their
# scopes are compared (``simhash_core.index.look_up``).
_MASK_PERSON = b"scope mask"
_DIGEST_PERSON = b"scope digest"


def masked(fingerprint: bytes, scope: str) -> bytes:
    """Return a fingerprint masked as in the index; masking it again returns the original."""
    if not scope or not fingerprint:
        return fingerprint
    size = len(fingerprint)
    return (int.from_bytes(fingerprint, "big") ^ _mask(scope, size)).to_bytes(size, "big")


def scoped_digest(digest: bytes, scope: str) -> bytes:
    """Return a content digest as in the index: equal for equal content in one scope."""
    if not scope:
        return digest
    return blake2b(digest, digest_size=len(digest), key=_key(scope), person=_DIGEST_PERSON).digest()


@lru_cache(4096)
def _mask(scope: str, size: int) -> int:
    """Return the mask of a scope for fingerprints of ``size`` bytes, 64 or fewer."""
    mask = blake2b(scope.encode(), digest_size=size, person=_MASK_PERSON).digest()
    return int.from_bytes(mask, "big")


@lru_cache(4096)
def _key(scope: str) -> bytes:
    """Return a key of 16 bytes for a scope of any length."""
    return blake2b(scope.encode(), digest_size=16).digest()


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A unique document, which later documents are compared with, and which duplicates name."""

    source: SourcePosition
    document_id: str
    event_time_ms: int
    fingerprint: bytes  # masked by scope; empty if undecidable: matches by content alone
    content_digest: bytes  # with scope
    sketch: bytes = b""  # empty without verification
    scope: str = ""
