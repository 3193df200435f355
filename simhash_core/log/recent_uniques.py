"""What the leader decided to be unique, and a shard may not have known when it looked."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.entries import Entry
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.prints import Prints, prints_of
from simhash_core.log.packets import Packet
from simhash_core.log.sequence import log_offset_of
from simhash_core.log.unique_documents import UniqueDocuments, UniqueRows

_FORGOTTEN_LIMIT: Final = 1024
"""Documents that nobody needs any more and that stay in the index; beyond it, it is rebuilt."""


class _Block(NamedTuple):
    """Unique documents of one packet; ``control``: the record that says so, None: not appended."""

    unique: UniqueRows
    control: int | None


class RecentUniques:
    """A small index of the latest unique documents."""

    def __init__(self, scheme: BlockScheme) -> None:
        """Begin empty."""
        self._scheme = scheme
        self._blocks: deque[_Block] = deque()
        self._documents = UniqueDocuments()
        self._forgotten = 0
        self._index, self._slot = self._empty_index()

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._documents)

    def add(self, log_offset: int, packet: Packet, rows: NDArray[np.intp]) -> None:
        """Add unique documents of a packet whose control record is about to be appended."""
        if not len(rows):
            return
        unique = UniqueRows(log_offset, packet, rows)
        self._blocks.append(_Block(unique, None))
        self._documents.add(unique)
        self._put(unique)

    def appended(self, control: int) -> None:
        """Learn the offset of the control record that says of the latest that they are unique."""
        for at in range(len(self._blocks) - 1, -1, -1):
            if self._blocks[at].control is not None:
                return
            self._blocks[at] = self._blocks[at]._replace(control=control)

    def forget_through(self, control: int) -> None:
        """Forget what everybody knows who has applied the control record at this offset."""
        while self._blocks:
            unique, known_from = self._blocks[0]
            if known_from is None or known_from > control:
                break
            self._blocks.popleft()
            self._documents.forget(unique.log_offset)
            self._forgotten += len(unique)
        if self._forgotten > max(_FORGOTTEN_LIMIT, len(self)):
            self._index, self._slot = self._empty_index()
            self._forgotten = 0
            for block in self._blocks:
                self._put(block.unique)

    def remove(self, sequence: int) -> None:
        """Leave a document out that was taken out; without effect for any other."""
        self._documents.remove(sequence)

    def near(self, prints: Prints) -> list[tuple[int, int, int]]:
        """Return row, distance and sequence number of pairs within the distance, sorted."""
        if not self._blocks:
            return []
        pairs = self._index.pairs(prints)
        near = zip(
            pairs.rows.tolist(), pairs.distances.tolist(), pairs.sequences.tolist(), strict=True
        )
        return [each for each in near if log_offset_of(each[2]) in self._documents]

    def by_content(self, digest: bytes) -> list[int]:
        """Return the sequence numbers of the undecidable documents of a content, rising."""
        return self._documents.by_content(digest)

    def with_ids(self, ids: Sequence[bytes]) -> list[list[int]]:
        """Return the sequence numbers of the documents of each id, rising."""
        return self._documents.with_ids(ids)

    def entry(self, sequence: int) -> Entry | None:
        """Return the entry of a recent unique document, None for any other document."""
        return self._documents.entry(sequence)

    def _empty_index(self) -> tuple[DocumentIndex, int]:
        index = DocumentIndex(self._scheme)
        return index, index.open_slot()

    def _put(self, unique: UniqueRows) -> None:
        rows = unique.decidable
        prints = prints_of(self._scheme, unique.packet.columns, rows)
        self._index.add(self._slot, unique.sequences(rows), prints)
