"""The documents of one raw partition: read, sent, decided, and output in raw order.

Raw records wait in the worker that read them until their verdicts are read from the log. Sent and
returned documents are matched by raw offset alone, so a packet may come from this worker or from an
earlier owner of the partition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import product, takewhile
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DELETE, DocumentColumns, joined_columns
from simhash_core.documents import SourcePosition
from simhash_core.log.columns import PacketRows
from simhash_core.log.records import (
    BUNDLE_DOCUMENTS_LIMIT,
    NO_OFFSET,
    Decision,
    Packet,
    Progress,
    Sender,
    index_of,
    log_offset_of,
    sequence_number,
    sequence_numbers,
)
from simhash_core.log.replica import Replica
from simhash_core.verdicts import Match

Record = TypeVar("Record")


class RawBatch(NamedTuple, Generic[Record]):
    """Raw records of one partition, in order."""

    records: Sequence[Record]
    offsets: Sequence[int]  # rising
    columns: DocumentColumns  # the documents among the records
    last: int  # the last raw offset that the batch covers
    size: int = 0  # bytes in memory


class NoVerdict(Enum):
    """Why a raw record has no verdict. All records but ``UNDECIDED`` ones are still output."""

    NO_DOCUMENT = auto()  # not readable, or a tombstone without a key
    # It is a document as read now, but was none for the sender of its packet.
    READ_OTHERWISE = auto()
    UNDECIDED = auto()  # it is not decided, not in the log yet, or perhaps in an undecided packet


class Output(NamedTuple, Generic[Record]):
    record: Record
    verdict: Verdict | Deleted | NoVerdict


class Verdict(NamedTuple):
    packet: Packet
    row: int
    match: Match | None  # None: unique
    replaced: bool = False  # the document removed a formerly unique entry with its id


class Deleted(NamedTuple):
    packet: Packet
    row: int
    has_output: bool  # the deleted document may have been unique


class NewEntries(NamedTuple):
    """Unique documents of one packet that become index entries."""

    log_offset: int
    packet: Packet
    rows: NDArray[np.intp]  # without those removed before they were output

    @property
    def sequences(self) -> NDArray[np.uint64]:
        return sequence_numbers(sequence_number(self.log_offset, self.packet.first), self.rows)


class Ready(NamedTuple, Generic[Record]):
    """What a shard can output next, and what it commits with that output."""

    outputs: list[Output[Record]]
    entries: list[NewEntries]
    next: int  # the raw offset after it
    # Entries to forget, which are not in ``entries``; some may no longer exist.
    removed: Sequence[int] = ()
    expired_before: int = 0  # entries before this sequence number may be forgotten
    # Raw offsets before ``next`` with a verdict, whose records are gone: they have no output.
    absent: Sequence[int] = ()
    ends_chain: bool = False  # nothing follows in this chain


class StreamNews:
    """Raw partitions that may have work, so that the others need no check."""

    def __init__(self) -> None:
        self.to_send: set[int] = set()
        self.to_commit: set[int] = set()

    def forget(self, partition: int) -> None:
        self.to_send.discard(partition)
        self.to_commit.discard(partition)


@dataclass(slots=True, eq=False)
class DecidedPacket:
    """The documents of a packet that counts, with the decisions on them."""

    log_offset: int
    packet: Packet
    matches: dict[int, Match]  # of the duplicates, by row of the packet
    removing: set[int]  # rows that removed an entry
    removed: set[int] = field(default_factory=set)  # rows that were removed
    rows: dict[int, int] = field(init=False)  # by raw offset

    def __post_init__(self) -> None:
        # NumPy would take microseconds to find a single row.
        self.rows = {offset: row for row, offset in enumerate(self.packet.columns.offsets.tolist())}

    @classmethod
    def of(cls, log_offset: int, packet: Packet, decision: Decision) -> DecidedPacket:
        """``decision`` is that of the bundle."""
        first, end = packet.first, packet.first + len(packet)
        matches = decision.matches
        matches = matches[bisect_left(matches, first, key=_row) :]
        return cls(
            log_offset,
            packet,
            {each.row - first: each for each in takewhile(lambda each: each.row < end, matches)},
            {each.row - first for each in decision.removals if first <= each.row < end},
        )

    def remove(self, sequence: int) -> None:
        self.removed.add(index_of(sequence) - self.packet.first)

    def rows_in(self, first: int, end: int) -> NDArray[np.intp]:
        """Return the rows with raw offsets in [first, end)."""
        return np.arange(*np.searchsorted(self.packet.columns.offsets, (first, end)))

    def new_rows(self, first: int, end: int) -> NDArray[np.intp]:
        """Return the rows of new entries with raw offsets in [first, end)."""
        columns = self.packet.columns
        rows = self.rows_in(first, end)
        if columns.operations is not None:
            rows = rows[columns.are_documents[rows]]
        left_out = self._left_out()
        return rows[~np.isin(rows, left_out)] if left_out else rows

    def _left_out(self) -> list[int]:
        return [*self.matches, *self.removed]


_row = attrgetter("row")
_NO_END: Final = np.iinfo(np.int64).max
CHAIN_END: Final = 1 << 62
"""The last raw offset of the packet that ends a chain, so that no packet can continue it."""
_CHAIN_END_ID: Final = "firstseen: end of a chain"
_NO_TIMES: Final = np.zeros(0, dtype=np.int64)
_FIRST_MS: Final = np.iinfo(np.int64).min
_LAST_MS: Final = np.iinfo(np.int64).max


class ShardStream(Generic[Record]):
    def __init__(
        self,
        progress: Progress,
        worker: str,
        *,
        expires: bool = False,
        news: StreamNews | None = None,
    ) -> None:
        """Resume at ``progress``; ``worker`` is the sender; ``expires``: entries expire here."""
        self.chain = progress.chain
        self.next = progress.next
        self.committed = progress
        self.head = NO_OFFSET
        self.waiting = 0
        self.waiting_bytes = 0
        self._worker = worker
        self._expires = expires
        self._news = StreamNews() if news is None else news
        self._removed: dict[int, None] = {}
        self._batches: deque[RawBatch[Record]] = deque()
        self._unsent: deque[RawBatch[Record]] = deque()
        self._decided: dict[int, DecidedPacket] = {}
        self._gone_before = 0
        self._compares = False
        self._reads_again = True  # records that are in the log, perhaps
        self._uncompared: deque[RawBatch[Record]] = deque()  # with undecided packets
        self.differs_at: int = _NO_END  # the raw offset from which on records are of the next chain
        self._next_chain: int | None = None  # its first raw offset
        self._end_columns: DocumentColumns | None = None
        self.has_end = False  # in the log
        self.is_over = False  # the progress of the next chain is committed
        self._sent: int | None = None
        self._number = 0
        self._first_number = 0

    @property
    def read_to(self) -> int:
        return self._batches[-1].last if self._batches else self.next - 1

    def next_is_ready(self, in_log_to: int = NO_OFFSET) -> bool:
        """Whether the next raw record was read and needs no further verdict; see ``ready``."""
        if not self._batches:
            return False
        offset = self._next_offset()
        if offset >= self.differs_at:
            return False
        if offset <= self.head:
            return True
        columns = self._batches[0].columns
        return offset > in_log_to and not (columns.offsets == offset).any()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def restart(self) -> None:
        """Forget everything read from the log, which will be read again; keep raw records."""
        self.head = NO_OFFSET
        self.has_end = False
        self._decided.clear()
        self._removed.clear()
        self._note_output()
        self.send_again()

    def add(self, batch: RawBatch[Record], *, compares: bool = False) -> None:
        """Add the next records.

        ``compares``: find out whether those that are in the log already are the same. Brokers may
        have lost these, and others may have their offsets.
        """
        self._batches.append(batch)
        if not self.differs:
            self._unsent.append(batch)
        self._compares = compares
        if compares and batch.offsets[0] <= self.head:
            self._compare([each.packet for each in self._decided.values()], [batch])
        if compares and self._reads_again:
            self._uncompared.append(batch)
        self.waiting += len(batch.records)
        self.waiting_bytes += batch.size
        self._note_output()  # of records that are no documents
        self._news.to_send.add(self.chain.partition)

    def gone_before(self, offset: int) -> None:
        """Go on at a raw offset: the records before it that were not added no longer exist.

        Those that are in the log get no output. Their entries stay, as others may repeat them.
        """
        self._gone_before = offset
        self._note_output()

    def _note_output(self) -> None:
        self._news.to_commit.add(self.chain.partition)

    # ---- records that brokers have lost

    def _compare(self, packets: Iterable[Packet], batches: Iterable[RawBatch[Record]]) -> None:
        """Compare raw records with those that are in the log at their offsets.

        Their times may differ: a lost record that is sent again, and gets its former offset, is the
        same document.
        """
        for packet, batch in product(packets, batches):
            if packet.last >= CHAIN_END or batch.offsets[0] > packet.last:
                continue
            read, logged = _documents_of(batch.columns), _documents_of(packet.columns)
            covered = (each for each in batch.offsets if packet.previous < each <= packet.last)
            differing = (each for each in covered if read.get(each) != logged.get(each))
            self.differs_at = min([self.differs_at, *differing])
        if self.differs:
            self._unsent.clear()

    def _compare_undecided(self, replica: Replica) -> None:
        """Do this before later records are sent, which would be those of another chain."""
        if self._uncompared:
            self._compare(replica.undecided.packets_of(self.chain, self.head), self._uncompared)
            self._reads_again = self._uncompared[-1].last < self._expected_head(replica)
            self._uncompared.clear()

    @property
    def differs(self) -> bool:
        return self.differs_at != _NO_END

    def cut(self) -> None:
        """Leave later documents to the next chain, because the end of this one is in the log."""
        later = (o for each in self._batches for o in each.columns.offsets.tolist())
        self.differs_at = min(
            [self.differs_at, self.read_to + 1, *(each for each in later if each > self.head)]
        )
        self._note_output()

    def end_chain(self, next_chain: int, words: int) -> None:
        """Append a packet that ends the chain, because all raw records of it were added.

        The commit of the last ones also begins the next chain at the raw offset ``next_chain``.
        Records in the log that were not added are lost. Their entries stay, as with
        ``gone_before``. The end is in the log, so that a former owner that stood still cannot add
        to the chain any more. ``words`` are those of a fingerprint.
        """
        if self._end_columns is None:
            rows = PacketRows(words)
            rows.add_delete(SourcePosition(self.chain.topic, 0, 0), _CHAIN_END_ID, 0)
            self._end_columns = rows.columns()
            self._next_chain = next_chain
        self._news.to_send.add(self.chain.partition)
        self._note_output()

    def _end(self, sent: int) -> Packet | None:
        """Return the packet that ends the chain, if everything else was sent."""
        if self._end_columns is None or sent >= CHAIN_END:
            return None
        offsets = np.array([sent + 1], dtype=np.int64)
        return self._packet(replace(self._end_columns, offsets=offsets), CHAIN_END)

    def _note_end(self) -> None:
        self.has_end = True
        self._note_output()

    def _next_offset(self) -> int:
        batch = self._batches[0]
        return batch.offsets[bisect_left(batch.offsets, self.next)]

    def send_again(self) -> None:
        self._sent = None
        self._first_number = self._number
        if not self.differs:
            self._unsent = self._batches.copy()
        self._news.to_send.add(self.chain.partition)

    def lost(self, packet: Packet) -> None:
        """Send the documents of a packet again that was not appended or does not count.

        This does nothing if they are in the log in another packet, or were sent again since.
        Otherwise one rejected packet would make all later ones be sent again.
        """
        is_latest = packet.sender.number >= self._first_number
        if packet.sender.worker == self._worker and is_latest and packet.last > self.head:
            self.send_again()

    def unsent_times(self, replica: Replica) -> NDArray[np.int64]:
        """Return when the documents to send may be sent, (n,): none before an earlier offset.

        A delete waits for its time, but no longer than the document after it: with times of fields,
        the time of its record may be years later.
        """
        sent = self._skip_sent(replica)
        columns = [self._after_sent(each.columns, sent) for each in self._unsent]
        if not columns:
            return _NO_TIMES
        times = np.concatenate([each.times_ms for each in columns])
        are_documents = np.concatenate([each.are_documents for each in columns])
        before = np.maximum.accumulate(np.where(are_documents, times, _FIRST_MS))
        after = np.minimum.accumulate(np.where(are_documents, before, _LAST_MS)[::-1])[::-1]
        return np.maximum.accumulate(np.where(are_documents, before, np.minimum(times, after)))

    def next_packet(
        self,
        replica: Replica,
        documents: int = BUNDLE_DOCUMENTS_LIMIT,
        size: int = 1 << 30,
        until_ms: int | None = None,
    ) -> Packet | None:
        """Return the next packet to append, once the log is read to its end.

        It joins batches that were not sent: at most ``documents`` documents, none from the first
        that is later than ``until_ms`` on, and no more batches once they have ``size`` bytes. If
        its ``previous`` is a wrong guess, only the append is wasted.
        """
        self._compare_undecided(replica)
        if self.has_end:
            self._unsent.clear()
            return None
        sent = last = self._skip_sent(replica)
        if until_ms is not None and len(times := self.unsent_times(replica)):
            documents = min(documents, int(np.searchsorted(times, until_ms, "right")))
            if not documents:
                return None
        parts: list[DocumentColumns] = []
        for batch in self._unsent:
            columns = self._after_sent(batch.columns, sent)
            last = batch.last
            if len(columns) > documents:
                columns = columns.part(0, documents)
                last = int(columns.offsets[-1])
            documents -= len(columns)
            if len(columns):
                parts.append(columns)
                size -= columns.nbytes
            if not documents or size <= 0:
                break
        if not parts:
            if not documents:
                return None
            self._unsent.clear()
            return self._end(sent)
        return self._packet(joined_columns(parts), last)

    def _skip_sent(self, replica: Replica) -> int:
        """Drop batches that were sent; return the last raw offset that was."""
        if self._sent is None:
            self._sent = self._expected_head(replica)
        while self._unsent and self._unsent[0].last <= self._sent:
            self._unsent.popleft()
        return self._sent

    def _after_sent(self, columns: DocumentColumns, sent: int) -> DocumentColumns:
        if len(columns) and columns.offsets[0] <= sent:
            return columns.part(int(np.searchsorted(columns.offsets, sent, "right")), len(columns))
        return columns

    def _expected_head(self, replica: Replica) -> int:
        return replica.undecided.head_of(self.chain, self.head)

    def _packet(self, columns: DocumentColumns, last: int) -> Packet:
        assert self._sent is not None
        packet = Packet(self.chain, Sender(self._worker, self._number), self._sent, last, columns)
        self._number += 1
        self._sent = last
        return packet

    def skipped(self, packet: Packet) -> None:
        """Note that a packet of this chain does not count."""
        self.lost(packet)
        self._note_output()  # records that could have been in it no longer wait

    def decided(self, decided: DecidedPacket) -> None:
        packet = decided.packet
        if packet.last >= CHAIN_END:
            self._note_end()
            return
        if self._compares and (self._reads_again or packet.sender.worker != self._worker):
            # It may be of a former owner that stood still, and has read records that are lost.
            self._compare([packet], self._batches)
        self.head = packet.last
        self._note_output()
        if decided.packet.last >= self.next:
            self._decided[decided.log_offset] = decided

    def remove(self, sequences: Iterable[int]) -> None:
        for sequence in sequences:
            self._removed[sequence] = None
            self._leave_out(sequence)
        self._note_output()

    def _leave_out(self, sequence: int) -> None:
        decided = self._decided.get(log_offset_of(sequence))
        if decided is not None:
            decided.remove(sequence)

    def heads_known(self, head: int) -> None:
        if head >= CHAIN_END:
            self._note_end()
            return
        self.head = max(self.head, head)
        self._note_output()

    def ready(
        self, limit: int, expired_before: int = 0, in_log_to: int = NO_OFFSET
    ) -> Ready[Record]:
        """Return what can be output next, about ``limit`` records at most; change nothing.

        An undecided packet may contain raw records up to ``in_log_to``. Another worker may have
        read a document where this worker read none, so such records wait too; otherwise the entry
        would never reach the store.
        """
        outputs: list[Output[Record]] = []
        end = self.next
        for offset, output in self._outputs(in_log_to):
            if output is None:
                end = max(end, offset + 1)
                continue
            if len(outputs) >= limit:
                break
            outputs.append(output)
            end = offset + 1
        has_all = self.has_end and self._next_chain is not None and in_log_to <= self.head < end
        left = (o for each in self._batches for o in each.offsets if end <= o < self.differs_at)
        ends = has_all and next(left, None) is None
        return self._ready(outputs, end, expired_before, ends=ends)

    def _outputs(self, in_log_to: int) -> Iterator[tuple[int, Output[Record] | None]]:
        """Yield raw offsets with their outputs; None: nothing was read up to this offset."""
        return takewhile(_has_verdict, self._with_verdicts(in_log_to))

    def _with_verdicts(self, in_log_to: int) -> Iterator[tuple[int, Output[Record] | None]]:
        """Yield what was read and is not output yet, even without a verdict."""
        decided = iter(self._decided.values())
        current = next(decided, None)
        for batch in self._batches:
            for offset, record in zip(batch.offsets, batch.records, strict=True):
                if offset < self.next:
                    continue
                if offset >= self.differs_at:
                    yield from self._lost(in_log_to)
                    return
                while current is not None and current.packet.last < offset:
                    current = next(decided, None)
                verdict = self._verdict(offset, current, batch.columns, in_log_to)
                yield offset, Output(record, verdict)
            yield batch.last, None
        yield from self._lost(in_log_to)

    def _lost(self, in_log_to: int) -> Iterator[tuple[int, None]]:
        """Yield the last of the raw offsets in the log whose records no longer exist."""
        if in_log_to <= self.head:  # otherwise an undecided packet may have entries
            yield self._gone_before - 1, None
            if self.has_end and self._next_chain is not None:
                yield self.head, None

    def _verdict(
        self, offset: int, packet: DecidedPacket | None, documents: DocumentColumns, in_log_to: int
    ) -> Verdict | Deleted | NoVerdict:
        if packet is not None and (row := packet.rows.get(offset)) is not None:
            return self._logged_verdict(packet, row)
        if (documents.offsets == offset).any():
            return NoVerdict.READ_OTHERWISE if self._is_decided(offset) else NoVerdict.UNDECIDED
        may_be_in_log = not self._is_decided(offset) and offset <= in_log_to
        return NoVerdict.UNDECIDED if may_be_in_log else NoVerdict.NO_DOCUMENT

    def _is_decided(self, offset: int) -> bool:
        return offset <= self.head

    def _logged_verdict(self, packet: DecidedPacket, row: int) -> Verdict | Deleted:
        removing = row in packet.removing
        operations = packet.packet.columns.operations
        if operations is not None and operations[row] == DELETE:
            return Deleted(packet.packet, row, has_output=self._has_output(removing=removing))
        return Verdict(packet.packet, row, packet.matches.get(row), removing)

    def _has_output(self, *, removing: bool) -> bool:
        """Return whether a delete is output: what it removes was unique, or may have been."""
        return removing or self._expires

    def _ready(
        self, outputs: list[Output[Record]], end: int, expired_before: int, *, ends: bool
    ) -> Ready[Record]:
        entries = []
        for each in self._decided.values():
            if each.packet.previous + 1 >= end:
                break  # later documents have no output yet
            rows = each.new_rows(self.next, end)
            if len(rows) and each.log_offset >= log_offset_of(expired_before):
                entries.append(NewEntries(each.log_offset, each.packet, rows))
        absent = self._absent(outputs, end)
        return Ready(outputs, entries, end, list(self._removed), expired_before, absent, ends)

    def _absent(self, outputs: Iterable[Output[Record]], end: int) -> list[int]:
        """Return raw offsets that are in the log, but were not there to be read again.

        The topic deleted them, or a compacted topic has a later record of their key, after the
        worker that sent them was killed.
        """
        known = [each.verdict for each in outputs if not isinstance(each.verdict, NoVerdict)]
        in_log: list[NDArray[np.int64]] = []
        for each in self._decided.values():
            if each.packet.previous + 1 >= end:
                break
            in_log.append(each.packet.columns.offsets[each.rows_in(self.next, end)])
        if sum(map(len, in_log)) == len(known):
            return []
        read = {int(each.packet.columns.offsets[each.row]) for each in known}
        return [offset for part in in_log for offset in part.tolist() if offset not in read]

    def advance(self, progress: Progress, removed: Iterable[int] = ()) -> None:
        """Forget everything before the committed ``progress``, and the entries in ``removed``."""
        for sequence in removed:
            self._removed.pop(sequence, None)
        self.committed = progress
        if progress.chain != self.chain:
            self.is_over = True
            return
        self.next = progress.next
        committed = takewhile(lambda each: each.packet.last < self.next, self._decided.values())
        for log_offset in [each.log_offset for each in committed]:
            del self._decided[log_offset]
        self._note_output()
        while self._batches and self._batches[0].last < self.next:
            batch = self._batches.popleft()
            self.waiting -= len(batch.records)
            self.waiting_bytes -= batch.size
        while self._unsent and self._unsent[0].last < self.next:
            self._unsent.popleft()

    def progress(self, ready: Ready[Record], replica: Replica) -> Progress:
        """Return the progress to commit with ``ready``, which begins the next chain at the end."""
        progress = self._progress(ready.next, replica)
        if not ready.ends_chain:
            return progress
        assert self._next_chain is not None
        chain = self.chain.after_loss()
        return msgspec.structs.replace(progress, chain=chain, next=self._next_chain)

    def _progress(self, next_offset: int, replica: Replica) -> Progress:
        position = self._position(next_offset, replica)
        if not self._is_after_committed(position):
            # While the log is read again, for another shard or from a control record on, the
            # replica knows an earlier position than the committed one, and the log may be trimmed
            # up to that.
            return msgspec.structs.replace(self.committed, next=next_offset)
        progress = Progress(self.chain, next_offset, position, replica.control_before(position))
        clock = replica.clock_before(progress.needed)
        return progress if clock is None else msgspec.structs.replace(progress, clock=clock)

    def _is_after_committed(self, position: int) -> bool:
        return position > self.committed.position

    def _position(self, next_offset: int, replica: Replica) -> int:
        undecided = replica.undecided.first_of(self.chain)
        waiting = self._first_waiting(next_offset)
        needed = [each for each in (undecided, waiting) if each is not None]
        return min([replica.decided_before, *needed])

    def _first_waiting(self, next_offset: int) -> int | None:
        decided = self._decided.values()
        waiting = (each.log_offset for each in decided if each.packet.last >= next_offset)
        return next(waiting, None)


def _documents_of(columns: DocumentColumns) -> dict[int, tuple[bytes, str]]:
    """Return the digests and ids of documents by raw offset."""
    return {
        offset: (columns.digest(row), columns.document_id(row))
        for row, offset in enumerate(columns.offsets.tolist())
    }


def _has_verdict(read: tuple[int, Output[Record] | None]) -> bool:
    _, output = read
    return output is None or output.verdict is not NoVerdict.UNDECIDED
