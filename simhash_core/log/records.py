"""Records of the log and of the reports topic, and the sequence numbers of documents."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar, Final, NamedTuple

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns, joined_columns
from simhash_core.documents import Entry, SourcePosition
from simhash_core.errors import ProtocolError
from simhash_core.log import versions
from simhash_core.verdicts import Answer, Match
from simhash_core.window import SLICES, Window

# A sequence number is a document's position in the log as 64 bits: the offset of its bundle, then
# its row there in the last 16 bits.
INDEX_BITS: Final = 16
BUNDLE_DOCUMENTS_LIMIT: Final = 1 << INDEX_BITS
_INDEX_MASK: Final = BUNDLE_DOCUMENTS_LIMIT - 1


def sequence_number(log_offset: int, index: int) -> int:
    return log_offset << INDEX_BITS | index


def sequence_numbers(first: int, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return the sequence numbers of rows; ``first`` is the number of row 0."""
    return np.uint64(first) + rows.astype(np.uint64)


def log_offset_of(sequence: int) -> int:
    return sequence >> INDEX_BITS


def index_of(sequence: int) -> int:
    return sequence & _INDEX_MASK


NO_OFFSET: Final = -1  # before the first
NO_EPOCH: Final = -1
"""The leader epoch of no raw record, or of one from a broker that does not return epochs."""


_LOSSES: Final = "~"


class Chain(NamedTuple):
    """The chain of packets of one raw partition.

    A raw offset must name one record for ever. So a topic that is created again has new chains, and
    so has a partition whose brokers lost its last records, because others take their offsets.
    """

    topic: str
    # The broker's id of the topic, which may be empty; "~2" after it: records were lost twice.
    topic_id: str
    partition: int

    def is_of(self, topic_id: str) -> bool:
        """Return whether it is of the topic with this id at the broker."""
        return self._id_and_losses()[0] == topic_id

    def after_loss(self) -> Chain:
        """Return the chain that follows after brokers lost records that this one has."""
        topic_id, losses = self._id_and_losses()
        return self._replace(topic_id=f"{topic_id}{_LOSSES}{losses + 1}")

    def is_before(self, other: Chain) -> bool:
        """Return whether brokers lost records of this chain, so that ``other`` followed it."""
        (topic_id, losses), (other_id, other_losses) = self._id_and_losses(), other._id_and_losses()
        same = (self.topic, topic_id, self.partition) == (other.topic, other_id, other.partition)
        return same and losses < other_losses

    def _id_and_losses(self) -> tuple[str, int]:
        topic_id, _, losses = self.topic_id.partition(_LOSSES)
        return topic_id, int(losses or 0)


class Sender(NamedTuple):
    worker: str  # names this run of the worker
    number: int  # rises


@dataclass(frozen=True, slots=True, eq=False)
class Packet:
    """Documents of one raw partition: one link of its chain.

    ``previous`` is the raw offset that the sender believes to be the last in the log. The packet
    counts only if this is true at its offset in the log: compare-and-append. So all readers skip a
    packet that was appended twice, by a former owner of the partition, or with a wrong
    ``previous``. A packet covers all raw offsets after ``previous`` up to ``last``; those without a
    row hold no document.
    """

    chain: Chain
    sender: Sender
    previous: int
    last: int
    columns: DocumentColumns
    first: int = 0  # the row of the bundle at which it begins

    def __len__(self) -> int:
        return len(self.columns)

    def source(self, row: int) -> SourcePosition:
        return SourcePosition(
            self.chain.topic, self.chain.partition, int(self.columns.offsets[row])
        )


class BundleSegment(NamedTuple):
    """A packet in a bundle, without its documents."""

    chain: Chain
    number: int  # of the packet, see ``Sender``
    previous: int
    last: int
    first: int  # the row of the bundle at which it begins
    end: int  # the row after its last one


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """The packets of one log record with all rows in common columns; each packet counts by itself.

    All packets are of different raw partitions.
    """

    worker: str
    segments: Sequence[BundleSegment]
    columns: DocumentColumns
    first: ClassVar[int] = 0

    @classmethod
    def of(cls, packets: Sequence[Packet]) -> Bundle:
        """Join packets of one sender."""
        segments = []
        first = 0
        for packet in packets:
            end = first + len(packet)
            chain, number = packet.chain, packet.sender.number
            segments.append(BundleSegment(chain, number, packet.previous, packet.last, first, end))
            first = end
        columns = joined_columns([packet.columns for packet in packets])
        return cls(packets[0].sender.worker, segments, columns)

    def __len__(self) -> int:
        return len(self.columns)

    def packet(self, at: int) -> Packet:
        chain, number, previous, last, first, end = self.segments[at]
        columns = self.columns
        if len(self.segments) > 1:
            columns = columns.part(first, end)
        return Packet(chain, Sender(self.worker, number), previous, last, columns, first)

    def packets(self) -> Iterator[Packet]:
        return map(self.packet, range(len(self.segments)))

    def source(self, row: int) -> SourcePosition:
        chain = self.segments[bisect_right(self.segments, row, key=attrgetter("first")) - 1].chain
        return SourcePosition(chain.topic, chain.partition, int(self.columns.offsets[row]))

    def rows_without(self, skipped: Iterable[int]) -> NDArray[np.bool_]:
        """Return which rows do not belong to the segments with these numbers, bool (rows,)."""
        rows = np.ones(len(self), dtype=np.bool_)
        for at in skipped:
            rows[self.segments[at].first : self.segments[at].end] = False
        return rows


