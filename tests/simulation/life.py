"""One life of a worker: the real ``Participant``, with the shell around it as small steps.

A step never waits: a later step gets the response to a request, or none does. A life ends with a
crash and loses everything in memory; what it sent may still arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from simhash_core.index.look_up import Nearness
from simhash_core.log.participant import LEADING_SHARD, BundleLimit, Participant, ShardReady
from simhash_core.log.records import NO_CONTROL, Bundle, Control, LogRecord, Progress, Report
from simhash_core.log.shard_stream import ShardStream
from simhash_core.log.versions import UnreadableVersionError
from tests.simulation.broker import RawRecord, StoredEntries
from tests.simulation.scenario import RATES
from tests.simulation.standby_copies import StandbyCopies

if TYPE_CHECKING:
    from tests.simulation.world import World

WAITING_LIMIT = 12
"""The approximate limit of raw records that wait in a shard."""
IDLE_LOOKS = 4
"""After so many steps without news and decisions, a worker reports again."""


class Life:
    def __init__(self, name: str, world: World, nearness: Nearness, reads: int) -> None:
        """``reads``: the newest version of the formats that its release reads."""
        self.name = name
        self.reads = reads
        self.is_member = True
        self.participant: Participant[RawRecord] = Participant(name, nearness, reads)
        self.epochs: dict[int, int] = {}
        self.answers: deque[Callable[[], None]] = deque()
        self._world = world
        self._rng = world.rng
        self._stores: dict[int, StoredEntries] = {}
        self.standbys = StandbyCopies(name, self.participant, world)
        self._opening: dict[int, Progress] = {}
        self._is_to_begin = False
        self._has_begun = False
        self.standstill = 0
        """The number of steps in which it does nothing and does not notice this."""
        self.joins_in = 0
        """The number of steps until it gets a shard; 0: it does not wait for one."""
        self._transaction: list[ShardReady[RawRecord]] | None = None
        self._reports_read = 0
        self._needed: dict[int, int] = {}
        self._trim_to: int | None = None
        self._seen_decided = 0
        self._idle_looks = 0
        self._actions: list[Callable[[], None]] = [
            self._intake,
            self._send,
            self._read_some,
            self._report,
            lambda: self.take_reports(self._rng.randint(1, 4)),
            self._decide,
            lambda: self._prepare(whole=False),
            self._commit,
            self._report_positions,
            self._trim,
            self.answered,
            self.learn,
            self._follow,
        ]
        if world.scenario.older < 1.0:
            self._actions.append(self._report_version)
        often = [self._rng.choice(RATES) for _ in self._actions]
        often[self._actions.index(self._read_some)] *= world.scenario.reading
        self._often = list(accumulate(often))

    @property
    def is_current(self) -> bool:
        assigned = self._world.broker.assigned(self.name)
        return self.is_member and all(assigned.get(p) == e for p, e in self.epochs.items())

    @property
    def owns_leading_shard(self) -> bool:
        """Whether this life believes that it owns the leading shard."""
        return self.participant.decider is not None

    def step(self) -> None:
        """Do one thing; each life does some things more often than others do."""
        if self.standstill:
            self.standstill -= 1
            return
        if self.joins_in:
            self.joins_in -= 1
            if not self.joins_in and self.is_member:
                self._world.join(self)
        self._rng.choices(self._actions, cum_weights=self._often)[0]()

    def whole_cycle(self) -> None:
        """Do everything once without a pause, as an undisturbed worker does."""
        self.standstill = 0
        self.learn()
        self.learn()
        if self._is_to_begin:
            self.begin()
        while self.answers:
            self.answered()
        self.standbys.follow(1_000_000)
        if LEADING_SHARD in self.participant.shards and self.participant.take_lead():
            self._takes_lead()  # the other leader is silent
        self._intake()
        self._send(all_of_it=True)
        self.read(1_000_000)
        self._report()
        self.take_reports(1_000_000)
        self._decide()
        self._prepare(whole=True)
        self._commit()
        self._report_positions()
        self._report_version()
        self._trim()
        self._trim()

    # ---- shards

    def learn(self) -> None:
        """Note shards that were assigned or revoked; does nothing if this is no member any more."""
        if not self.is_member:
            return
        assigned = self._world.broker.assigned(self.name)
        lost = [p for p, epoch in self.epochs.items() if assigned.get(p) != epoch]
        if not self._world.rules.lost_shards_are_dropped:
            self.epochs |= {p: assigned[p] for p in lost if p in assigned}
            lost = [p for p in lost if p not in assigned]
        for partition in lost:
            self._drop_shard(partition)
        self._opening = {p: each for p, each in self._opening.items() if p in assigned}
        opened = [p for p in assigned if p not in self.epochs and self._open(p, assigned[p])]
        wanted = self._world.broker.stands_by(self.name) - self.epochs.keys()
        opened += self.standbys.hold(wanted)
        self._is_to_begin |= bool(opened) or (bool(lost) and self._rng.random() < 0.5)
        often = (0.2 if opened else 0.6) * self._world.scenario.beginning
        if self._is_to_begin and self._rng.random() < often:
            self.begin()

    def _drop_shard(self, partition: int) -> None:
        self._transaction = None
        del self.epochs[partition]
        store = self._stores.pop(partition)
        if self.standbys.keeps() and self.participant.demote(partition):
            self.standbys.keep(partition, store)
        elif partition in self.participant.shards:
            self.participant.drop_shard(partition)

    def _open(self, partition: int, epoch: int) -> bool:
        """Open a shard; a new shard commits its first progress, in a separate step."""
        broker = self._world.broker
        changelog, chain = broker.changelogs[partition], broker.raw[partition].chain
        progress = changelog.progress
        if progress is None or progress.chain != chain:
            initial = self._opening.pop(partition, None)
            if initial is None or initial.chain != chain:
                known = progress or broker.changelogs[LEADING_SHARD].progress
                first = Progress(chain, 0, 0, NO_CONTROL)
                if known is not None:
                    first = msgspec.structs.replace(known, chain=chain, next=0)
                if not self._world.rules.first_progress_has_clock:
                    first = msgspec.structs.replace(first, clock=None)
                self._opening[partition] = first
                if self._world.rules.initial_progress:
                    return False
                initial = self._opening.pop(partition)
            else:
                self._world.commit_initial(partition, initial)
            progress = initial
        self.epochs[partition] = epoch
        store = self.standbys.promote(partition, progress)
        if store is None:
            store = StoredEntries(changelog.entries)
            held = self.participant.held
            prints = store.prints(self.participant.index.scheme.sketch_bands)
            slot = held.fill_slot(prints)
            self.participant.held.own(progress, store, slot, broker.log_end)
        store.commits = len(changelog.commits)
        self._stores[partition] = store
        if partition == LEADING_SHARD:
            self._reports_read = len(broker.reports)
            self._needed.clear()
        self._world.tell(f"{self.name} opens shard {partition} at {progress}")
        return True

    def begin(self) -> None:
        self._is_to_begin = False
        self._has_begun = True
        self._transaction = None
        self.standbys.open_trimmed()
        start = self.participant.begin(self._world.broker.log_end)
        self._world.tell(f"{self.name} begins: shards {sorted(self.epochs)}, reads from {start}")

    def send_again(self) -> None:
        for shard in self.participant.shards.values():
            shard.stream.send_again()

    # ---- to the log and from it

    def _intake(self) -> None:
        world, scenario = self._world, self._world.scenario
        for partition, shard in self.participant.shards.items():
            raw = world.broker.raw[partition]
            if shard.stream.chain != raw.chain or shard.stream.waiting > WAITING_LIMIT:
                continue
            count = self._rng.randint(1, scenario.batch)
            after, to_next = shard.stream.read_to, self._rng.random() < 0.5
            batch = raw.batch(after, count, scenario.scheme, to_next=to_next)
            if batch is not None:
                shard.stream.add(batch)

    def _send(self, *, all_of_it: bool = False) -> None:
        bundles = 100 if all_of_it else self._rng.randint(1, 4)
        for _ in range(bundles):
            documents = self._rng.randint(1, self._world.scenario.bundle)
            bundle = self.participant.bundle(BundleLimit(documents, 1 << 20))
            if bundle is None:
                return
            self._world.send(self, bundle)

    def _read_some(self) -> None:
        self.read(self._rng.randint(1, 6))

    def read(self, limit: int) -> None:
        """Read on in the log unless it was trimmed there, even if all shards were lost since."""
        broker = self._world.broker
        if not self._has_begun:
            return
        replica = self.participant.replica
        for _ in range(limit):
            if replica.position < broker.log_start:
                if self._is_to_begin:
                    return  # the next session reads from the present start of the log
                if self.standbys:
                    self.begin()
                if self.participant.replica.position < broker.log_start:
                    self._world.cannot_read(self)
                return
            if replica.position >= broker.log_end:
                return
            if not self._read_next(replica.position):
                return

    def _read_next(self, offset: int) -> bool:
        """Read a record; return False if this life cannot continue, and end it."""
        broker, participant = self._world.broker, self.participant
        version = broker.versions[offset]
        if not participant.replica.accepts(offset, version):
            participant.replica.skip(offset)
            return True
        if version > self.reads:
            refused = UnreadableVersionError(f"the log at {offset}", version, self.reads)
            self._world.refuses(self, refused)
            return False
        try:
            participant.read(offset, broker.log[offset], broker.appended_ms(offset))
        except UnreadableVersionError as error:
            self._world.refuses(self, error)
            return False
        return True

    def _report(self) -> None:
        report = self.participant.report(self._world.scenario.report_limit)
        if report is not None:
            self._hand_over(report)
        elif self._world.scenario.vanishing and self._world.rules.reports_again:
            self._report_again()

    def _report_again(self) -> None:
        """Report the oldest bundles again if nothing was decided for some time."""
        decided_before = self.participant.replica.decided_before
        self._idle_looks = self._idle_looks + 1 if decided_before == self._seen_decided else 0
        self._seen_decided = decided_before
        if self._idle_looks >= IDLE_LOOKS:
            self._idle_looks = 0
            self.participant.report_again(self._rng.randint(1, 3))

    def _report_positions(self) -> None:
        if self.participant.shards:
            self._hand_over(self.participant.positions())

    def _report_version(self) -> None:
        """Report the version that this worker reads; as the leader, query the group's members."""
        if not self.participant.awaits_raise or not self.is_member:
            return
        decider = self.participant.decider
        if decider is not None and decider.leads:
            if decider._version < self.reads:  # otherwise the raise is in flight
                members = self._world.list_members(self.name)
                self.participant.set_members(dict.fromkeys(members, ""))
        else:
            self._hand_over(self.participant.positions())

    def _hand_over(self, report: Report) -> None:
        if self.owns_leading_shard:
            self._take_report(report)
        else:
            self._world.send(self, report)

    def take_reports(self, limit: int) -> None:
        if not self.owns_leading_shard:
            return
        reports = self._world.broker.reports
        if not (self._world.rules.reads_reports_from_before or self.participant.leads):
            self._reports_read = len(reports)
        for report in reports[self._reports_read : self._reports_read + limit]:
            self._reports_read += 1
            self._take_report(report)

    def _take_report(self, report: Report) -> None:
        self.participant.take_report(report)
        for shard, needed in report.positions.items():
            self._needed[shard] = max(needed, self._needed.get(shard, 0))

    def _follow(self) -> None:
        """Follow the owners of shards; lead for an owner that may be silent."""
        self.standbys.follow(self._rng.randint(1, 3))
        if self.standbys.lead(self._rng):
            self._takes_lead()

    def _takes_lead(self) -> None:
        self._reports_read = len(self._world.broker.reports)
        self._world.tell(f"{self.name} takes the lead")

    def _decide(self) -> None:
        control = self.participant.control(self._world.scenario.decide_limit)
        if control is not None:
            self._world.send(self, control)

    def _trim(self) -> None:
        """Query the partitions after the positions that they need; trim in a later step."""
        if self._trim_to is not None:
            self._world.trim(self, self._trim_to)
            self._trim_to = None
            return
        rules = self._world.rules
        if not self.participant.leads or not self._needed:
            return
        if LEADING_SHARD not in self.participant.shards:
            return
        reported = set(self._needed) >= set(self._world.broker.partitions())
        if reported or not rules.trims_when_all_reported:
            lowest = min if rules.trims_to_lowest else max
            self._trim_to = lowest(self._needed.values())

    # ---- out

    def _prepare(self, *, whole: bool) -> None:
        if self._transaction is not None:
            return
        positions = whole or self._rng.random() < 0.5
        ready = self.participant.ready(self._world.scenario.ready_limit, positions=positions)
        if ready and not whole:
            ready = self._rng.sample(ready, self._rng.randint(1, len(ready)))
        self._transaction = ready or None

    def _commit(self) -> None:
        ready, self._transaction = self._transaction, None
        if ready is None or not self._world.commit(self, ready):
            return
        for each in ready:
            self._stores[each.partition].write(each.ready)
            self.participant.committed(each)

    # ---- answers of the broker

    def answered(self) -> None:
        if self.answers:
            self.answers.popleft()()

    def append_failed(self, record: LogRecord | Report, streams: list[Stream | None]) -> None:
        """Note that an append failed, although its record may have been appended."""
        if isinstance(record, Control):
            self.participant.control_failed(record.leader)
        elif isinstance(record, Report):
            if self._world.rules.lost_reports_are_sent_again:
                self.participant.look_up_again()
        elif isinstance(record, Bundle):
            for packet, stream, now in zip(
                record.packets(), streams, self.streams_of(record), strict=True
            ):
                if stream is not None and stream is now:
                    stream.lost(packet)

    def streams_of(self, record: LogRecord | Report) -> list[Stream | None]:
        """Return the streams of the packets of a bundle, none for other records."""
        if not isinstance(record, Bundle):
            return []
        shards = [self.participant.shards.get(each.chain.partition) for each in record.segments]
        return [None if shard is None else shard.stream for shard in shards]


Stream = ShardStream[RawRecord]
