"""What shards put out, as records to produce: outputs, new entries, and progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from simhash_core.log.columns import verdict_of
from simhash_core.log.outputs import NoVerdict, Output
from simhash_core.log.outputs import Verdict as LogVerdict
from simhash_core.log.participant import ShardReady
from simhash_core.rejections import Rejection
from simhash_core.verdicts import DuplicateOf, Verdict, verdict_name
from streams.intake.raw_batches import RawArrival
from streams.kafka.producer_record import ProducerRecord
from streams.monitoring.metric_labels import DEAD_LETTER
from streams.output.output_records import (
    Arrival,
    OutputKind,
    OutputRecord,
    arrival_of,
    dead_letter_record,
    duplicate_record,
    unique_record,
)
from streams.settings.topics import TopicSettings
from streams.store.changelog_codec import ChangelogRecord, encode_entries, encode_progress


@dataclass(frozen=True, slots=True)
class OutputRules:
    """How outputs become records: the same for all shards of a worker.

    ``writer``: the transactional id of the worker. ``page``: where others find its ops page.
    """

    identity: str
    reading: str
    writer: str
    bits: int
    topics: TopicSettings
    include_body: bool
    page: str | None = None

    def topic_of(self, kind: OutputKind) -> str:
        """Return the topic of an output."""
        topics = self.topics
        by_kind: Mapping[OutputKind, str] = {
            OutputKind.UNIQUE: topics.unique,
            OutputKind.DUPLICATE_OF: topics.duplicates,
            OutputKind.DEAD_LETTER: topics.dead_letters,
        }
        return by_kind[kind]


class DecidedOutput(NamedTuple):
    """A document that was put out, for those who observe."""

    arrival: Arrival
    verdict: Verdict


@dataclass(slots=True)
class OutputBatch:
    """The records of one commit, and what it did."""

    records: list[ProducerRecord] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    outputs: list[DecidedOutput] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    changelog_bytes: int = 0

    def counts(self) -> Counter[str]:
        """Return how many records had each verdict, dead letters included."""
        return self.verdict_counts() + Counter({DEAD_LETTER: len(self.rejections)})

    def verdict_counts(self) -> Counter[str]:
        """Return how many documents had each verdict."""
        return Counter(verdict_name(output.verdict) for output in self.outputs)


def output_batch(shards: Sequence[ShardReady[RawArrival]], rules: OutputRules) -> OutputBatch:
    """Return the records to produce for what shards have ready, the progress of each last."""
    batch = OutputBatch()
    changes: list[tuple[int, ChangelogRecord]] = []
    topics = {kind: rules.topic_of(kind) for kind in OutputKind}
    for partition, ready, progress in shards:
        for output in ready.outputs:
            record = _record(output, rules, batch)
            if record is not None:
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
        changes += [(partition, encode_entries(new)) for new in ready.entries]
        committed = encode_progress(progress, rules.identity, rules.reading, rules.writer)
        changes.append((partition, committed))
        if ready.outputs:
            batch.offsets[partition] = ready.next
    for partition, change in changes:
        batch.changelog_bytes += len(change.key) + len(change.value)
        batch.records.append(
            ProducerRecord(rules.topics.changelog, change.key, change.value, partition)
        )
    return batch


def _record(
    output: Output[RawArrival], rules: OutputRules, batch: OutputBatch
) -> OutputRecord | None:
    """Return the record of one output, None for a tombstone, and note it in ``batch``."""
    raw, said = output
    if isinstance(said, LogVerdict):
        arrival = arrival_of(raw.record, said.packet, said.row)
        verdict = verdict_of(said.packet.columns, said.row, said.match)
        batch.outputs.append(DecidedOutput(arrival, verdict))
        if isinstance(verdict, DuplicateOf):
            return duplicate_record(
                arrival, verdict, rules.identity, rules.bits, include_body=rules.include_body
            )
        return unique_record(arrival, verdict, rules.identity)
    rejection = raw.rejection
    if said is NoVerdict.READ_OTHERWISE:
        rejection = raw.read_otherwise()
    if rejection is None:
        return None
    batch.rejections.append(rejection)
    return dead_letter_record(rejection)
