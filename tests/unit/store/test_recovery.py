"""Recovery from the changelog, on both brokers: all that is committed, and nothing else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from simhash_core.errors import IndexMismatchError
from streams.errors import BrokerUnavailableError
from streams.kafka.clients import AdminClient
from streams.store.changelog import Changelog, RecoveryError, last_progress
from streams.store.changelog_codec import (
    ChangelogRecord,
    ChangelogVersionError,
    encode_entries,
    encode_progress,
)
from streams.store.recovery import catch_up
from streams.store.shard_store import ShardStore
from tests.rigs.brokers.broker import Broker
from tests.unit.store.changelog import (
    ENTRIES_PER_COMMIT,
    PARTITION,
    ChangelogTopic,
    commit_of,
    entries_of,
    progress_of,
)
from tests.unit.store.samples import INDEX, READING, expected, open_store, progress_at


@pytest.fixture
def topic(broker: Broker) -> ChangelogTopic:
    return ChangelogTopic(broker)


@pytest.fixture
def kafka_topic(kafka_broker: Broker) -> ChangelogTopic:
    return ChangelogTopic(kafka_broker)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ShardStore]:
    with closing(open_store(tmp_path / "shard-3")) as opened:
        yield opened


def caught_up(store: ShardStore, log: Changelog, committed_next: int = 0) -> list[int]:
    left: list[int] = []
    catch_up(store, log, INDEX, committed_next, left.append)
    return left


def check_holds(store: ShardStore, commits: int) -> None:
    entries = [each for commit in range(commits) for each in entries_of(commit)]
    assert dict(store.all_entries()) == expected(entries)
    assert len(store) == commits * ENTRIES_PER_COMMIT
    stored = store.progress()
    assert stored is not None
    assert stored.progress == progress_of(commits - 1)
    assert (stored.identity, stored.reading) == (INDEX, READING)


def test_empty_changelog_gives_no_entries_and_no_progress(
    topic: ChangelogTopic, store: ShardStore
) -> None:
    caught_up(store, topic.reader())
    assert len(store) == 0
    assert store.progress() is None
    assert last_progress(topic.name, PARTITION, topic.config, 30.0) is None


def test_empty_store_is_filled_and_told_what_is_left(
    topic: ChangelogTopic, store: ShardStore
) -> None:
    topic.commit(topic.producer(), range(30))
    left = caught_up(store, topic.reader(), 30 * ENTRIES_PER_COMMIT)
    check_holds(store, 30)
    assert left[0] >= 90
    assert left[-1] == 0
    assert left == sorted(left, reverse=True)
    found = last_progress(topic.name, PARTITION, topic.config, 30.0)
    assert found is not None
    assert (found.progress, found.identity, found.reading) == (progress_of(29), INDEX, READING)


def test_store_that_is_behind_reads_the_tail_alone(
    topic: ChangelogTopic, store: ShardStore
) -> None:
    producer = topic.producer()
    topic.commit(producer, range(5))
    caught_up(store, topic.reader())
    topic.commit(producer, range(5, 8))
    left = caught_up(store, topic.reader())
    check_holds(store, 8)
    assert left[0] <= 1 + 3 * 4  # with the markers of transactions
    assert caught_up(store, topic.reader())[0] <= 1
    check_holds(store, 8)


def test_a_transaction_that_is_open_is_not_waited_for(
    kafka_topic: ChangelogTopic, store: ShardStore
) -> None:
    """As of a worker that was stopped."""
    kafka_topic.commit(kafka_topic.producer(), range(4))
    zombie = kafka_topic.producer()
    kafka_topic.begin(zombie, commit_of(4))
    started = time.monotonic()
    caught_up(store, kafka_topic.reader(), 4 * ENTRIES_PER_COMMIT)
    check_holds(store, 4)
    found = last_progress(kafka_topic.name, PARTITION, kafka_topic.config, 30.0)
    assert found is not None
    assert found.progress == progress_of(3)
    assert time.monotonic() - started < 10
    zombie.abort_transaction()


def test_aborted_transaction_is_not_read(kafka_topic: ChangelogTopic, store: ShardStore) -> None:
    producer = kafka_topic.producer()
    kafka_topic.commit(producer, range(3))
    kafka_topic.begin(producer, commit_of(7))
    producer.abort_transaction()
    kafka_topic.commit(producer, [3])
    caught_up(store, kafka_topic.reader())
    check_holds(store, 4)


def test_what_the_group_has_committed_is_waited_for(
    kafka_topic: ChangelogTopic, store: ShardStore
) -> None:
    """As between the markers of one transaction in two partitions."""
    producer = kafka_topic.producer()
    kafka_topic.commit(producer, range(2))
    kafka_topic.begin(producer, commit_of(2))
    marker = threading.Timer(2.0, producer.commit_transaction)
    marker.start()
    caught_up(store, kafka_topic.reader(), 3 * ENTRIES_PER_COMMIT)
    check_holds(store, 3)
    marker.join()


def test_changelog_that_lacks_commits_of_the_group_is_refused(
    topic: ChangelogTopic, store: ShardStore
) -> None:
    topic.commit(topic.producer(), range(2))
    with pytest.raises(
        RecoveryError, match=r"raw offset 80, the group's is 120\. .*Set the group's"
    ):
        caught_up(store, topic.reader(silence_seconds=1.0), 3 * ENTRIES_PER_COMMIT)


def test_progress_that_compaction_removed_without_transactions(
    topic: ChangelogTopic, store: ShardStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The shard starts from the older progress of a worker that was paused, with a warning."""
    topic.commit(topic.producer(), range(2))
    with caplog.at_level(logging.WARNING):
        log = topic.reader(silence_seconds=1.0, may_be_cut=True)
        caught_up(store, log, 3 * ENTRIES_PER_COMMIT)
    check_holds(store, 2)
    assert "its progress is raw offset 80, the group's is 120" in caplog.text


