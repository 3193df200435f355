"""Packets of documents whose fingerprints a test chooses: 64 bits in 4 blocks of 16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.log.records import Chain, Packet, Sender

CHAIN = Chain("raw", "", 0)
A = bytes.fromhex("00112233445566ff")


class Made(NamedTuple):
    """A document. Without a fingerprint it is undecidable; without content, like no other."""

    fingerprint: bytes
    content: bytes = b""
    sketch: bytes = b""


def flipped(fingerprint: bytes, *bits: int) -> bytes:
    """Return the fingerprint with these bits changed, the first bit being 0."""
    number = int.from_bytes(fingerprint)
    for bit in bits:
        number ^= 1 << len(fingerprint) * 8 - 1 - bit
    return number.to_bytes(len(fingerprint))


def columns_of(documents: Sequence[Made], first: int = 0, words: int = 1) -> DocumentColumns:
    """Return documents as columns, at the raw offsets from ``first`` on."""
    count = len(documents)
    digests = [
        (each.content or b"own %d" % (first + row)).ljust(16, b".")
        for row, each in enumerate(documents)
    ]
    prints = b"".join(each.fingerprint or bytes(words * 8) for each in documents)
    return DocumentColumns(
        np.arange(first, first + count, dtype=np.int64),
        np.arange(1_000 + first, 1_000 + first + count, dtype=np.int64),
        BytesColumn.of([b"document %d" % (first + row) for row in range(count)]),
        np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(count, 16),
        np.frombuffer(prints, dtype=np.uint64).reshape(count, words),
        np.array([0 if each.fingerprint else 2 for each in documents], dtype=np.uint8),
        BytesColumn.of([each.sketch for each in documents]),
    )


def packet_of(documents: Sequence[Made], first: int = 0, words: int = 1) -> Packet:
    """Return a packet of documents at the raw offsets from ``first`` on."""
    last = first + len(documents) - 1
    columns = columns_of(documents, first, words)
    return Packet(CHAIN, Sender("worker", 0), first - 1, last, columns)
