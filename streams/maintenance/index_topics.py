"""Reads the topics of an index, for commands that change the index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Final, NamedTuple, Self

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from simhash_core.documents import TopicPartition
from simhash_core.errors import FirstseenError, ProtocolError
from simhash_core.index.look_up import Nearness
from simhash_core.log.records import (
    NO_CONTROL,
    Bundle,
    Chain,
    ChainHeads,
    Heads,
    Horizons,
    log_offset_of,
)
from simhash_core.log.replica import Replica
from simhash_core.window import Window
from streams.errors import BrokerUnavailableError
from streams.kafka.client_config import changelog_group, client_config, raw_consumer_config
from streams.kafka.clients import AdminClient, Consumer, committed_offsets
from streams.kafka.errors import Retries, becomes_true, is_of_client
from streams.settings.settings import Delivery, GroupProtocol, Settings
from streams.store.changelog import Changelog
from streams.store.changelog_codec import ENTRIES_TAG, LoggedProgress, first_sequence, furthest
from streams.topics.admin import (
    RawTopic,
    TopicsError,
    can_administer,
    grow_changelog,
    partitions_of,
    raw_topic,
    refuse_lost_shards,
)
from streams.topics.consumer_group import group_members
from streams.topics.watermarks import BrokerWatermarks, Watermarks
from streams.worker.index_on_kafka import refuse_other_identity, refuse_other_owner
from streams.worker.log_codec import LogCodec, OtherIndexError, version_of

# ---- The group.

_POLL_SECONDS: Final = 0.2
_ONCE: Final = Retries(0, 0)
_JOIN_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 30.0
_STABLE_SECONDS: Final = 60.0  # longer than a killed worker's transaction stays open


class WorkersRunError(FirstseenError):
    """The index has running workers, and the command needs it exclusively."""


def refuse_running_workers(
    admin: AdminClient, settings: Settings, application: str | None = None
) -> None:
    """Raise ``WorkersRunError`` if an application's group has members. Blocking.

    By default, the application is that of the settings.
    """
    group = application or settings.application_id
    members = group_members(admin, group)
    if members:
        raise WorkersRunError(
            f"the group {group} has {len(members)} member(s), such as {min(members)}: stop the "
            f"workers of {'this index' if application is None else application} first. (A killed "
            "worker stays a member for session_timeout_seconds.)"
        )


class ExclusiveMember:
    """The only member of a group, which owns all partitions; ``metadata`` raises if that ends.

    The coordinator refuses its transaction as soon as another member has joined.
    """

    def __init__(self, settings: Settings, partitions: int, command: str) -> None:
        """``partitions`` is the raw topic's number; ``command`` is part of the member's name."""
        self._topic = settings.topics.raw
        self._wanted = frozenset(range(partitions))
        self._owned: set[int] = set()
        self._was_disturbed = False
        name = f"{settings.application_id}.{command}"
        # Workers that join meanwhile convert the group, whatever their protocol is.
        settings = msgspec.structs.replace(settings, group_protocol=GroupProtocol.CLASSIC)
        config = {**raw_consumer_config(settings, name), "max.poll.interval.ms": 600_000}
        config.pop("group.instance.id", None)
        self._consumer = Consumer(config)

    def __enter__(self) -> Self:
        """Join the group; raise ``WorkersRunError`` if it has another member."""
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        if not becomes_true(
            lambda: self._owned == self._wanted,
            _JOIN_SECONDS,
            _POLL_SECONDS,
            pause=self._consumer.poll,
        ):
            self._consumer.close()
            raise self._disturbed()
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def keep(self) -> None:
        """Keep the membership alive; call it at least every few minutes."""
        self._consumer.poll(0)

    def metadata(self) -> bytes:
        """Return the group metadata for a transaction; raise ``WorkersRunError`` if not alone."""
        metadata: bytes = self._consumer.consumer_group_metadata()
        self.keep()
        if self._was_disturbed or self._owned != self._wanted:
            raise self._disturbed()
        return metadata

    def committed(self) -> dict[int, int]:
        """Return the group's committed offsets by partition, after open transactions have ended.

        Raises ``BrokerUnavailableError``.
        """
        ask = Retries(_STABLE_SECONDS, _POLL_SECONDS, is_of_client)
        return _committed(self._consumer, self._topic, len(self._wanted), ask)

    def _assigned(self, consumer: Consumer, partitions: Iterable[ClientPartition]) -> None:
        assigned = list(partitions)
        consumer.incremental_assign(assigned)
        consumer.pause(assigned)
        self._owned |= {partition.partition for partition in assigned}

    def _revoked(self, consumer: Consumer, partitions: Iterable[ClientPartition]) -> None:
        del consumer
        self._owned -= {partition.partition for partition in partitions}
        self._was_disturbed = True

    def _disturbed(self) -> WorkersRunError:
        return WorkersRunError(
            f"this command does not own all {len(self._wanted)} partitions of {self._topic}: a "
            "worker of this index has started since. Nothing was changed. Stop the worker and "
            "repeat the command"
        )


def committed_by(settings: Settings, application: str, raw: RawTopic) -> dict[int, int]:
    """Return the raw offsets that a group has committed; raise ``BrokerUnavailableError``."""
    with closing(Consumer(client_config(settings, group_id=application))) as consumer:
        return _committed(consumer, raw.name, raw.partitions)


def _committed(
    consumer: Consumer,
    topic: str,
    partitions: int,
    ask: Retries = _ONCE,
) -> dict[int, int]:
    wanted = [ClientPartition(topic, each) for each in range(partitions)]
    try:
        committed = ask(committed_offsets, consumer, wanted, _ANSWER_SECONDS)
    except KafkaException as error:
        raise BrokerUnavailableError(
            f"the broker does not return the group's offsets: {error.args[0].str()}"
        ) from error
    return {each.partition: each.offset for each in committed if each.offset >= 0}


# ---- The progress and the latest entry of each shard, as its changelog has them.

NOTHING: Final = -1


class ShardHead(NamedTuple):
    """The end of the changelog of a shard."""

    partition: int
    progress: LoggedProgress | None  # the last committed
    latest_entry: int  # the highest log offset of an entry, or ``NOTHING``

    @property
    def is_empty(self) -> bool:
        return self.progress is None and self.latest_entry == NOTHING


def changelog_of(settings: Settings, partition: int) -> Changelog:
    return _reader(settings, settings.topics.changelog, partition)


def log_of(settings: Settings) -> Changelog:
    return _reader(settings, settings.topics.log, 0, may_be_cut=True)


def _reader(
    settings: Settings, topic: str, partition: int, *, may_be_cut: bool = False
) -> Changelog:
    may_be_cut |= settings.delivery is Delivery.AT_LEAST_ONCE
    config = {**client_config(settings, group_id=changelog_group(settings)), "check.crcs": True}
    seconds = settings.send_timeout_seconds
    return Changelog(topic, partition, config, seconds, may_be_cut=may_be_cut)


def shard_heads(settings: Settings, partitions: Sequence[int]) -> list[ShardHead]:
    """Raises ``RecoveryError``, ``ChangelogFormatError`` and ``UnansweredError``."""
    return [_head(changelog_of(settings, each)) for each in partitions]


def _head(log: Changelog) -> ShardHead:
    progress: LoggedProgress | None = None
    latest = NOTHING
    for tail in log.tails():
        progress, latest = None, NOTHING
        for batch in tail:
            progress = furthest(progress, batch.decoded().progress)
            keys = [key for key in batch.keys if key is not None and key[:1] == ENTRIES_TAG]
            latest = max([latest, *(log_offset_of(first_sequence(key)) for key in keys)])
        if progress is not None and latest != NOTHING:
            break
    return ShardHead(log.partition, progress, latest)


# ---- The log, read as a new worker would read it.

_DAMAGES_NAMED = 20


class LogGapError(FirstseenError):
    """The log lacks records that the shards need; ``what`` does not include how to continue."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"{what}. 'firstseen index new-log' starts a new log from the state of the shards"
        )


