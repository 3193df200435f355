"""Outputs: turns verdicts into records to produce; equal input gives equal bytes.

An output has the headers of its raw record, in their order, before the filter's own headers. Three
kinds are removed because they would be wrong: ``firstseen-*`` headers, which belong to the filter
and are on records that passed a filter before or are replayed; ``content-type`` if the filter wrote
the value; and the error headers of an earlier dead letter.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

import numpy as np

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import Headers, masked
from simhash_core.log import versions
from simhash_core.log.columns import verdict_of
from simhash_core.log.participant import ShardReady
from simhash_core.log.records import Packet, Progress
from simhash_core.log.shard_stream import Deleted, NoVerdict
from simhash_core.log.shard_stream import Verdict as LogVerdict
from simhash_core.text.profiles import index_digest
from simhash_core.verdicts import DuplicateOf, Rejection, RejectionReason, Undecidable, verdict_name
from streams.documents.output_records import (
    APPLICATION_HEADER,
    ERROR_HEADER_PREFIX,
    FILTER_HEADER_PREFIX,
    KEPT_HEADER,
    REDELIVERIES_HEADER,
    WHOLE_HEADER,
    encode_duplicate,
    similarity,
)
from streams.documents.timestamps import format_rfc3339
from streams.kafka.producers import ProducerRecord
from streams.monitoring.metrics import DEAD_LETTER, Metrics
from streams.settings.settings import Mode, TopicSettings
from streams.store.changelog_codec import (
    ANYWHERE,
    ChangelogRecord,
    LoggedProgress,
    encode_progress,
    written_in,
)
from streams.store.entry_batch import StoreChange, records_of
from streams.worker.fingerprint import PendingRecord
from streams.worker.shard import LeaderEpochs

logger = logging.getLogger(__name__)

_READ_OTHERWISE: Final = (
    "an earlier worker with other reading settings did not read this record as a document, but "
    "this one does: the settings changed while it was in flight; replay it with 'firstseen dlq "
    "replay'"
)

_TOGETHER: Final = 500  # outputs per step of the event loop; a step takes about 10 ms
_UNIQUE: Final = ("firstseen-verdict", b"unique")
_UNDECIDABLE: Final = ("firstseen-verdict", b"undecidable")
_DUPLICATE: Final = ("firstseen-verdict", b"duplicate")
_REPLACED: Final = ("firstseen-replaced", b"true")
_JSON: Final = ("content-type", b"application/json")


class OutputKind(StrEnum):
    UNIQUE = "unique"
    DUPLICATE_OF = "duplicate_of"
    TAGGED = "tagged"  # any document or tombstone, with ``mode=tag``
    DEAD_LETTER = "dead_letter"


class TombstoneReason(StrEnum):
    """Why a tombstone is written to ``unique``."""

    DELETED = "deleted"  # by a raw tombstone
    REPLACED = "replaced"  # by a later document with its id, which is a duplicate of another


@dataclass(frozen=True, slots=True)
class OutputRules:
    """The settings by which outputs become records; the same for all shards of a worker.

    ``identity``: the whole identity of the index. ``reading``: the reading rules. ``writer``: the
    worker's transactional id. ``application``: the application's id. ``page``: the address of its
    ops page. ``retention_ms``: how long each output topic keeps a record, if it has a limit.
    ``partitions``: those of the output topic with the most, when the worker started.
    ``replaces_expired``: a document may replace one that has expired.
    """

    identity: str
    reading: str
    writer: str
    bits: int
    topics: TopicSettings
    include_body: bool
    application: str
    page: str | None = None
    retention_ms: Mapping[str, int] = field(default_factory=dict)
    mode: Mode = Mode.SPLIT
    partitions: int = 1
    replaces_expired: bool = False

    @property
    def kinds(self) -> Mapping[str, OutputKind]:
        topics = self.topics
        return {
            topics.unique: OutputKind.UNIQUE,
            topics.duplicates: OutputKind.DUPLICATE_OF,
            topics.tagged: OutputKind.TAGGED,
            topics.dead_letters: OutputKind.DEAD_LETTER,
        }


@dataclass(slots=True)
class OutputBatch:
    """The records of one commit, and its effects.

    ``offsets`` has every shard of the commit, so that Kafka checks the generation. ``ends`` has by
    changelog partition the offset after its last record, if there are no transactions. ``deletes``
    counts raw tombstones; ``removed`` and ``expired`` count entries that are deleted from the
    stores.
    """

    records: list[ProducerRecord] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    outputs: list[PendingRecord] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    changelog_bytes: int = 0
    deletes: int = 0
    removed: int = 0
    expired: int = 0

    def counts(self) -> Counter[str]:
        counts = Counter(
            verdict_name(each.verdict) for each in self.outputs if each.verdict is not None
        )
        if self.rejections:
            counts[DEAD_LETTER] = len(self.rejections)
        return counts


async def output_batch(
    shards: Sequence[ShardReady[PendingRecord]],
    rules: OutputRules,
    stored: Mapping[int, StoreChange],
    epochs: Mapping[int, LeaderEpochs],
    version: int = versions.OLDEST,
) -> OutputBatch:
    """Return the records of a commit: outputs, then the changelog records of each shard.

    ``stored`` has the change of each shard's store, and ``epochs`` the leader epochs of its raw
    records. ``version`` is the version in force, for the changelog records. The event loop gets
    turns in between.
    """
    batch = OutputBatch()
    changes: list[tuple[int, ChangelogRecord]] = []
    packet: Packet | None = None
    rows: list[tuple[str, int, bytes]] = []
    made = 0
    for partition, ready, progress in shards:
        for pending, logged in ready.outputs:
            made += 1
            if made >= _TOGETHER:
                made = 0
                await asyncio.sleep(0)
            if isinstance(logged, LogVerdict):
                if logged.packet is not packet:
                    packet = logged.packet
                    rows = _rows(packet.columns)
                pending.document_id, pending.event_time_ms, pending.fingerprint = rows[logged.row]
                pending.verdict = verdict_of(packet.columns, logged.row, logged.match)
                batch.outputs.append(pending)
                replaced = logged.replaced or rules.replaces_expired
                batch.records += document_records(pending, rules, replaced=replaced)
            elif isinstance(logged, Deleted):
                pending.document_id = logged.packet.columns.document_id(logged.row)
                batch.deletes += 1
                # With mode=tag the topic also has duplicates with the same key, so it gets every
                # delete.
                if logged.has_output or rules.mode is Mode.TAG:
                    batch.records.append(tombstone_record(pending, TombstoneReason.DELETED, rules))
            elif (rejection := _rejection(pending, logged)) is not None:
                batch.rejections.append(rejection)
                batch.records.append(dead_letter_record(rejection, rules))
        made += 1  # writing a shard's commit takes as long as an output
        change, leaders = stored[partition], epochs[partition]
        own = _changelog_records(partition, change, progress, leaders, rules, batch)
        changes += [(partition, record) for record in own]
        batch.offsets[partition] = progress.next
    for partition, record in changes:
        key, value = written_in(record, version)
        batch.changelog_bytes += len(key) + len(value or b"")
        batch.records.append(ProducerRecord(rules.topics.changelog, key, value, partition))
    return batch


def _changelog_records(
    partition: int,
    change: StoreChange,
    progress: Progress,
    epochs: LeaderEpochs,
    rules: OutputRules,
    batch: OutputBatch,
) -> list[ChangelogRecord]:
    batch.removed += change.removed
    batch.expired += change.expired
    records = records_of(change)
    offset = change.place.after(len(records))
    if offset != ANYWHERE:
        batch.ends[partition] = offset + 1
    logged = LoggedProgress(
        progress,
        rules.identity,
        rules.reading,
        rules.writer,
        change.expired_before,
        change.lineage.next(rules.writer),
        epochs.before(progress.next),
    )
    before = change.place.before or progress
    return [*records, encode_progress(logged, offset, before, epochs.before(before.next))]


def _rows(columns: DocumentColumns) -> list[tuple[str, int, bytes]]:
    """Return id, event time and fingerprint of each document, without the mask of its scope.

    All rows are converted at once, because one value of a column takes as long as a hundred.
    """
    joined = columns.fingerprints.tobytes()
    size = len(joined) // max(1, len(columns))
    fingerprints = [joined[size * row : size * (row + 1)] for row in range(len(columns))]
    if columns.scopes is not None:
        scopes = (scope.decode() for scope in columns.scopes)
        fingerprints = list(map(masked, fingerprints, scopes))
    for row in np.flatnonzero(columns.undecidable).tolist():
        fingerprints[row] = b""
    ids = map(bytes.decode, columns.ids)
    return list(zip(ids, columns.times_ms.tolist(), fingerprints, strict=True))


def _rejection(pending: PendingRecord, why: NoVerdict) -> Rejection | None:
    """Return why a record without a verdict is a dead letter; None if it has no output."""
    if why is NoVerdict.READ_OTHERWISE:
        reason = RejectionReason.READING_CHANGED
        return Rejection(pending.source, pending.record, reason, _READ_OTHERWISE)
    return pending.rejection


# ---- records


def document_records(
    pending: PendingRecord, rules: OutputRules, *, replaced: bool = False
) -> tuple[ProducerRecord, ...]:
    """Return the records of a document that has a verdict.

    ``replaced``: the document replaced a unique entry with its id, or may have. Raises
    ``UsageError`` for a distance that is impossible with ``rules.bits``.
    """
    record, verdict, topics = pending.record, pending.verdict, rules.topics
    headers = _verdict_headers(pending, rules)
    if rules.mode is Mode.TAG:
        if isinstance(verdict, DuplicateOf):
            headers += _match_headers(verdict, rules.bits)
            if replaced:
                headers += (_REPLACED,)
        return (_raw_record(topics.tagged, pending, headers),)
    if not isinstance(verdict, DuplicateOf):
        return (_raw_record(topics.unique, pending, headers),)
    value = encode_duplicate(
        pending.source,
        pending.document_id,
        pending.event_time_ms,
        verdict,
        rules.identity,
        rules.bits,
        body=record.value if rules.include_body else None,
    )
    own = tuple(pair for pair in _own_headers(record.headers) if pair[0].lower() != _JSON[0])
    # The value is JSON here, even if the raw value was not.
    duplicate = _output(topics.duplicates, pending, value, (*own, _JSON, *headers))
    # A compacted topic identifies the replaced record by its key alone.
    if not replaced or record.key is None:
        return (duplicate,)
    # The earlier document with this id was unique, or may have been; the new one is not.
    return tombstone_record(pending, TombstoneReason.REPLACED, rules), duplicate


def tombstone_record(
    pending: PendingRecord, reason: TombstoneReason, rules: OutputRules
) -> ProducerRecord:
    ours: Headers = (
        ("firstseen-verdict", reason.encode()),
        *_position_headers(pending),
        *_index_headers(rules.identity, rules.application),
    )
    topic = rules.topics.tagged if rules.mode is Mode.TAG else rules.topics.unique
    return _output(topic, pending, None, (*_own_headers(pending.record.headers), *ours))


def dead_letter_record(rejection: Rejection, rules: OutputRules) -> ProducerRecord:
    """Return the raw record, with its position and the reason in headers.

    The headers are those of Kafka Connect's dead letter queues, as UTF-8 strings, so that tools for
    these read ours (source: ``DeadLetterQueueReporter`` in Apache Kafka).
    """
    source, record, reason = rejection.source, rejection.record, rejection.reason
    own = tuple(
        (name, value)
        for name, value in record.headers
        if name == REDELIVERIES_HEADER
        or not name.startswith((FILTER_HEADER_PREFIX, ERROR_HEADER_PREFIX))
    )
    exception = "".join(word.capitalize() for word in reason.split("_"))
    errors = {
        "topic": source.topic,
        "partition": str(source.partition),
        "offset": str(source.offset),
        "stage": "VALUE_CONVERTER",
        "class.name": "firstseen.DocumentReader",
        # The tools of Kafka Connect group by this header.
        "exception.class.name": f"firstseen.{exception}",
        "exception.message": rejection.detail,
    }
    ours: Headers = tuple(
        (f"{ERROR_HEADER_PREFIX}{name}", text.encode(errors="replace"))
        for name, text in errors.items()
    )
    sizes: Headers = tuple(
        (name, b"%d" % size)
        for name, size in (
            (KEPT_HEADER, rejection.kept_bytes),
            (WHOLE_HEADER, rejection.whole_bytes),
        )
        if size is not None
    )
    headers = (*own, *ours, *sizes, ("firstseen-reason", reason.encode()))
    return _output(rules.topics.dead_letters, rejection, record.value, headers)


def _raw_record(topic: str, pending: PendingRecord, ours: Headers) -> ProducerRecord:
    record = pending.record
    return _output(topic, pending, record.value, (*_own_headers(record.headers), *ours))


def _output(
    topic: str, of: PendingRecord | Rejection, value: bytes | None, headers: Headers
) -> ProducerRecord:
    """Return a record with the key and the time of its raw record."""
    record, about = of.record, (of.source,)
    return ProducerRecord(topic, record.key, value, None, record.timestamp_ms, headers, about)


# ---- headers


def _verdict_headers(pending: PendingRecord, rules: OutputRules) -> Headers:
    verdict, fingerprint = pending.verdict, pending.fingerprint
    position = _position_headers(pending)
    index = _index_headers(rules.identity, rules.application)
    if isinstance(verdict, Undecidable):
        return (_UNDECIDABLE, ("firstseen-reason", verdict.reason.encode()), *position, *index)
    # If a duplicate has no fingerprint, its content equals that of its original.
    print_header = (("firstseen-fingerprint", fingerprint.hex().encode()),) if fingerprint else ()
    if isinstance(verdict, DuplicateOf):
        return (
            _DUPLICATE,
            *position,
            *print_header,
            ("firstseen-original", verdict.original_id.encode()),
            ("firstseen-distance", b"%d" % verdict.distance),
            ("firstseen-method", verdict.method.encode()),
            *index,
        )
    return (_UNIQUE, *position, *print_header, *index)


def _position_headers(pending: PendingRecord) -> Headers:
    return (
        ("firstseen-id", pending.document_id.encode()),
        ("firstseen-source", str(pending.source).encode()),
    )


def _match_headers(verdict: DuplicateOf, bits: int) -> Headers:
    """Return the headers of a ``duplicate-of`` record that ``_verdict_headers`` does not have."""
    agreement = verdict.agreement
    return (
        ("firstseen-original-source", str(verdict.original).encode()),
        ("firstseen-original-timestamp", format_rfc3339(verdict.original_event_time_ms).encode()),
        ("firstseen-bits", b"%d" % bits),
        ("firstseen-similarity", f"{similarity(verdict, bits)}".encode()),
        *(() if agreement is None else (("firstseen-agreement", f"{agreement:.6g}".encode()),)),
    )


@lru_cache(maxsize=16)
def _index_headers(identity: str, application: str) -> Headers:
    index = ("firstseen-index", index_digest(identity).encode())
    return index, (APPLICATION_HEADER, application.encode())


def _own_headers(headers: Headers) -> Headers:
    return tuple(pair for pair in headers if not pair[0].startswith(FILTER_HEADER_PREFIX))


# ---- expired outputs


class ExpiredOutputs:
    """Counts outputs that their topic deletes at once, and logs the first of each topic.

    An output has the timestamp of its raw record, and brokers delete records by this timestamp.
    Without the warning, an archive sent to topics with a week of retention would disappear
    silently.
    """

    def __init__(self, rules: OutputRules, metrics: Metrics) -> None:
        self._retention_ms = rules.retention_ms
        self._kinds = rules.kinds
        self._metrics = metrics
        self._logged: set[str] = set()

    def note(self, records: Iterable[ProducerRecord], now_ms: int) -> None:
        if not self._retention_ms:
            return
        oldest_kept = {topic: now_ms - kept for topic, kept in self._retention_ms.items()}
        for record in records:
            oldest, time_ms = oldest_kept.get(record.topic), record.timestamp_ms
            if oldest is None or time_ms is None or time_ms >= oldest:
                continue
            self._metrics.expired_output(self._kinds[record.topic])
            if record.topic not in self._logged:
                self._logged.add(record.topic)
                logger.warning(
                    "%s deletes records that are older than %d s (retention.ms), and the record "
                    "of %s is %d s old: the broker will soon delete it and other old records. "
                    "Raise retention.ms, or set it to -1: 'firstseen topics check' shows how",
                    record.topic,
                    self._retention_ms[record.topic] // 1000,
                    ", ".join(map(str, record.about)),
                    (now_ms - time_ms) // 1000,
                )
