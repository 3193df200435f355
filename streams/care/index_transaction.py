"""One transaction in which a command changes an index: changelog and the group's offsets.

It may be large: records go to the broker while they are made, and nobody sees any of them before
the end. The broker allows a transaction ``transaction.max.timeout.ms``, 15 minutes unless set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from simhash_core.errors import FirstseenError
from streams.kafka.client_config import output_config
from streams.kafka.retries import becomes_true
from streams.settings.settings import Settings
from streams.store.changelog_codec import ChangelogRecord

_TRANSACTION_MS: Final = 15 * 60 * 1000
_ANSWER_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05


class IndexChangeError(FirstseenError):
    """The index was not changed; the message says what hindered it."""


class IndexTransaction:
    """A transaction that is open inside its block: ``commit`` ends it, all else takes it back."""

    def __init__(self, settings: Settings, name: str) -> None:
        """``name``: of the command; part of its transactional id."""
        self._topics = settings.topics
        self._failure: KafkaError | None = None
        self._committed = False
        config: dict[str, Any] = {
            **output_config(settings),
            "transactional.id": f"{settings.application_id}.{name}",
            "transaction.timeout.ms": _TRANSACTION_MS,
            "message.timeout.ms": _TRANSACTION_MS,
        }
        self._producer = Producer(config)

    def __enter__(self) -> Self:
        """Begin. Raises ``IndexChangeError`` where the broker has no transactions."""
        try:
            self._producer.init_transactions(_ANSWER_SECONDS)
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._failed("begin a transaction", error) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Take back what was not committed."""
        if self._committed:
            return
        try:
            self._producer.purge()
            self._producer.abort_transaction(_ANSWER_SECONDS)
        except KafkaException:
            return  # the broker takes it back when its time is over

    def change(self, partition: int, record: ChangelogRecord) -> None:
        """Send a record to a partition of the changelog; waits while much is on its way."""
        self._produce(self._topics.changelog, partition, record)

    def commit(self, offsets: Mapping[int, int], metadata: bytes) -> None:
        """Commit all, with the offsets of the group by raw partition.

        Raises ``IndexChangeError`` where it was taken back: among others where the group has
        another member by now.
        """
        self._flush()
        partitions = [TopicPartition(self._topics.raw, *each) for each in sorted(offsets.items())]
        try:
            self._producer.send_offsets_to_transaction(partitions, metadata, _ANSWER_SECONDS)
            self._producer.commit_transaction(_ANSWER_SECONDS)
        except KafkaException as error:
            raise self._failed("commit", error) from error
        self._committed = True

    def _produce(self, topic: str, partition: int, record: ChangelogRecord) -> None:
        while True:
            try:
                self._producer.produce(
                    topic, record.value, record.key, partition=partition, on_delivery=self._note
                )
                break
            except BufferError:
                self._producer.poll(_POLL_SECONDS)
            except KafkaException as error:
                raise self._failed(f"send to {topic}", error) from error
        self._producer.poll(0)
        self._check()

    def _flush(self) -> None:
        def is_flushed() -> bool:
            unsent = self._producer.flush(1.0)
            self._check()
            return not unsent

        if not becomes_true(is_flushed, _TRANSACTION_MS / 1000, 0):
            raise IndexChangeError("the broker does not acknowledge what was sent")

    def _check(self) -> None:
        if self._failure is not None:
            raise IndexChangeError(f"the broker refused a record: {self._failure.str()}")

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        self._failure = self._failure or error

    def _failed(self, what: str, error: KafkaException) -> IndexChangeError:
        reason: KafkaError = error.args[0]
        return IndexChangeError(
            f"cannot {what}: {reason.str()}. The index is as it was. (Does the broker have "
            "transactions, and is transaction.max.timeout.ms 15 minutes, as by default?)"
        )
