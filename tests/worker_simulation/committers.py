"""Simulated committers of outputs: in transactions, and at least once.

They behave like ``streams.kafka.transactions`` and ``streams.kafka.producers`` on librdkafka. The
rules that make late requests harmless are methods, so that a mutant can break them.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NoReturn, TypeVar

from simhash_core.errors import FirstseenError
from streams.errors import UnansweredError
from streams.kafka.errors import (
    AbortedError,
    FencedError,
    StaleGenerationError,
    UnverifiedError,
)
from streams.kafka.producers import (
    UNCHECKED,
    CommitChecks,
    ProducerRecord,
    RecordTooLargeError,
)
from tests.worker_simulation.cluster import Append
from tests.worker_simulation.group import Committed, GroupMetadata
from tests.worker_simulation.host import Host
from tests.worker_simulation.log_clients import UNKNOWN, IdempotentClient
from tests.worker_simulation.member import STALE
from tests.worker_simulation.network import Code, NoAnswerError, RefusedError
from tests.worker_simulation.partitions import Producer
from tests.worker_simulation.transactions import OFFSETS, Place

BEGIN: Final = "begin a commit"
"""A moment for faults, like the names of requests."""
_END: Final = "end a transaction"
_RETRY_SECONDS: Final = 0.002
_RETRY_SHARE: Final = 0.05
"""The pause as a share of the time waited so far, so that a slow marker costs few requests."""
_HANGING_SECONDS: Final = 2.0
_FENCED: Final = frozenset({Code.PRODUCER_FENCED})

_Answer = TypeVar("_Answer")


class UnplacedError(Exception):
    """Nobody knows the offset of a changelog's last record."""


def partition_of(key: bytes | None, partitions: int) -> int:
    return zlib.crc32(key or b"") % partitions


class _Sends(IdempotentClient):
    """The shared part: the partition of a record, and the order of records in each partition."""

    def __init__(self, host: Host, changelog_topic: str) -> None:
        super().__init__(host)
        self._changelog_topic = changelog_topic

    def _append_of(self, record: ProducerRecord) -> Append:
        partition = record.partition
        if partition is None:
            count = len(self._host.cluster.topics[record.topic].partitions)
            partition = partition_of(record.key, count)
        place = record.topic, partition
        return Append(place, record.key, record.value, record.timestamp_ms, record.headers)

    async def _produce(
        self,
        records: Sequence[ProducerRecord],
        producer: Producer,
        transactional_id: str | None,
        deadline: float,
    ) -> dict[int, int]:
        """Append records, in order in each partition; raises ``NoAnswerError`` when late."""
        by_place: dict[Place, list[Append]] = {}
        for record in records:
            append = self._append_of(record)
            by_place.setdefault(append.place, []).append(append)
        ends: dict[int, int] = {}

        async def one_place(place: Place, appends: list[Append]) -> None:
            offset = UNKNOWN
            for append in appends:
                offset = await self._send_one(
                    "produce", append, producer, deadline, transactional_id
                )
            if place[0] == self._changelog_topic:
                if offset == UNKNOWN:
                    self._unplaced(place)
                ends[place[1]] = offset + 1

        work = [one_place(*each) for each in by_place.items()]
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        return ends

    def _unplaced(self, place: Place) -> None:
        """Refuse a changelog whose end is unknown, after its last record."""
        raise UnplacedError(f"{place[0]}/{place[1]}: the broker has the record, and not its offset")


