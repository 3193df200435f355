"""What every reader of the log knows: the undecided bundles and the chain of control records.

This state depends only on the log after some position, so all readers agree on it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import zip_longest
from typing import Final, NamedTuple

from simhash_core.log import versions
from simhash_core.log.records import (
    NO_CONTROL,
    NO_OFFSET,
    Bundle,
    BundleSegment,
    Chain,
    Control,
    Decision,
    Heads,
    Horizons,
    LogClock,
    LogRecord,
    Packet,
    Query,
    item_checksum,
    sequence_number,
)

# Limit of decided offsets that stay listed, unless they are fewer than half.
_PASSED_MIN: Final = 1024


class Undecided(Mapping[int, Bundle | Query]):
    """Bundles and queries that were read from the log and are not decided yet.

    Thousands may wait, so there is an index of the first one, and of the packets of each chain that
    matters here.
    """

    def __init__(self, chains: AbstractSet[Chain] | None = None) -> None:
        """``chains`` are those that ``first_of``, ``last_of`` and ``head_of`` know; None: all."""
        self._chains = chains
        self._items: dict[int, Bundle | Query] = {}
        self._of_chain: dict[Chain, dict[int, BundleSegment]] = {}
        self._last: dict[Chain, int] = {}
        self._offsets: list[int] = []
        self._passed = 0

    def __getitem__(self, offset: int) -> Bundle | Query:
        return self._items[offset]

    def __iter__(self) -> Iterator[int]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def first(self) -> int | None:
        return self._offsets[self._passed] if self._items else None

    def add(self, offset: int, item: Bundle | Query) -> None:
        self._items[offset] = item
        self._offsets.append(offset)
        for segment in self._known(item):
            self._of_chain.setdefault(segment.chain, {})[offset] = segment
            self._last[segment.chain] = max(segment.last, self.last_of(segment.chain))

    def pop(self, offset: int) -> Bundle | Query | None:
        """Remove and return what is at an offset when it is decided; None if nothing is there."""
        item = self._items.pop(offset, None)
        if item is None:
            return None
        for segment in self._known(item):
            chain = segment.chain
            of_chain = self._of_chain[chain]
            del of_chain[offset]
            if not of_chain:
                del self._of_chain[chain], self._last[chain]
            elif segment.last == self._last[chain]:  # rare: it does not count
                self._last[chain] = max(each.last for each in of_chain.values())
        while self._passed < len(self._offsets) and self._offsets[self._passed] not in self._items:
            self._passed += 1
        if self._passed > _PASSED_MIN and 2 * self._passed > len(self._offsets):
            del self._offsets[: self._passed]
            self._passed = 0
        return item

    def _known(self, item: Bundle | Query) -> Iterable[BundleSegment]:
        if isinstance(item, Query):
            return ()
        chains = self._chains
        if chains is None:
            return item.segments
        return [segment for segment in item.segments if segment.chain in chains]

    def starting_at(self, offset: int) -> Iterator[int]:
        at = bisect_left(self._offsets, offset, self._passed)
        while at < len(self._offsets):
            if self._offsets[at] in self._items:
                yield self._offsets[at]
            at += 1

    def first_of(self, chain: Chain) -> int | None:
        return next(iter(self._of_chain.get(chain, ())), None)

    def last_of(self, chain: Chain) -> int:
        return self._last.get(chain, NO_OFFSET)

    def head_of(self, chain: Chain, head: int = NO_OFFSET) -> int:
        """Return the head of a chain after its undecided packets; ``head`` is that before them."""
        for _, segment in self._counting(chain, head):
            head = segment.last
        return head

    def _counting(self, chain: Chain, head: int) -> Iterator[tuple[int, BundleSegment]]:
        for offset, segment in self._of_chain.get(chain, {}).items():
            if segment.previous == head:
                head = segment.last
                yield offset, segment

    def packets_of(self, chain: Chain, head: int) -> Iterator[Packet]:
        """Yield the undecided packets of a chain that count; ``head`` is that before them."""
        for offset, segment in self._counting(chain, head):
            bundle = self._items[offset]
            assert isinstance(bundle, Bundle)
            yield bundle.packet(bundle.segments.index(segment))


class Decided(NamedTuple):
    offset: int
    item: Bundle | Query
    decision: Decision


class AcceptedControl(NamedTuple):
    """A control record that continues the chain, with its decisions on what was read here."""

    offset: int
    control: Control
    decided: list[Decided]
    has_heads: bool = True  # False: its heads follow from the records read here


class Replica:
    def __init__(
        self,
        position: int,
        control: int,
        horizons: Horizons | None = None,
        chains: AbstractSet[Chain] | None = None,
    ) -> None:
        """Begin at ``position``; the control record in force there must be read first.

        ``horizons`` are those at ``position``. ``chains`` are those whose undecided packets must be
        known; None: all.
        """
        self.position = _starts_at(position, control)
        self.start = self.position
        self.control = NO_CONTROL
        self.latest: Control | None = None
        self.undecided = Undecided(chains)
        # The heads before the undecided bundles; None until a control record after ``start`` is
        # read.
        self.heads: Heads | None = None
        self._awaited = control
        self._accepted: list[int] = []
        self._horizons = Horizons(None) if horizons is None else horizons

    def read(self, offset: int, record: LogRecord, appended_ms: int = 0) -> AcceptedControl | None:
        """Read the next record of the log; return an accepted control record."""
        self.position = offset + 1
        if not isinstance(record, Control):
            self.undecided.add(offset, record)
            if isinstance(record, Bundle):
                self._horizons.bundle(offset, record.columns, appended_ms)
            return None
        if not self._continues(offset, record):
            return None  # it comes from a leader that was succeeded, or has read lost records
        self._awaited = NO_CONTROL
        self.control, self.latest = offset, record
        self._accepted.append(offset)
        decided = []
        for decision in record.decisions:
            item = self.undecided.pop(decision.offset)
            if item is not None:  # otherwise it was decided before this reader's position
                decided.append(Decided(decision.offset, item, decision))
        return AcceptedControl(offset, record, decided, self._takes_heads(record, decided))

    def _continues(self, offset: int, control: Control) -> bool:
        if self._awaited != NO_CONTROL:
            return offset == self._awaited
        return control.previous == self.control and self._has_decided(control)

    def _has_decided(self, control: Control) -> bool:
        """Return whether all that a control record decides is in the log, and was undecided.

        Otherwise its leader has read records that brokers have lost since. Others may have got
        their offsets.
        """
        for decision, checksum in zip_longest(control.decisions, control.checksums):
            if decision.offset < self.start:
                continue
            item = self.undecided.get(decision.offset)
            if item is None or checksum not in {None, item_checksum(item)}:
                return False
        return True

    def _takes_heads(self, control: Control, decided: Iterable[Decided]) -> bool:
        """Advance the heads by the decided bundles; return whether the record's own were needed."""
        if self.heads is not None:
            for each in decided:
                if isinstance(each.item, Bundle):
                    skipped = each.decision.skipped
                    for at, segment in enumerate(each.item.segments):
                        if at not in skipped:
                            self.heads.advance(segment)
            if self.heads.columns() == control.heads:
                return False
        self.heads = Heads(control.heads) if control.next >= self.start else None
        return True

    def skip(self, offset: int) -> None:
        self.position = offset + 1

    @property
    def lost_control(self) -> int | None:
        """The offset of the control record in force at the start, if it is not there."""
        return self._awaited if NO_CONTROL != self._awaited < self.position else None

    def lacks_committed(self, position: int, latest_entry: int) -> bool:
        """Return whether the log has lost records from which what a shard has committed follows.

        Call it when the log is read to its end. ``position`` is that of the shard's progress,
        ``latest_entry`` the highest log offset of its entries. It commits only what is decided;
        loaded entries have offsets of control records.
        """
        first = self.undecided.first
        return (
            self.position < max(position, latest_entry + 1)
            or self.decided_before < self.start
            or (first is not None and first < position)
            or latest_entry in self.undecided
        )

    @property
    def version(self) -> int:
        """The version of the formats in force at the position of this reader."""
        return versions.OLDEST if self.latest is None else self.latest.version

    def accepts(self, offset: int, version: int) -> bool:
        """Return whether a record of this version counts at ``offset``, the next to read."""
        return offset == self._awaited or versions.counts(version, self.version)

    @property
    def decided_before(self) -> int:
        """The offset of the log before which everything is decided."""
        return self.start if self.latest is None else self.latest.next

    def control_before(self, position: int) -> int:
        """Return the last accepted control record before ``position``; known from ``start`` on."""
        at = bisect_left(self._accepted, position)
        return self._accepted[at - 1] if at else NO_CONTROL

    def expired_for(self, offset: int) -> int:
        return sequence_number(self._horizons.at(offset), 0)

    @property
    def expired(self) -> int:
        return self.expired_for(self.decided_before)

    def clock_before(self, position: int) -> LogClock | None:
        """Return the watermark before ``position``; known from ``start`` on."""
        return self._horizons.before(position)

    @property
    def remembered(self) -> int:
        return len(self._accepted) + len(self._horizons)

    def forget_before(self, position: int) -> None:
        """Forget what is needed neither from ``position`` on nor for undecided packets."""
        position = self._needed_from(position)
        self._horizons.forget_before(position)
        del self._accepted[: self._unneeded_controls(position)]

    def _needed_from(self, position: int) -> int:
        return min(position, self.decided_before)

    def _unneeded_controls(self, position: int) -> int:
        return max(0, bisect_left(self._accepted, position) - 1)


def _starts_at(position: int, control: int) -> int:
    return position if control == NO_CONTROL else min(control, position)
