"""Starts and ends of partitions, and the group's committed offsets, as the broker returns them.

A consumer knows a partition's end from its last fetch, so a stuck consumer has an old one. These
requests have their own connections and time limits. After an incomplete answer a new client sends
the next one: librdkafka's admin client (2.16) remembers a missing leader for ever.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin._listoffsets import OffsetSpec

from simhash_core.documents import TopicPartition
from streams.errors import BrokerUnavailableError
from streams.kafka.clients import AdminClient, Consumer, committed_offsets
from streams.topics.admin import partitions_of

_SPARE_SECONDS: Final = 1.0
_ONE_RECORD: Final = {"max.partition.fetch.bytes": 16 * 1024, "queued.min.messages": 1}
"""So little is fetched of each partition to find its next record."""
_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Watermarks(NamedTuple):
    """Committed readers stop at ``readable_end``; both ends are offsets after a record."""

    start: int
    readable_end: int
    end: int


@contextmanager
def broker_answers() -> Iterator[None]:
    """Raise ``BrokerUnavailableError`` for an error of the client inside."""
    try:
        yield
    except KafkaException as error:
        raise BrokerUnavailableError(error.args[0].str()) from error


class BrokerWatermarks:
    """Requests offsets, for one thread; after ``timeout_seconds``: ``BrokerUnavailableError``."""

    def __init__(self, config: Mapping[str, Any], group_id: str, timeout_seconds: float) -> None:
        # The library would log each attempt to reach a broker that is down; the watch logs it once.
        self._config = {**config, "log_level": 0}
        self._group_id = group_id
        self._timeout_seconds = timeout_seconds
        self._admin: AdminClient | None = None

    def of(
        self, partitions: Collection[TopicPartition], *, starts: bool = True
    ) -> dict[TopicPartition, Watermarks]:
        """Request watermarks; without ``starts``, their ``start`` is 0, which saves a request."""
        admin, self._admin = self._admin, None
        if admin is None:
            admin = AdminClient(self._config)
            # A new client does not know who leads the partitions. Its first request for offsets
            # took 3 s in one of 40 tries (librdkafka 2.16), but none after metadata.
            with broker_answers():
                admin.list_topics(timeout=self._timeout_seconds)
        watermarks = self._watermarks(admin, partitions, starts=starts)
        if watermarks.keys() == set(partitions):
            self._admin = admin
        return watermarks

    def _watermarks(
        self, admin: AdminClient, partitions: Collection[TopicPartition], *, starts: bool
    ) -> dict[TopicPartition, Watermarks]:
        if not partitions:
            with broker_answers():
                admin.list_topics(timeout=self._timeout_seconds)
            return {}
        readable = self._offsets(admin, partitions, _LATEST, IsolationLevel.READ_COMMITTED)
        ends = self._offsets(admin, partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED)
        firsts = dict.fromkeys(partitions, 0)
        if starts:
            firsts = self._offsets(admin, partitions, _EARLIEST, IsolationLevel.READ_UNCOMMITTED)
        known = firsts.keys() & readable.keys() & ends.keys()
        return {
            partition: Watermarks(firsts[partition], readable[partition], ends[partition])
            for partition in known
        }

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        wanted = [ClientPartition(*partition) for partition in partitions]
        with closing(self._consumer({})) as group, broker_answers():
            committed = committed_offsets(group, wanted, self._timeout_seconds)
        return {
            TopicPartition(each.topic, each.partition): each.offset
            for each in committed
            if each.offset >= 0
        }

    def hold_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, bool]:
        """Return whether records, not only transaction markers, follow from each offset on."""
        found: dict[TopicPartition, bool] = {}
        if not offsets:
            return found
        deadline = time.monotonic() + self._timeout_seconds
        with closing(self._consumer(_ONE_RECORD)) as reader, broker_answers():
            reader.assign([ClientPartition(*each, offset) for each, offset in offsets.items()])
            while len(found) < len(offsets):
                message = reader.poll(max(0.0, deadline - time.monotonic()))
                if message is None:
                    missing = min(offsets.keys() - found.keys())
                    raise BrokerUnavailableError(f"no answer about {missing}")
                partition = TopicPartition(message.topic() or "", message.partition() or 0)
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
                    raise BrokerUnavailableError(error.str())
                if partition not in found:
                    found[partition] = error is None
                    reader.pause([ClientPartition(*partition)])
        return found

    def _consumer(self, properties: Mapping[str, int]) -> Consumer:
        """Return a consumer that joins no group, as it does not subscribe."""
        return Consumer(
            {
                **self._config,
                **properties,
                "group.id": self._group_id,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )

    def _offsets(
        self,
        admin: AdminClient,
        partitions: Collection[TopicPartition],
        spec: OffsetSpec,
        isolation: IsolationLevel,
    ) -> dict[TopicPartition, int]:
        futures = admin.list_offsets(
            {ClientPartition(*partition): spec for partition in partitions},
            isolation_level=isolation,
            request_timeout=self._timeout_seconds,
        )
        deadline = time.monotonic() + self._timeout_seconds + _SPARE_SECONDS
        offsets: dict[TopicPartition, int] = {}
        reason = "no answer"
        for partition, answer in futures.items():
            try:
                offset = answer.result(max(0.0, deadline - time.monotonic())).offset
            except KafkaException as error:
                reason = error.args[0].str()
            except concurrent.futures.TimeoutError:
                continue
            else:
                offsets[TopicPartition(partition.topic, partition.partition)] = offset
        if not offsets:
            raise BrokerUnavailableError(reason)
        return offsets


# ---- Partitions whose last records are hidden from committed readers by an open transaction.
#
# Committed readers stop at the *last stable offset*, where the first open transaction begins. A
# transaction of a live producer ends soon; the broker aborts one of a dead producer after
# ``transaction.timeout.ms``. One that stays open longer is *hung*: the broker lost its end marker,
# and an operator must end it (docs/operations.md, "HungTransaction").

_MOMENT_SECONDS: Final = 5.0  # running workers end their transactions within this time

_OFFSETS_TOPIC: Final = "__consumer_offsets"


class OpenTransaction(NamedTuple):
    """A partition's first open transaction: its ``offset``, and the ``end`` of the partition."""

    partition: TopicPartition
    offset: int
    end: int

    def __str__(self) -> str:
        return (
            f"{self.partition}: a transaction is open since offset {self.offset}, so committed "
            f"readers do not see the {self.end - self.offset} offsets from there on"
        )


