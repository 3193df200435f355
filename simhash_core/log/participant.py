"""One worker's part in the protocol: the log that it reads, its shards, its reports, its decisions.

Drives no I/O: the caller hands in what was read, and appends, commits or sends what is returned.
A *session* is the time with one set of shards. When shards come or go, the next session reads the
log again from what is committed; raw records that wait, and the index, stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import ProtocolError
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.look_up import LookUp, Nearness
from simhash_core.index.prints import Prints
from simhash_core.log.decider import Decider
from simhash_core.log.held_shards import HeldShards
from simhash_core.log.log_clock import Horizons
from simhash_core.log.outputs import Ready, Record
from simhash_core.log.packets import Heads, Packet
from simhash_core.log.records import (
    NO_CONTROL,
    Control,
    LogRecord,
    PacketReport,
    Progress,
    Query,
    Report,
)
from simhash_core.log.removals import held, views
from simhash_core.log.replica import Decided, Heeded, Replica
from simhash_core.log.shard import Shard
from simhash_core.log.shard_copy import EntryStore
from simhash_core.matches import Answer

LEADING_SHARD: Final = 0
"""The owner of this raw partition leads."""


class ShardReady(NamedTuple, Generic[Record]):
    """What a shard can put out, and its progress once it has."""

    partition: int
    ready: Ready[Record]
    progress: Progress


class Participant(Generic[Record]):
    """One worker's part. One thread at a time."""

    def __init__(self, worker: str, nearness: Nearness) -> None:
        """``worker`` names this life of the worker: no other has the name."""
        self.worker = worker
        self.nearness = nearness
        self.index = DocumentIndex(nearness.scheme, nearness.window_ms)
        self.held: HeldShards[Record] = HeldShards(
            worker, self.index, expires=nearness.window is not None
        )
        self.shards = self.held.owned
        self.replica = Replica(0, NO_CONTROL)
        self.decider: Decider | None = None
        self.answers: dict[str, Answer | None] = {}
        """Answers to the queries of this worker; None while there is none yet."""
        self.packets_skipped = 0
        self.controls_refused = 0
        self._look_up = LookUp(self.index, nearness, self.held)
        self._reigns = 0
        self._end = 0
        self._looked_up: set[int] = set()

    # ---- shards and sessions

    def add_shard(
        self,
        progress: Progress,
        store: EntryStore,
        committed: Iterable[tuple[NDArray[np.uint64], Prints]] = (),
    ) -> Shard[Record]:
        """Take a shard in, with its committed entries; ``begin`` then starts the session.

        ``committed``: sequence numbers uint64 (n,) and prints, a part at a time, of decidable
        documents.
        """
        return self.show_shard(progress, store, self.held.fill_slot(committed))

    def show_shard(
        self, progress: Progress, store: EntryStore, slot: int, log_end: int | None = None
    ) -> Shard[Record]:
        """Take in a shard whose entries are in ``slot`` of the index (``HeldShards.own``)."""
        return self.held.own(progress, store, slot, log_end)

    def drop_shard(self, partition: int) -> None:
        """Let a shard go; the session goes on without it."""
        self.held.drop(partition)
        if partition == LEADING_SHARD:
            self._lead_no_more()

    def promote(self, progress: Progress) -> Shard[Record] | None:
        """Own a shard that is a standby here, at the progress that was committed last.

        Its store has all that was committed, and ``Standby.owner_committed`` said so. ``begin``
        then starts the session. None: the standby is gone, and ``add_shard`` is to be called.
        """
        shard = self.held.promote(progress, self.replica.decided_before)
        if shard is None:
            self.drop_standby(progress.chain.partition)
        return shard

    def drop_standby(self, partition: int) -> None:
        """Let a standby go, if there is one; the session goes on without it."""
        self.held.drop_standby(partition)
        if partition == LEADING_SHARD and partition not in self.shards:
            self._lead_no_more()

    def stand_in(self) -> bool:
        """Lead for the owner of the leading shard, which is silent; return whether this can lead.

        A worker with a standby of that shard can, until another one leads: so does the owner, if it
        is alive, as soon as it reads that it was succeeded.
        """
        standby = self.held.standbys.get(LEADING_SHARD)
        if self.decider is not None or standby is None or not standby.in_session:
            return False
        self.decider = self._new_decider()
        return True

    def begin(self, end: int) -> int:
        """Begin a session; return the offset of the log to read from.

        ``end``: of the log now. Nothing is sent before the log was read that far.
        """
        progresses = self.held.progresses(self.replica.decided_before)
        first = min(progresses, key=lambda each: each.position, default=None)
        if first is None:
            self.replica = Replica(end, NO_CONTROL)
        else:
            horizons = Horizons(self.nearness.window, first.clock)
            self.replica = Replica(first.position, first.control, horizons)
        self._end = end
        self._looked_up.clear()
        self.decider = self._new_decider() if LEADING_SHARD in self.shards else None
        self.held.begin(end)
        self.index.drop_before(self.index.dropped_before)  # in shards that came since
        return self.replica.start

    def _in_session(self) -> list[Shard[Record]]:
        return [shard for shard in self.shards.values() if shard.in_session]

    @property
    def caught_up(self) -> bool:
        """Whether the log was read as far as it was when the session began."""
        return self.replica.position >= self._end

    @property
    def leads(self) -> bool:
        """Whether this worker is the leader."""
        return self.decider is not None and self.decider.leads

    # ---- the log

    def read(self, offset: int, record: LogRecord, appended_ms: int) -> Heeded | None:
        """Take in the next record of the log; ``appended_ms``: when the log took it in."""
        heeded = self.replica.read(offset, record, appended_ms)
        if heeded is None:
            if isinstance(record, Control):
                self._refused(record)
            return None
        heads = Heads(heeded.control.heads)
        for decided in heeded.decided:
            self._decided(decided)
        for shard in self._in_session():
            shard.stream.heads_known(heads.last(shard.stream.chain))
        if heeded.control.leads:
            self._looked_up.clear()  # the new leader knows of no report
        if self.decider is not None:
            self.decider.heeded(heeded)
            self._lead_again()
        if self.replica.expired > self.index.dropped_before:
            self.index.drop_before(self.replica.expired)
        needed = (each.needed for each in self.held.progresses(self.replica.decided_before))
        self.replica.forget_before(min(needed, default=self.replica.position))
        return heeded

    def _refused(self, control: Control) -> None:
        self.controls_refused += 1
        if self.decider is not None:
            self.decider.refused(control, self.replica)
            self._lead_again()

    def _lead_again(self) -> None:
        if self.decider is None or not self.decider.succeeded:
            return
        if LEADING_SHARD in self.shards:
            self.decider = self._new_decider()
        else:
            self._lead_no_more()

    def _lead_no_more(self) -> None:
        self.decider = None
        self._looked_up.clear()  # what was reported since it led, this worker alone has seen

    def _decided(self, decided: Decided) -> None:
        self._looked_up.discard(decided.offset)
        item = decided.item
        if isinstance(item, Query):
            if item.identifier in self.answers:
                self.answers[item.identifier] = decided.decision.answer
            return
        self.packets_skipped += decided.decision.matches is None
        self.held.decided(decided)

    def packets(self) -> Iterator[Packet]:
        """Yield the packets to append now, those of one shard in order."""
        if not self.caught_up:
            return
        for shard in self._in_session():
            while (packet := shard.stream.next_packet(self.replica)) is not None:
                yield packet

    # ---- reports and decisions

    def report(self, limit: int) -> Report | None:
        """Look up at most ``limit`` packets that were not yet; None where there are none.

        Which packets count, and take something out, is known from the heads of the chains on.
        """
        if self.replica.heads is None:
            return None
        fresh = (each for each in self.replica.undecided.items() if each[0] not in self._looked_up)
        items = list(islice(fresh, limit))
        if not items:
            return None
        offsets = [offset for offset, _ in items]
        self._looked_up.update(offsets)
        seen = views(
            self.replica, offsets, self.index.dropped_before, replaces=self.nearness.replaces
        )
        view_of = dict(zip(offsets, seen, strict=True))
        control = self.replica.control
        reports: list[PacketReport] = []
        packets = [(offset, item) for offset, item in items if isinstance(item, Packet)]
        matches_of = self._look_up.matches_of(
            [item.columns for _, item in packets], [view_of[offset] for offset, _ in packets]
        )
        for (offset, _), matches in zip(packets, matches_of, strict=True):
            removed = held(view_of[offset], self.held)
            reports.append(PacketReport(offset, control, matches, None, removed))
        for offset, item in items:
            if isinstance(item, Query):
                answer = self._look_up.answer(item.columns, item.limit, view_of[offset])
                matches = [] if answer.match is None else [answer.match]
                reports.append(PacketReport(offset, control, matches, answer))
        return self._report(reports)

    def look_up_again(self) -> None:
        """Report once more on all that is undecided: a report was lost."""
        self._looked_up.clear()

    def positions(self) -> Report:
        """Return a report of nothing but how far the shards need the log."""
        return self._report([])

    def _report(self, packets: list[PacketReport]) -> Report:
        return Report(
            self.worker,
            self.held.reported,
            packets,
            {p: shard.stream.committed.needed for p, shard in self.shards.items()},
        )

    def take_report(self, report: Report) -> None:
        """Take in a report, as the leader does."""
        if self.decider is not None:
            self.decider.report(report)

    def control(self, limit: int) -> Control | None:
        """Return the next control record to append, of at most ``limit`` packets.

        The next is returned after ``control_appended`` or ``control_failed``.
        """
        if self.decider is None or not self.caught_up:
            return None
        return self.decider.first_record(self.replica) or self.decider.decide(self.replica, limit)

    def control_appended(self, offset: int, reign: str) -> None:
        """Learn where a control record of a reign stands in the log."""
        if self.decider is not None and self.decider.reign == reign:
            self.decider.appended(offset)

    def control_failed(self, reign: str) -> None:
        """Learn that it is not known whether a control record is in the log: a new reign."""
        if self.decider is not None and self.decider.reign == reign:
            self.decider = self._new_decider()

    def _new_decider(self) -> Decider:
        self._reigns += 1
        return Decider(f"{self.worker}.{self._reigns}", self.nearness)

    # ---- out

    def ready(self, limit: int, *, positions: bool = False) -> list[ShardReady[Record]]:
        """Return what can be put out next; the caller commits it and says so.

        With ``positions`` a shard that has nothing to put out is in it if its position has moved:
        so that the log can be trimmed.
        """
        all_ready: list[ShardReady[Record]] = []
        for shard in self._in_session():
            stream = shard.stream
            ready = stream.ready(limit, self.replica.expired)
            progress = stream.progress(ready.next, self.replica)
            has_moved = positions and progress != stream.committed
            if ready.next > stream.next or ready.removed or has_moved:
                all_ready.append(ShardReady(shard.partition, ready, progress))
        return all_ready

    def committed(self, ready: ShardReady[Record]) -> None:
        """Learn that what was ready is committed, entries and progress included."""
        shard = self.shards.get(ready.partition)
        if shard is None or shard.stream.chain != ready.progress.chain:
            raise ProtocolError(f"shard {ready.partition} was let go while it was committed")
        shard.put_out(ready.ready, ready.progress)
