"""What the changelog of an index says of each shard: its progress, and its latest entry."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

from simhash_core.log.sequence import log_offset_of
from streams.kafka.client_config import changelog_group, consumer_config
from streams.settings.settings import Delivery, Settings
from streams.store.changelog_codec import ENTRIES_TAG, LoggedProgress
from streams.store.changelog_reader import Changelog
from streams.store.changelog_tail import steps_back

NOTHING: Final = -1


class ShardHead(NamedTuple):
    """The end of the changelog of a shard.

    ``progress``: the last that is committed. ``latest_entry``: the highest offset of the log that
    an entry came in, ``NOTHING`` where there is no entry. ``start``, ``end``: of the changelog.
    """

    partition: int
    progress: LoggedProgress | None
    latest_entry: int
    start: int
    end: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever committed for the shard."""
        return self.progress is None and self.latest_entry == NOTHING


def changelog_of(settings: Settings, partition: int) -> Changelog:
    """Return the changelog of a shard, to be read by a command."""
    config = {
        **consumer_config(settings, group_id=changelog_group(settings)),
        "check.crcs": True,
    }
    return Changelog(
        settings.topics.changelog,
        partition,
        config,
        settings.send_timeout_seconds,
        threading.Event(),
        may_be_cut=settings.delivery is Delivery.AT_LEAST_ONCE,
    )


def log_of(settings: Settings) -> Changelog:
    """Return the log, to be read by a command as a changelog is."""
    return Changelog(
        settings.topics.log,
        0,
        {**consumer_config(settings, group_id=changelog_group(settings)), "check.crcs": True},
        settings.send_timeout_seconds,
        threading.Event(),
        may_be_cut=True,
    )


def shard_heads(settings: Settings, partitions: Sequence[int]) -> list[ShardHead]:
    """Return the heads of shards; blocking.

    Raises ``RecoveryError`` and ``ChangelogFormatError`` for what cannot be read, and
    ``UnansweredError`` where the broker says nothing.
    """
    return [_head(changelog_of(settings, each)) for each in partitions]


def _head(log: Changelog) -> ShardHead:
    low, high = log.ends()
    progress: LoggedProgress | None = None
    latest = NOTHING
    for first in steps_back(low, high):
        progress, latest = None, NOTHING
        for batch in log.read(first, lambda _left: None):
            progress = batch.decoded().progress or progress
            offsets = [
                log_offset_of(int.from_bytes(key[1:], "big"))
                for key in batch.keys
                if key is not None and key[:1] == ENTRIES_TAG
            ]
            latest = max(offsets, default=latest)
        if progress is not None and latest != NOTHING:
            break
    return ShardHead(log.partition, progress, latest, low, high)
