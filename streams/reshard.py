"""Another number of partitions: an index at rest is copied to a new application id.

Owners of buckets follow from the number of partitions, so entries must move. All of them are in the
changelog; each is read once, placed anew, and written to a new changelog, with the raw offsets
that the old group has reached. The old index stays as it is, to go back to.

The order of work makes it safe to be stopped anywhere: progress records, without which a new shard
would know of no raw offsets, are written last, together; until then the new topics are not used by
anyone, and a second run refuses them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from simhash_core.entries import Entry, Progress, PutEntry, PutParked, PutPending
from simhash_core.errors import FirstseenError, UsageError
from simhash_core.fingerprinter import Fingerprinter
from simhash_core.placement import Placement
from simhash_core.probes import raw_sender
from streams.acked_producer import AckedProducer, Outgoing
from streams.changelog_codec import encode_change
from streams.changelog_reader import Changelog
from streams.group_offsets import committed_offset
from streams.kafka_config import changelog_group, librdkafka_config
from streams.settings import Settings
from streams.topic_ids import topic_id
from streams.topic_plans import topic_plans
from streams.topics import create, partitions_of

_LOT: Final = 5_000
_ANSWER_SECONDS: Final = 30.0

Report = Callable[[str], None]
"""Told what is being done, a line at a time."""


def _in_silence(_left: int) -> None:
    """Report nothing of a reading."""


class ReshardError(FirstseenError):
    """The index cannot be copied as it is; the message says why, and what to do first."""


class Resharded(NamedTuple):
    """What was done: entries read, and written (one may be in several shards)."""

    documents: int
    entries: int
    partitions: int


class _Old(NamedTuple):
    """The old index at rest: committed raw offsets by partition, and the topic's id."""

    partitions: int
    raw_offsets: dict[int, int]
    topic_id: str


def reshard(old: Settings, new: Settings, partitions: int, report: Report) -> Resharded:
    """Copy the index of ``old`` to ``partitions`` shards under the application id of ``new``.

    All workers of the old index must have stopped in order, with nothing left to do. Raises
    ``ReshardError`` otherwise, ``TopicsError`` or ``RecoveryError`` for what Kafka refuses, and
    ``UnansweredError`` where it is silent for too long.
    """
    admin = AdminClient(librdkafka_config(old))
    fingerprinter = Fingerprinter(old.index_profile())
    rest = _check_at_rest(admin, old)
    if {new.topics.probes, new.topics.changelog} & partitions_of(
        admin, [new.topics.probes, new.topics.changelog]
    ).keys():
        raise ReshardError(
            f"{new.topics.probes} or {new.topics.changelog} exists already: delete both, if no "
            "worker has used them, or choose another application id"
        )
    create(admin, topic_plans(new, partitions))
    copy = _Copy(old, new, rest, Placement(fingerprinter.scheme, partitions))
    placement = Placement(fingerprinter.scheme, rest.partitions)
    for partition in range(rest.partitions):
        report(f"shard {partition} of {rest.partitions}: reading its changelog")
        for entry in _own_entries(old, placement, partition, fingerprinter.identity):
            copy.add(entry)
    copy.finish(fingerprinter.identity)
    _copy_offsets(admin, new, rest.raw_offsets)
    return Resharded(copy.documents, copy.entries, partitions)


class _Copy:
    """Writes entries to the new changelog, a lot at a time."""

    def __init__(self, old: Settings, new: Settings, rest: _Old, placement: Placement) -> None:
        self.documents = 0
        self.entries = 0
        self._new = new
        self._rest = rest
        self._raw_topic = old.topics.raw
        self._placement = placement
        self._orders = [0] * placement.partitions
        self._lot: list[Outgoing] = []
        self._producer = AckedProducer(librdkafka_config(new), new.send_timeout_seconds)

    def add(self, entry: Entry) -> None:
        """Write an entry to each of its new shards."""
        self.documents += 1
        for partition in self._placement.by_partition(entry.fingerprint, entry.content_digest):
            change = PutEntry(self._orders[partition], entry)
            self._orders[partition] += 1
            self.entries += 1
            self._put(partition, change)
        if len(self._lot) >= _LOT:
            self._send()

    def finish(self, identity: str) -> None:
        """Write the progress of each new shard: all raw offsets of the old group are passed."""
        received = {
            raw_sender(self._raw_topic, partition, self._rest.topic_id): offset - 1
            for partition, offset in self._rest.raw_offsets.items()
            if offset > 0
        }
        self._send()
        for partition, next_order in enumerate(self._orders):
            progress = Progress(received=received, next_order=next_order, index=identity)
            self._put(partition, progress)
        self._send()

    def _put(self, partition: int, change: PutEntry | Progress) -> None:
        key, value = encode_change(change)
        self._lot.append(Outgoing(self._new.topics.changelog, key, value, partition))

    def _send(self) -> None:
        self._producer.send_blocking(self._lot)
        self._lot.clear()