HUNG_ADVICE: Final = (
    "Apache Kafka 4.3.0, 4.3.1 and 4.4.0 can lose the end of a transaction when a broker is "
    "killed (KAFKA-20734). 'HungTransaction' in docs/operations.md describes how to check this, "
    "and how to end the transaction without loss: an abort would hide its records from committed "
    "readers"
)
"""Text for users: why a transaction may never end, and what to do."""


def open_transactions(
    watermarks: Mapping[TopicPartition, Watermarks],
) -> dict[TopicPartition, OpenTransaction]:
    return {
        partition: OpenTransaction(partition, marks.readable_end, marks.end)
        for partition, marks in watermarks.items()
        if marks.readable_end < marks.end
    }


def partitions_to_check(
    admin: AdminClient, topics: Iterable[str], group_id: str
) -> list[TopicPartition]:
    """Return the existing topics' partitions, and the one of the group's offsets, if shown."""
    counts = partitions_of(admin, [*topics, _OFFSETS_TOPIC])
    of_offsets = counts.pop(_OFFSETS_TOPIC, 0)
    partitions = [TopicPartition(name, each) for name in counts for each in range(counts[name])]
    if of_offsets:
        partitions.append(TopicPartition(_OFFSETS_TOPIC, _java_hash(group_id) % of_offsets))
    return partitions


def _java_hash(text: str) -> int:
    """Return Java's ``text.hashCode() & 0x7FFFFFFF``, by which Kafka places groups."""
    units = text.encode("utf-16-be")
    number = 0
    for at in range(0, len(units), 2):
        number = number * 31 + int.from_bytes(units[at : at + 2], "big")
    return number & 0x7FFF_FFFF


def lasting_transactions(
    broker: BrokerWatermarks,
    partitions: Collection[TopicPartition],
    pause: Callable[[float], object] = time.sleep,
) -> list[OpenTransaction]:
    """Return transactions that stay open for some seconds; raise ``BrokerUnavailableError``."""
    before = open_transactions(broker.of(partitions)) if partitions else {}
    if not before:
        return []
    pause(_MOMENT_SECONDS)
    after = open_transactions(broker.of(list(before)))
    return [each for partition, each in after.items() if each.offset == before[partition].offset]
