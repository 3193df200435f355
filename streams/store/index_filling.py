"""How the index gets the entries of a shard: from its segment files, the rest from its rows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Final

import numpy as np

from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.memtable import Rows
from simhash_core.index.prints import joined_prints
from streams.store.entry_rows import EntryPrints
from streams.store.segment_file import SegmentDamagedError
from streams.store.shard_segments import FILE_DOCUMENTS, ShardSegments, documents_limit
from streams.store.shard_store import ShardStore

logger = logging.getLogger(__name__)

_NO_SLOT: Final = 0


def make_missing_files(
    store: ShardStore, segments: ShardSegments, interrupted: threading.Event | None = None
) -> None:
    """Write files of what no file covers, as far as it is worth one; the rest is the ``tail``.

    Blocking. Raises ``StoreError`` for rows that cannot be read, and ``InterruptedError`` soon
    after ``interrupted`` is set. Where no file can be written, all
    is the tail: the index is whole, and opening the shard again takes longer.
    """
    segments.find(store.highest, store.expired_before)
    limit = documents_limit(segments.scheme)
    parts: list[EntryPrints] = []
    documents = 0
    writable = True
    for part in store.prints(segments.scheme.bands, segments.next - 1):
        if interrupted is not None and interrupted.is_set():
            raise InterruptedError
        parts.append(part)
        documents += len(part.sequences)
        if writable and documents >= limit:
            parts = [_joined(parts)]
            writable = _written(segments, parts[0])
            if writable:
                parts, documents = [], 0
    if writable and documents >= FILE_DOCUMENTS:
        parts = [_joined(parts)]
        if _written(segments, parts[0]):
            parts = []
    segments.tail = parts


def fill_index(index: DocumentIndex, slot: int, store: ShardStore) -> Iterator[None]:
    """Bring the documents of a shard into an empty slot of the index, a part at a time.

    From the files of ``store.segments``, once they were made. Raises ``StoreError``.
    """
    segments = store.segments
    if segments is None:
        for sequences, prints in store.prints(index.scheme.bands):
            index.add(slot, sequences, prints)
            yield
        return
    for file in list(segments.files):
        try:
            segment = segments.map(file, slot)
        except (SegmentDamagedError, OSError) as error:
            logger.warning("a segment file cannot be used: %s", error)
            segments.files = segments.files[: segments.files.index(file)]
            segments.tail = list(store.prints(index.scheme.bands, file.head.first - 1))
            break
        index.attach(slot, segment, file.head.first, file.head.last)
        yield
    while segments.tail:
        sequences, prints = segments.tail.pop(0)
        index.add(slot, sequences, prints)
        yield
    index.remove(slot, np.array(store.gone(), dtype=np.uint64))


def _joined(parts: list[EntryPrints]) -> EntryPrints:
    """Return all parts as one, and empty the list: sorting takes as much memory once more."""
    sequences = np.concatenate([each.sequences for each in parts])
    prints = joined_prints([each.prints for each in parts])
    parts.clear()
    return EntryPrints(sequences, prints)


def _written(segments: ShardSegments, part: EntryPrints) -> bool:
    """Write a file of rows that were read; return whether that went well."""
    sequences, prints = part
    rows = Rows(sequences, np.full(len(sequences), _NO_SLOT, dtype=np.uint16), prints)
    try:
        file = segments.write([rows], segments.next, int(sequences[-1]))
    except OSError as error:
        logger.warning("no segment file can be written: %s", error)
        return False
    if file is not None:
        segments.taken(file)
    return True