class LogState(NamedTuple):
    """The log from the lowest position of the shards to its end."""

    start: int  # offset of the topic
    end: int
    replica: Replica
    damaged: list[str]  # messages about unreadable records

    @property
    def heads(self) -> list[tuple[Chain, int]]:
        """The heads of all chains in the last control record."""
        latest = self.replica.latest
        return [] if latest is None else [*latest.heads.items()]

    @property
    def undecided(self) -> int:
        """Number of undecided documents in valid packets."""
        heads = Heads(ChainHeads.of(self.heads))
        documents = 0
        for item in self.replica.undecided.values():
            if isinstance(item, Bundle):
                heads.take(item)
                documents += len(item)
        return documents


def window_of(settings: Settings) -> Window | None:
    return Nearness.of(settings.index_profile()).window


def read_log(settings: Settings, identity: str, shards: list[ShardHead]) -> LogState:
    """Read the log from where the shards need it; read nothing if none has progress. Blocking.

    Raises ``LogGapError`` if that part is missing, and what ``Changelog.read`` raises.
    """
    log = log_of(settings)
    start, end = log.ends()
    known = [each.progress.progress for each in shards if each.progress is not None]
    first = min(known, key=lambda each: each.position, default=None)
    if first is None:
        return LogState(start, end, Replica(end, NO_CONTROL), [])
    needed = min(each.needed for each in known)
    if needed < start or first.position > end:
        raise LogGapError(
            f"the shards need the log {settings.topics.log} from offset {needed} to "
            f"{first.position} or more, but it has {start} to {end - 1}: it was truncated, or "
            "deleted and created again"
        )
    replica = Replica(first.position, first.control, Horizons(window_of(settings), first.clock))
    codec = LogCodec(identity)
    damaged: list[str] = []
    for batch in log.read(replica.start, lambda _left: None):
        for offset, value in zip(batch.offsets, batch.values, strict=True):
            if not replica.accepts(offset, version_of(value)):
                replica.skip(offset)
                continue
            try:
                record = codec.decode(value, f"{settings.topics.log}/0@{offset}")
                replica.read(offset, record, batch.time_ms)
            except OtherIndexError:
                replica.skip(offset)
            except ProtocolError as error:
                replica.skip(offset)
                if len(damaged) < _DAMAGES_NAMED:
                    damaged.append(str(error))
    return LogState(start, end, replica, damaged)


