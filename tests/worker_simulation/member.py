"""A simulated member of the group: joins, reads, releases partitions, and misses its session.

It behaves like ``streams.kafka.raw_consumer`` on librdkafka: heartbeats continue while the worker
releases partitions, a rebalance waits a limited time for this, and after a missed session all
partitions are lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import Message

from simhash_core.log.records import NO_EPOCH
from streams.errors import BrokerUnavailableError, UnansweredError
from streams.kafka.clients import RawOffset
from streams.kafka.errors import AbortedError, MemberFencedError, StaleGenerationError
from streams.kafka.raw_consumer import Fetched, GroupEvents, RawRecords, message_bytes
from tests.worker_simulation.cluster import Fetch, FetchAnswer
from tests.worker_simulation.group import NO_GENERATION, Committed, GroupMetadata
from tests.worker_simulation.host import Host
from tests.worker_simulation.network import Code, NoAnswerError, RefusedError
from tests.worker_simulation.partitions import Stored
from tests.worker_simulation.transactions import Place

_Answer = TypeVar("_Answer")

_FETCHES: Final = 2
"""The number of polls whose records wait for the worker."""
_ANSWER_SECONDS: Final = 2.0
_ASKING: Final = 0.1
"""How often the thread sends a request when it should poll."""
HEARTBEATS: Final = 3
"""The number of heartbeats in a session."""
_TOO_EARLY: Final = 3  # each third reset begins with the earliest record
_REFRESH_SECONDS: Final = 5.0
"""How often the first member checks for new partitions."""

STALE: Final = frozenset({Code.ILLEGAL_GENERATION, Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID})


def message_of(place: Place, stored: Stored) -> Message:
    return Message(
        *place,
        stored.offset,
        stored.key,
        stored.value,
        list(stored.headers) or None,
        timestamp=(1, stored.timestamp_ms),
        leader_epoch=stored.leader_epoch,
    )


@dataclass(slots=True)
class _Reading:
    number: int
    next: int
    losses: int | None = None
    is_stopped: bool = False
    is_paused: bool = False
    is_at_end: bool = False


class SimulatedGroupMember:
    def __init__(
        self,
        host: Host,
        topic: str,
        *,
        client_id: str,
        instance_id: str | None = None,
        poll_records: int = 500,
        poll_seconds: float = 0.005,
        revoke_seconds: float = 10.0,
    ) -> None:
        self._host = host
        self._group = host.cluster.group
        self._session_seconds = host.cluster.limits.session_seconds
        self._topic = topic
        self._client_id = client_id
        self._instance_id = instance_id
        self._poll_records = poll_records
        self._poll_seconds = poll_seconds
        self._revoke_seconds = revoke_seconds
        self._events: GroupEvents | None = None
        self._closing = False
        self._ended: asyncio.Future[None] = host.loop.create_future()
        self._member_id = ""
        self._generation = NO_GENERATION
        self._owned: set[int] = set()
        self._readings: dict[int, _Reading] = {}
        self._fetched: deque[Fetched] = deque()
        self._news = asyncio.Event()
        """There is space, or there is something else to fetch."""
        self._moves = asyncio.Event()
        """The group rebalances, the session is lost, or the member ends."""
        self._lost: str | None = None
        self._is_rebalancing = False
        self._heard_at = 0.0
        self._gather_until = 0.0
        self._resets = 0
        self._revocations = self._announced = self._abandoned = 0
        self._failed = False

    # ---- on the loop of the worker

    def open(self, events: GroupEvents) -> None:
        self._events = events
        self._host.start(self._live())
        self._host.start(self._fetch())
        self._host.start(self._beat())

    async def close(self) -> None:
        """Leave the group after ``GroupEvents.revoked``; a static member keeps its partitions."""
        self._closing = True
        self._moves.set()
        if self._events is not None:
            await self._host.client_done(self._ended)
        self._fetched.clear()

    def read(self, partition: int, offset: RawOffset, reading: int) -> None:
        if partition in self._owned:
            losses = None if offset.leader_epoch == NO_EPOCH else offset.leader_epoch
            self._readings[partition] = _Reading(reading, offset.next, losses)
            self._news.set()

    def stop(self, partition: int) -> None:
        if partition in self._readings:
            self._readings[partition].is_stopped = True

    def pause(self, partitions: Iterable[int], *, paused: bool) -> None:
        for partition in partitions:
            if partition in self._readings:
                self._readings[partition].is_paused = paused
        self._news.set()

    def take(self) -> Fetched | None:
        while self._fetched:
            fetched = self._fetched.popleft()
            self._news.set()
            runs = [run for run in fetched.runs if self._is_current(run)]
            ended = frozenset(p for p in fetched.ended if p in self._readings)
            if runs or ended:
                return Fetched(runs, ended)
        return None

    def gather(self, seconds: float) -> None:
        self._gather_until = self._host.loop.time() + seconds

    def holding(self) -> Callable[[], bool]:
        announced = self._announced
        return lambda: self._abandoned <= announced

    async def metadata(self) -> bytes:
        async def in_thread() -> bytes:
            return self._metadata()

        return await self._host.in_client(in_thread())

    async def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        wanted = list(partitions)
        return await self._answered(
            "offset fetch", lambda: self._group.fetch_offsets(wanted), UnansweredError
        )

    async def commit(self, offsets: Mapping[int, int], note: str = "") -> None:
        kept = {partition: Committed(offset, note) for partition, offset in offsets.items()}
        metadata = self._named()
        try:
            await self._answered(
                "offset commit", lambda: self._group.commit(metadata, kept), UnansweredError
            )
        except RefusedError as error:
            if error.code in STALE:
                raise StaleGenerationError(f"offsets are not committed: {error}") from error
            raise AbortedError(f"offsets are not committed: {error}") from error

    async def log_start(self, partition: int) -> int:
        place = self._topic, partition
        try:
            start, _ = await self._answered(
                "list offsets", lambda: self._host.cluster.offsets(place), BrokerUnavailableError
            )
        except RefusedError as error:
            raise BrokerUnavailableError(f"no start of {place}: {error}") from error
        return start

    async def _answered(
        self,
        name: str,
        work: Callable[[], _Answer],
        error: type[BrokerUnavailableError],
    ) -> _Answer:
        if self._failed or self._ended.done():
            raise UnansweredError(f"the consumer of {self._topic} has ended")

        async def ask() -> _Answer:
            return await self._host.ask(name, work, _ANSWER_SECONDS)

        try:
            return await self._host.in_client(ask())
        except NoAnswerError as silence:
            raise error(f"no answer: {silence}") from silence

    def _metadata(self) -> bytes:
        return self._named().encoded()

    def _named(self) -> GroupMetadata:
        return GroupMetadata(self._member_id, self._generation, self._instance_id)

    def _is_current(self, run: RawRecords) -> bool:
        reading = self._readings.get(run.partition)
        return reading is not None and reading.number == run.reading and not reading.is_stopped

    # ---- the life of the member, in its own thread

    async def _live(self) -> None:
        try:
            while not self._closing and not self._failed:
                await self._turn()
            if not self._failed:
                await self._give_up(set(self._owned))
                if self._instance_id is None and self._member_id:
                    member_id = self._member_id
                    await self._host.ask(
                        "leave", lambda: self._group.leave(member_id), _ANSWER_SECONDS
                    )
        except NoAnswerError:
            pass
        finally:
            self._owned.clear()
            self._readings.clear()
            self._closing = True
            self._news.set()
            if not self._ended.done():
                self._ended.set_result(None)

    async def _turn(self) -> None:
        await self._join()
        await self._until_moved()

    async def _join(self) -> None:
        """Become a member of the next generation, and take its assignment."""
        host, group = self._host, self._group
        while not self._closing:
            self._moves.clear()
            self._is_rebalancing = False
            if self._lost is not None:
                await self._poll()
            self._note_lost()
            member_id, owned = self._member_id, frozenset(self._owned)
            try:
                join = partial(group.join, self._client_id, member_id, self._instance_id, owned)
                joined = await host.ask("join", join, 60.0)
                self._member_id, generation = joined
                self._heard_at = host.loop.time()
                assigned = await host.ask("sync", partial(group.sync, self._member_id, generation))
            except NoAnswerError:
                self._check_session()
                await host.pause()
                continue
            except RefusedError as error:
                if error.code is Code.FENCED_INSTANCE_ID:
                    self._fail_fenced()
                    return
                if error.code is Code.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                    self._lost = str(error)
                await asyncio.sleep(0.01)
                continue
            self._generation = generation
            self._is_rebalancing = False  # the response is from an earlier generation
            self._heard_at = host.loop.time()
            if self._lost is None:
                await self._take_over(set(assigned))
            return

    async def _take_over(self, assigned: set[int]) -> None:
        revoked = self._owned - assigned
        if revoked:
            await self._give_up(revoked)
            self._is_rebalancing = True  # so that others can have them
            self._moves.set()
        if self._lost is not None:
            return
        await self._poll()
        if self._is_lost():
            return
        added = assigned - self._owned - revoked
        self._owned |= added
        assert self._events is not None
        self._host.call(self._events.assigned, frozenset(added), self._metadata())

    async def _until_moved(self) -> None:
        while not (self._closing or self._is_rebalancing or self._lost or self._failed):
            await self._moves.wait()
            self._moves.clear()

    async def _give_up(self, partitions: set[int]) -> None:
        """Let the worker release partitions, for a limited time."""
        await self._poll()
        if not partitions or self._events is None:
            return
        for partition in partitions:
            self._owned.discard(partition)
            self._readings.pop(partition, None)
        events, metadata = self._events, self._metadata()
        self._revocations += 1
        number = self._revocations

        async def until(released: Awaitable[None]) -> None:
            await released

        def revoke() -> Coroutine[Any, Any, None]:
            self._announced = number
            return until(events.revoked(frozenset(partitions), metadata))

        done = self._host.in_program(revoke)
        await asyncio.wait([done], timeout=self._revoke_seconds)
        if not done.done():
            self._abandoned = number
            self._host.cluster.tell(f"{self._host.name} gives up {sorted(partitions)} in time")

    def _is_lost(self) -> bool:
        return self._lost is not None

    async def _poll(self) -> None:
        """Wait until the thread that calls the worker polls again; a broker may delay it."""
        draw = self._host.cluster.network.random
        longest = _ANSWER_SECONDS if draw.random() < _ASKING else self._poll_seconds
        await asyncio.sleep(draw.uniform(0.0, longest))

    def _note_lost(self) -> None:
        """Tell the worker that others may own its former partitions."""
        if self._lost is None:
            return
        self._lost = None
        lost = frozenset(self._owned)
        self._owned.clear()
        self._readings.clear()
        self._generation = NO_GENERATION
        if lost and self._events is not None:
            self._host.call(self._events.lost, lost, self._metadata())

    def _check_session(self) -> None:
        silent = self._host.loop.time() - self._heard_at
        if self._generation != NO_GENERATION and silent > self._session_seconds:
            self._lost = "no heartbeat was answered"
            self._moves.set()

    async def _beat(self) -> None:
        host = self._host
        refreshed_at = 0.0
        while not self._closing:
            await asyncio.sleep(self._session_seconds / HEARTBEATS)
            if self._generation == NO_GENERATION or self._closing:
                continue
            self._check_session()
            if self._lost is not None:
                continue
            named = self._named()
            try:
                await host.ask(
                    "heartbeat",
                    partial(self._group.heartbeat, *named),
                    self._session_seconds / 2,
                )
            except NoAnswerError:
                self._check_session()
                continue
            except RefusedError as error:
                self._heard_at = host.loop.time()
                if named == self._named():
                    self._refused(error)
                continue
            self._heard_at = host.loop.time()
            if host.loop.time() - refreshed_at > _REFRESH_SECONDS and 0 in self._owned:
                refreshed_at = host.loop.time()
                if self._group.is_short_of():
                    self._is_rebalancing = True
                    self._moves.set()

    def _refused(self, error: RefusedError) -> None:
        if error.code is Code.FENCED_INSTANCE_ID:
            self._fail_fenced()
        elif error.code is Code.REBALANCE_IN_PROGRESS:
            self._is_rebalancing = True
        else:
            if error.code is Code.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            self._lost = str(error)
        self._moves.set()

    def _fail_fenced(self) -> None:
        self._failed = True
        self._moves.set()
        if self._events is not None:
            self._host.call(
                self._events.failed, MemberFencedError("another worker has this instance id")
            )

    # ---- records

    async def _fetch(self) -> None:
        host = self._host
        while not self._closing:
            wanted = self._wanted()
            if len(self._fetched) >= _FETCHES or not wanted:
                self._news.clear()
                await self._news.wait()
                continue
            wait = self._gather_until - host.loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            places = [
                Fetch((self._topic, partition), reading.next, reading.losses)
                for partition, reading in wanted.items()
            ]
            self._news.clear()
            fetch = partial(host.cluster.fetch, places, self._poll_records, committed=True)
            answer = host.ask("fetch", fetch)
            if not await self._answered_unless_moved(answer, wanted):
                continue
            try:
                self._put(wanted, answer.result())
            except NoAnswerError:
                await host.pause()
            else:
                if any(a.error for a in answer.result().values()):
                    await host.pause()

    async def _answered_unless_moved(
        self, answer: asyncio.Future[dict[Place, FetchAnswer]], wanted: dict[int, _Reading]
    ) -> bool:
        """Wait for a fetch; return False if something else must be read now."""
        while not answer.done():
            news = asyncio.ensure_future(self._news.wait())
            waiting: list[asyncio.Future[Any]] = [answer, news]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            self._news.clear()
            now = self._wanted()
            if not answer.done() and list(map(id, now.values())) != list(map(id, wanted.values())):
                answer.add_done_callback(lambda done: done.cancelled() or done.exception())
                return False
        return True

    def _wanted(self) -> dict[int, _Reading]:
        return {
            partition: reading
            for partition, reading in self._readings.items()
            if not reading.is_stopped and not reading.is_paused
        }

    def _put(self, wanted: dict[int, _Reading], answers: dict[Place, FetchAnswer]) -> None:
        runs: list[RawRecords] = []
        ended: set[int] = set()
        for (_, partition), answer in answers.items():
            reading = wanted[partition]
            if self._readings.get(partition) is not reading or reading.is_stopped:
                continue
            if answer.error is Code.OFFSET_OUT_OF_RANGE:
                broker = self._host.cluster.partition((self._topic, partition))
                self._resets += 1
                # librdkafka may learn that an offset does not exist before it compares epochs.
                losses = None if self._resets % _TOO_EARLY == 0 else reading.losses
                reading.next, reading.losses = broker.reset(reading.next, losses)
                continue
            if answer.error is not None:
                continue
            place = self._topic, partition
            messages = [message_of(place, stored) for stored in answer.records]
            reading.next, reading.losses = answer.next, answer.losses_after(reading.losses)
            if messages:
                size = sum(map(message_bytes, messages))
                runs.append(RawRecords(partition, reading.number, messages, size))
            at_end = answer.next >= answer.end
            if at_end and (messages or not reading.is_at_end):
                ended.add(partition)
            reading.is_at_end = at_end
        if runs or ended:
            self._fetched.append(Fetched(runs, frozenset(ended)))
            assert self._events is not None
            self._host.call(self._events.fetched)
