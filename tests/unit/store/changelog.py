"""A changelog on a broker, as workers write it and as recovery reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from streams.kafka.clients import Producer
from streams.store.changelog import Changelog, last_progress
from streams.store.changelog_codec import (
    ChangelogRecord,
    LoggedProgress,
    encode_progress,
)
from streams.store.lineage import UNKNOWN, Lineage
from tests.rigs.brokers.broker import Broker
from tests.unit.store.samples import CHAIN, INDEX, READING, encode_entries, entries_of, progress_of

PARTITION = CHAIN.partition
SILENCE_SECONDS = 30.0


class ChangelogTopic:
    """The changelog of one test, for the shard of ``CHAIN``."""

    def __init__(self, broker: Broker, policy: str = "compact") -> None:
        self.broker = broker
        self.name = broker.unique("changelog")
        self.config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"}
        config = {"cleanup.policy": policy} if broker.supports_compaction else None
        broker.create_topics({self.name: PARTITION + 1}, config)
        self.writer = self.producer()

    def producer(self) -> Producer:
        if self.broker.supports_transactions:
            return self.broker.transactional_producer()
        return Producer({"bootstrap.servers": self.broker.bootstrap_servers})

    def begin(
        self,
        records: Iterable[ChangelogRecord],
        producer: Producer | None = None,
        partition: int = PARTITION,
    ) -> Producer:
        """Send records in a transaction and leave it open."""
        producer = producer or self.producer()
        if self.broker.supports_transactions:
            producer.begin_transaction()
        for record in records:
            producer.produce(self.name, record.value, record.key, partition)
        assert producer.flush(SILENCE_SECONDS) == 0
        return producer

    def send(self, records: Iterable[ChangelogRecord], partition: int = PARTITION) -> None:
        """Send records, in one transaction if the broker has transactions."""
        self.begin(records, self.writer, partition)
        if self.broker.supports_transactions:
            self.writer.commit_transaction()

    def commit(self, commits: Iterable[int]) -> None:
        for commit in commits:
            self.send(commit_of(commit))

    def reader(
        self,
        *,
        interrupted: threading.Event | None = None,
        silence_seconds: float = SILENCE_SECONDS,
        may_be_cut: bool = False,
    ) -> Changelog:
        return Changelog(
            self.name,
            PARTITION,
            self.config,
            silence_seconds,
            interrupted or threading.Event(),
            may_be_cut,
            may_go_back=may_be_cut,
        )

    def last_progress(self) -> LoggedProgress | None:
        return last_progress(self.name, [PARTITION], self.config, SILENCE_SECONDS).get(PARTITION)


def commit_of(commit: int, writer: str = "", lineage: Lineage = UNKNOWN) -> list[ChangelogRecord]:
    progress = LoggedProgress(progress_of(commit).progress, INDEX, READING, writer, 0, lineage)
    return [*map(encode_entries, entries_of(commit)), encode_progress(progress)]
