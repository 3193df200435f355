"""What shards put out, as records to produce: outputs, new entries, and progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from simhash_core.log.columns import verdict_of
from simhash_core.log.outputs import Deleted, NoVerdict, Output
from simhash_core.log.outputs import Verdict as LogVerdict
from simhash_core.log.participant import ShardReady
from simhash_core.rejections import Rejection
from simhash_core.verdicts import DuplicateOf, Verdict, verdict_name
from streams.intake.raw_batches import RawArrival
from streams.kafka.producer_record import ProducerRecord
from streams.monitoring.metric_labels import DEAD_LETTER
from streams.output.output_records import (
    Gone,
    OutputKind,
    OutputRecord,
    dead_letter_record,
    deleted_record,
    duplicate_record,
    tagged_record,
    unique_record,
)
from streams.output.verdict_headers import Arrival, Arrivals
from streams.settings.settings import Mode
from streams.settings.topics import TopicSettings
from streams.store.changelog_codec import ChangelogRecord, encode_progress
from streams.store.store_change import StoreChange, records_of


@dataclass(frozen=True, slots=True)
class OutputRules:
    """How outputs become records: the same for all shards of a worker.

    ``writer``: the transactional id of the worker. ``page``: where others find its ops page.
    ``retention_ms``: by output topic, how long it keeps a record, where that has a limit.
    """

    identity: str
    reading: str
    writer: str
    bits: int
    topics: TopicSettings
    include_body: bool
    page: str | None = None
    retention_ms: Mapping[str, int] = field(default_factory=dict)
    mode: Mode = Mode.SPLIT

    def topic_of(self, kind: OutputKind) -> str:
        """Return the topic of an output."""
        topics = self.topics
        by_kind: Mapping[OutputKind, str] = {
            OutputKind.UNIQUE: topics.unique,
            OutputKind.DUPLICATE_OF: topics.duplicates,
            OutputKind.TAGGED: topics.tagged,
            OutputKind.DEAD_LETTER: topics.dead_letters,
        }
        return by_kind[kind]


class DecidedOutput(NamedTuple):
    """A document that was put out, for those who observe."""

    arrival: Arrival
    verdict: Verdict


@dataclass(slots=True)
class OutputBatch:
    """The records of one commit, and what it did.

    ``deletes``: tombstones read. ``removed``, ``expired``: entries that leave the stores.
    """

    records: list[ProducerRecord] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    outputs: list[DecidedOutput] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    changelog_bytes: int = 0
    deletes: int = 0
    removed: int = 0
    expired: int = 0

    def counts(self) -> Counter[str]:
        """Return how many records had each verdict, dead letters included."""
        counts = Counter(verdict_name(output.verdict) for output in self.outputs)
        if self.rejections:
            counts[DEAD_LETTER] = len(self.rejections)
        return counts


def output_batch(
    shards: Sequence[ShardReady[RawArrival]],
    rules: OutputRules,
    stored: Mapping[int, StoreChange],
) -> OutputBatch:
    """Return the records to produce for what shards have ready, the progress of each last.

    ``stored``: by shard what the commit changes in its store.
    """
    batch = OutputBatch()
    changes: list[tuple[int, ChangelogRecord]] = []
    topics = {kind: rules.topic_of(kind) for kind in OutputKind}
    arrivals = Arrivals()
    for partition, ready, progress in shards:
        for output in ready.outputs:
            for record in _records(output, arrivals, rules, batch):
                batch.records.append(
                    ProducerRecord(
                        topics[record.kind],
                        record.key,
                        record.value,
                        None,
                        record.timestamp_ms,
                        record.headers,
                        (output.record.source,),
                    )
                )
        change = stored[partition]
        changes += [(partition, record) for record in records_of(change)]
        batch.removed += change.removed
        batch.expired += change.expired
        committed = encode_progress(
            progress, rules.identity, rules.reading, rules.writer, change.expired_before
        )
        changes.append((partition, committed))
        if ready.outputs:
            batch.offsets[partition] = ready.next
    for partition, (key, value) in changes:
        batch.changelog_bytes += len(key) + len(value or b"")
        batch.records.append(ProducerRecord(rules.topics.changelog, key, value, partition))
    return batch


def _records(
    output: Output[RawArrival], arrivals: Arrivals, rules: OutputRules, batch: OutputBatch
) -> Sequence[OutputRecord]:
    """Return the records of one output, and note it in ``batch``."""
    raw, said = output
    match said:
        case LogVerdict(packet, row):
            arrival = arrivals.of(raw.record, raw.source, packet, row)
            return _of_document(arrival, said, rules, batch)
        case Deleted(packet, row, put_out):
            batch.deletes += 1
            tags = rules.mode is Mode.TAG
            # A topic with everything has duplicates of this key as well, so it gets every delete.
            if not (put_out or tags):
                return ()
            document_id = packet.columns.document_id(row)
            kind = OutputKind.TAGGED if tags else OutputKind.UNIQUE
            reason = Gone.DELETED
            return (
                deleted_record(raw.record, raw.source, document_id, reason, rules.identity, kind),
            )
        case NoVerdict():
            rejection = raw.rejection
            if said is NoVerdict.READ_OTHERWISE:
                rejection = raw.read_otherwise()
            if rejection is None:
                return ()
            batch.rejections.append(rejection)
            return (dead_letter_record(rejection),)


def _of_document(
    arrival: Arrival, said: LogVerdict, rules: OutputRules, batch: OutputBatch
) -> Sequence[OutputRecord]:
    verdict = verdict_of(said.packet.columns, said.row, said.match)
    batch.outputs.append(DecidedOutput(arrival, verdict))
    record, identity = arrival.record, rules.identity
    replaced = said.replaced and isinstance(verdict, DuplicateOf) and record.key is not None
    if rules.mode is Mode.TAG:
        return (tagged_record(arrival, verdict, identity, rules.bits, replaced=replaced),)
    if not isinstance(verdict, DuplicateOf):
        return (unique_record(arrival, verdict, identity),)
    duplicate = duplicate_record(
        arrival, verdict, identity, rules.bits, include_body=rules.include_body
    )
    if not replaced:
        return (duplicate,)
    # The document that had this id was unique; what has it now is not.
    document_id = arrival.document_id
    gone = deleted_record(record, arrival.source, document_id, Gone.REPLACED, identity)
    return gone, duplicate