class SimulatedTransactions(_Sends):
    """An ``OutputCommitter`` with transactions."""

    def __init__(
        self,
        host: Host,
        transactional_id: str,
        *,
        changelog_topic: str,
        timeout_seconds: float = 6.0,
        answer_seconds: float = 30.0,
    ) -> None:
        super().__init__(host, changelog_topic)
        self._id = transactional_id
        self._timeout_seconds = timeout_seconds
        self._answer_seconds = answer_seconds
        self._step_seconds = min(answer_seconds, timeout_seconds + _HANGING_SECONDS)
        self._producer: Producer | None = None
        self._is_disconnected = self._is_checked = False
        self._losses = host.cluster.network.losses
        self._under_way = asyncio.Lock()

    async def open(self) -> None:
        await self._host.in_client(self._in_turn(self._open))

    async def commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Mapping[int, int],
        group_metadata: bytes,
        note: str = "",
        ends: Mapping[int, int] = MappingProxyType({}),  # noqa: ARG002 - the broker fences
        checks: CommitChecks = UNCHECKED,
    ) -> dict[int, int]:
        self._host.cluster.network.reached(self._host.machine, BEGIN)
        kept = {partition: Committed(offset, note) for partition, offset in offsets.items()}
        metadata = GroupMetadata.decoded(group_metadata)
        return await self._host.in_client(
            self._in_turn(lambda: self._commit(records, kept, metadata, checks))
        )

    async def failures(self) -> int:
        """Return the number of losses of power: each connection broke then."""
        return self._host.cluster.network.losses

    async def close(self) -> None:
        async def nothing() -> None:
            self._producer = None

        await self._host.in_client(self._in_turn(nothing))

    async def _in_turn(self, work: Callable[[], Awaitable[_Answer]]) -> _Answer:
        async with self._under_way:  # this is one thread
            return await work()

    # ---- in the thread

    async def _open(self) -> None:
        self._producer = None
        producer = await self._until_done(
            "open",
            lambda: self._host.cluster.transactions.init(self._id, self._timeout_seconds),
            self._answer_seconds,
        )
        self._producer = producer
        self._sequences.clear()
        self._is_disconnected = self._is_checked = False
        self._losses = self._host.cluster.network.losses

    async def _commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Mapping[int, Committed],
        metadata: GroupMetadata,
        checks: CommitChecks,
    ) -> dict[int, int]:
        if self._producer is None or self._needs_new_epoch():
            await self._open()
        self._refuse_unverified(checks)
        producer = self._producer
        assert producer is not None
        transactions, cluster = self._host.cluster.transactions, self._host.cluster
        if offsets:
            await self._step("add offsets", lambda: transactions.add(self._id, producer, [OFFSETS]))
            await self._step(
                "commit offsets in a transaction",
                lambda: cluster.add_offsets(self._id, producer, metadata, offsets),
            )
        places = list(dict.fromkeys(self._append_of(each).place for each in records))
        if places:
            await self._step("add partitions", lambda: transactions.add(self._id, producer, places))
        deadline = self._host.loop.time() + self._answer_seconds
        try:
            ends = await self._produce(records, producer, self._id, deadline)
        except NoAnswerError as error:
            self._drop()
            raise UnansweredError(f"{self._id}: records were not acknowledged") from error
        except UnplacedError as error:
            await self._abort(producer, AbortedError(str(error)))
        except RefusedError as error:
            if error.code is Code.RECORD_TOO_LARGE:
                await self._abort(producer, RecordTooLargeError(records))
            await self._judge("produce", producer, error)
        if not (offsets or places):
            return ends
        await self._check(producer, ends, checks)
        await self._step(_END, lambda: transactions.end(self._id, producer, committed=True))
        self._is_checked = True
        return ends

    async def _check(
        self, producer: Producer, ends: Mapping[int, int], checks: CommitChecks
    ) -> None:
        try:
            self._refuse_unverified(checks)
            checks.sent(ends)
        except FirstseenError as error:
            await self._abort(producer, error)
        if self._is_checked and not self._has_failed():
            return

        async def failure() -> FirstseenError | None:
            try:
                await checks.read()
            except FirstseenError as error:
                return error
            return None

        failed = await self._host.in_program(failure)
        if failed is not None:
            await self._abort(producer, failed)

    def _refuse_unverified(self, checks: CommitChecks) -> None:
        failures = self._host.cluster.network.losses
        if checks.failures is not None and failures > checks.failures:
            raise UnverifiedError(f"{self._id}: a connection to a broker has failed")

    def _needs_new_epoch(self) -> bool:
        """Return whether a late request of an earlier transaction may arrive in the next one."""
        return self._has_failed()

    def _has_failed(self) -> bool:
        """Return whether a connection is known to have failed; a client notes idle ones too."""
        return self._is_disconnected or self._losses != self._host.cluster.network.losses

    def _fenced_end_is_unknown(self) -> bool:
        """Return whether a commit that is refused because of a fence may have taken place."""
        return True

    def _disconnected(self) -> None:
        self._is_disconnected = True

    async def _step(self, name: str, work: Callable[[], _Answer]) -> _Answer:
        producer = self._producer
        assert producer is not None
        try:
            return await self._until_done(name, work, self._step_seconds)
        except RefusedError as error:
            await self._judge(name, producer, error)

    async def _until_done(self, name: str, work: Callable[[], _Answer], seconds: float) -> _Answer:
        began = self._host.loop.time()
        deadline = began + seconds
        while True:
            left = deadline - self._host.loop.time()
            if left <= 0:
                self._drop()
                raise UnansweredError(f"{self._id}: no answer within {seconds:g} s to {name}")
            try:
                return await self._host.ask(name, work, min(5.0, left))
            except NoAnswerError:
                self._disconnected()
                await self._host.pause()
            except RefusedError as error:
                if error.code is not Code.CONCURRENT_TRANSACTIONS:
                    raise
                waited = self._host.loop.time() - began
                await asyncio.sleep(max(_RETRY_SECONDS, _RETRY_SHARE * waited))

    async def _judge(self, step: str, producer: Producer, error: RefusedError) -> NoReturn:
        if error.code in _FENCED:
            self._drop()
            if step in {"produce", _END} and self._fenced_end_is_unknown():
                raise UnansweredError(f"{self._id}: fenced, so it is unknown what is committed")
            raise FencedError(f"{self._id}: fenced: {error}")
        if error.code in STALE:
            await self._abort(producer, StaleGenerationError(f"{self._id}: cannot {step}: {error}"))
        if step == "produce":
            await self._abort(producer, AbortedError(f"{self._id}: cannot {step}: {error}"))
        self._drop()
        raise UnansweredError(f"{self._id}: cannot {step}: {error}")

    async def _abort(self, producer: Producer, error: FirstseenError) -> NoReturn:
        self._is_disconnected |= isinstance(error, AbortedError)
        try:
            await self._until_done(
                "abort a transaction",
                lambda: self._host.cluster.transactions.end(self._id, producer, committed=False),
                self._step_seconds,
            )
        except RefusedError as refused:
            self._drop()
            if refused.code in _FENCED:
                raise FencedError(f"{self._id}: fenced: {refused}") from refused
            raise UnansweredError(f"{self._id}: cannot abort: {refused}") from refused
        raise error

    def _drop(self) -> None:
        self._producer = None


class SimulatedSends(_Sends):
    """A ``SendClient``."""

    def __init__(self, host: Host, *, changelog_topic: str, answer_seconds: float = 30.0) -> None:
        super().__init__(host, changelog_topic)
        self._answer_seconds = answer_seconds
        self._renew()

    async def failures(self) -> int:
        """Return the number of losses of power: each connection broke then."""
        return self._host.cluster.network.losses

    async def send(self, records: Sequence[ProducerRecord]) -> dict[int, int]:
        return await self._host.in_client(self._send(records))

    async def close(self) -> None:
        """Release the client."""

    async def _send(self, records: Sequence[ProducerRecord]) -> dict[int, int]:
        deadline = self._host.loop.time() + self._answer_seconds
        try:
            return await self._produce(records, self._renewed, None, deadline)
        except (NoAnswerError, UnplacedError) as error:
            self._renew()
            raise UnansweredError("records were not acknowledged") from error
        except RefusedError as error:
            self._renew()
            if error.code is Code.RECORD_TOO_LARGE:
                raise RecordTooLargeError(records) from error
            raise UnansweredError(f"a record was not delivered: {error}") from error
