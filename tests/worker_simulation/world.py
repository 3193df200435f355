"""The world of whole workers: after records and faults, all must be output in time."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from operator import attrgetter
from typing import Final
from unittest.mock import patch

from simhash_core.errors import FirstseenError
from simhash_core.log import versions
from simhash_core.log.participant import LEADING_SHARD
from simhash_core.log.records import Chain
from simhash_core.log.versions import UnreadableVersionError
from streams.errors import BrokerRefusedError, UnansweredError
from streams.kafka.errors import MemberFencedError, RecordsLostError
from streams.kafka.log_reader import LogCutError
from streams.worker import commit
from streams.worker.consume import TopicRecreatedError
from streams.worker.index_on_kafka import OtherSettingsError
from streams.worker.look_up import LogReplacedError
from tests.rigs.memory_rows import MemoryDisk
from tests.simulation.documents import SimulatedDocument
from tests.simulation.judge import Judge, ViolationError
from tests.simulation.replacements import constant, low_limits, replaced
from tests.simulation.simulator import Runs, Simulator
from tests.worker_simulation.cluster import Cluster, ClusterLimits, ClusterState
from tests.worker_simulation.documents import (
    IDENTITY,
    OTHER_IDENTITY,
    RawDocument,
    fingerprinter_of,
    in_archive,
    profile_of,
    raw_document,
)
from tests.worker_simulation.judge import RawChain, WorkerJudge, packets_of
from tests.worker_simulation.log_clients import FETCH_REPORTS
from tests.worker_simulation.loop import (
    LimitError,
    SimulatedLoop,
    StuckError,
    UnhandledError,
    current_machine,
    described,
    simulated,
)
from tests.worker_simulation.network import NetworkFaults
from tests.worker_simulation.partitions import PartitionState
from tests.worker_simulation.scenario import (
    Event,
    Fault,
    Releases,
    StoreFate,
    WorkerScenario,
    draw_worker_scenario,
    sends_others_after_power,
)
from tests.worker_simulation.worker import Place, Worker, settings_of

_LOOK_SECONDS: Final = 0.5
_UNCHANGED_SECONDS: Final = 30.0
_STANDBYS_SECONDS: Final = 90.0
_QUIET_SECONDS: Final = 12.0
"""After everything is output, nothing more may follow for this time."""
_NOTICED_SECONDS: Final = 15.0
"""How long workers may take to notice a re-created topic, before records are produced to it."""
_SECONDS_LIMIT: Final = 2_000.0
_EVENTS_LIMIT: Final = 3_000_000
STEP_SECONDS: Final = 0.05
"""How long a step of an event loop may take, by the functions that it calls."""
_RESTART_SECONDS: Final = (0.5, 8.0)
_AGAIN_SECONDS: Final = (0.1, 3.0)
"""How long a worker is away that was stopped."""
_SOON_SECONDS: Final = 0.01
_DAY_MS: Final = 86_400_000
_STOP_SECONDS: Final = 90.0
_MOMENT_SECONDS: Final = 5.0
"""How long a fault waits for the request at which it should happen."""
_BACK_SECONDS: Final = 8.0
"""After this time since the brokers returned, running members have sent a heartbeat."""
_JOINED_SECONDS: Final = 15.0
"""After this time a starting static member has joined the group."""
_ENDS_SECONDS: Final = 60.0
"""How long workers may end with an error after brokers have lost records, and begin again."""
_AFTER_LOSSES: Final = (
    RecordsLostError,
    LogCutError,
    LogReplacedError,
    TopicRecreatedError,
    BrokerRefusedError,
    MemberFencedError,
)
"""The errors with which workers end that have read records that brokers have lost."""
_OPEN_SECONDS: Final = 5.0
"""How long a loss of power waits for a moment without open transactions."""
_WITH_REQUESTS: Final = (Fault.KILL, Fault.PAUSE, Fault.LOOP_PAUSE, Fault.CUT)

Story = Callable[[str], None]


class World:
    def __init__(
        self, scenario: WorkerScenario, loop: SimulatedLoop, story: list[str] | None
    ) -> None:
        self.scenario = scenario
        self.loop = loop
        self._faults: Counter[str] = Counter()
        self._raw_ends: Counter[int] = Counter()  # before brokers lost records
        self._story = story
        self._random = random.Random(scenario.seed + 1)
        settings = settings_of(scenario)
        self._topics = settings.topics
        self.cluster = Cluster(loop, settings.topics.raw, scenario.cluster, self.tell)
        self.cluster.network.faults = scenario.network
        self.judge = WorkerJudge(scenario, settings, self.cluster)
        self._documents: dict[str, SimulatedDocument] = {}
        self._fingerprinter = fingerprinter_of(profile_of(scenario), self._documents)
        self._create_topics()
        self._chains = self._raw_chains("a", scenario.partitions)
        self._place_number = 0
        self._lives = 0
        self._reads: dict[str, list[tuple[int, float]]] = {}  # by writer, for each life
        self.workers: list[Worker] = []
        self._returning = 0
        self._added = asyncio.Event()
        self._back_at = self._over_at = -_BACK_SECONDS
        self.cluster.group.expired = self._session_expired
        self.cluster.listed = self._listed
        self._under_way = 0
        self._sending: list[asyncio.Task[None]] = []
        self._calm_at = math.inf
        self._ends_until = self._sent_again_at = 0.0

    def tell(self, line: str) -> None:
        if self._story is not None:
            self._story.append(f"{self.loop.time():9.4f} {line}")

    def _call_in(self, seconds: float, function: Callable[[], object]) -> None:
        """Call something later, even if the running worker ends before."""
        self.loop.call_later(seconds, function, context=contextvars.Context())

    def _session_expired(self, name: str) -> None:
        """Judge that a member missed its session for another reason than absent brokers.

        Another fault that ended later may also have kept it from its broker.
        """
        is_late = self.loop.time() - self._back_at > _BACK_SECONDS
        if is_late or self._under_way or self._over_at > self._back_at:
            return
        for worker in self.workers:
            if worker.writer == name and not worker.machine.stands_still and not worker.stopped:
                raise ViolationError(f"{name} missed its session after the brokers were back")

    def _listed(self, name: str) -> None:
        """Note what the members read that a leader sees, before it decides to raise the version."""
        for worker in self.workers:
            decider = worker.pipeline.participant.decider
            if worker.writer == name and decider and decider._version < versions.NEWEST:
                members = self.cluster.group.names()
                self.judge.log.listed(name, {each: self._reads_of(each) for each in members})

    def _reads_of(self, writer: str) -> int:
        """Return which version a member reads.

        For a static member that has just begun, the life before may still be in the group.
        """
        lives = self._reads.get(writer, [(0, 0.0)])
        reads, since = lives[-1]
        return (
            max(each for each, _ in lives) if self.loop.time() - since < _JOINED_SECONDS else reads
        )

    # ---- topics

    def _create_topics(self) -> None:
        cluster, topics, scenario = self.cluster, self._topics, self.scenario
        cluster.create_topic(topics.raw, scenario.born)
        cluster.create_topic(topics.log, 1)
        cluster.create_topic(topics.changelog, scenario.born)
        for name in (topics.unique, topics.duplicates, topics.dead_letters):
            cluster.create_topic(name, scenario.output_partitions)
        log = cluster.partition((topics.log, 0))
        log.appended = self.judge.appended
        self._create_reports()

    def _create_reports(self) -> None:
        cluster, topic, scenario = self.cluster, self._topics.reports, self.scenario
        cluster.create_topic(topic, 1)
        if scenario.reports_lost:
            reports = cluster.partition((topic, 0))

            def lose(stored: object) -> None:
                if self._random.random() < scenario.reports_lost and not self._is_calm:
                    self.tell("a report that was acknowledged is lost")
                    reports.drop(reports.end - 1)
                del stored

            reports.appended = lose

    @property
    def _is_calm(self) -> bool:
        return self._calm_at < math.inf

    def _raw_chains(
        self, name: str, partitions: list[list[SimulatedDocument | None]]
    ) -> list[RawChain]:
        topic_id = self.cluster.topics[self._topics.raw].id
        chains = []
        for number, documents in enumerate(partitions):
            records: list[RawDocument] = []
            gaps = self._random.random() < 0.2
            offset = 0
            for document in in_archive(documents) if self.scenario.archive else documents:
                offset += gaps and self._random.random() < 0.3
                text = f"{name}{number}-{offset}"
                if document is not None:
                    self._documents[text] = document
                records.append(raw_document(offset, text, document))
                offset += 1
            chains.append(RawChain(Chain(self._topics.raw, topic_id, number), records))
        self.judge.produced(chains)
        return chains

    def _send(self, chains: list[RawChain], seconds: float) -> None:
        self._sending.append(self.loop.start(None, self._produce(chains, seconds)))

    def _is_sending(self) -> bool:
        return any(not each.done() for each in self._sending)

    async def _produce(self, chains: list[RawChain], seconds: float) -> None:
        await asyncio.gather(*(self._produce_to(*each, seconds) for each in chains))

    async def _produce_to(self, chain: Chain, records: list[RawDocument], seconds: float) -> None:
        began, number = self.loop.time(), chain.partition
        if number >= len(self.cluster.topics[self._topics.raw].partitions):
            await self._added.wait()
        late = number == self.scenario.late_partition
        times = sorted(self._random.uniform(0.0, seconds) for _ in records)
        sent = 0
        while sent < len(records):
            due = times[min(sent, len(times) - 1)]
            await asyncio.sleep(max(0.0, began + due - self.loop.time()))
            if self.loop.time() < self._sent_again_at:
                await asyncio.sleep(_SOON_SECONDS + self._sent_again_at - self.loop.time())
                continue
            partition = self.cluster.partition((self._topics.raw, number))
            sent = bisect_left(records, partition.end, key=attrgetter("offset"))
            if sent == len(records):
                return  # they were sent again meanwhile
            record = records[sent]
            sent += 1
            partition.skip(record.offset - partition.end)
            time_ms = self.cluster.now_ms() + late * _DAY_MS
            if self.scenario.archive:
                # As if it were written when the document was made.
                before = partition.records[-1].timestamp_ms if partition.records else 0
                time_ms = before if record.document is None else record.document.time_ms
            partition.append(record.key, record.value, time_ms)

    # ---- the run

    async def run(self) -> Runs:
        scenario = self.scenario
        for number in range(scenario.workers):
            self._join(number * self._random.choice([0.0, 0.1, 1.0]))
        self._send(self._chains, scenario.produced_seconds)
        for event in scenario.events:
            self._later(event.at - self.loop.time(), event)
        for watch in (self._watch(), self._compact()):
            self.loop.start(None, watch).add_done_callback(self._check)
        await self._while_faults()
        await self._settle()
        if scenario.again:
            self._create_topic_again()
            again = self._raw_chains("b", scenario.again)
            await asyncio.sleep(_NOTICED_SECONDS)
            await self.loop.start(None, self._produce(again, 2.0))
            await self._settle()
        await asyncio.sleep(_QUIET_SECONDS)
        self.judge.at_the_end()
        if scenario.late_documents is not None and self.judge.late > scenario.late_documents:
            raise ViolationError(f"{self.judge.late} documents are later than the lateness")
        counts = {
            "records": sum(len(records) for _, records in self.judge.chains),
            "packets": packets_of(self.judge.log),
            "lives": self._lives,
            "seconds of virtual time": int(self.loop.time()),
        }
        return Runs(1, Counter(counts), self._faults, self.loop.longest_step)

    async def _watch(self) -> None:
        """Check at intervals what must not grow, and what must not wait."""
        scenario = self.scenario
        # With a window, a worker that gets partitions takes in their earlier records beyond it.
        times = 1 if scenario.window is None else 2
        limit = times * scenario.in_flight + scenario.batch_documents
        put_out = dict.fromkeys(range(len(scenario.partitions)), 0)
        others: Counter[int] = Counter()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for worker in self.workers:
                if worker.in_flight > limit:
                    raise ViolationError(
                        f"{worker.name} has {worker.in_flight} records in flight, not {limit}"
                    )
            if scenario.fair_records:
                self._judge_turns(put_out, others)

    async def _compact(self) -> None:
        """Compact the changelog now and then, up to a random offset."""
        rng = random.Random(self.scenario.seed)
        while self.scenario.compacts:
            await asyncio.sleep(rng.uniform(0.1, 5.0))
            for partition in self.cluster.topics[self._topics.changelog].partitions:
                partition.compact(rng.randint(partition.start, partition.end))

    def _judge_turns(self, put_out: dict[int, int], others: Counter[int]) -> None:
        """Check that no partition waits while many records of others are output."""
        offsets = self.cluster.group.offsets
        now = {p: offsets[p].offset if p in offsets else 0 for p in put_out}
        total = sum(now.values()) - sum(put_out.values())
        for partition, raw in enumerate(self.cluster.topics[self._topics.raw].partitions):
            if now[partition] > put_out[partition] or now[partition] >= raw.end:
                others[partition] = 0
            else:
                others[partition] += total
            if others[partition] > self.scenario.fair_records:
                raise ViolationError(
                    f"partition {partition} waits while {others[partition]} records of others are "
                    "put out"
                )
        put_out.update(now)

    async def _while_faults(self) -> None:
        while self._is_sending() or self._under_way or self._returning:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)  # each of them may begin another one
        for each in self._sending:
            each.result()
        self._calm_at = self.loop.time()
        self.cluster.network.faults = NetworkFaults()
        if self.scenario.releases is Releases.BOTH:
            self._upgrade()
        if not self.workers and not self._under_way:
            self._join(0.0)
        self.tell("calm")

    def _upgrade(self) -> None:
        """Replace the remaining workers of the older release."""
        for worker in [each for each in self.workers if each.reads < versions.NEWEST]:
            self._begin_stop(worker, partial(self._return_as, versions.NEWEST, worker.place))

    def _return_as(self, reads: int, place: Place) -> None:
        place.reads = reads
        self._return_in(0.5, place)

    @property
    def _is_upgraded(self) -> bool:
        return self.scenario.releases is Releases.OLDER or self.judge.log.version == versions.NEWEST

    async def _settle(self) -> None:
        """Wait until everything is output, within a limit."""
        deadline = self.loop.time() + self.scenario.settled_seconds
        while not (self.judge.is_put_out() and self._is_upgraded):
            if self.loop.time() > deadline:
                raise ViolationError(
                    f"not put out within {self.scenario.settled_seconds:g} s: "
                    f"{self.judge.waits_for()}"
                )
            await asyncio.sleep(_LOOK_SECONDS)
        self.tell("all is put out")
        deadline = self.loop.time() + _STANDBYS_SECONDS
        while lacking := self._unsettled():
            if self.loop.time() > deadline:
                raise ViolationError(
                    "no standby, undecided packets, opening or kept shards after "
                    f"{_STANDBYS_SECONDS:g} s: {lacking}"
                )
            await asyncio.sleep(_LOOK_SECONDS)

    def _unsettled(self) -> list[str]:
        """Return what workers lack.

        A group of one has no standbys. A worker may just read the log again, and have undecided
        packets. Shards that are opening may have removals to commit. Shards that moved are kept
        only until their next owners have opened them.
        """
        lacking = []
        for worker in self.workers:
            standbys = worker.pipeline.standbys.missing if len(self.workers) > 1 else ()
            opening = [each.partition for each in worker.pipeline.assignment.opening]
            kept = worker.pipeline.standbys.stores.kept
            if standbys or worker.undecided or opening or kept:
                lacking.append(f"{worker.name}: {standbys}, {worker.undecided}, {opening}, {kept}")
        return lacking

    def _create_topic_again(self) -> None:
        self.tell("the raw topic is created again")
        count = len(self.cluster.topics[self._topics.raw].partitions)
        self.cluster.delete_topic(self._topics.raw)
        self.cluster.create_topic(self._topics.raw, count)

    # ---- workers

    def _join(self, seconds: float) -> None:
        number = self._place_number
        self._place_number += 1
        name = f"w{number}"
        clock = self.scenario.clocks[number % len(self.scenario.clocks)]
        instance_id = name if self.scenario.static else None
        is_newer = self.scenario.releases is Releases.NEWER or self._is_calm
        place = Place(name, MemoryDisk(), instance_id, clock)
        place.reads = versions.NEWEST if is_newer else versions.OLDEST
        if self.scenario.other_settings and number % 2:
            place.identity = OTHER_IDENTITY
        self._return_in(seconds, place)

    def _return_in(self, seconds: float, place: Place) -> None:
        self._returning += 1

        def start() -> None:
            self._returning -= 1
            self._lives += 1
            worker = Worker(
                place, self._lives, self.scenario, self.cluster, self._fingerprinter, self._failed
            )
            self.tell(f"{worker.name} starts, which reads version {worker.reads}")
            self._reads.setdefault(worker.writer, []).append((worker.reads, self.loop.time()))
            self.workers.append(worker)

        self._call_in(seconds, start)

    def _failed(self, worker: Worker, error: BaseException) -> None:
        self.tell(f"{worker.name} fails: {error!r}")
        began_before_calm = self.loop.time() < self._calm_at + self.scenario.send_timeout_seconds
        if isinstance(error, UnansweredError) and not worker.is_open and began_before_calm:
            self._begin_again(worker, 1.0)  # it was no member yet
            return
        if isinstance(error, UnreadableVersionError) and self.judge.log.version > worker.reads:
            worker.place.reads = versions.NEWEST
            self._begin_stop(worker, lambda: self._return_in(1.0, worker.place))
            return
        if isinstance(error, OtherSettingsError) and self.scenario.other_settings:
            others = {IDENTITY: OTHER_IDENTITY, OTHER_IDENTITY: IDENTITY}
            worker.place.identity, worker.place.disk = others[worker.place.identity], MemoryDisk()
            self._begin_again(worker, self._random.uniform(*_RESTART_SECONDS))
            return
        if self.loop.time() < self._ends_until and isinstance(error, _AFTER_LOSSES):
            self._begin_again(worker, self._random.uniform(*_RESTART_SECONDS))
            return
        self.loop.unhandled.append(f"{worker.name} has failed: {described(error)}")

    def _begin_again(self, worker: Worker, seconds: float) -> None:
        """Let the supervisor of a worker that has ended start it again."""
        self.workers.remove(worker)
        worker.kill()
        self._return_in(seconds, worker.place)

    # ---- faults

    def _later(self, seconds: float, event: Event) -> None:
        self._under_way += 1
        self._call_in(max(0.0, seconds), lambda: self._happens(event))

    def _end_in(self, seconds: float, end: Callable[[], object]) -> None:
        """End a fault after some time; there is no calm before."""
        self._under_way += 1

        def over() -> None:
            self._under_way -= 1
            self._over_at = self.loop.time()
            end()

        self._call_in(seconds, over)

    def _happens(self, event: Event) -> None:
        self._under_way -= 1
        if event.fault is Fault.PARTITION:
            self.tell(f"FAULT {event.fault}")
            self.cluster.add_partitions(self._topics.raw, len(self.scenario.partitions))
            self._added.set()
            return
        if event.fault is Fault.REPORTS:
            if self.cluster.network.faults.late:
                # As in Kafka, an old request that came first would spoil the producer's order.
                return
            self.tell(f"FAULT {event.fault}")
            self._faults[event.fault] += 1
            self.cluster.delete_topic(self._topics.reports)
            self._create_reports()
            self.cluster.partition((self._topics.reports, 0)).is_created_again = True
            return
        others = {
            Fault.POWER: self._keep,
            Fault.RAW: self._keep_raw,
            Fault.DEAF: self._deafen,
        }
        if event.fault in others:
            others[event.fault](event)
            return
        alive = [each for each in self.workers if not each.stopped]
        if not alive:
            return
        worker = alive[int(event.which * len(alive))]
        if event.moment and event.fault in _WITH_REQUESTS:
            self._at_request(event, worker)
        else:
            self._befall(event, worker)

    def _at_request(self, event: Event, worker: Worker) -> None:
        """Let a fault happen with the next request of a kind, or after some time."""
        self._under_way += 1
        watched, key = self.cluster.network.watched, (worker.machine.name, event.moment)

        def come() -> None:
            if watched.get(key) is come:
                del watched[key]
            if not is_waiting:
                return
            is_waiting.clear()
            self._under_way -= 1
            if not worker.stopped:
                self._befall(event, worker)

        is_waiting = [True]
        watched[key] = come
        self._call_in(_MOMENT_SECONDS, come)

    def _befall(self, event: Event, worker: Worker) -> None:
        handlers: dict[Fault, Callable[[Event, Worker], object]] = {
            Fault.KILL: self._kill,
            Fault.STOP: self._stop,
            Fault.LEAVE: self._leave,
            Fault.JOIN: lambda _, __: self._join(0.0),
            Fault.PAUSE: lambda e, w: self._pause(e, w, clients=True),
            Fault.LOOP_PAUSE: lambda e, w: self._pause(e, w, clients=False),
            Fault.CUT: self._cut,
            Fault.AWAY: lambda e, _: self._go_away(e.seconds),
            Fault.SLOW_STORES: self._slow_stores,
            Fault.LOSSES: self._losses,
            Fault.SILENCE: self._silence,
            Fault.HOLD: self._hold,
            Fault.CLOCK: self._clock,
            Fault.REPLACE: self._replace,
        }
        moment = f", with a request to {event.moment}" if event.moment else ""
        self.tell(
            f"FAULT {event.fault}: {worker.name}, {event.seconds:.1f} s, {event.fate}{moment}"
        )
        self._faults[event.fault] += 1
        handlers[event.fault](event, worker)

    def _kill(self, event: Event, worker: Worker) -> None:
        self.workers.remove(worker)
        worker.kill()
        self._return_with(event.fate, worker.place, _RESTART_SECONDS)

    def _stop(self, event: Event, worker: Worker) -> None:
        again = partial(self._return_with, event.fate, worker.place, _AGAIN_SECONDS)
        self._begin_stop(worker, again)

    def _replace(self, event: Event, worker: Worker) -> None:
        """Upgrade a worker, or roll it back, which it survives until the version is raised."""
        is_raised = self.judge.log.version == versions.NEWEST
        goes_back = worker.reads == versions.NEWEST and (not is_raised or event.seconds > 0)
        reads = versions.OLDEST if goes_back else versions.NEWEST
        self._begin_stop(worker, partial(self._return_as, reads, worker.place))

    def _leave(self, _: Event, worker: Worker) -> None:
        if len(self.workers) > 1:
            self._begin_stop(worker, lambda: None)

    def _begin_stop(self, worker: Worker, then: Callable[[], object]) -> None:
        self.workers.remove(worker)
        self._under_way += 1
        deadline = self.loop.time() + _STOP_SECONDS

        async def stop() -> None:
            await worker.stop()
            self.tell(f"{worker.name} has stopped")
            if self.loop.time() > deadline:
                raise ViolationError(f"{worker.name} took longer than {_STOP_SECONDS:g} s to stop")
            self._under_way -= 1
            then()

        self.loop.start(None, stop()).add_done_callback(self._check)

    def _check(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.unhandled.append(described(error))

    def _return_with(self, fate: StoreFate, place: Place, seconds: tuple[float, float]) -> None:
        """Start a worker again on what it then finds on its disk."""
        disk = place.disk
        if fate is StoreFate.OLDER and place.copies:
            disk.put_back(self._random.choice(place.copies))
        elif fate is StoreFate.EMPTY:
            place.disk = MemoryDisk()
        elif fate is StoreFate.DAMAGED:
            for path in disk.paths:
                if self._random.random() < 0.5:
                    disk.damage(path)
        elif fate is StoreFate.SHORT:
            for path in disk.paths:
                disk.lose(path, self._random.randint(0, 5))
        place.copies = [*place.copies, place.disk.copy()][-3:]
        self._return_in(self._random.uniform(*seconds), place)

    def _pause(self, event: Event, worker: Worker, *, clients: bool) -> None:
        if worker.machine.stands_still:
            return
        worker.machine.stand_still(clients=clients)
        self._end_in(event.seconds, worker.machine.go_on)

    def _cut(self, event: Event, worker: Worker) -> None:
        cut, name = self.cluster.network.cut, worker.machine.name
        cut.add(name)
        self._end_in(event.seconds, lambda: cut.discard(name))

    def _go_away(self, seconds: float) -> None:
        network = self.cluster.network
        network.away = True

        def back() -> None:
            network.away = False
            self._back_at = self.loop.time()
            self.cluster.group.resume()

        self._end_in(seconds, back)

    def _keep(self, event: Event) -> None:
        """Note what the brokers have written, and let them lose all else some time later.

        This waits until no transaction is open. Kafka would go on with it, and later commit what is
        left of it: no client can know.
        """
        if self.cluster.transactions.is_any_open:
            if self.loop.time() < event.at + _OPEN_SECONDS:
                self._end_in(_SOON_SECONDS, lambda: self._keep(event))
            return
        self.tell(f"FAULT {event.fault}: what follows, for {event.seconds:.2f} s")
        self._faults[event.fault] += 1
        network = self.cluster.network
        kept, log, losses = self.cluster.kept(), self.judge.log.copy(), network.losses

        def strike() -> None:
            if losses == network.losses:  # otherwise what was written then is lost already
                self._lose(kept, log, event)

        self._end_in(event.seconds, strike)

    def _lose(self, kept: ClusterState, log: Judge, event: Event) -> None:
        """Put back what was written; producers send again what is lost, in the same order."""
        rng = random.Random(f"{self.scenario.seed} {event.at}")
        away = rng.choice([0.1, 3.0, 9.0]) * rng.uniform(0.5, 1.5)
        self.tell(f"the brokers have lost power for {away:.1f} s")
        raw = self.cluster.topics[self._topics.raw].partitions
        ends = [partition.end for partition in raw]
        self.cluster.put_back(kept)
        self.judge.log = log
        others = random.Random(f"not again {self.scenario.seed} {event.at}")
        sends_others = sends_others_after_power(self.scenario)
        for number, (partition, end) in enumerate(zip(raw, ends, strict=True)):
            if end > partition.end and sends_others:
                self._replace_lost(number, end, others)
            elif end > partition.end:
                chain, records = next(c for c in self._chains if c.chain.partition == number)
                lost = [each for each in records if partition.end <= each.offset < end]
                self.judge.lost(chain, lost, lost)
        self._sent_again_at = self.loop.time() + away + rng.choice([0.0, 0.0, 1.0, 15.0])
        self._ends_until = self._sent_again_at + _ENDS_SECONDS
        self._send(self._chains, rng.choice([0.0, 3.0]))
        self._go_away(away)

    def _keep_raw(self, event: Event) -> None:
        """Note what the brokers have of a raw partition, and let them lose the rest later."""
        number = int(event.which * self.scenario.born)
        partition = self.cluster.partition((self._topics.raw, number))
        kept, losses = partition.kept(), len(partition.lost_from)

        def strike() -> None:
            if partition.end > kept.end and losses == len(partition.lost_from):
                self._lose_raw(number, kept, event)

        self._end_in(event.seconds, strike)

    def _lose_raw(self, number: int, kept: PartitionState, event: Event) -> None:
        """Produce other records instead of lost ones: some of these again, and those to come."""
        partition = self.cluster.partition((self._topics.raw, number))
        end = partition.end
        self.tell(f"FAULT {event.fault}: {number}, {kept.end} to {end - 1}")
        self._faults[event.fault] += 1
        partition.put_back(kept)
        rng = random.Random(f"{self.scenario.seed} {event.at}")
        chain = self._replace_lost(number, end, rng)
        self._send([chain], rng.choice([0.0, 3.0]))

    def _replace_lost(self, number: int, end: int, rng: random.Random) -> RawChain:
        """Change which records are produced after those that a raw partition still has.

        ``end`` is that before the loss. Producers send some of the lost records again, and then
        those to come.
        """
        partition = self.cluster.partition((self._topics.raw, number))
        chain, records = next(each for each in self._chains if each.chain.partition == number)
        lost = [each for each in records if partition.end <= each.offset < end]
        again = [each for each in lost if rng.random() < rng.choice([0.0, 0.5, 1.0])]
        following = [each for each in records if each.offset >= end]
        documents = [each.document for each in again + following]
        # A worker that knows records of the log, and has read none instead, waits for them.
        self._raw_ends[number] = max(self._raw_ends[number], end)
        missing = self._raw_ends[number] - partition.end - len(documents)
        documents += [each.document for each in islice(cycle(lost), max(0, missing))]
        del records[bisect_left(records, partition.end, key=attrgetter("offset")) :]
        for offset, document in enumerate(documents, partition.end):
            text = f"a{number}-{offset} after loss {len(partition.lost_from)}"
            if document is not None:
                self._documents[text] = document
            records.append(raw_document(offset, text, document))
        self.judge.lost(chain, lost, [each for each in records if each.offset >= partition.end])
        return RawChain(chain, records)

    def _slow_stores(self, event: Event, worker: Worker) -> None:
        worker.place.slow_until = self.loop.time() + 4 * event.seconds
        self._end_in(4 * event.seconds, lambda: None)

    def _losses(self, event: Event, _: Worker) -> None:
        network = self.cluster.network
        network.faults = self.scenario.losses

        def over() -> None:
            network.faults = self.scenario.network

        self._end_in(event.seconds, over)

    def _silence(self, event: Event, worker: Worker) -> None:
        silent, key = self.cluster.network.silent, (worker.machine.name, event.moment)
        silent.add(key)
        self._end_in(event.seconds, lambda: silent.discard(key))

    def _deafen(self, event: Event) -> None:
        """Send no reports to the owner of the leading shard; all must be put out meanwhile."""
        owners = (each for each in self.workers if LEADING_SHARD in each.pipeline.shards)
        owner = next(owners, None)
        if owner is None:
            return
        self.tell(f"FAULT {event.fault}: {owner.name}")
        self._faults[event.fault] += 1
        silent, key = self.cluster.network.silent, (owner.machine.name, FETCH_REPORTS)
        silent.add(key)
        self._call_in(event.seconds, lambda: silent.discard(key))

    def _hold(self, event: Event, worker: Worker) -> None:
        held, key = self.cluster.network.held, (worker.machine.name, event.moment)
        held[key] = event.seconds
        self._end_in(_MOMENT_SECONDS, lambda: held.pop(key, None))

    def _clock(self, event: Event, worker: Worker) -> None:
        worker.machine.clock_seconds += (event.which - 0.5) * 20 * event.seconds
        worker.place.clock_seconds = worker.machine.clock_seconds


class _StoryHandler(logging.Handler):
    def __init__(self, tell: Story) -> None:
        super().__init__(logging.INFO)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        machine = current_machine()
        self._tell(f"{'' if machine is None else machine.name}: {record.getMessage()}")


@contextmanager
def _logged(tell: Story | None) -> Iterator[None]:
    """Add the log lines of workers to the story, or drop them."""
    handlers = [] if tell is None else [_StoryHandler(tell)]
    with ExitStack() as stack:
        for each in (logging.getLogger("streams"), logging.getLogger("simhash_core")):
            stack.callback(each.setLevel, each.level)
            each.setLevel(logging.INFO if handlers else logging.CRITICAL + 1)
            stack.enter_context(patch.multiple(each, propagate=False, handlers=handlers))
        yield


def simulate(scenario: WorkerScenario, story: list[str] | None = None) -> Runs:
    """Run a scenario; raises ``ViolationError`` if an invariant does not hold."""
    if story is not None:
        story.append(str(scenario))
    loop = SimulatedLoop(scenario.seed)
    loop.limit(_SECONDS_LIMIT, _EVENTS_LIMIT)
    if scenario.counted:
        loop.step_seconds = STEP_SECONDS
    limits = low_limits(scenario.memtable, scenario.forgotten, scenario.compared)
    often = replaced([constant(commit, "_UNCHANGED_SECONDS", _UNCHANGED_SECONDS)])
    with limits, often, simulated(loop):
        world = World(scenario, loop, story)
        with _logged(None if story is None else world.tell):
            try:
                return loop.run_until_complete(loop.start(None, world.run()))
            except (StuckError, LimitError, UnhandledError, FirstseenError) as error:
                raise ViolationError(f"{type(error).__name__}: {error}") from error
            finally:
                loop.finish()


def _classic(scenario: WorkerScenario) -> ClusterLimits:
    return replace(scenario.cluster, assigns=False)


WHOLE_WORKERS: Final = Simulator(
    "whole workers",
    draw_worker_scenario,
    simulate,
    {"releases": Releases.OLDER, "cluster": _classic},
    tries=120,
    chunk=10,
)
