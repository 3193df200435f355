"""A changelog on a broker, as workers write it and as recovery reads it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from simhash_core.log.records import Progress
from simhash_core.log.shard_stream import NewEntries
from streams.kafka.clients import Producer
from streams.store.changelog import Changelog
from streams.store.changelog_codec import ChangelogRecord, encode_entries, encode_progress
from tests.rigs.brokers.broker import Broker
from tests.unit.store.samples import CHAIN, INDEX, READING, new_entries, sample

PARTITION = CHAIN.partition
ENTRIES_PER_COMMIT = 40
SILENCE_SECONDS = 30.0


class ChangelogTopic:
    """The changelog of one test, for the shard of ``CHAIN``."""

    def __init__(self, broker: Broker, policy: str = "compact") -> None:
        self.broker = broker
        self.name = broker.unique("changelog")
        config = {"cleanup.policy": policy} if broker.supports_compaction else None
        broker.create_topics({self.name: PARTITION + 1}, config)

    def producer(self) -> Producer:
        if self.broker.supports_transactions:
            return self.broker.transactional_producer()
        return Producer({"bootstrap.servers": self.broker.bootstrap_servers})

    def begin(self, producer: Producer, records: Sequence[ChangelogRecord]) -> None:
        """Send records of a transaction, and leave it open."""
        if self.broker.supports_transactions:
            producer.begin_transaction()
        for record in records:
            producer.produce(self.name, record.value, record.key, PARTITION)
        assert producer.flush(SILENCE_SECONDS) == 0

    def commit(self, producer: Producer, commits: Sequence[int]) -> None:
        """Commit what ``commit_of`` says, each in a transaction of its own."""
        for commit in commits:
            self.begin(producer, commit_of(commit))
            self.end(producer)

    def end(self, producer: Producer) -> None:
        if self.broker.supports_transactions:
            producer.commit_transaction()

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
        )

    @property
    def config(self) -> dict[str, str]:
        return {"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "reader"}


def entries_of(commit: int) -> list[NewEntries]:
    first = commit * ENTRIES_PER_COMMIT
    samples = [
        sample(n, undecidable=n % 7 == 0, sketch=bytes(100))
        for n in range(first, first + ENTRIES_PER_COMMIT)
    ]
    return [new_entries(2 * commit, samples[:15]), new_entries(2 * commit + 1, samples[15:])]


def progress_of(commit: int) -> Progress:
    return Progress(CHAIN, (commit + 1) * ENTRIES_PER_COMMIT, 2 * commit + 2, 2 * commit - 1)


def commit_of(commit: int) -> list[ChangelogRecord]:
    records = [encode_entries(each) for each in entries_of(commit)]
    return [*records, encode_progress(progress_of(commit), INDEX, READING)]