def item_checksum(item: Bundle | Query) -> int:
    """Return XXH32 of what no other bundle or query has, unless it was appended twice."""
    if isinstance(item, Query):
        text = item.identifier
    else:
        chain, number, previous, last, *_ = item.segments[0]
        text = f"{item.worker} {chain.partition} {number} {previous} {last} {len(item)}"
    return xxhash.xxh32_intdigest(text.encode())


def entry_of(documents: Packet | Bundle, row: int) -> Entry:
    columns = documents.columns
    return Entry(
        documents.source(row),
        columns.document_id(row),
        int(columns.times_ms[row]),
        b"" if columns.undecidable[row] else columns.fingerprints[row].tobytes(),
        columns.digest(row),
        columns.sketches[row],
        columns.scope(row),
    )


class ChainHeads(NamedTuple):
    """The last raw offset in the log of each chain; ``chains`` rise."""

    chains: tuple[Chain, ...] = ()
    last: array[int] = array("q")

    @classmethod
    def of(cls, heads: Iterable[tuple[Chain, int]]) -> ChainHeads:
        in_order = sorted(heads)
        return cls(
            tuple(chain for chain, _ in in_order), array("q", (last for _, last in in_order))
        )

    def items(self) -> Iterator[tuple[Chain, int]]:
        return zip(self.chains, self.last, strict=True)


class Heads:
    """The last raw offset in the log of each chain, as given by the packets that count."""

    def __init__(self, heads: ChainHeads = ChainHeads()) -> None:  # noqa: B008 - it is never changed
        self._set(heads)

    def _set(self, heads: ChainHeads) -> None:
        self._chains = [*heads.chains]
        self._last = heads.last[:]
        self._at = {chain: at for at, chain in enumerate(self._chains)}
        self._partitions = {chain.partition for chain in self._chains}
        self._columns = heads.chains  # in order; the dictionary has later chains after these

    def counts(self, packet: Packet | BundleSegment) -> bool:
        return packet.previous == self.last(packet.chain) and packet.last > packet.previous

    def advance(self, packet: Packet | BundleSegment) -> None:
        chain = packet.chain
        at = self._at.get(chain)
        if at is None:
            self._at[chain] = len(self._chains)
            self._chains.append(chain)
            self._last.append(packet.last)
            self._partitions.add(chain.partition)
        else:
            self._last[at] = packet.last

    def take(self, bundle: Bundle) -> list[int]:
        """Advance by the packets of a bundle that count; return the numbers of the others."""
        skipped = []
        for at, segment in enumerate(bundle.segments):
            if self.counts(segment):
                self.advance(segment)
            else:
                skipped.append(at)
        return skipped

    def last(self, chain: Chain) -> int:
        at = self._at.get(chain)
        return NO_OFFSET if at is None else self._last[at]

    @property
    def partitions(self) -> AbstractSet[int]:
        """The raw partitions that have any document in the log: the shards."""
        return self._partitions

    def columns(self) -> ChainHeads:
        if len(self._columns) < len(self._chains):
            self._set(ChainHeads.of(zip(self._chains, self._last, strict=True)))
        return ChainHeads(self._columns, self._last[:])


class LogClock(msgspec.Struct, frozen=True, array_like=True):
    """The watermark at an offset of the log."""

    watermark: int  # milliseconds
    slices: list[tuple[int, int]]  # numbers that have not expired, with first log offsets

    @property
    def horizon(self) -> int:
        return self.slices[0][1]


