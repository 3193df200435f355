"""Entries as columns: those of one packet that are new."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.log.outputs import NewEntries
from simhash_core.log.packets import Chain


class EntryBlock(NamedTuple):
    """Entries of one packet. ``sequences``: uint64 (entries,), rising; ``columns``: in step."""

    chain: Chain
    sequences: NDArray[np.uint64]
    columns: DocumentColumns

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.sequences)

    def take(self, rows: NDArray[np.intp]) -> EntryBlock:
        """Return some of the entries."""
        return EntryBlock(self.chain, self.sequences[rows], self.columns.take(rows))


def entry_block(new: NewEntries) -> EntryBlock:
    """Return the unique documents of a packet as entries."""
    columns = new.packet.columns
    if len(new.rows) < len(columns):
        columns = columns.take(new.rows)
    if columns.operations is not None:
        columns = replace(columns, operations=None)  # entries are documents
    return EntryBlock(new.packet.chain, new.sequences, columns)
