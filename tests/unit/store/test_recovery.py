"""Recovery from the changelog restores everything that was committed, and nothing else.

A worker's stores catch up when they are opened, and are rebuilt if their files are damaged.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from msgspec.structs import replace

from simhash_core.errors import IndexMismatchError
from simhash_core.log.records import Progress
from streams.errors import BrokerUnavailableError
from streams.kafka.clients import AdminClient, Consumer
from streams.monitoring.metrics import Metrics
from streams.settings.settings import Settings, TopicSettings
from streams.store import changelog
from streams.store.changelog import (
    Changelog,
    ChangelogLostError,
    RecoveryError,
    last_progress,
)
from streams.store.lineage import UNKNOWN
from streams.store.recovery import ShardStores, catch_up
from streams.store.rocksdb_store import DAMAGE_MARK
from streams.store.row_codec import FORMAT_VERSION, IDENTITY_KEY
from streams.store.shard_directory import shard_directory
from streams.store.shard_store import ShardStore
from tests.rigs.brokers.broker import Broker
from tests.unit.store.changelog import PARTITION, SILENCE_SECONDS, ChangelogTopic, commit_of
from tests.unit.store.samples import (
    ENTRIES_PER_COMMIT,
    INDEX,
    READING,
    check_holds,
    entries_of,
    open_store,
    progress_at,
    progress_of,
    write_raw,
)


class Shard:
    """A changelog, and the store that recovery fills from it."""

    def __init__(self, broker: Broker, path: Path, policy: str = "compact") -> None:
        self.topic = ChangelogTopic(broker, policy)
        self.store = open_store(path / "shard-3")

    def catch_up(
        self,
        commits: int = 0,
        *,
        silence_seconds: float = SILENCE_SECONDS,
        may_be_cut: bool = False,
        interrupted: threading.Event | None = None,
    ) -> list[int]:
        """Recover up to the group's commit; return the reported numbers of records left."""
        log = self.topic.reader(
            interrupted=interrupted, silence_seconds=silence_seconds, may_be_cut=may_be_cut
        )
        left: list[int] = []
        catch_up(self.store, log, INDEX, commits * ENTRIES_PER_COMMIT, left.append)
        return left

    def last_progress(self) -> Progress:
        found = self.topic.last_progress()
        assert found is not None
        assert (found.identity, found.reading) == (INDEX, READING)
        return found.progress


@pytest.fixture
def shard(broker: Broker, tmp_path: Path) -> Iterator[Shard]:
    """An empty shard, on each broker."""
    made = Shard(broker, tmp_path)
    with closing(made.store):
        yield made


@pytest.fixture
def kafka_shard(kafka_broker: Broker, tmp_path: Path) -> Iterator[Shard]:
    """An empty shard on a broker with transactions."""
    made = Shard(kafka_broker, tmp_path)
    with closing(made.store):
        yield made


def test_store_reads_what_it_has_not_and_says_what_is_left(shard: Shard) -> None:
    shard.topic.commit(range(5))
    left = shard.catch_up(5)
    check_holds(shard.store, 5)
    assert left[0] >= 15
    assert left[-1] == 0
    assert left == sorted(left, reverse=True)
    assert shard.last_progress() == progress_of(4).progress
    shard.topic.commit(range(5, 8))
    assert shard.catch_up()[0] <= 2 + 3 * 4  # it includes the markers of transactions
    check_holds(shard.store, 8)
    assert shard.catch_up()[0] <= 2
    check_holds(shard.store, 8)


def test_aborted_and_open_transactions_are_not_read(kafka_shard: Shard) -> None:
    kafka_shard.topic.commit(range(3))
    kafka_shard.topic.begin(commit_of(7), kafka_shard.topic.writer).abort_transaction()
    kafka_shard.topic.commit([3])
    zombie = kafka_shard.topic.begin(commit_of(4))
    started = time.monotonic()
    kafka_shard.catch_up(4)
    check_holds(kafka_shard.store, 4)
    assert kafka_shard.last_progress() == progress_of(3).progress
    assert time.monotonic() - started < 10
    zombie.abort_transaction()


@pytest.mark.parametrize("commits", [3, 1])
def test_what_the_group_has_committed_is_waited_for(kafka_shard: Shard, commits: int) -> None:
    """This is the state between the markers of one transaction in two partitions.

    The group's offset goes back when another chain begins.
    """
    kafka_shard.topic.commit(range(2))
    late = kafka_shard.topic.begin(commit_of(2), kafka_shard.topic.writer)
    marker = threading.Timer(2.0, late.commit_transaction)
    marker.start()
    kafka_shard.catch_up(commits)
    check_holds(kafka_shard.store, 3)
    marker.join()


