"""Starts and ends of partitions, and the group's committed offsets, asked from the broker.

A consumer knows a partition's end from its last fetch, so a stuck consumer has an old one. These
requests have their own connections and time limits. After an incomplete answer a new client sends
the next one: librdkafka's admin client (2.16) remembers a missing leader for ever.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin._listoffsets import OffsetSpec

from simhash_core.documents import TopicPartition
from streams.errors import BrokerUnavailableError
from streams.kafka.clients import AdminClient, Consumer, committed_offsets

_SPARE_SECONDS: Final = 1.0
_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Watermarks(NamedTuple):
    """Committed readers stop at ``readable_end``; both ends are offsets after a record."""

    start: int
    readable_end: int
    end: int


class BrokerWatermarks:
    """For one thread. Requests raise ``BrokerUnavailableError`` after ``timeout_seconds``."""

    def __init__(self, config: Mapping[str, Any], group_id: str, timeout_seconds: float) -> None:
        # The library would log each attempt to reach a broker that is down; the watch logs it once.
        self._config = {**config, "log_level": 0}
        self._group_id = group_id
        self._timeout_seconds = timeout_seconds
        self._admin: AdminClient | None = None

    def of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Watermarks]:
        # Not ``or``: a client is false while nothing waits in it.
        admin = AdminClient(self._config) if self._admin is None else self._admin
        self._admin = None
        watermarks = self._watermarks(admin, partitions)
        if watermarks.keys() == set(partitions):
            self._admin = admin
        return watermarks

    def _watermarks(
        self, admin: AdminClient, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Watermarks]:
        if not partitions:
            try:
                admin.list_topics(timeout=self._timeout_seconds)
            except KafkaException as error:
                raise BrokerUnavailableError(error.args[0].str()) from error
            return {}
        starts = self._offsets(admin, partitions, _EARLIEST, IsolationLevel.READ_UNCOMMITTED)
        readable = self._offsets(admin, partitions, _LATEST, IsolationLevel.READ_COMMITTED)
        ends = self._offsets(admin, partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED)
        known = starts.keys() & readable.keys() & ends.keys()
        return {
            partition: Watermarks(starts[partition], readable[partition], ends[partition])
            for partition in known
        }

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        group = self._consumer()
        try:
            committed = committed_offsets(
                group,
                [ClientPartition(*partition) for partition in partitions],
                self._timeout_seconds,
            )
        except KafkaException as error:
            raise BrokerUnavailableError(error.args[0].str()) from error
        finally:
            group.close()
        return {
            TopicPartition(each.topic, each.partition): each.offset
            for each in committed
            if each.offset >= 0
        }

    def holds_record(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether records, not only transaction markers, follow from ``offset`` on."""
        reader = self._consumer()
        try:
            reader.assign([ClientPartition(*partition, offset)])
            message = reader.poll(self._timeout_seconds)
        finally:
            reader.close()
        if message is None:
            raise BrokerUnavailableError(f"no answer about {partition}")
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
            return False
        raise BrokerUnavailableError(error.str())

    def _consumer(self) -> Consumer:
        """Return a consumer that joins no group, as it does not subscribe."""
        return Consumer(
            {
                **self._config,
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
