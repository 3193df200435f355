"""Exactly once: one batch of one shard is one Kafka transaction (design: the changelog is the log).

Outputs, messages to other shards, changes of state and the offset reached become visible together
or not at all. The transactional id is that of the shard, whoever owns it: to begin is to fence the
owner before, and to abort what it left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

from simhash_core.errors import FirstseenError
from streams.errors import UnansweredError
from streams.kafka.acked_producer import (
    Deliveries,
    DeliveryError,
    Outgoing,
    RecordTooLargeError,
    hand_over,
)

_RETRY_SECONDS: Final = 0.2
_TAKE_OVER: Final = "take over"
_ABORT: Final = "abort"
_Result = TypeVar("_Result")


class FencedError(FirstseenError):
    """Another worker has taken the shard over; nothing of this batch was or will be seen."""


class AbortedError(FirstseenError):
    """The transaction was aborted, and may be tried again from the committed state."""


class TransactionError(FirstseenError):
    """The transaction failed for good, in a way that trying again cannot mend."""


class ShardTransactions:
    """The transactional producer of one shard."""

    def __init__(
        self,
        config: Mapping[str, Any],
        transactional_id: str,
        *,
        timeout_seconds: float,
    ) -> None:
        """``timeout_seconds`` bounds a transaction here, and at the broker."""
        self._id = transactional_id
        self._timeout_seconds = timeout_seconds
        self._config = {
            "linger.ms": 2,
            "compression.type": "lz4",
            **config,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(timeout_seconds * 1000),
            "message.timeout.ms": int(timeout_seconds * 1000),
        }
        self._producer: Producer | None = None
        self._asks_of_each = False

    async def take_over(self) -> None:
        """Fence the owner before, and abort what it left unfinished.

        Raises ``TransactionError`` where the broker knows no transactions, ``UnansweredError``
        where it does not answer.
        """
        await self._in_thread(self._take_over)

    async def commit(self, records: Sequence[Outgoing], last: Outgoing) -> int:
        """Commit all records and ``last`` in one transaction; return the offset behind ``last``.

        Raises ``AbortedError`` when it may be tried again, ``FencedError`` when the shard has been
        taken over, ``RecordTooLargeError`` when a topic does not take one, ``UnansweredError`` when
        nothing is known, ``TransactionError`` otherwise.
        """
        return await self._in_thread(lambda: self._commit(records, last))

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(None, work)

    def _take_over(self) -> None:
        # A producer that was fenced, or failed, is of no more use: each taking over has a new one.
        producer = self._producer = Producer(self._config)
        self._until_done(_TAKE_OVER, producer.init_transactions)

    def _commit(self, records: Sequence[Outgoing], last: Outgoing) -> int:
        producer = self._taken_over()
        deliveries = Deliveries(last)
        # A report takes the interpreter from the event loop, each for itself, and a transaction
        # that is committed has all its records: only after an abort is it asked which were refused.
        report_of = deliveries.report_of if self._asks_of_each else deliveries.report_of_last
        self._asks_of_each = True
        try:
            producer.begin_transaction()
            deadline = time.monotonic() + self._timeout_seconds
            for record in (*records, last):
                hand_over(producer, record, deadline=deadline, report=report_of(record))
        except RecordTooLargeError:
            self._until_done(_ABORT, producer.abort_transaction)
            raise
        except DeliveryError as error:
            self._abort(str(error))
        except KafkaException as error:
            self._judge("begin", error.args[0])
        try:
            self._until_done("commit", producer.commit_transaction)
        except AbortedError:
            deliveries.raise_too_large()
            raise
        if deliveries.last_offset is None or deliveries.failures:
            raise TransactionError(
                f"{self._id}: committed without an acknowledgement of every record: "
                f"{next(iter(deliveries.failures), 'no offset of the last one')}"
            )
        self._asks_of_each = False
        return deliveries.last_offset + 1

    def _taken_over(self) -> Producer:
        if self._producer is None:
            raise TransactionError(f"{self._id}: a commit before the shard was taken over")
        return self._producer

    def _until_done(self, step: str, call: Callable[[float], None]) -> None:
        """Call until it succeeds, at most as long as a transaction may take.

        Where a broker was gone from the cluster for a moment, librdkafka (2.16) has been seen to
        wait on when it was back; its issue 5511 tells of a coordinator that it lets go of as a
        broker and goes on waiting for. A new client does not know the old one's coordinator.
        """
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            try:
                call(max(1.0, deadline - time.monotonic()))
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if not reason.retriable():
                    self._judge(step, reason)
                if time.monotonic() > deadline:
                    raise UnansweredError(
                        f"{self._id}: no answer within {self._timeout_seconds:g} s "
                        f"(send_timeout_seconds) to {step}: {reason.str()}. Is the broker "
                        "reachable?"
                    ) from error
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def _judge(self, step: str, reason: KafkaError) -> None:
        """Raise what an error of the client means for the shard; never returns."""
        if reason.code() in {
            KafkaError._FENCED,  # noqa: SLF001 - the public name of the code
            KafkaError.PRODUCER_FENCED,
            KafkaError.INVALID_PRODUCER_EPOCH,
        }:
            raise FencedError(
                f"{self._id}: another worker has taken the shard over, or the broker has ended a "
                f"transaction that took longer than {self._timeout_seconds:g} s "
                "(send_timeout_seconds)"
            )
        if reason.txn_requires_abort() and step != _ABORT:
            self._abort(f"{step}: {reason.str()}")
        if step != _TAKE_OVER:
            raise UnansweredError(
                f"{self._id}: cannot {step} the transaction: {reason.str()}. Where it comes again, "
                "look at the brokers' logs; nothing is lost"
            )
        raise TransactionError(
            f"{self._id}: cannot {step} the shard: {reason.str()}. Does the broker support "
            "transactions? (delivery=at_least_once needs none)"
        )

    def _abort(self, why: str) -> None:
        """Abort and raise ``AbortedError``, or what hinders the abort."""
        self._until_done(_ABORT, self._taken_over().abort_transaction)
        raise AbortedError(f"{self._id}: the transaction was aborted: {why}")