def test_changelog_that_lacks_commits_of_the_group(
    shard: Shard, caplog: pytest.LogCaptureFixture
) -> None:
    """It is refused; if the log may be cut, the store begins with older progress and a warning."""
    shard.topic.commit(range(2))
    said = "raw offset 80, the group's is 120"
    with pytest.raises(RecoveryError, match=rf"{said}\. .*Set the group's"):
        shard.catch_up(3, silence_seconds=1.0)
    with caplog.at_level(logging.WARNING):
        shard.catch_up(3, silence_seconds=1.0, may_be_cut=True)
    check_holds(shard.store, 2)
    assert said in caplog.text


def test_interruption_keeps_what_was_read(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.store.changelog._BATCH", 2)
    shard.topic.commit(range(3))
    interrupted = threading.Event()

    def report(left: int) -> None:
        if left and shard.store.changelog_offset:
            interrupted.set()

    with pytest.raises(InterruptedError, match="after"):
        catch_up(shard.store, shard.topic.reader(interrupted=interrupted), INDEX, 0, report)
    assert 0 < shard.store.changelog_offset < 9
    shard.store.close()
    with closing(open_store(shard.store.path)) as shard.store:
        shard.catch_up()
        check_holds(shard.store, 3)


def test_changelog_that_ends_before_the_store_is_refused(shard: Shard) -> None:
    shard.topic.commit(range(2))
    shard.store.commit([], progress_at(1, changelog_offset=1000))
    with pytest.raises(ChangelogLostError, match=r"to offset 999, but it ends at .* lost records"):
        shard.catch_up(silence_seconds=1.0)


def test_transaction_that_never_ends_behind_the_store(kafka_shard: Shard) -> None:
    """This happens if the broker lost the marker; the error names the offset and what to do."""
    topic, store = kafka_shard.topic, kafka_shard.store
    topic.commit(range(2))
    kafka_shard.catch_up()
    hung_from = store.changelog_offset + 1  # after the marker
    hung = topic.begin(commit_of(2))
    store.commit([], progress_at(2, changelog_offset=hung_from + 3))
    with pytest.raises(RecoveryError) as raised:
        kafka_shard.catch_up(silence_seconds=1.0)
    said = str(raised.value)
    assert f"can be read up to {hung_from} only: a transaction that begins there" in said
    assert f"the changelog {topic.name}/{PARTITION}" in said
    assert "KAFKA-20734" in said
    assert "created again" not in said
    with pytest.raises(RecoveryError, match="a transaction that begins there"):
        topic.reader(silence_seconds=1.0).ends(store.changelog_offset)
    hung.abort_transaction()


def test_late_end_of_a_transaction_is_waited_for(kafka_shard: Shard) -> None:
    kafka_shard.topic.commit(range(2))
    kafka_shard.catch_up()
    late = kafka_shard.topic.begin(commit_of(2))
    offset = kafka_shard.store.changelog_offset + 4
    kafka_shard.store.commit([], progress_at(2, changelog_offset=offset))
    marker = threading.Timer(1.0, late.commit_transaction)
    marker.start()
    kafka_shard.catch_up()
    marker.join()


def test_transaction_that_never_ends_before_what_is_needed(kafka_shard: Shard) -> None:
    kafka_shard.topic.commit(range(2))
    hung = kafka_shard.topic.begin(commit_of(2))
    with pytest.raises(RecoveryError) as raised:
        kafka_shard.catch_up(3, silence_seconds=1.0)
    said = str(raised.value)
    assert "only, and lacks later commits of the group: a transaction that begins there" in said
    assert "were deleted" not in said
    hung.abort_transaction()


def test_changelog_that_was_cut_needs_a_store_that_has_its_beginning(
    kafka_broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shard = Shard(kafka_broker, tmp_path, policy="delete")
    with closing(shard.store):
        shard.topic.commit(range(3))
        shard.catch_up()
        shard.topic.commit(range(3, 6))
        admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
        cut = shard.store.changelog_offset + 2  # the marker of commit 2, and a record of entries
        deleted = admin.delete_records([TopicPartition(shard.topic.name, PARTITION, cut)])
        for future in deleted.values():
            future.result(30)

        with pytest.raises(RecoveryError, match=f"it begins at {cut}"):
            shard.catch_up()
        with caplog.at_level(logging.WARNING):
            shard.catch_up(may_be_cut=True)
        assert "using the store as it is" in caplog.text
        assert len(shard.store) == 6 * ENTRIES_PER_COMMIT - 15
    refused = pytest.raises(RecoveryError, match="Restore the earlier state directory")
    with closing(open_store(tmp_path / "empty")) as shard.store, refused:
        shard.catch_up(may_be_cut=True)


def test_last_progress_far_from_the_end_is_found(shard: Shard) -> None:
    """This happens after a crash without transactions."""
    shard.topic.commit(range(2))
    shard.topic.send(record for commit in range(2, 200) for record in commit_of(commit)[:-1])
    assert shard.last_progress() == progress_of(1).progress


def test_last_progress_of_several_partitions_is_read_with_one_consumer(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = shard.topic
    topic.send(commit_of(1), 0)
    topic.send((record for commit in range(2, 40) for record in commit_of(commit)[:-1]), 0)
    topic.send(commit_of(4)[:-1], 1)  # entries alone, without a progress
    topic.send(commit_of(7), PARTITION)
    made: list[Consumer] = []

    def consumer(config: dict[str, Any]) -> Consumer:
        made.append(Consumer(config))
        return made[-1]

    monkeypatch.setattr(changelog, "Consumer", consumer)
    found = last_progress(topic.name, range(PARTITION + 1), topic.config, SILENCE_SECONDS)
    progress = {partition: logged.progress for partition, logged in found.items()}
    assert progress == {0: progress_of(1).progress, PARTITION: progress_of(7).progress}
    assert len(made) == 3  # one for each step back: 8, 64 and 512 offsets

    made.clear()
    found = last_progress(topic.name, [PARTITION], topic.config, SILENCE_SECONDS)
    assert found[PARTITION].progress == progress_of(7).progress
    assert len(made) == 1
    assert last_progress(topic.name, [], topic.config, SILENCE_SECONDS) == {}


def test_waiting_for_no_broker_ends(tmp_path: Path) -> None:
    config = {"bootstrap.servers": "127.0.0.1:9", "group.id": "reader", "log_level": "0"}
    log = Changelog("changelog", PARTITION, config, 1.0, threading.Event())
    unanswered = pytest.raises(BrokerUnavailableError, match="ends of the changelog")
    with closing(open_store(tmp_path)) as store, unanswered:
        catch_up(store, log, INDEX, 0, print)


COMMITS = 20


@pytest.fixture
def topic(kafka_broker: Broker) -> ChangelogTopic:
    topic = ChangelogTopic(kafka_broker)
    topic.commit(range(COMMITS))
    return topic


@pytest.fixture
def settings(topic: ChangelogTopic, tmp_path: Path) -> Settings:
    return Settings(
        application_id="tests",
        brokers=topic.broker.bootstrap_servers,
        profile="classic",
        state_dir=tmp_path,
        topics=TopicSettings(changelog=topic.name),
    )


def stores_of(
    settings: Settings, topic: ChangelogTopic, identity: str = INDEX, metrics: Metrics | None = None
) -> ShardStores:
    return ShardStores(settings, topic.config, identity, "the changelog", metrics or Metrics())


@pytest.fixture
def stores(settings: Settings, topic: ChangelogTopic) -> ShardStores:
    return stores_of(settings, topic)


def opened(stores: ShardStores, commits: int = COMMITS) -> ShardStore:
    return stores.open(PARTITION, commits * ENTRIES_PER_COMMIT, threading.Event())


def written_by_an_older_release(shard: Path) -> None:
    write_raw(shard, {IDENTITY_KEY: (FORMAT_VERSION - 1).to_bytes(2, "big") + b"\x90"})


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda shard: (shard / "CURRENT").unlink(), "CURRENT is missing"),
        (lambda shard: next(shard.glob("MANIFEST-*")).write_bytes(b"\x5a" * 900), "Corruption"),
        (lambda shard: (shard / DAMAGE_MARK).write_text("a block\n"), "damaged"),
        (written_by_an_older_release, f"format {FORMAT_VERSION - 1}, this version reads"),
    ],
    ids=["newest version lost", "manifest overwritten", "marked", "older"],
)
def test_a_store_that_is_damaged_or_of_another_version_is_rebuilt(
    settings: Settings,
    topic: ChangelogTopic,
    harm: Callable[[Path], object],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log has the reason, and the metrics count an error."""
    metrics = Metrics()
    stores = stores_of(settings, topic, metrics=metrics)
    opened(stores).close()
    harm(shard_directory(settings.state_dir, "tests", PARTITION))
    with caplog.at_level(logging.INFO), closing(opened(stores)) as store:
        check_holds(store, COMMITS)
    assert f"shard {PARTITION} " in caplog.text
    assert said in caplog.text
    errors = {"stage": "recover", "reason": "format"}
    assert metrics.registry.get_sample_value("firstseen_errors_total", errors) == 1


@pytest.mark.parametrize("lost_records", [1, 6, 9])
@pytest.mark.parametrize("lost_progress", [COMMITS, COMMITS + 3], ids=["behind", "beyond"])
@pytest.mark.parametrize("others", [0, 1, 2], ids=["none since", "one since", "two since"])
def test_a_store_with_commits_that_brokers_have_lost_is_rebuilt(
    settings: Settings,
    topic: ChangelogTopic,
    others: int,
    lost_progress: int,
    lost_records: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Wherever the store's reading had ended: before, at or after a commit that others made."""
    stores = stores_of(replace(settings, send_timeout_seconds=1), topic)
    with closing(opened(stores)) as store:
        offset = store.changelog_offset + lost_records
        lineage, now_ms = UNKNOWN.next("lost"), int(time.time() * 1000)
        lost = progress_of(lost_progress)
        lost = replace(lost, changelog_offset=offset, changelog_time_ms=now_ms, lineage=lineage)
        store.commit(entries_of(lost_progress), lost)
    lineage = UNKNOWN
    for commit in range(COMMITS, COMMITS + others):
        lineage = lineage.next("other")
        topic.send(commit_of(commit, "other", lineage))
    with closing(opened(stores, COMMITS + others)) as store:
        check_holds(store, COMMITS + others)
        assert store.lineage == lineage
    assert f"shard {PARTITION} is rebuilt from its changelog" in caplog.text


def test_store_that_is_gone_is_filled_again(stores: ShardStores, tmp_path: Path) -> None:
    opened(stores).close()
    shutil.rmtree(tmp_path / "tests")
    with closing(opened(stores)) as store:
        check_holds(store, COMMITS)
        stores.measure()
    stores.measure()
    recovery = stores.recoveries()[PARTITION]
    assert recovery.remaining == 0
    assert recovery.total >= 3 * COMMITS


def test_stores_that_open_while_others_are_measured_do_no_harm(
    stores: ShardStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = ShardStore.number

    def meanwhile(store: ShardStore, name: str) -> int:
        stores._open[len(stores._open)] = store  # as another thread does
        return number(store, name)

    with closing(opened(stores)):
        monkeypatch.setattr(ShardStore, "number", meanwhile)
        stores.measure()
    assert len(stores._open) > 1


def test_other_index_leaves_the_store_closed(settings: Settings, topic: ChangelogTopic) -> None:
    stores = stores_of(settings, topic, INDEX.replace("distance=3", "distance=1"))
    for _ in range(2):
        with pytest.raises(IndexMismatchError, match=topic.name):
            opened(stores)


def test_interrupted_opening_leaves_the_store_to_the_next(stores: ShardStores) -> None:
    interrupted = threading.Event()
    interrupted.set()
    with pytest.raises(InterruptedError):
        stores.open(PARTITION, 0, interrupted)
    with closing(opened(stores)) as store:
        check_holds(store, COMMITS)


def test_store_that_was_away_for_long_begins_again(
    settings: Settings,
    topic: ChangelogTopic,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It may have missed tombstones; a store that has read to the end is kept at any age."""
    opened(stores_of(settings, topic)).close()
    monkeypatch.setattr("streams.store.recovery.AWAY_LIMIT_MS", -1_000_000)
    opened(stores_of(settings, topic)).close()
    assert "was closed for" not in caplog.text
    topic.commit([COMMITS])
    with closing(opened(stores_of(settings, topic), COMMITS + 1)) as store:
        assert "was closed for" in caplog.text
        assert len(store) == (COMMITS + 1) * ENTRIES_PER_COMMIT


def test_ids_are_made_at_the_opening_where_documents_replace_others(
    settings: Settings, topic: ChangelogTopic
) -> None:
    """In other indexes the rows by id are made at the first delete."""
    replacing = replace(settings, index=replace(settings.index, same_id="replace"))
    with closing(opened(stores_of(settings, topic))) as store:
        assert not store.ids_ready
    with closing(opened(stores_of(replacing, topic))) as store:
        assert store.ids_ready
    with closing(opened(stores_of(settings, topic))) as store:
        assert store.ids_ready  # the rows by id are kept
