"""One transaction in which a command changes an index: changelog and the group's offsets.

It may be large: records are sent while they are made, and nobody sees them before the commit. The
broker limits its time to ``transaction.max.timeout.ms``, 15 minutes by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Self
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from msgspec.structs import replace

from simhash_core.errors import FirstseenError
from simhash_core.log.records import Chain, ChainHeads, Control, LogClock, Progress
from simhash_core.log.replica import Replica
from streams.kafka.client_config import appender_config, output_config
from streams.kafka.clients import Producer
from streams.kafka.errors import becomes_true
from streams.kafka.producers import AcknowledgedProducer, ProducerRecord
from streams.maintenance.index_topics import ShardHead
from streams.settings.settings import Settings
from streams.store.changelog_codec import ChangelogRecord, encode_progress
from streams.worker.index_on_kafka import COMMAND_WRITER
from streams.worker.log_codec import LogCodec

# ---- Reserved log offsets: control records without decisions, and fillers.
#
# They are appended outside of the transaction, because readers of the log take a transaction marker
# for a record of another program. They stay valid if the transaction is aborted: they only say that
# all shards must report, and that nothing is decided.

_FILLERS_AT_ONCE: Final = 20_000

FILLER: Final = b"\x00"  # a record that only takes up an offset; readers skip it


class LogReservations:
    """Reserves offsets of the log; methods raise ``UnansweredError`` and ``DeliveryError``."""

    def __init__(
        self,
        settings: Settings,
        identity: str,
        replica: Replica,
        heads: list[tuple[Chain, int]],
        *,
        begins: bool,
    ) -> None:
        """Continue from the end of ``replica``; ``heads`` of all chains are in each control record.

        With ``begins`` nothing before a record is undecided, so that readers can start at each.
        """
        self._topic = settings.topics.log
        self._codec = LogCodec(identity)
        self._name = f"{COMMAND_WRITER}{uuid4().hex[:12]}"
        self._heads = ChainHeads.of(heads)
        self._next = replica.decided_before
        self._end = replica.position
        self._previous = replica.control
        self._version = replica.version
        self._begins = begins
        self._producer = AcknowledgedProducer(
            appender_config(settings), settings.send_timeout_seconds, changelog_topic=self._topic
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def take(self) -> int:
        """Append a control record without decisions; return its offset.

        With ``begins`` this raises ``IndexChangeError`` if others have appended since.
        """
        while True:
            control = Control(
                self._previous, self._name, True, [], self._heads, self._next, self._version
            )
            value = self._codec.encode(control, self._version)
            sent = self._producer.send([ProducerRecord(self._topic, None, value, 0)])
            offset = self._previous = sent[0] - 1
            if not self._begins:
                return offset
            if offset != self._end:
                # The next record would say of a worker's documents that they are decided.
                raise IndexChangeError(
                    f"others write to the log {self._topic}: a worker of this index has started "
                    "since. Nothing was changed. Stop the worker and repeat the command"
                )
            # A reader that starts at this record must learn from it what came before.
            known = self._next >= offset
            self._next = self._end = offset + 1
            if known:
                return offset

    def fill(self, records: int, report: Callable[[int], None]) -> None:
        """Append fillers, after which the chain starts; ``report`` gets the number done."""
        filler = ProducerRecord(self._topic, None, FILLER, 0)
        for done in range(0, records, _FILLERS_AT_ONCE):
            self._producer.send([filler] * min(_FILLERS_AT_ONCE, records - done))
            report(done)
        self._next = self._end = self._end + records


_TRANSACTION_MS: Final = 15 * 60 * 1000
_ANSWER_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05


class IndexChangeError(FirstseenError):
    """The index was not changed; the message says why."""


class IndexTransaction:
    """A transaction, open inside its block; without ``commit`` it is aborted."""

    def __init__(self, settings: Settings, name: str) -> None:
        """``name`` is the command's, and part of the transactional id."""
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
        """Begin; raise ``IndexChangeError`` if the broker has no transactions."""
        try:
            self._producer.init_transactions(_ANSWER_SECONDS)
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._failed("begin a transaction", error) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._committed:
            return
        try:
            self._producer.purge()
            self._producer.abort_transaction(_ANSWER_SECONDS)
        except KafkaException:
            return  # the broker aborts it after the time-out

    def change(self, partition: int, record: ChangelogRecord) -> None:
        """Send a record to a partition of the changelog; wait while the queue is full."""
        topic = self._topics.changelog
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

    def continue_behind(
        self, control: int, clock: LogClock | None, shards: Iterable[ShardHead]
    ) -> None:
        """Let shards read the log after ``control`` next; those without progress are new."""
        for each in shards:
            if (was := each.progress) is not None:
                chain, following = was.progress.chain, was.progress.next
                progress = Progress(chain, following, control + 1, control, clock)
                behind = replace(was, progress=progress, writer="", lineage=was.lineage.next(""))
                self.change(each.partition, encode_progress(behind))

    def commit(self, offsets: Mapping[int, int], metadata: bytes) -> None:
        """Commit everything, with the group's offsets by raw partition.

        Raises ``IndexChangeError`` if it was aborted, as when the group has another member.
        """
        self._flush()
        partitions = [TopicPartition(self._topics.raw, *each) for each in sorted(offsets.items())]
        try:
            self._producer.send_offsets_to_transaction(partitions, metadata, _ANSWER_SECONDS)
            self._producer.commit_transaction(_ANSWER_SECONDS)
        except KafkaException as error:
            raise self._failed("commit", error) from error
        self._committed = True

    def _flush(self) -> None:
        def is_flushed() -> bool:
            unsent = self._producer.flush(1.0)
            self._check()
            return not unsent

        if not becomes_true(is_flushed, _TRANSACTION_MS / 1000, 0):
            raise IndexChangeError("the broker does not acknowledge the records that were sent")

    def _check(self) -> None:
        if self._failure is not None:
            raise IndexChangeError(f"the broker refused a record: {self._failure.str()}")

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        self._failure = self._failure or error

    def _failed(self, what: str, error: KafkaException) -> IndexChangeError:
        reason: KafkaError = error.args[0]
        return IndexChangeError(
            f"cannot {what}: {reason.str()}. The index is unchanged. (Does the broker have "
            "transactions, and is transaction.max.timeout.ms 15 minutes, as by default?)"
        )
