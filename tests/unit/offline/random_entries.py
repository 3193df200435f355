"""Entries of random fingerprints."""

from __future__ import annotations

from typing import Final

import numpy as np

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.log.records import Chain, Packet, Sender
from simhash_core.log.shard_stream import NewEntries

CHAIN: Final = Chain("raw-documents", "", 15)


def random_entries(bits: int, number: int, count: int) -> NewEntries:
    rng = np.random.default_rng([8, number])
    first = number * count
    columns = DocumentColumns(
        np.arange(first, first + count, dtype=np.int64),
        np.full(count, 1_700_000_000_000, dtype=np.int64),
        BytesColumn.of([b"%032d" % offset for offset in range(first, first + count)]),
        rng.integers(0, 256, (count, 16), dtype=np.uint8),
        rng.integers(0, 1 << 63, (count, bits // 64), dtype=np.uint64),
        np.zeros(count, dtype=np.uint8),
        BytesColumn.of([b""] * count),
    )
    packet = Packet(CHAIN, Sender("plan", number), first - 1, first + count - 1, columns)
    return NewEntries(number, packet, np.arange(count))
