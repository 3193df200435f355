"""One worker's part in the log's protocol: what it reads, reports, decides and outputs.

This module does no I/O: the caller passes in the records that it read, and appends, commits or
sends the results. A *session* is the time with one set of shards. When the set changes, the next
session reads the log again from the committed position; waiting raw records and the index stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import ProtocolError
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.look_up import LookUp, Nearness, View
from simhash_core.index.prints import Prints
from simhash_core.log import versions
from simhash_core.log.decider import Decider, term_of, worker_of
from simhash_core.log.records import (
    NO_CONTROL,
    Bundle,
    Control,
    Found,
    Heads,
    Horizons,
    LogRecord,
    Packet,
    Progress,
    Query,
    Removal,
    Report,
)
from simhash_core.log.removals import REMOVALS_A_DOCUMENT, UndecidedRemovals, held, view_of
from simhash_core.log.replica import AcceptedControl, Decided, Replica
from simhash_core.log.shard_stream import Ready, Record, ShardStream
from simhash_core.log.shards import EntryStore, HeldShards, OwnedShard
from simhash_core.verdicts import Answer

Item = tuple[int, Bundle | Query, View, list[Removal]]  # with the offset in the log


class LookedUp(NamedTuple):
    """The results of looking up everything undecided from offset ``first`` to before ``end``."""

    first: int
    end: int
    found: list[Found]
    documents: int


class Reporter:
    """Looks up each undecided bundle and query once, in the order of the log, a few per step."""

    def __init__(
        self, index: DocumentIndex, nearness: Nearness, shards: HeldShards[Record], replica: Replica
    ) -> None:
        self._index = index
        self._shards = shards
        self._look_up = LookUp(index, nearness, shards)
        self._removals = UndecidedRemovals(replaces=nearness.replaces)
        self._replica = replica
        self._next = replica.start
        self._again: range = range(0)  # range of the log before ``_next`` to look up again

    def read(self, offset: int) -> None:
        item = self._replica.undecided[offset]
        if isinstance(item, Bundle):
            self._removals.read(offset, item, self._replica)

    def accepted(self, accepted: AcceptedControl) -> None:
        if accepted.has_heads:
            self._removals.begin(self._replica)
            return
        for decided in accepted.decided:
            if isinstance(decided.item, Bundle):
                self._removals.decided(decided.offset)

    @property
    def has_more(self) -> bool:
        """Whether ``step`` has something to look up: the heads say which packets count."""
        return self._replica.heads is not None and self._first_waiting() is not None

    def is_to_look_up_next(self) -> bool:
        return self.has_more and self._first_waiting() == self._replica.undecided.first

    def _first_waiting(self) -> int | None:
        undecided = self._replica.undecided
        again = next(undecided.starting_at(self._again.start), None) if self._again else None
        if again is not None and again in self._again:
            return again
        return next(undecided.starting_at(self._next), None)

    def look_up_again(self) -> None:
        self._next, self._again = self._replica.start, range(0)

    def look_up_oldest_again(self, limit: int) -> int:
        """Look up again up to ``limit`` of the oldest undecided bundles; return how many."""
        oldest = [*islice(self._replica.undecided, limit)]
        again = [each for each in oldest if each < self._next and each not in self._again]
        if again:
            self._again = range(self._replica.start, max(again[-1] + 1, self._again.stop))
        return len(again)

    def step(self, limit: int) -> LookedUp | None:
        """Look up the next documents: about ``limit`` of them, or one bundle that has more."""
        if not self.has_more:
            return None
        first, end, items = self._take(limit)
        bundles = [each for each in items if isinstance(each[1], Bundle)]
        matches_of = self._look_up.matches_of(
            [item.columns for _, item, _, _ in bundles], [view for _, _, view, _ in bundles]
        )
        found = []
        for (offset, _, _, removes), matches in zip(bundles, matches_of, strict=True):
            if matches or removes:
                found.append(Found(offset, matches, None, removes))
        for offset, item, view, _ in items:
            if isinstance(item, Query):
                answer = self._look_up.answer(item.columns, item.limit, view)
                matches = [] if answer.match is None else [answer.match]
                found.append(Found(offset, matches, answer))
        found.sort(key=attrgetter("offset"))
        documents = sum(len(item.columns) for _, item, _, _ in bundles)
        return LookedUp(first, end, found, documents)

    def _take(self, limit: int) -> tuple[int, int, list[Item]]:
        """Return what to look up next, and the range of the log that this covers."""
        if self._again and self._first_waiting() not in self._again:
            self._again = range(0)  # decided since then
        first, stop = (self._again.start, self._again.stop) if self._again else (self._next, None)
        items: list[Item] = []
        documents = 0
        end = first
        for offset in self._replica.undecided.starting_at(first):
            item = self._replica.undecided[offset]
            documents += len(item.columns)
            if (items and documents > limit) or (stop is not None and offset >= stop):
                break
            view = view_of(self._replica, offset, self._removals, self._index.dropped_before)
            removes = self._held(view) if isinstance(item, Bundle) else []
            documents += len(removes) // REMOVALS_A_DOCUMENT
            items.append((offset, item, view, removes))
            end = offset + 1
        if stop is None:
            self._next = end
        else:
            self._again = range(end, stop) if end < stop else range(0)
        return first, end, items

    def _held(self, view: View) -> list[Removal]:
        return held(view, self._shards)


LEADING_SHARD: Final = 0  # the owner of this shard is the leader
_ANY_OFFSET: Final = 1 << 63
REMEMBERED_OFFSETS_MIN: Final = 256  # with more remembered offsets, unneeded ones are dropped


class ShardReady(NamedTuple, Generic[Record]):
    partition: int
    ready: Ready[Record]
    progress: Progress


class BundleLimit(NamedTuple):
    """The limits at which a bundle is full."""

    documents: int
    size: int  # bytes of columns; the last packet may exceed it


class Waiting(NamedTuple):
    """What the next undecided bundle or query waits for."""

    offset: int
    leader: str | None  # who must decide it; None: this worker, or there is no leader
    shards: Mapping[int, str | None]  # without a report: by last reporter; only a leader knows
    own_turn: bool  # this worker must look up, report, decide or read more of the log


class Participant(Generic[Record]):
    """One worker's shards, reports and, if it leads, decisions. Not thread-safe."""

    def __init__(self, worker: str, nearness: Nearness, reads: int = versions.NEWEST) -> None:
        """``worker`` names this run of the worker; no other run has the same name.

        ``reads`` is the newest version of the formats that this release reads.
        """
        self.worker = worker
        self.reads = reads
        self.nearness = nearness
        self.index = DocumentIndex(nearness.scheme, nearness.window_ms)
        self.held: HeldShards[Record] = HeldShards(
            worker, self.index, expires=nearness.window is not None
        )
        self.shards = self.held.owned
        self.replica = Replica(0, NO_CONTROL)
        self.decider: Decider | None = None
        self.answers: dict[str, Answer | None] = {}  # to own queries; None: no answer yet
        self.documents_looked_up = 0
        self.packets_skipped = 0
        self.controls_refused = 0
        self._reporter = self._new_reporter()
        self._remembered_max = REMEMBERED_OFFSETS_MIN
        self._terms = 0
        self._end = self._seen = 0

    # ---- shards and sessions

    def add_shard(
        self,
        progress: Progress,
        store: EntryStore,
        committed: Iterable[tuple[NDArray[np.uint64], Prints]] = (),
    ) -> OwnedShard[Record]:
        """Add a shard with its committed entries; call ``begin`` to start the session.

        ``committed`` has batches of sequence numbers, uint64 (n,), and prints of decidable
        documents.
        """
        return self.held.own(progress, store, self.held.fill_slot(committed))

    def drop_shard(self, partition: int) -> None:
        self.held.drop(partition)
        if partition == LEADING_SHARD:
            self._lead_no_more()

    def promote(self, progress: Progress) -> OwnedShard[Record] | None:
        """Turn a standby into an owned shard at the last committed progress; then call ``begin``.

        Before, ``Standby.owner_committed`` must have received all commits. If this returns None,
        the standby was dropped: call ``add_shard`` instead.
        """
        shard = self.held.promote(progress, self.replica.decided_before)
        if shard is None:
            self.drop_standby(progress.chain.partition)
        return shard

    def demote(self, partition: int) -> bool:
        """Keep a shard that gets another owner as a standby; False: it is dropped instead.

        ``Standby.owner_committed`` must then receive all later commits. If this worker leads, it
        continues until the next owner of the leading shard succeeds it.
        """
        is_kept = self.held.demote(partition)
        if partition == LEADING_SHARD and not is_kept:
            self._lead_no_more()
        return is_kept

    def drop_standby(self, partition: int) -> None:
        self.held.drop_standby(partition)
        if partition == LEADING_SHARD and partition not in self.shards:
            self._lead_no_more()

    def take_lead(self) -> bool:
        """Lead because the leader is silent; return whether this worker can.

        It needs the leading shard, or a standby of it. If another worker owns the shard and is
        alive, it soon succeeds this one.
        """
        held = self.shards.get(LEADING_SHARD) or self.held.standbys.get(LEADING_SHARD)
        if self.decider is not None or held is None or not held.in_session:
            return False
        self.decider = self._new_decider()
        return True

    def begin(self, end: int) -> int:
        """Begin a session; return the offset to read from. It sends nothing before ``end``."""
        self._seen = max(self.log_seen, end)
        progresses = self.held.progresses(self.replica.decided_before)
        first = _first_needed(progresses)
        if first is None:
            self.replica = Replica(end, NO_CONTROL)
        else:
            horizons = Horizons(self.nearness.window, first.clock)
            chains = {shard.stream.chain for shard in self.shards.values()}
            self.replica = Replica(first.position, first.control, horizons, chains)
        self._end = end
        self._reporter = self._new_reporter()
        self._remembered_max = REMEMBERED_OFFSETS_MIN
        self.decider = self._new_decider() if LEADING_SHARD in self.shards else None
        self.held.begin(end)
        # Also in shards that were added since then.
        self.index.drop_before(self.index.dropped_before)
        return self.replica.start

    def _in_session(self, partitions: Iterable[int]) -> Iterator[OwnedShard[Record]]:
        for partition in sorted(partitions):
            shard = self.shards.get(partition)
            if shard is not None and shard.in_session:
                yield shard

    def _new_reporter(self) -> Reporter:
        return Reporter(self.index, self.nearness, self.held, self.replica)

    @property
    def watermark_ms(self) -> int | None:
        """The time of the stream at this reader; None without a window or before all documents."""
        clock = self.replica.clock_before(self.replica.position)
        return None if clock is None else clock.watermark

    @property
    def caught_up(self) -> bool:
        return self.replica.position >= self._end

    @property
    def log_seen(self) -> int:
        """The furthest end of the log so far; if it ends earlier, brokers have lost records."""
        return max(self._seen, self.replica.position)

    @property
    def leads(self) -> bool:
        return self.decider is not None and self.decider.leads

    @property
    def version(self) -> int:
        """The version of the formats in which this worker writes now."""
        return self.replica.version

    # ---- the log

    def read(self, offset: int, record: LogRecord, appended_ms: int) -> AcceptedControl | None:
        """Read the next record of the log; its version must count (``Replica.accepts``).

        Raises ``UnreadableVersionError`` if all records after it are written in a newer version.
        """
        accepted = self.replica.read(offset, record, appended_ms)
        self._refuse_newer()
        if accepted is None:
            if isinstance(record, Control):
                self._refused(record)
            else:
                self._reporter.read(offset)
            return None
        for decided in accepted.decided:
            self._decided(decided)
        self._reporter.accepted(accepted)
        if accepted.has_heads:
            heads = Heads(accepted.control.heads)
            for shard in self._in_session(self.shards):
                shard.stream.heads_known(heads.last(shard.stream.chain))
        if accepted.control.leads:
            self._term_begins()
        if self.decider is not None:
            self.decider.accepted(accepted)
            self._lead_again()
        if self.replica.expired > self.index.dropped_before:
            self.index.drop_before(self.replica.expired)
        if self.replica.remembered > self._remembered_max:
            self._forget()
        return accepted

    def _refuse_newer(self) -> None:
        if self.version > self.reads:
            where = f"the log, from the control record at {self.replica.control} on,"
            raise versions.UnreadableVersionError(where, self.version, self.reads)

    def _term_begins(self) -> None:
        self._reporter.look_up_again()  # the new leader has no earlier reports

    def _forget(self) -> None:
        needed = (each.needed for each in self.held.progresses(self.replica.decided_before))
        self.replica.forget_before(min(needed, default=self.replica.position))
        self._remembered_max = max(REMEMBERED_OFFSETS_MIN, 2 * self.replica.remembered)

    def _refused(self, control: Control) -> None:
        self.controls_refused += 1
        if self.decider is not None:
            self.decider.refused(control, self.replica)
            self._lead_again()

    def _lead_again(self) -> None:
        if self.decider is None or not self.decider.succeeded:
            return
        # An owner that decided nothing of what there was may receive no reports. It waits until
        # the other leader is silent: otherwise they would succeed each other, and decide nothing.
        in_vain = self.decider.was_in_vain and self.replica.undecided.first is not None
        if LEADING_SHARD in self.shards and not in_vain:
            self.decider = self._new_decider()
        else:
            self._lead_no_more()

    def _lead_no_more(self) -> None:
        self.decider = None
        self._reporter.look_up_again()  # while it led, only this worker got its reports

    def _decided(self, decided: Decided) -> None:
        item = decided.item
        if isinstance(item, Query):
            if item.identifier in self.answers:
                self.answers[item.identifier] = decided.decision.answer
            return
        self.packets_skipped += len(decided.decision.skipped)
        self.held.decided(decided.offset, item, decided.decision)

    def bundle(self, limit: BundleLimit, until_ms: int | None = None) -> Bundle | None:
        """Return the next bundle to append, with a packet of each shard that has documents to send.

        After a full bundle there may be another one. With a window, a bundle has the earliest
        documents, so that the later ones do not expire what these need, and none after
        ``until_ms``.
        """
        if not self.caught_up:
            return None
        packets: list[Packet] = []
        documents = size = 0
        shards = [*self._in_session(self.held.news.to_send)]
        latest_ms = self._latest_to_send([each.stream for each in shards], limit.documents)
        if until_ms is None or (latest_ms is not None and latest_ms < until_ms):
            until_ms = latest_ms
        for shard in shards:
            packet = shard.stream.next_packet(
                self.replica, limit.documents - documents, limit.size - size, until_ms
            )
            if packet is None:
                if not shard.stream.has_unsent:
                    self.held.news.to_send.discard(shard.partition)
                continue
            packets.append(packet)
            documents += len(packet)
            size += packet.columns.nbytes
            if documents >= limit.documents or size >= limit.size:
                break
        return Bundle.of(packets) if packets else None

    def earliest_to_send(self) -> int | None:
        """Return the earliest time of the documents to send; None if there are none."""
        shards = self._in_session(self.held.news.to_send)
        times = [each.stream.unsent_times(self.replica)[:1] for each in shards]
        return min(np.concatenate(times).tolist(), default=None) if times else None

    def _latest_to_send(self, streams: Sequence[ShardStream[Record]], documents: int) -> int | None:
        """Return the time up to which at most ``documents`` are sent; None: all may be sent."""
        if self.nearness.window is None or sum(each.waiting for each in streams) <= documents:
            return None
        times = np.concatenate([each.unsent_times(self.replica) for each in streams])
        if len(times) <= documents:
            return None
        last = int(np.partition(times, documents - 1)[documents - 1])
        # If more than fit have this time, all before it go first.
        return last if last == times.min() else last - 1

    # ---- reports and decisions

    def report(self, documents: int) -> Report | None:
        """Look up about ``documents`` undecided ones; return the report, None if there are none."""
        looked_up = self._reporter.step(documents)
        if looked_up is None:
            return None
        self.documents_looked_up += looked_up.documents
        return self._report(looked_up)

    @property
    def has_to_report(self) -> bool:
        return self._reporter.has_more

    def look_up_again(self) -> None:
        self._reporter.look_up_again()

    def report_again(self, limit: int) -> int:
        """Report ``limit`` bundles again, as acknowledged reports may be lost; return how many."""
        return self._reporter.look_up_oldest_again(limit)

    def positions(self) -> Report:
        """Return a report without look-ups, which only says which log offset each shard needs."""
        return self._report(LookedUp(0, 0, [], 0))

    def _report(self, looked_up: LookedUp) -> Report:
        return Report(
            self.worker,
            self.held.reported,
            self.replica.control,
            looked_up.first,
            looked_up.end,
            looked_up.found,
            {p: shard.stream.committed.needed for p, shard in self.shards.items()},
            self.reads,
        )

    @property
    def awaits_raise(self) -> bool:
        """Whether to report that this worker reads a newer version than the one in force."""
        return self.version < self.reads

    @property
    def has_standby_news(self) -> bool:
        """Whether control records name other standbys of this worker than it has open."""
        latest = self.replica.latest
        if latest is None or latest.version < versions.STANDBYS_SINCE or not self.caught_up:
            return False
        known = {
            shard for name, shards in latest.standbys if name == self.worker for shard in shards
        }
        return known != set(self.held.reported) - self.shards.keys()

    def set_members(self, members: Mapping[str, str]) -> None:
        """Take all members of the group (``Readers.check``) while this worker leads."""
        # While the group moves to another coordinator, it may seem to have no members.
        if self.decider is not None and versions.member_of(self.worker) in members:
            self.decider.report(self.positions())
            self.decider.set_members(members)

    def take_report(self, report: Report) -> None:
        if self.decider is not None:
            self.decider.report(report)

    def control(self, documents: int) -> Control | None:
        """Return the next control record, which decides about so many ``documents`` at most.

        Then call ``control_appended`` or ``control_failed``.
        """
        if self.decider is None or not self.caught_up:
            return None
        return self.decider.first_record(self.replica) or self.decider.decide(
            self.replica, documents
        )

    def control_appended(self, offset: int, term: str) -> None:
        if self.decider is not None and self.decider.term == term:
            self.decider.appended(offset)

    def control_failed(self, term: str) -> None:
        if self.decider is not None and self.decider.term == term:
            self.decider = self._new_decider()

    def _new_decider(self) -> Decider:
        self._terms += 1
        return Decider(term_of(self.worker, self._terms), self.nearness, self.reads)

    def waits_for(self) -> Waiting | None:
        """Return what the next undecided bundle or query, and so each later one, waits for."""
        offset = self.replica.undecided.first
        if offset is None:
            return None
        if self.decider is not None:
            return self._leader_waits_for(self.decider, offset)
        latest = self.replica.latest
        leader = None if latest is None else worker_of(latest.leader)
        if leader == self.worker:
            leader = None  # it was the leader; its successor has not begun
        is_to_report = bool(self.held.reported) and self._reporter.is_to_look_up_next()
        return Waiting(offset, leader, {}, own_turn=is_to_report or not self.caught_up)

    def _leader_waits_for(self, decider: Decider, offset: int) -> Waiting:
        if not decider.leads or decider.has_decided(offset):
            return Waiting(offset, None, {}, own_turn=True)
        missing = decider.waits_for(self.replica)
        own_turn = not missing or not missing.isdisjoint(self.held.reported)
        reporters = {shard: decider.reporter_of(shard) for shard in sorted(missing)}
        return Waiting(offset, None, reporters, own_turn)

    # ---- out

    def ready(self, limit: int, *, positions: bool = False) -> list[ShardReady[Record]]:
        """Return what can be output next; the caller commits it and then calls ``committed``.

        ``positions`` includes shards of which only the position changed, so that the log can be
        trimmed.
        """
        each_ready = self.each_ready(limit, positions=positions)
        return [ready for ready in each_ready if ready is not None]

    def each_ready(
        self, limit: int, *, positions: bool = False, unchanged: bool = False
    ) -> Iterator[ShardReady[Record] | None]:
        """Yield the results of ``ready``, and None for other shards, so that callers can pause.

        ``unchanged``: with ``positions``, all shards are ready.
        """
        news = self.held.news.to_commit
        for shard in self._in_session(self.shards if positions else news):
            stream = shard.stream
            if stream.is_over:
                yield None
                continue
            ready = stream.ready(limit, self.replica.expired, self._in_log_to(stream))
            progress = stream.progress(ready, self.replica)
            has_moved = positions and (unchanged or progress != stream.committed)
            has_output = ready.next > stream.next or bool(ready.removed) or ready.ends_chain
            if not has_output and self.caught_up:
                news.discard(shard.partition)
            is_ready = has_output or has_moved
            yield ShardReady(shard.partition, ready, progress) if is_ready else None

    def next_is_ready(self, shard: OwnedShard[Record]) -> bool:
        return shard.stream.next_is_ready(self._in_log_to(shard.stream))

    def _in_log_to(self, stream: ShardStream[Record]) -> int:
        return self.replica.undecided.last_of(stream.chain) if self.caught_up else _ANY_OFFSET

    def committed(self, ready: ShardReady[Record]) -> None:
        shard = self.shards.get(ready.partition)
        ends = ready.ready.ends_chain
        if shard is None or not (ends or shard.stream.chain == ready.progress.chain):
            raise ProtocolError(f"shard {ready.partition} was dropped during its commit")
        shard.commit(ready.ready, ready.progress)


def _first_needed(progresses: Sequence[Progress]) -> Progress | None:
    return min(progresses, key=lambda each: each.position, default=None)
