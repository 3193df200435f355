"""Exactly once: outputs, changelog records and raw offsets in one transaction per cycle.

The group's coordinator refuses offsets from a worker outside the present generation. So a worker
that lost its partitions cannot commit, and each worker needs only its own transactional id.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from simhash_core.errors import FirstseenError
from streams.errors import Problem, SettingsError, UnansweredError
from streams.kafka.client_config import logger as client_logger
from streams.kafka.clients import ClientThread, Producer
from streams.kafka.errors import (
    STALE_GENERATION,
    AbortedError,
    FencedError,
    Retries,
    StaleGenerationError,
    TransactionError,
    UnverifiedError,
)
from streams.kafka.producers import (
    UNCHECKED,
    CommitChecks,
    ConnectionLog,
    Deliveries,
    DeliveryError,
    ProducerRecord,
    RecordTooLargeError,
)

# ---- A transactional producer: records and a group's offsets are committed together or not at all.
#
# The calls block, and only one thread may make them. The group's offsets are part of the
# transaction (KIP-447) and carry the generation in which they were read.
#
# A producer that has lost a connection is replaced before the next transaction, for two reasons:
#  - A request that was sent twice may take effect twice: with librdkafka's transactions (version 1)
#    a late ``EndTxn`` would commit half of the next transaction (KIP-890). A new producer has a new
#    epoch, with which the brokers refuse it. docs/decisions/late-requests.md
#  - Where a broker left the cluster for a moment, librdkafka (2.16) removes it but still sends the
#    group's offsets to it: ``send_offsets_to_transaction`` then hangs, despite its time limit.

_RETRY_SECONDS: Final = 0.2
_HANGING_SECONDS: Final = 2.0  # a call that exceeds its time limit by this much hangs
_SLOW: Final = 0.5  # the part of its time limit above which a transaction that failed was slow
_LATE_SECONDS: Final = 1.0  # a transaction that takes longer may have sent a request twice
_BACKOFF: Final = "reconnect.backoff.ms"
_BACKOFF_MS: Final = 100
_RECONNECT_SECONDS: Final = 0.05  # no request is sent again sooner than this
# librdkafka logs the same connection failure only once in this time.
_REPEATED_SECONDS: Final = 30.0
_BEGIN: Final = "begin"
_COMMIT: Final = "commit"
_ABORT: Final = "abort"
_OPEN: Final = "open"
_DISCONNECTED: Final = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - a public code of librdkafka
    }
)
_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - the public name of the code
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)


_Check = Callable[[Mapping[int, int], bool], None]  # see ``TransactionalProducer.commit``


class TransactionalProducer:
    """Commits batches under one transactional id.

    Other threads read ``hangs_from``: a call that is still running after that time (monotonic)
    hangs. It is infinite while there is no call.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        transactional_id: str,  # opening a producer fences earlier producers with the same id
        *,
        # Of a transaction; a killed process delays readers by up to this time.
        timeout_seconds: float,
        # Maximum wait for a response; None: ``timeout_seconds``.
        answer_seconds: float | None = None,
        changelog_topic: str = "",  # ``commit`` returns offsets of this topic
    ) -> None:
        self.hangs_from = math.inf
        self.failed = 0  # how often a connection is known to have failed
        self._id = transactional_id
        self._changelog_topic = changelog_topic
        self._answer_seconds = answer_seconds or timeout_seconds
        # After this time the broker has ended the transaction.
        self._step_seconds = min(self._answer_seconds, timeout_seconds + _HANGING_SECONDS)
        timeout_ms = int(timeout_seconds * 1000)
        self._config = {
            **config,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "message.timeout.ms": timeout_ms,
            # A request for offsets right after a commit waits 100 ms with the default of 100, and 1
            # ms with 2.
            "retry.backoff.ms": 2,
            # ``ConnectionLog`` needs these lines, and ``_RECONNECT_SECONDS`` needs the pause.
            **ConnectionLog.lines(config),
            _BACKOFF: max(_BACKOFF_MS, int(config.get(_BACKOFF, _BACKOFF_MS))),
            "error_cb": self._on_error,
        }
        self._logger: logging.Logger = config.get("logger", client_logger)
        self._log = ConnectionLog(self._logger)
        self._producer: Producer | None = None
        self._has_old_requests = False
        self._is_checked = False  # since the opening, or since a connection failed
        self._began = math.inf  # the transaction
        self._logs_all_from = 0.0  # after this time each connection failure is logged
        self._reports_each = False

    def open(self) -> Producer:
        """Fence an earlier producer of this id, and abort its open transaction.

        Raises ``TransactionError`` if the broker has no transactions, ``UnansweredError``.
        """
        self.close()
        log = ConnectionLog(self._logger)
        producer = Producer({**self._config, "logger": log})
        self._until_done(_OPEN, producer, producer.init_transactions)
        producer.poll(0)  # earlier problems do not count
        if log.has_failed:
            self.failed += 1
            self._logs_all_from = time.monotonic() + _REPEATED_SECONDS
            log.has_failed = False
        self._log = log
        self._has_old_requests = self._is_checked = False
        self._producer = producer
        return producer

    def close(self) -> None:
        self._producer = None

    def failures(self) -> int:
        """Return how often a connection is known to have failed; several at a time count once."""
        if self._producer is not None:
            self._producer.poll(0)  # this calls back for errors and log lines
        if self._log.has_failed:
            self._log.has_failed, self._has_old_requests = False, True
            self.failed += 1
        return self.failed

    def commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Sequence[TopicPartition],
        group_metadata: bytes,
        check: _Check = lambda _, __: None,
        failures: int | None = None,
    ) -> dict[int, int]:
        """Commit records and a group's offsets atomically.

        Returns by changelog partition the offset after the last of ``records``. If the producer
        cannot be used after an error, the next call creates a new one. ``check`` is called before
        the commit, with these offsets and with whether brokers may have failed since the last one;
        it may raise any ``FirstseenError``, after which nothing is visible. ``failures``: how many
        the caller knows.

        Raises:
            UnverifiedError: There are more failures; nothing is visible.
            AbortedError: Nothing is visible; it may be tried again.
            StaleGenerationError: The group has rebalanced since ``group_metadata``.
            FencedError: Another producer has this transactional id; nothing is visible.
            RecordTooLargeError: A topic refuses a record.
            UnansweredError: It is unknown whether the commit took place.
            TransactionError: Trying again does not help.
        """
        producer = self._connected()
        if failures is not None and self.failed > failures:
            raise self._unverified()
        self._began = began = time.monotonic()
        deliveries = Deliveries(records, self._changelog_topic)
        reports, self._reports_each = self._reports_each, True
        try:
            producer.begin_transaction()
        except KafkaException as error:
            self._judge(_BEGIN, producer, error.args[0])
        if offsets:
            # Offsets come first: right after a commit the coordinator still writes its markers and
            # refuses other requests. librdkafka retries offsets after retry.backoff.ms, but
            # partitions of records after a fixed 20 ms.
            self._until_done(
                "add offsets to",
                producer,
                lambda seconds: producer.send_offsets_to_transaction(
                    list(offsets), group_metadata, seconds
                ),
            )
        self._produce(producer, deliveries, reports=reports)
        self._check(producer, deliveries, check, ignores_failures=failures is None)
        try:
            self._until_done(_COMMIT, producer, producer.commit_transaction)
        except (AbortedError, FencedError) as error:
            # A record that is too large aborts the transaction, and trying again does not help.
            deliveries.raise_too_large()
            if deliveries.failures:
                # librdkafka may only say how many records were not delivered.
                why = f"{error} ({deliveries.failures[0]}){self._slowness()}"
                raise AbortedError(why) from error
            raise
        if deliveries.unreported():
            raise TransactionError(
                f"{self._id}: committed without an acknowledgement of every record: "
                f"{next(iter(deliveries.failures), 'no offset of the last one')}"
            )
        self._reports_each, self._is_checked = False, True
        late = _LATE_SECONDS if began > self._logs_all_from else _RECONNECT_SECONDS
        self._has_old_requests |= time.monotonic() - began > late
        return deliveries.next_offsets

    def _check(
        self,
        producer: Producer,
        deliveries: Deliveries,
        check: _Check,
        *,
        ignores_failures: bool,
    ) -> None:
        self.hangs_from = time.monotonic() + self._step_seconds + _HANGING_SECONDS
        try:
            left = producer.flush(self._step_seconds)
        except (KafkaException, SystemError):
            return  # the client has stopped for good: the end of the transaction fails
        finally:
            self.hangs_from = math.inf
        if left:
            self.close()
            raise UnansweredError(
                f"{self._id}: {left} records were not acknowledged{self._slowness()}"
            )
        if deliveries.unplaced:
            self._abort(producer, AbortedError(f"{self._id}: {deliveries.unplaced}"))
        if deliveries.too_large or deliveries.unreported():
            return  # the end of the transaction fails, and says why
        may_have_failed = self._has_old_requests or self._log.has_failed
        try:
            if self._log.has_failed and not ignores_failures:
                raise self._unverified(self._slowness())
            check(deliveries.next_offsets, may_have_failed or not self._is_checked)
        except FirstseenError:
            self._until_done(_ABORT, producer, producer.abort_transaction)
            raise

    def _unverified(self, slowness: str = "") -> UnverifiedError:
        return UnverifiedError(f"{self._id}: a connection to a broker has failed{slowness}")

    def _slowness(self) -> str:
        """Return what to do about a transaction that had hardly any time left; else ""."""
        limit = self._config["transaction.timeout.ms"] / 1000
        seconds = time.monotonic() - self._began
        if seconds < limit * _SLOW:
            return ""
        return (
            f", after {seconds:.1f} s of the {limit:g} s that a transaction may take: the brokers "
            "are slow. If this goes on, raise session_timeout_seconds, which is that limit"
        )

    def _connected(self) -> Producer:
        self.failures()
        if self._producer is None or self._has_old_requests:
            return self.open()
        return self._producer

    def _on_error(self, error: KafkaError) -> None:
        self._has_old_requests |= error.code() in _DISCONNECTED

    def _produce(self, producer: Producer, deliveries: Deliveries, *, reports: bool) -> None:
        deadline = time.monotonic() + self._answer_seconds
        try:
            deliveries.produce(producer, deadline=deadline, reports=reports)
        except RecordTooLargeError:
            self._until_done(_ABORT, producer, producer.abort_transaction)
            raise
        except DeliveryError as error:
            self._abort(producer, AbortedError(f"{self._id}: {error}"))
        except UnansweredError:
            self.close()
            raise

    def _until_done(self, step: str, producer: Producer, call: Callable[[float], None]) -> None:
        """Retry a call until it succeeds or its time limit passes.

        After a broker left the cluster for a moment, librdkafka (2.16) sometimes waits for ever for
        a coordinator that it has removed (its issue 5511). A new client finds the coordinator
        again.
        """
        limit = self._answer_seconds if step == _OPEN else self._step_seconds
        deadline = time.monotonic() + limit

        is_first = True

        def once() -> None:
            nonlocal is_first
            self._has_old_requests |= not is_first and step != _OPEN
            is_first = False
            seconds = max(1.0, deadline - time.monotonic())
            self.hangs_from = time.monotonic() + seconds + _HANGING_SECONDS
            try:
                call(seconds)
            finally:
                self.hangs_from = math.inf

        try:
            Retries(limit, _RETRY_SECONDS, _is_retriable)(once)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if not reason.retriable():
                self._judge(step, producer, reason)
            self.close()
            raise UnansweredError(
                f"{self._id}: no answer within {limit:g} s to {step} the transaction: "
                f"{reason.str()}. Is the broker reachable? (send_timeout_seconds and "
                "session_timeout_seconds bound the wait)"
            ) from error

    def _judge(self, step: str, producer: Producer, reason: KafkaError) -> NoReturn:
        if reason.code() in _FENCED:
            self.close()
            why = (
                f"{self._id}: another worker uses the same transactional id, or the broker "
                f"aborted a transaction that took longer than "
                f"{self._config['transaction.timeout.ms'] / 1000:g} s (session_timeout_seconds)"
            )
            if step == _COMMIT:
                # Perhaps the broker committed the transaction and only its response was lost. Then
                # the next owner of a shard, or a late request of this client's own opening, may
                # have fenced this producer since.
                raise UnansweredError(f"{why}; it is unknown what is committed")
            raise FencedError(why)
        if reason.txn_requires_abort() and step != _ABORT:
            kind = StaleGenerationError if reason.code() in STALE_GENERATION else AbortedError
            self._abort(producer, kind(f"{self._id}: cannot {step}: {reason.str()}"))
        self.close()
        if reason.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            missing = f"the Kafka user may not Write TransactionalId {self._id}: grant it (ACL)"
            raise SettingsError([Problem("kafka", "", "settings", missing)])
        if step != _OPEN:
            raise UnansweredError(
                f"{self._id}: cannot {step} the transaction: {reason.str()}. If it happens again, "
                "look at the brokers' logs; nothing is lost"
            )
        raise TransactionError(
            f"{self._id}: cannot {step} transactions: {reason.str()}. Does the broker support "
            "them? (delivery=at_least_once needs none)"
        )

    def _abort(self, producer: Producer, error: AbortedError | StaleGenerationError) -> NoReturn:
        # A stale generation is refused in a response, before any record is sent.
        self._has_old_requests |= isinstance(error, AbortedError)
        self._until_done(_ABORT, producer, producer.abort_transaction)
        raise error