def test_older_progress_at_the_end_of_the_changelog_is_refused(
    topic: ChangelogTopic, store: ShardStore
) -> None:
    producer = topic.producer()
    topic.commit(producer, range(3))
    entries = [encode_entries(each) for each in entries_of(1)]
    older = encode_progress(progress_of(1), INDEX, READING, "paused-worker")
    topic.begin(producer, [*entries, older])
    topic.end(producer)
    caught_up(store, topic.reader(), 3 * ENTRIES_PER_COMMIT)
    check_holds(store, 3)
    assert store.progress_refused == 1
    found = last_progress(topic.name, PARTITION, topic.config, 30.0)
    assert found is not None
    assert found.progress == progress_of(2)


def test_changelog_whose_earlier_progress_was_compacted_is_whole(
    kafka_topic: ChangelogTopic, store: ShardStore
) -> None:
    producer = kafka_topic.producer()
    records = [record for commit in range(20) for record in commit_of(commit)[:-1]]
    kafka_topic.begin(producer, [*records, commit_of(19)[-1]])
    producer.commit_transaction()
    caught_up(store, kafka_topic.reader())
    check_holds(store, 20)


def test_recovery_goes_on_after_an_interruption(topic: ChangelogTopic, store: ShardStore) -> None:
    topic.commit(topic.producer(), range(10))
    interrupted = threading.Event()
    interrupted.set()
    with pytest.raises(InterruptedError):
        caught_up(store, topic.reader(interrupted=interrupted))
    caught_up(store, topic.reader())
    check_holds(store, 10)