def _check_at_rest(admin: AdminClient, old: Settings) -> _Old:
    """Return the state of the old index; raise ``ReshardError`` when something is under way."""
    topics = old.topics
    counts = partitions_of(admin, [topics.raw, topics.probes, topics.changelog])
    missing = {topics.raw, topics.probes, topics.changelog} - counts.keys()
    if missing:
        raise ReshardError(f"{', '.join(sorted(missing))} is missing: is the application id right?")
    members = _members(admin, old.application_id)
    if members:
        raise ReshardError(
            f"{members} workers of {old.application_id} are running: stop them in order (SIGTERM) "
            "when nothing is left to do, and try again"
        )
    raw_offsets = {
        partition: committed_offset(old, topics.raw, partition)
        for partition in range(counts[topics.raw])
    }
    identifier = topic_id(admin, topics.raw)
    for partition in range(counts[topics.probes]):
        progress = _progress_at_rest(old, partition)
        for raw_partition, committed in raw_offsets.items():
            sender = raw_sender(topics.raw, raw_partition, identifier)
            received = progress.received.get(sender, -1)
            if received >= committed:
                raise ReshardError(
                    f"{topics.raw}/{raw_partition}: shard {partition} has received offset "
                    f"{received}, but the group has committed {committed}: start a worker, let it "
                    "come to rest, stop it in order (SIGTERM), and try again"
                )
    return _Old(counts[topics.probes], raw_offsets, identifier)


def _members(admin: AdminClient, group: str) -> int:
    try:
        described = admin.describe_consumer_groups([group], request_timeout=_ANSWER_SECONDS)
        return len(described[group].result(_ANSWER_SECONDS + 1).members)
    except KafkaException as error:
        raise ReshardError(f"the group {group} cannot be described: {error}") from error


def _progress_at_rest(old: Settings, partition: int) -> Progress:
    """Return the progress of a shard that has nothing pending, parked or unread."""
    progress = Progress()
    under_way: set[object] = set()
    for batch in _log_of(old, partition).read(0, _in_silence):
        for change in batch.changes():
            match change:
                case Progress():
                    progress = change
                case PutPending(source, entry):
                    (under_way.discard if entry is None else under_way.add)(source)
                case PutParked(ticket, _, visit):
                    (under_way.discard if visit is None else under_way.add)(ticket)
                case _:
                    pass
    unread = _has_unread(old, partition, progress.offset)
    if under_way or unread:
        raise ReshardError(
            f"shard {partition} has {len(under_way)} documents under way"
            f"{' and probes to read' if unread else ''}: start the workers, let them come to "
            "rest, stop them in order (SIGTERM), and try again"
        )
    return progress


def _has_unread(old: Settings, partition: int, offset: int) -> bool:
    """Return whether the probes partition holds committed records from ``offset`` on."""
    consumer = Consumer(
        librdkafka_config(
            old,
            group_id=changelog_group(old),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_partition_eof=True,
        )
    )
    try:
        consumer.assign([TopicPartition(old.topics.probes, partition, offset)])
        messages = consumer.consume(1, _ANSWER_SECONDS)
        if not messages:
            raise ReshardError(f"{old.topics.probes}/{partition} does not answer")
        return messages[0].error() is None
    finally:
        consumer.close()


def _own_entries(
    old: Settings, placement: Placement, partition: int, identity: str
) -> Iterator[Entry]:
    """Yield the entries of which this shard is the first owner: over all shards, each once."""
    for batch in _log_of(old, partition).read(0, _in_silence):
        for change in batch.changes():
            match change:
                case PutEntry(_, entry):
                    way = placement.by_partition(entry.fingerprint, entry.content_digest)
                    if next(iter(way)) == partition:
                        yield entry
                case Progress(index=index) if index not in {"", identity}:
                    raise ReshardError(
                        f"the changelog of shard {partition} is of another index:\n  there: {index}"
                        f"\n  here:  {identity}\nUse the settings that the workers had"
                    )
                case _:
                    pass


def _log_of(settings: Settings, partition: int) -> Changelog:
    return Changelog(
        settings.topics.changelog,
        partition,
        librdkafka_config(settings, group_id=changelog_group(settings)),
        settings.send_timeout_seconds,
        threading.Event(),
    )


def _copy_offsets(admin: AdminClient, new: Settings, offsets: dict[int, int]) -> None:
    """Let the new group begin where the old one has ended."""
    places = [TopicPartition(new.topics.raw, each, offset) for each, offset in offsets.items()]
    request = ConsumerGroupTopicPartitions(new.application_id, places)
    try:
        futures = admin.alter_consumer_group_offsets([request], request_timeout=_ANSWER_SECONDS)
        futures[new.application_id].result(_ANSWER_SECONDS + 1)
    except KafkaException as error:
        raise ReshardError(
            f"the offsets of the new group {new.application_id} cannot be set: {error}. All else "
            f"is done: set them by hand to {offsets}"
        ) from error


def renamed(settings: Settings, application_id: str) -> Settings:
    """Return settings with another application id, and the internal topics named after it.

    Raises ``UsageError`` where they are not named after the old one: workers that begin with the
    new id and the same settings would write to the old topics.
    """
    for name in ("probes", "changelog"):
        given = getattr(settings.topics, name)
        if given != f"{settings.application_id}.{name}":
            raise UsageError(
                f"topics.{name} is set to {given}: leave it unset, so that it follows the "
                "application id, then run this again"
            )
    topics = msgspec.structs.replace(settings.topics, probes="", changelog="")
    return msgspec.structs.replace(settings, application_id=application_id, topics=topics)
