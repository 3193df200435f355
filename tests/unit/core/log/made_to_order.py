"""Packets of documents whose fingerprints a test chooses: 64 bits in 4 blocks of 16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.documents import masked, scoped_digest
from simhash_core.log.records import Chain, Packet, Sender

CHAIN = Chain("raw", "", 0)
A = bytes.fromhex("00112233445566ff")


class Made(NamedTuple):
    """A document. Without a fingerprint it is undecidable; without content, like no other.

    Without ``name`` and ``time_ms`` it has those of its raw offset.
    """

    fingerprint: bytes
    content: bytes = b""
    sketch: bytes = b""
    name: bytes = b""
    time_ms: int | None = None
    scope: str = ""
    is_delete: bool = False


def flipped(fingerprint: bytes, *bits: int) -> bytes:
    """Return the fingerprint with these bits changed, the first bit being 0."""
    number = int.from_bytes(fingerprint)
    for bit in bits:
        number ^= 1 << len(fingerprint) * 8 - 1 - bit
    return number.to_bytes(len(fingerprint))


def columns_of(documents: Sequence[Made], first: int = 0, words: int = 1) -> DocumentColumns:
    """Return documents as columns, at the raw offsets from ``first`` on."""
    rows = list(enumerate(documents, first))
    prints = (masked(each.fingerprint, each.scope) or bytes(words * 8) for each in documents)
    digests = (
        scoped_digest((each.content or b"own %d" % at).ljust(16, b"."), each.scope)
        for at, each in rows
    )
    operations = np.array([each.is_delete for each in documents], dtype=np.uint8)
    scopes = BytesColumn.of([each.scope.encode() for each in documents])
    return DocumentColumns(
        np.array([at for at, _ in rows], dtype=np.int64),
        np.array([1_000 + at if e.time_ms is None else e.time_ms for at, e in rows], np.int64),
        BytesColumn.of([each.name or b"document %d" % at for at, each in rows]),
        np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, 16),
        np.frombuffer(b"".join(prints), dtype=np.uint64).reshape(-1, words),
        np.array([0 if each.fingerprint else 2 for each in documents], dtype=np.uint8),
        BytesColumn.of([each.sketch for each in documents]),
        operations if operations.any() else None,
        scopes if any(each.scope for each in documents) else None,
    )


def packet_of(documents: Sequence[Made], first: int = 0, words: int = 1) -> Packet:
    """Return a packet of documents at the raw offsets from ``first`` on."""
    last = first + len(documents) - 1
    columns = columns_of(documents, first, words)
    return Packet(CHAIN, Sender("worker", 0), first - 1, last, columns)