def _is_retriable(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and bool(error.args[0].retriable())


_Result = TypeVar("_Result")
_CHECK_SECONDS: Final = 30.0  # far more than the checks of a commit may take


class OutputTransactions:
    def __init__(
        self,
        config: Mapping[str, Any],
        transactional_id: str,
        *,
        source_topic: str,
        changelog_topic: str,
        timeout_seconds: float,
        answer_seconds: float | None = None,
    ) -> None:
        self._id = transactional_id
        self._source_topic = source_topic
        self._connect = partial(
            TransactionalProducer,
            config,
            transactional_id,
            timeout_seconds=timeout_seconds,
            answer_seconds=answer_seconds,
            changelog_topic=changelog_topic,
        )
        self._producer = self._connect()
        self._thread = ClientThread("transactions")

    async def open(self) -> None:
        await self._in_thread(self._producer.open)

    async def commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Mapping[int, int],
        group_metadata: bytes,
        note: str = "",
        ends: Mapping[int, int] = MappingProxyType({}),  # noqa: ARG002 - the broker fences
        checks: CommitChecks = UNCHECKED,
    ) -> dict[int, int]:
        raw = [TopicPartition(self._source_topic, *each, note) for each in offsets.items()]
        producer, loop = self._producer, asyncio.get_running_loop()

        def check(sent: Mapping[int, int], may_have_failed: bool) -> None:  # noqa: FBT001 - one caller
            checks.sent(sent)
            if not may_have_failed:
                return
            read = asyncio.run_coroutine_threadsafe(checks.read(), loop)
            try:
                read.result(_CHECK_SECONDS)
            except (TimeoutError, CancelledError) as error:
                read.cancel()
                raise UnansweredError(f"{self._id}: what was read could not be checked") from error

        return await self._in_thread(
            lambda: producer.commit(records, raw, group_metadata, check, checks.failures)
        )

    async def failures(self) -> int:
        return await self._in_thread(self._producer.failures)

    async def close(self) -> None:
        await self._in_thread(self._producer.close)
        self._thread.end()

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        producer = self._producer
        try:
            # A commit may have to open and to abort, and each has its own time limit.
            return await self._thread.run(work, lambda: time.monotonic() > producer.hangs_from)
        except TimeoutError:
            self._producer = self._connect()  # the old producer is left to the thread that hangs
            self._producer.failed = producer.failed + 1
            raise UnansweredError(
                f"{self._id}: the Kafka client hangs in a transaction; a new client replaces it"
            ) from None


async def abort_left_open(
    config: Mapping[str, Any], transactional_id: str, answer_seconds: float
) -> None:
    """Abort the open transaction of a killed worker without waiting for its time-out.

    If the worker is still alive, its next commit raises ``FencedError``. Raises
    ``TransactionError`` or ``UnansweredError``.
    """
    transactions = OutputTransactions(
        config,
        transactional_id,
        source_topic="",
        changelog_topic="",
        timeout_seconds=answer_seconds,
    )
    try:
        await transactions.open()
    finally:
        await transactions.close()
