"""What the leader decided to be unique, and a shard may not have known when it looked."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.entries import Entry
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.document_index import DocumentIndex
from simhash_core.log.packets import Packet
from simhash_core.log.sequence import index_of, log_offset_of, sequence_number, sequence_numbers

_FORGOTTEN_LIMIT: Final = 1024
"""Documents that nobody needs any more and that stay in the index; beyond it, it is rebuilt."""


class _Block(NamedTuple):
    """Unique documents of one packet; ``control``: the record that says so, None: not appended."""

    log_offset: int
    packet: Packet
    rows: NDArray[np.intp]
    control: int | None


class RecentUniques:
    """A small index of the latest unique documents."""

    def __init__(self, scheme: BlockScheme) -> None:
        """Begin empty."""
        self._scheme = scheme
        self._blocks: deque[_Block] = deque()
        self._packets: dict[int, _Block] = {}
        self._contents: dict[bytes, int] = {}
        self._forgotten = 0
        self._index, self._slot = self._empty_index()

    def __len__(self) -> int:
        """Return the number of documents."""
        return sum(len(block.rows) for block in self._blocks)

    def add(self, log_offset: int, packet: Packet, rows: NDArray[np.intp]) -> None:
        """Add unique documents of a packet whose control record is about to be appended."""
        if not len(rows):
            return
        block = _Block(log_offset, packet, rows, None)
        self._blocks.append(block)
        self._packets[log_offset] = block
        self._put(block)

    def appended(self, control: int) -> None:
        """Learn the offset of the control record that says of the latest that they are unique."""
        for at in range(len(self._blocks) - 1, -1, -1):
            if self._blocks[at].control is not None:
                return
            self._blocks[at] = self._blocks[at]._replace(control=control)

    def forget_through(self, control: int) -> None:
        """Forget what everybody knows who has applied the control record at this offset."""
        while self._blocks:
            block = self._blocks[0]
            if block.control is None or block.control > control:
                break
            self._blocks.popleft()
            del self._packets[block.log_offset]
            self._forgotten += len(block.rows)
        if self._forgotten > max(_FORGOTTEN_LIMIT, len(self)):
            self._index, self._slot = self._empty_index()
            self._contents.clear()
            self._forgotten = 0
            for block in self._blocks:
                self._put(block)

    def near(self, fingerprints: NDArray[np.uint64]) -> list[tuple[int, int, int]]:
        """Return row, distance and sequence number of pairs within the distance, sorted."""
        if not self._blocks:
            return []
        pairs = self._index.pairs(fingerprints)
        found = zip(
            pairs.rows.tolist(), pairs.distances.tolist(), pairs.sequences.tolist(), strict=True
        )
        return [each for each in found if log_offset_of(each[2]) in self._packets]

    def of_content(self, digest: bytes) -> int | None:
        """Return the sequence number of the undecidable document of a content, None for none."""
        sequence = self._contents.get(digest)
        if sequence is None or log_offset_of(sequence) not in self._packets:
            return None
        return sequence

    def entry(self, sequence: int) -> Entry | None:
        """Return the entry of a recent unique document, None for any other document."""
        block = self._packets.get(log_offset_of(sequence))
        if block is None:
            return None
        row = index_of(sequence)
        at = int(np.searchsorted(block.rows, row))
        if at == len(block.rows) or block.rows[at] != row:
            return None
        return entry_of(block.packet, row)

    def _empty_index(self) -> tuple[DocumentIndex, int]:
        index = DocumentIndex(self._scheme)
        return index, index.open_slot()

    def _put(self, block: _Block) -> None:
        columns = block.packet.columns
        undecidable = columns.undecidable[block.rows] != 0
        decidable = block.rows[~undecidable]
        sequences = sequence_numbers(block.log_offset, len(block.packet))
        self._index.add(self._slot, sequences[decidable], columns.fingerprints[decidable])
        for row in block.rows[undecidable].tolist():
            self._contents[columns.digest(row)] = sequence_number(block.log_offset, row)


def entry_of(packet: Packet, row: int) -> Entry:
    """Return a document of a packet as an entry of the index."""
    columns = packet.columns
    return Entry(
        packet.source(row),
        columns.document_id(row),
        int(columns.times_ms[row]),
        b"" if columns.undecidable[row] else columns.fingerprints[row].tobytes(),
        columns.digest(row),
        columns.sketches[row],
    )
