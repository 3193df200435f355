"""A transactional producer: records and a group's offsets are committed together, or not at all.

Blocking, for one thread. The group's offsets are a part of the transaction (KIP-447), and carry the
generation of the group in which they were read.

A producer that has lost its broker is replaced before the next transaction. Where a broker was gone
from the cluster for a moment, librdkafka (2.16) removes it, and yet sends the group's offsets to
it: ``send_offsets_to_transaction`` then hangs, whatever its time limit.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from streams.errors import UnansweredError
from streams.kafka.commit_errors import (
    STALE_GENERATION,
    AbortedError,
    FencedError,
    StaleGenerationError,
    TransactionError,
)
from streams.kafka.deliveries import Deliveries
from streams.kafka.producer_record import DeliveryError, ProducerRecord, RecordTooLargeError
from streams.kafka.retries import retrying

_RETRY_SECONDS: Final = 0.2
_HANGING_SECONDS: Final = 2.0
"""No call goes on for longer than this after its time."""
_BEGIN: Final = "begin"
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


class TransactionalProducer:
    """Commits batches under one transactional id.

    ``hangs_from``: the time (monotonic) at which a call that is under way must have ended; infinite
    while there is none. For other threads.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        transactional_id: str,
        *,
        timeout_seconds: float,
        answer_seconds: float | None = None,
        changelog_topic: str = "",
    ) -> None:
        """Connect nothing yet.

        Args:
            config: librdkafka properties.
            transactional_id: Whoever opens a producer with it fences earlier ones.
            timeout_seconds: Bounds a transaction at the broker. What a killed process left open
                delays readers for that long.
            answer_seconds: Bounds the wait for an answer; the same unless given.
            changelog_topic: The topic of which ``commit`` returns the offsets.
        """
        self.hangs_from = math.inf
        self._id = transactional_id
        self._changelog_topic = changelog_topic
        self._answer_seconds = answer_seconds or timeout_seconds
        # Later the broker has ended the transaction.
        self._step_seconds = min(self._answer_seconds, timeout_seconds + _HANGING_SECONDS)
        timeout_ms = int(timeout_seconds * 1000)
        self._config = {
            **config,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "message.timeout.ms": timeout_ms,
            # With the default of 100, offsets right after a commit wait for 100 ms; with 2, for 1.
            "retry.backoff.ms": 2,
            "error_cb": self._on_error,
        }
        self._producer: Producer | None = None
        self._is_disconnected = False
        self._reports_each = False

    def open(self) -> Producer:
        """Fence an earlier producer of this id, and abort what it left open.

        Raises:
            TransactionError: The broker knows no transactions.
            UnansweredError: It does not answer.
        """
        self.close()
        producer = Producer(self._config)
        self._until_done(_OPEN, producer, producer.init_transactions)
        producer.poll(0)  # what was wrong until now does not count
        self._is_disconnected = False
        self._producer = producer
        return producer

    def close(self) -> None:
        """Drop the producer, without waiting for its end."""
        if self._producer is not None:
            self._drop(self._producer)

    def commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Sequence[TopicPartition],
        group_metadata: bytes,
    ) -> dict[int, int]:
        """Commit records and a group's offsets: readers of committed records see all or nothing.

        Returns by changelog partition the offset after the last of ``records`` there. After an
        error that the producer does not survive, the next call makes a new one.

        Raises:
            AbortedError: Nothing of it is seen; it may be tried again.
            StaleGenerationError: The group has rebalanced since ``group_metadata``.
            FencedError: Another producer has this transactional id.
            RecordTooLargeError: A topic refuses a record.
            UnansweredError: It is not known whether the commit took place.
            TransactionError: Trying again does not help.
        """
        producer = self._connected()
        deliveries = Deliveries(records, self._changelog_topic)
        reports, self._reports_each = self._reports_each, True
        try:
            producer.begin_transaction()
        except KafkaException as error:
            self._judge(_BEGIN, producer, error.args[0])
        if offsets:
            # First, for right after a commit the coordinator still writes its markers and refuses
            # more. librdkafka asks again after retry.backoff.ms here, but after a fixed 20 ms where
            # it adds the partitions of records.
            self._until_done(
                "add offsets to",
                producer,
                lambda seconds: producer.send_offsets_to_transaction(
                    list(offsets), group_metadata, seconds
                ),
            )
        self._produce(producer, deliveries, reports=reports)
        try:
            self._until_done("commit", producer, producer.commit_transaction)
        except AbortedError:
            # A record that is refused for its size aborts the transaction: not to be tried again.
            deliveries.raise_too_large()
            raise
        if deliveries.unreported():
            raise TransactionError(
                f"{self._id}: committed without an acknowledgement of every record: "
                f"{next(iter(deliveries.failures), 'no offset of the last one')}"
            )
        self._reports_each = False
        return deliveries.next_offsets

    def _connected(self) -> Producer:
        """Return a producer that has not lost its broker since it was opened."""
        if self._producer is not None:
            self._producer.poll(0)  # calls back for errors
        if self._producer is None or self._is_disconnected:
            return self.open()
        return self._producer

    def _on_error(self, error: KafkaError) -> None:
        self._is_disconnected |= error.code() in _DISCONNECTED

    def _drop(self, producer: Producer) -> None:
        """Drop a producer; it ends in a thread of its own."""
        if self._producer is producer:
            self._producer = None
            references = [producer]
            del producer
            threading.Thread(target=references.clear, name="old producer", daemon=True).start()

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
            self._drop(producer)
            raise

    def _until_done(self, step: str, producer: Producer, call: Callable[[float], None]) -> None:
        """Call until it succeeds, at most as long as an answer may take.

        After a broker left the cluster for a moment, librdkafka (2.16) sometimes keeps waiting
        although the broker is back: its issue 5511 describes a coordinator that it removed as a
        broker and still waits for. A new client asks for the coordinator again.
        """
        limit = self._answer_seconds if step == _OPEN else self._step_seconds
        deadline = time.monotonic() + limit

        def once() -> None:
            seconds = max(1.0, deadline - time.monotonic())
            self.hangs_from = time.monotonic() + seconds + _HANGING_SECONDS
            try:
                call(seconds)
            finally:
                self.hangs_from = math.inf

        try:
            retrying(limit, _RETRY_SECONDS, _is_retriable)(once)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if not reason.retriable():
                self._judge(step, producer, reason)
            self._drop(producer)
            raise UnansweredError(
                f"{self._id}: no answer within {limit:g} s to {step} the transaction: "
                f"{reason.str()}. Is the broker reachable? (send_timeout_seconds and "
                "session_timeout_seconds bound the wait)"
            ) from error

    def _judge(self, step: str, producer: Producer, reason: KafkaError) -> NoReturn:
        """Raise what an error of the client means."""
        if reason.code() in _FENCED:
            self._drop(producer)
            raise FencedError(
                f"{self._id}: another worker uses the same transactional id, or the broker "
                f"aborted a transaction that took longer than "
                f"{self._config['transaction.timeout.ms'] / 1000:g} s"
            )
        if reason.txn_requires_abort() and step != _ABORT:
            kind = StaleGenerationError if reason.code() in STALE_GENERATION else AbortedError
            self._abort(producer, kind(f"{self._id}: cannot {step}: {reason.str()}"))
        self._drop(producer)
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
        """Abort and raise ``error``, or what hinders the abort."""
        self._until_done(_ABORT, producer, producer.abort_transaction)
        raise error


def _is_retriable(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and bool(error.args[0].retriable())