def test_what_was_read_before_an_interruption_is_kept(
    topic: ChangelogTopic, store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.store.changelog._BATCH", 2)
    producer = topic.producer()
    topic.commit(producer, range(3))
    interrupted = threading.Event()
    log = topic.reader(interrupted=interrupted)

    def report(left: int) -> None:
        if left and store.changelog_offset:
            interrupted.set()

    with pytest.raises(InterruptedError, match="after"):
        catch_up(store, log, INDEX, 0, report)

    assert 0 < store.changelog_offset < 9
    store.close()
    with closing(open_store(store.path)) as reopened:
        caught_up(reopened, topic.reader())
        check_holds(reopened, 3)


def test_changelog_that_was_created_again_is_refused(
    topic: ChangelogTopic, store: ShardStore
) -> None:
    topic.commit(topic.producer(), range(2))
    store.commit([], progress_at(1, changelog_offset=1000))
    with pytest.raises(RecoveryError, match=r"up to offset 1000, but it ends at .* created again"):
        caught_up(store, topic.reader(silence_seconds=1.0))


def test_a_transaction_that_never_ends_behind_the_store(
    kafka_topic: ChangelogTopic, store: ShardStore
) -> None:
    """As a broker that lost the marker leaves it: the error names its offset and what to do."""
    producer = kafka_topic.producer()
    kafka_topic.commit(producer, range(2))
    caught_up(store, kafka_topic.reader())
    hung_from = store.changelog_offset + 1  # behind the marker
    hung = kafka_topic.producer()
    kafka_topic.begin(hung, commit_of(2))
    progress = progress_at(2, changelog_offset=hung_from + 3)
    store.commit([], progress)

    with pytest.raises(RecoveryError) as raised:
        caught_up(store, kafka_topic.reader(silence_seconds=1.0))

    said = str(raised.value)
    assert f"can be read up to {hung_from} only: a transaction that begins there" in said
    assert f"the changelog {kafka_topic.name}/{PARTITION}" in said
    assert "KAFKA-20734" in said
    assert "created again" not in said
    with pytest.raises(RecoveryError, match="a transaction that begins there"):
        kafka_topic.reader(silence_seconds=1.0).ends(store.changelog_offset)
    hung.abort_transaction()


def test_late_end_of_a_transaction_is_waited_for(
    kafka_topic: ChangelogTopic, store: ShardStore
) -> None:
    producer = kafka_topic.producer()
    kafka_topic.commit(producer, range(2))
    caught_up(store, kafka_topic.reader())
    late = kafka_topic.producer()
    kafka_topic.begin(late, commit_of(2))
    store.commit([], progress_at(2, changelog_offset=store.changelog_offset + 4))
    marker = threading.Timer(1.0, late.commit_transaction)
    marker.start()
    caught_up(store, kafka_topic.reader())
    marker.join()


def test_a_transaction_that_never_ends_before_what_is_needed(
    kafka_topic: ChangelogTopic, store: ShardStore
) -> None:
    kafka_topic.commit(kafka_topic.producer(), range(2))
    hung = kafka_topic.producer()
    kafka_topic.begin(hung, commit_of(2))
    with pytest.raises(RecoveryError) as raised:
        caught_up(store, kafka_topic.reader(silence_seconds=1.0), 3 * ENTRIES_PER_COMMIT)
    said = str(raised.value)
    assert "only, and lacks later commits of the group: a transaction that begins there" in said
    assert "were deleted" not in said
    hung.abort_transaction()


def test_changelog_that_was_cut_needs_a_store_that_has_its_beginning(
    kafka_broker: Broker, store: ShardStore, caplog: pytest.LogCaptureFixture
) -> None:
    kafka_topic = ChangelogTopic(kafka_broker, policy="delete")
    producer = kafka_topic.producer()
    kafka_topic.commit(producer, range(3))
    caught_up(store, kafka_topic.reader())
    kafka_topic.commit(producer, range(3, 6))
    admin = AdminClient({"bootstrap.servers": kafka_topic.broker.bootstrap_servers})
    cut = store.changelog_offset + 2  # the marker of commit 2, and a record of entries
    deleted = admin.delete_records([TopicPartition(kafka_topic.name, PARTITION, cut)])
    for future in deleted.values():
        future.result(30)

    with pytest.raises(RecoveryError, match=f"it begins at {cut}"):
        caught_up(store, kafka_topic.reader())
    with caplog.at_level(logging.WARNING):
        caught_up(store, kafka_topic.reader(may_be_cut=True))
    assert "using the store as it is" in caplog.text
    assert len(store) == 6 * ENTRIES_PER_COMMIT - 15
    with (
        closing(open_store(store.path.with_name("empty"))) as empty,
        pytest.raises(RecoveryError, match="Restore the earlier state directory"),
    ):
        caught_up(empty, kafka_topic.reader(may_be_cut=True))


def test_changelog_of_another_index_is_refused(topic: ChangelogTopic, store: ShardStore) -> None:
    topic.commit(topic.producer(), range(2))
    with pytest.raises(IndexMismatchError, match=topic.name):
        catch_up(store, topic.reader(), INDEX.replace("distance=3", "distance=2"), 0, print)
    assert len(store) == 0


def test_changelog_of_the_protocol_before_is_refused(
    topic: ChangelogTopic, store: ShardStore
) -> None:
    producer = topic.producer()
    topic.begin(producer, [ChangelogRecord(b"x", b"\x02\x98")])
    topic.end(producer)
    with pytest.raises(ChangelogVersionError, match="format version 2"):
        caught_up(store, topic.reader())
    with pytest.raises(ChangelogVersionError, match="format version 2"):
        last_progress(topic.name, PARTITION, topic.config, 30.0)


def test_the_last_progress_far_from_the_end(topic: ChangelogTopic) -> None:
    """As after a crash without transactions."""
    producer = topic.producer()
    topic.commit(producer, range(2))
    records = [record for commit in range(2, 200) for record in commit_of(commit)[:-1]]
    topic.begin(producer, records)
    topic.end(producer)
    found = last_progress(topic.name, PARTITION, topic.config, 30.0)
    assert found is not None
    assert found.progress == progress_of(1)


def test_waiting_for_no_broker_ends(store: ShardStore) -> None:
    config = {"bootstrap.servers": "127.0.0.1:9", "group.id": "reader", "log_level": "0"}
    log = Changelog("changelog", PARTITION, config, 1.0, threading.Event())
    with pytest.raises(BrokerUnavailableError, match="ends of the changelog"):
        caught_up(store, log)
