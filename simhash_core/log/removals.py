"""What rows of packets take out of the index, by the order of the log.

A delete takes out all entries with its id; where a document replaces those of its id, each document
does. Both do so whatever else is decided of the packet, if it counts. So whoever reads the log
knows, before anything is decided, which ids the rows before a packet take out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.index.view import View
from simhash_core.log.packets import Heads, Packet
from simhash_core.log.records import Removal
from simhash_core.log.replica import Replica
from simhash_core.log.sequence import sequence_number


class EntriesByShard(Protocol):
    """Entries of the shards of a worker."""

    def with_ids(self, ids: Sequence[bytes]) -> list[list[tuple[int, int]]]:
        """Return shard and sequence number of the entries of each id."""
        ...


def removing_rows(columns: DocumentColumns, *, replaces: bool) -> dict[bytes, list[int]]:
    """Return the ids that rows of a packet take out, with these rows, rising."""
    rows = range(len(columns)) if replaces else columns.deletes
    removing: dict[bytes, list[int]] = {}
    for row in rows:
        removing.setdefault(columns.ids[row], []).append(row)
    return removing


def views(
    replica: Replica, offsets: Collection[int], expired_before: int, *, replaces: bool
) -> list[View]:
    """Return what undecided packets and queries see of an index.

    The index holds what is decided as far as ``replica`` has read. ``offsets``: in the order of the
    log. ``expired_before``: a sequence number; what is before it may be forgotten already.
    """
    removed: dict[bytes, int] = {}
    removing: dict[int, dict[bytes, list[int]]] = {}
    packets = [
        (offset, item) for offset, item in replica.undecided.items() if isinstance(item, Packet)
    ]
    if replaces or any(packet.columns.operations is not None for _, packet in packets):
        heads = replica.heads or Heads()
        for offset, packet in packets:
            removing[offset] = removing_rows(packet.columns, replaces=replaces)
            if heads.counts(packet):
                heads.advance(packet)
                for name, rows in removing[offset].items():
                    removed.setdefault(name, sequence_number(offset, rows[0]))
    return [
        View(
            sequence_number(offset, 0),
            max(expired_before, replica.expired_for(offset)),
            removed,
            removing.get(offset, {}),
        )
        for offset in offsets
    ]


def held(view: View, entries: EntriesByShard) -> list[Removal]:
    """Return the entries of shards that the rows of a packet take out."""
    names = [name for name in view.removing if view.removed.get(name, view.first) >= view.first]
    if not names:
        return []
    return [
        Removal(view.removing[name][0], partition, sequence)
        for name, entry in zip(names, entries.with_ids(names), strict=True)
        for partition, sequence in entry
        if sequence >= view.expired_before
    ]


def own_removals(packet: Packet, view: View, unique: NDArray[np.bool_]) -> Iterator[Removal]:
    """Yield the unique documents of a packet that later rows of it take out.

    ``unique``: bool (rows,).
    """
    if not view.removing:
        return
    for row in np.flatnonzero(unique).tolist():
        removing = view.removing.get(packet.columns.ids[row], ())
        later = next((each for each in removing if each > row), None)
        if later is not None:
            yield Removal(later, packet.chain.partition, view.first + row)