class Horizons:
    """What has expired at each log offset that is still needed, if an index has a window.

    The watermark at an offset is the highest time of all documents up to it. The time of a document
    is at most the append time of its packet, so a date in the future does not move the watermark
    further. The watermark is cut into slices; window plus lateness is ``SLICES`` slices long. Two
    documents within the window, the later of them at most ``lateness`` late, are never more than
    ``SLICES`` slices apart; so everything before has expired. All readers compute the same slices.
    """

    def __init__(self, window: Window | None, clock: LogClock | None = None) -> None:
        """``clock`` is the watermark where reading begins; None if there is no document before."""
        self._window = window
        self._offsets = [-1]
        self._clocks = [clock]

    def __len__(self) -> int:
        return len(self._offsets)

    def bundle(self, offset: int, columns: DocumentColumns, appended_ms: int) -> None:
        if self._window is None:
            return
        times = columns.document_times_ms
        if not len(times):
            return
        time_ms = int(np.minimum(times, appended_ms).max())
        clock = self._clocks[-1]
        if clock is not None and time_ms <= clock.watermark:
            return
        number = time_ms // self._window.slice_ms
        slices = [] if clock is None else clock.slices
        if not slices or slices[-1][0] < number:
            slices = [each for each in slices if each[0] >= number - SLICES]
            slices.append((number, offset))
        self._offsets.append(offset)
        self._clocks.append(LogClock(time_ms, slices))

    def at(self, offset: int) -> int:
        """Return the offset before which everything has expired for the record at ``offset``.

        A bundle's own documents do not count: in an archive, one bundle may cover more time than
        the window, and its first documents must still find those just before them.
        """
        clock = self.before(offset)
        return 0 if clock is None else clock.horizon

    def before(self, offset: int) -> LogClock | None:
        """Return the watermark, None before all documents; raises ``ProtocolError``."""
        at = bisect_left(self._offsets, offset)
        if not at:
            raise ProtocolError(
                f"the watermark before offset {offset} of the log is no longer kept"
            )
        return self._clocks[at - 1]

    def forget_before(self, offset: int) -> None:
        unneeded = self._unneeded(offset)
        del self._offsets[:unneeded], self._clocks[:unneeded]

    def _unneeded(self, offset: int) -> int:
        return max(0, bisect_left(self._offsets, offset) - 1)


NO_CONTROL: Final = -1  # before the first control record


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A query for one document: it is looked up and decided like a new document, but not kept."""

    identifier: str
    limit: int  # of neighbours in the answer
    columns: DocumentColumns


class Removal(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """The removal of an entry, by a delete or by a document that replaces those of its id."""

    row: int  # of the delete or document in its bundle
    partition: int  # the shard of the entry
    sequence: int  # of the entry


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """The decision on the bundle or query at one offset of the log."""

    offset: int
    matches: list[Match]  # of the duplicates, by row
    answer: Answer | None = None
    removals: list[Removal] = []  # by row
    skipped: list[int] = []  # numbers of the segments that break their chains and do not count


Standbys = tuple[tuple[str, tuple[int, ...]], ...]
"""The workers with open standbys, each with its shards; both rise."""


class Control(msgspec.Struct, frozen=True, array_like=True):
    """A link of one chain: readers ignore a record whose ``previous`` is not the last link.

    A verdict counts as soon as it is read in an accepted control record.
    """

    previous: int  # offset of the control record before
    leader: str  # the name of its term
    leads: bool  # it begins the term and decides nothing; only reports made after it count
    decisions: list[Decision]
    heads: ChainHeads  # of all chains after these decisions
    next: int  # everything before this log offset is decided
    version: int = versions.OLDEST  # in force after this record
    standbys: Standbys = ()  # open ones, as reported; () before ``versions.STANDBYS_SINCE``
    checksums: tuple[int, ...] = ()  # of what the decisions are on; (): not known

    def standbys_of(self, partition: int) -> set[str] | None:
        """Return the members that have a standby of a shard open; None: the record does not say."""
        if self.version < versions.STANDBYS_SINCE:
            return None
        return {versions.member_of(name) for name, shards in self.standbys if partition in shards}


LogRecord = Bundle | Query | Control


class Found(msgspec.Struct, frozen=True, array_like=True):
    """What a worker's shards found for the bundle or query at one log offset."""

    offset: int
    matches: list[Match]  # the nearest of each document that has any
    answer: Answer | None = None
    held: list[Removal] = []  # entries of these shards that the bundle removes


class Report(msgspec.Struct, frozen=True, array_like=True):
    """A worker's look-ups of all undecided documents of a range of the log."""

    worker: str
    shards: list[int]  # the shards that were looked up
    control: int  # the last control record that was applied before the look-ups
    first: int
    end: int  # the offset after the last one; not above ``first``: nothing was looked up
    found: list[Found]  # by offset; nothing was found for the others
    positions: dict[int, int]  # the lowest log offset that each owned shard needs after a restart
    reads: int = versions.OLDEST  # the newest version of the formats that the worker reads


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """How far a shard is processed; committed together with its outputs and entries."""

    chain: Chain
    next: int  # raw offset to output next
    position: int  # where to resume the log: before all that is undecided or not output
    control: int  # the control record in force at ``position``, always before it
    clock: LogClock | None = None  # watermark before ``needed``; None: no window or no document

    @property
    def needed(self) -> int:
        """The lowest log offset that is read after a restart."""
        return self.position if self.control == NO_CONTROL else min(self.position, self.control)