class IndexTopics(NamedTuple):
    raw: RawTopic
    shards: list[ShardHead]

    @property
    def is_empty(self) -> bool:
        return all(each.is_empty for each in self.shards)


def index_topics(admin: AdminClient, settings: Settings, *, changes: bool) -> IndexTopics:
    """Inspect the topics of an index. Blocking.

    With ``changes``, the group must have no members and the broker must have transactions. Raises
    ``TopicsError``, ``WorkersRunError``, and what reading the changelog raises.
    """
    if changes:
        if not can_administer(admin):
            raise TopicsError(
                "this broker has no transactions (librdkafka's in-process broker has none), and "
                "without them only workers can change an index"
            )
        grow_changelog(admin, settings)
        refuse_running_workers(admin, settings)
    raw = raw_topic(admin, settings)
    refuse_lost_shards(admin, settings)
    changelog = settings.topics.changelog
    there = partitions_of(admin, [changelog]).get(changelog, 0)
    return IndexTopics(raw, shard_heads(settings, range(min(raw.partitions, there))))


def refuse_other_index(shards: list[ShardHead], identity: str, settings: Settings) -> None:
    """Raise ``StateMismatchError`` if the index has another identity, raw topic or application."""
    where = f"the index of application {settings.application_id!r} ({settings.topics.changelog})"
    for each in shards:
        if each.progress is not None:
            there = each.progress
            refuse_other_identity(there.identity, identity, where)
            refuse_other_owner(there, settings, where)


def raw_watermarks(settings: Settings, raw: RawTopic) -> dict[int, Watermarks]:
    """Return the ends of each raw partition. Blocking. Raises ``BrokerUnavailableError``."""
    partitions = [TopicPartition(raw.name, each) for each in range(raw.partitions)]
    broker = BrokerWatermarks(client_config(settings), settings.application_id, _ANSWER_SECONDS)
    return {each.partition: marks for each, marks in broker.of(partitions).items()}
