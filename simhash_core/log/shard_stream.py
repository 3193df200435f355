"""The documents of one raw partition on their way: read, sent, decided, put out in raw order.

Raw records wait here, in the worker that read them, until their verdicts come back in the log. What
is sent and what has come back are matched by raw offset alone, so it does not matter who sent a
packet, this worker or one that owned the partition before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic

import msgspec
import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DELETE, DocumentColumns
from simhash_core.log.outputs import (
    Deleted,
    NewEntries,
    NoVerdict,
    Output,
    RawBatch,
    Ready,
    Record,
    Verdict,
)
from simhash_core.log.packets import NO_OFFSET, Packet, Sender
from simhash_core.log.records import Progress
from simhash_core.log.replica import Decided, Replica
from simhash_core.log.sequence import PACKET_DOCUMENTS_LIMIT, index_of, log_offset_of
from simhash_core.matches import Match


@dataclass(slots=True, eq=False)
class DecidedPacket:
    """A packet that counts, with its duplicates by row.

    ``removing``: the rows that took an entry out. ``removed``: the rows that were taken out.
    ``rows``: by raw offset.
    """

    log_offset: int
    packet: Packet
    matches: dict[int, Match]
    removing: set[int]
    removed: set[int] = field(default_factory=set)
    rows: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        """Number the rows once: NumPy takes microseconds to find a single one."""
        self.rows = {offset: row for row, offset in enumerate(self.packet.columns.offsets.tolist())}

    def new_rows(self, first: int, end: int) -> NDArray[np.intp]:
        """Return the rows of new entries with raw offsets from ``first`` to before ``end``."""
        columns = self.packet.columns
        low, high = np.searchsorted(columns.offsets, (first, end))
        rows = np.arange(low, high)
        if columns.operations is not None:
            rows = rows[columns.are_documents[rows]]
        if self.matches or self.removed:
            rows = rows[~np.isin(rows, [*self.matches, *self.removed])]
        return rows


class ShardStream(Generic[Record]):
    """One raw partition, owned by this worker."""

    def __init__(self, progress: Progress, worker: str, *, expires: bool = False) -> None:
        """Resume where ``progress`` was committed; ``worker`` is the sender's name.

        ``expires``: entries do, so that what was unique once may not be known any more.
        """
        self.chain = progress.chain
        self.next = progress.next
        self.committed = progress
        self.head = NO_OFFSET
        self.waiting = 0
        self.waiting_bytes = 0
        self._worker = worker
        self._expires = expires
        self._removed: dict[int, None] = {}
        self._batches: deque[RawBatch[Record]] = deque()
        self._decided: deque[DecidedPacket] = deque()
        self._sent: int | None = None
        self._number = 0
        self._first_number = 0

    @property
    def read_to(self) -> int:
        """The last raw offset that has been read."""
        return self._batches[-1].last if self._batches else self.next - 1

    def restart(self) -> None:
        """Forget what was read from the log, which is read again; raw records stay."""
        self.head = NO_OFFSET
        self._decided.clear()
        self._removed.clear()
        self.send_again()

    def add(self, batch: RawBatch[Record]) -> None:
        """Take in raw records that follow those before."""
        self._batches.append(batch)
        self.waiting += len(batch.records)
        self.waiting_bytes += batch.size

    # ---- to the log

    def send_again(self) -> None:
        """Send again what is not in the log."""
        self._sent = None
        self._first_number = self._number

    def lost(self, packet: Packet) -> None:
        """Learn that a packet was not appended, or does not count: send again what it holds.

        Without effect if another packet brought that into the log, or it was sent again since:
        else each packet sent for nothing would have all those after it sent for nothing as well.
        """
        is_latest = packet.sender.number >= self._first_number
        if packet.sender.worker == self._worker and is_latest and packet.last > self.head:
            self.send_again()

    def next_packet(self, replica: Replica) -> Packet | None:
        """Return the next packet to append, None where everything was sent.

        Call it only when the log has been read as far as it was when reading began. A wrong guess
        of what is in the log costs an append.
        """
        if self._sent is None:
            self._sent = self._expected_head(replica)
        for batch in self._batches:
            if batch.last <= self._sent:
                continue
            columns = batch.columns
            if len(columns) and columns.offsets[0] <= self._sent:
                columns = columns.take(np.flatnonzero(columns.offsets > self._sent))
            if len(columns):
                return self._packet(columns, batch.last)
        return None

    def _expected_head(self, replica: Replica) -> int:
        """Return the head of the chain once everything that was read is decided."""
        head = self.head
        for item in replica.undecided.values():
            if isinstance(item, Packet) and item.chain == self.chain and item.previous == head:
                head = item.last
        return head

    def _packet(self, columns: DocumentColumns, last: int) -> Packet:
        assert self._sent is not None
        if len(columns) > PACKET_DOCUMENTS_LIMIT:
            columns = columns.take(np.arange(PACKET_DOCUMENTS_LIMIT))
            last = int(columns.offsets[-1])
        packet = Packet(self.chain, Sender(self._worker, self._number), self._sent, last, columns)
        self._number += 1
        self._sent = last
        return packet

    # ---- from the log

    def decided(self, decided: Decided) -> None:
        """Take in what the log says of a packet of this chain, in the order of the log."""
        packet = decided.item
        assert isinstance(packet, Packet)
        matches = decided.decision.matches
        if matches is None:
            self.lost(packet)
            return
        self.head = packet.last
        if packet.last >= self.next:
            by_row = {match.row: match for match in matches}
            removing = {removal.row for removal in decided.decision.removals}
            self._decided.append(DecidedPacket(decided.offset, packet, by_row, removing))

    def remove(self, sequences: Iterable[int]) -> None:
        """Learn of entries of this shard that a packet takes out, in the order of the log."""
        for sequence in sequences:
            self._removed[sequence] = None
            offset = log_offset_of(sequence)
            for decided in self._decided:
                if decided.log_offset == offset:
                    decided.removed.add(index_of(sequence))

    def heads_known(self, head: int) -> None:
        """Learn from a control record how far the chain has come."""
        self.head = max(self.head, head)

    # ---- out

    def ready(self, limit: int, expired_before: int = 0) -> Ready[Record]:
        """Return what can be put out next, at most about ``limit`` records; changes nothing.

        ``expired_before``: entries before this sequence number have expired.
        """
        outputs: list[Output[Record]] = []
        decided = iter(self._decided)
        current = next(decided, None)
        end = self.next
        for batch in self._batches:
            for offset, record in zip(batch.offsets, batch.records, strict=True):
                if offset < self.next:
                    continue
                if len(outputs) >= limit:
                    return self._ready(outputs, end, expired_before)
                while current is not None and current.packet.last < offset:
                    current = next(decided, None)
                verdict = self._verdict(offset, current, batch.columns)
                if verdict is None:
                    return self._ready(outputs, end, expired_before)
                outputs.append(Output(record, verdict))
                end = offset + 1
            end = max(end, batch.last + 1)
        return self._ready(outputs, end, expired_before)

    def _verdict(
        self, offset: int, packet: DecidedPacket | None, documents: DocumentColumns
    ) -> Verdict | Deleted | NoVerdict | None:
        """Return what is said of a raw record; None: nothing yet.

        ``documents``: those among the records that were read with it.
        """
        if packet is not None and (row := packet.rows.get(offset)) is not None:
            return self._said(packet, row)
        if not (documents.offsets == offset).any():
            return NoVerdict.NO_DOCUMENT
        return NoVerdict.READ_OTHERWISE if offset <= self.head else None

    def _said(self, packet: DecidedPacket, row: int) -> Verdict | Deleted:
        removing = row in packet.removing
        operations = packet.packet.columns.operations
        if operations is not None and operations[row] == DELETE:
            return Deleted(packet.packet, row, put_out=removing or self._expires)
        return Verdict(packet.packet, row, packet.matches.get(row), removing)

    def _ready(self, outputs: list[Output[Record]], end: int, expired_before: int) -> Ready[Record]:
        entries = []
        for each in self._decided:
            rows = each.new_rows(self.next, end)
            if len(rows) and each.log_offset >= log_offset_of(expired_before):
                entries.append(NewEntries(each.log_offset, each.packet, rows))
        return Ready(outputs, entries, end, list(self._removed), expired_before)

    def advance(self, progress: Progress, removed: Iterable[int] = ()) -> None:
        """Forget everything before ``progress``, which was committed, and what was ``removed``."""
        for sequence in removed:
            self._removed.pop(sequence, None)
        self.committed = progress
        self.next = progress.next
        while self._decided and self._decided[0].packet.last < self.next:
            self._decided.popleft()
        while self._batches and self._batches[0].last < self.next:
            batch = self._batches.popleft()
            self.waiting -= len(batch.records)
            self.waiting_bytes -= batch.size

    def progress(self, next_offset: int, replica: Replica) -> Progress:
        """Return the progress to commit when everything before ``next_offset`` is put out."""
        needed = [each.log_offset for each in self._decided if each.packet.last >= next_offset]
        undecided = [
            offset
            for offset, item in replica.undecided.items()
            if isinstance(item, Packet) and item.chain == self.chain
        ]
        position = min([*needed[:1], *undecided[:1], replica.decided_before])
        if position <= self.committed.position:
            # What is read again, for another shard or from a control record on, does not say as
            # much as was committed. The log may be gone before that.
            return msgspec.structs.replace(self.committed, next=next_offset)
        progress = Progress(self.chain, next_offset, position, replica.control_before(position))
        clock = replica.clock_before(progress.needed)
        return progress if clock is None else msgspec.structs.replace(progress, clock=clock)
