"""Deduplication of one file with no broker: the same core, the same verdicts, one shard.

A file is a topic of one partition, and the number of a line, from 0, is its offset. Each batch of
lines is decided, its outputs are written and settled, and only then is it committed to the table,
together with how far the run has come: a run that is killed goes on from its last commit, with the
outputs cut to what they were then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from simhash_core.block_table import BlockTable
from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.effects import Effect, Emit, EmitDeadLetter, Remember
from simhash_core.entries import Change
from simhash_core.fingerprinter import Fingerprinter
from simhash_core.first_visit import first_visit
from simhash_core.placement import Placement
from simhash_core.probes import Message, Refuse, raw_sender
from simhash_core.rejections import Rejection, RejectionReason
from simhash_core.shard import Shard
from simhash_core.verdicts import DuplicateOf, verdict_name
from streams.dedup_progress import (
    BLANK,
    DEAD_LETTER,
    KINDS,
    Kind,
    OutputState,
    RunProgress,
    with_run,
)
from streams.input_lines import InputLines, Line
from streams.output.output_records import Arrival, duplicate_record
from streams.output_files import OutputFile
from streams.raw_documents import DocumentReader
from streams.record_views import bytes_view
from streams.settings import Settings

UNREADABLE_LINE_SCHEMA: Final = "firstseen.unreadable-line/1"

_BATCH_BYTES: Final = 8 << 20
# A line has no time of its own, and a file's would change with every copy: documents without a
# timestamp get the beginning of time, so that equal input gives equal bytes.
_NO_TIME_MS: Final = 0
_PARTITION: Final = 0

_encode = msgspec.json.Encoder().encode


class LocalDedup:
    """One run over one file. ``progress`` is how far it has come: what was committed last."""

    def __init__(
        self,
        settings: Settings,
        fingerprinter: Fingerprinter,
        placement: Placement,
        table: BlockTable,
        progress: RunProgress,
        outputs: Mapping[Kind, OutputFile],
    ) -> None:
        """Take up the run ``progress`` where it is; ``placement`` is over one partition."""
        self.progress = progress
        self._fingerprinter = fingerprinter
        self._table = table
        self._outputs = outputs
        self._include_body = settings.include_body
        self._batch_lines = settings.batch.documents
        self._reader = DocumentReader(settings.fields, settings.max_record_bytes)
        self._topic = topic_of(progress)
        self._sender = raw_sender(self._topic, _PARTITION)
        self._shard = Shard(_PARTITION, placement, table, fingerprinter.confirmation)

    @property
    def documents(self) -> int:
        """The number of unique documents in the index."""
        return len(self._table)

    def run(self, lines: InputLines) -> Iterator[RunProgress]:
        """Decide what is left of ``lines``; yield the progress after each commit.

        At the end the outputs are finished. Raises ``InputFileError`` and ``OutputFileError``.
        """
        for batch in _batches(lines, self._batch_lines):
            self._decide(batch, lines)
            yield self.progress
        for output in self._outputs.values():
            output.finish()
        self._commit([], replace(self.progress, finished=True))
        yield self.progress

    def _decide(self, batch: Sequence[Line], lines: InputLines) -> None:
        counts = Counter(self.progress.counts)
        counts[BLANK] += sum(line.is_blank for line in batch)
        written: dict[Kind, list[bytes]] = {kind: [] for kind in KINDS}
        changes: list[Change] = []
        messages = list(self._messages([line for line in batch if not line.is_blank]))
        self._shard.expect(message for _, message in messages)
        for number, message in messages:
            for effect in self._shard.handle(self._sender, number, message):
                if isinstance(effect, Remember):
                    changes.append(effect.change)
                else:
                    self._put(effect, written, counts)
        for kind, output_lines in written.items():
            self._outputs[kind].write(b"".join(output_lines))
        outputs = {
            kind: OutputState(state.path, self._outputs[kind].settle())
            for kind, state in self.progress.outputs.items()
        }
        progress = replace(
            self.progress,
            lines=lines.lines_read,
            digest=lines.digest,
            counts=dict(counts),
            outputs=outputs,
        )
        self._commit(changes, progress)

    def _commit(self, changes: Sequence[Change], progress: RunProgress) -> None:
        self._table.commit([*changes, with_run(self._shard.progress(0), progress)])
        self.progress = progress

    def _messages(self, lines: Sequence[Line]) -> Iterator[tuple[int, Message]]:
        """Read and fingerprint lines that are not blank; yield what a shard is told of each."""
        read = [self._read(line) for line in lines]
        prints = iter(
            self._fingerprinter.fingerprint_batch(
                [item.content for _, item in read if isinstance(item, Document)]
            )
        )
        for record, item in read:
            if isinstance(item, Rejection):
                yield item.source.offset, Refuse(item)
                continue
            yield item.source.offset, first_visit(item, next(prints), record)

    def _read(self, line: Line) -> tuple[RawRecord, Document | Rejection]:
        source = SourcePosition(self._topic, _PARTITION, line.number)
        record = RawRecord(None, line.content, _NO_TIME_MS)
        if line.content is None:
            limit = self._reader.max_record_bytes
            detail = f"the line has {line.size} bytes, max_record_bytes is {limit}: raise it"
            return record, Rejection(source, record, RejectionReason.TOO_LARGE, detail)
        item = self._reader.read(source, record)
        # A tombstone is a null value, which no line is.
        assert isinstance(item, Document | Rejection)
        return record, item

    def _put(
        self, effect: Effect, written: Mapping[Kind, list[bytes]], counts: Counter[str]
    ) -> None:
        """Write the output of one effect."""
        match effect:
            case Emit(probe, DuplicateOf() as verdict):
                record = duplicate_record(
                    Arrival(
                        probe.record,
                        probe.source,
                        probe.document_id,
                        probe.event_time_ms,
                        probe.fingerprint,
                    ),
                    verdict,
                    self._fingerprinter.identity,
                    self._fingerprinter.scheme.bits,
                    include_body=self._include_body,
                )
                assert record.value is not None
                written["duplicates"].append(record.value + b"\n")
                counts[verdict_name(verdict)] += 1
            case Emit(probe, verdict):
                assert probe.record.value is not None
                written["unique"].append(probe.record.value + b"\n")
                counts[verdict_name(verdict)] += 1
            case EmitDeadLetter(rejection):
                written["dead_letters"].append(unreadable_line(rejection))
                counts[DEAD_LETTER + rejection.reason] += 1


def begin(table: BlockTable, progress: RunProgress) -> None:
    """Commit the beginning of a run: nothing done, and no senders of earlier runs remembered.

    Their numbers are never used again, and would be written with every batch.
    """
    earlier = table.in_flight().progress
    table.commit([with_run(replace(earlier, received={}), progress)])


def topic_of(progress: RunProgress) -> str:
    """Return what stands for a topic in the source positions of a run.

    A file that is run again is a new arrival of each document, so the run is in the name.
    """
    return f"{progress.input_name}#{progress.run}" if progress.run else progress.input_name


def unreadable_line(rejection: Rejection) -> bytes:
    """Return the line of JSON that is written for a line that cannot be read."""
    source = rejection.source
    return (
        _encode(
            {
                "schema": UNREADABLE_LINE_SCHEMA,
                "source": msgspec.structs.asdict(source),
                "line": source.offset + 1,
                "reason": rejection.reason,
                "detail": rejection.detail.encode(errors="replace").decode(),
                "value": bytes_view(rejection.record.value),
            }
        )
        + b"\n"
    )


def _batches(lines: Iterable[Line], most: int) -> Iterator[list[Line]]:
    """Yield batches of at most ``most`` lines, and not much more than ``_BATCH_BYTES`` bytes."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line.content or b"")
        if len(batch) >= most or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
