"""What goes into the stream of a shard and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.log.packets import Packet
from simhash_core.log.sequence import sequence_numbers
from simhash_core.matches import Match

Record = TypeVar("Record")


class RawBatch(NamedTuple, Generic[Record]):
    """Raw records of one partition in order.

    ``offsets``: of the records, rising. ``columns``: the documents among them. ``last``: all raw
    offsets up to this one are covered. ``size``: bytes that the batch holds in memory.
    """

    records: Sequence[Record]
    offsets: Sequence[int]
    columns: DocumentColumns
    last: int
    size: int = 0


class NoVerdict(Enum):
    """Why a raw record is put out without a verdict."""

    NO_DOCUMENT = auto()
    """It is not a document: it could not be read, or is a tombstone without a key."""
    READ_OTHERWISE = auto()
    """It is a document as it is read now, but whoever sent its packet read none."""


class Output(NamedTuple, Generic[Record]):
    """A raw record to put out, and why."""

    record: Record
    verdict: Verdict | Deleted | NoVerdict


class Verdict(NamedTuple):
    """What the log says of a document: unique, unless there is a match.

    ``replaced``: it took out an entry with its id, which had been unique.
    """

    packet: Packet
    row: int
    match: Match | None
    replaced: bool = False


class Deleted(NamedTuple):
    """What the log says of a delete. ``put_out``: the document may have been unique."""

    packet: Packet
    row: int
    put_out: bool


class NewEntries(NamedTuple):
    """Unique documents of one packet: entries of the index. ``rows`` are those in the packet.

    Those that were taken out before they were put out are not among them.
    """

    log_offset: int
    packet: Packet
    rows: NDArray[np.intp]

    @property
    def sequences(self) -> NDArray[np.uint64]:
        """Their sequence numbers, uint64."""
        return sequence_numbers(self.log_offset, len(self.packet))[self.rows]


class Ready(NamedTuple, Generic[Record]):
    """What a shard can put out next, and what it is to remember with it.

    ``next``: the raw offset after it. ``removed``: sequence numbers of entries of this shard to
    forget; some may be gone already, and none is among ``entries``. ``expired_before``: sequence
    number; entries before it may be forgotten.
    """

    outputs: list[Output[Record]]
    entries: list[NewEntries]
    next: int
    removed: Sequence[int] = ()
    expired_before: int = 0
