"""The stores of a worker's shards: opened, caught up, and rebuilt where their files are damaged."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from simhash_core.errors import IndexMismatchError
from streams.monitoring.metrics import Metrics
from streams.settings.settings import Settings, TopicSettings
from streams.store.recovery import ShardStores
from streams.store.rocksdb_store import DAMAGE_MARK
from streams.store.row_store import StoreCorruptError
from streams.store.shard_directory import shard_directory
from streams.store.shard_store import ShardStore
from tests.rigs.brokers.broker import Broker
from tests.unit.store.changelog import PARTITION, ChangelogTopic
from tests.unit.store.samples import ENTRIES_PER_COMMIT, INDEX, check_holds

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
    settings: Settings,
    topic: ChangelogTopic,
    identity: str = INDEX,
    metrics: Metrics | None = None,
) -> ShardStores:
    return ShardStores(settings, topic.config, identity, "the changelog", metrics or Metrics())


@pytest.fixture
def stores(settings: Settings, topic: ChangelogTopic) -> ShardStores:
    return stores_of(settings, topic)


def opened(stores: ShardStores, commits: int = COMMITS) -> ShardStore:
    return stores.open(PARTITION, commits * ENTRIES_PER_COMMIT, threading.Event())


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda shard: (shard / "CURRENT").unlink(), "CURRENT is missing"),
        (lambda shard: next(shard.glob("MANIFEST-*")).write_bytes(b"\x5a" * 900), "Corruption"),
        (lambda shard: (shard / DAMAGE_MARK).write_text("a block\n"), "damaged"),
    ],
    ids=["newest version lost", "manifest overwritten", "marked"],
)
def test_a_damaged_store_is_rebuilt(
    settings: Settings,
    topic: ChangelogTopic,
    harm: Callable[[Path], object],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says why, and it counts as an error."""
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
    """It may have missed tombstones; one that has read to the end is kept, however long ago."""
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
    """In other indexes they are not made before the first delete."""
    replacing = replace(settings, index=replace(settings.index, same_id="replace"))
    with closing(opened(stores_of(settings, topic))) as store:
        assert not store.ids_ready
    with closing(opened(stores_of(replacing, topic))) as store:
        assert store.ids_ready
    with closing(opened(stores_of(settings, topic))) as store:
        assert store.ids_ready  # they are kept


def test_store_that_is_marked_is_rebuilt_by_the_next_opening(
    stores: ShardStores, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(opened(stores)) as store:
        with pytest.raises(StoreCorruptError) as caught:
            store.entries([1 << 40])
        store.mark_damaged(caught.value)
    with closing(opened(stores)) as store:
        check_holds(store, COMMITS)
    assert "rebuilt from its changelog" in caplog.text
    assert not (store.path / DAMAGE_MARK).exists()
