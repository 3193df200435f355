"""What commands read of the topics of an index."""

from __future__ import annotations

from streams.maintenance.index_topics import shard_heads
from streams.settings.settings import Settings, TopicSettings
from streams.store.changelog_codec import (
    LoggedProgress,
    encode_block,
    encode_end,
    encode_progress,
)
from streams.store.row_codec import entry_block
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that
from tests.unit.store.changelog import PARTITION, ChangelogTopic
from tests.unit.store.samples import INDEX, READING, new_entries, progress_at, sample


def test_head_of_a_shard_has_the_latest_entry_of_any_writer(broker: Broker) -> None:
    """Also a deleted one: a new log must not give its number again."""
    topic = ChangelogTopic(broker)
    settings = Settings(
        brokers=broker.bootstrap_servers, topics=TopicSettings(changelog=topic.name)
    )
    (empty,) = shard_heads(settings, [PARTITION])
    assert empty.is_empty
    entries = entry_block(new_entries(7, [sample(5)]))
    topic.send(
        [
            encode_block(entries, b"writer-1", 0),
            *encode_end(9 << 16, b"writer-2"),
            encode_progress(LoggedProgress(progress_at(6).progress, INDEX, READING, "worker")),
        ]
    )
    await_that(lambda: not shard_heads(settings, [PARTITION])[0].is_empty)  # the marker is late
    (head,) = shard_heads(settings, [PARTITION])
    assert head.latest_entry == 9
    assert head.progress is not None
    assert head.progress.progress == progress_at(6).progress
