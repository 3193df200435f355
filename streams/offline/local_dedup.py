"""Deduplication of one file with no broker: the same core, the same verdicts, one shard.

A file is a topic of one partition, and the number of a line, from 0, is its offset. Each batch of
lines is decided, its outputs are written and settled, and only then is it committed to the index,
together with how far the run has come: a run that is killed continues from its last commit, with
the outputs cut to what they were then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.fingerprints.fingerprint import WORD_BITS
from simhash_core.index.look_up import Nearness
from simhash_core.log.columns import document_columns, verdict_of
from simhash_core.log.local_decider import LocalDecider
from simhash_core.log.outputs import NewEntries
from simhash_core.log.packets import Chain, Packet, Sender
from simhash_core.log.records import NO_CONTROL, Progress
from simhash_core.rejections import Rejection, RejectionReason
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.verdicts import DuplicateOf, verdict_name
from streams.documents.raw_documents import DocumentReader
from streams.files.input_lines import InputLines, Line
from streams.files.output_files import OutputFile
from streams.offline.dedup_progress import (
    BLANK,
    DEAD_LETTER,
    KINDS,
    Kind,
    OutputState,
    RunProgress,
    encode_run,
)
from streams.offline.local_index import LocalStore
from streams.output.output_records import arrival_of, duplicate_record
from streams.output.record_views import bytes_view
from streams.settings.settings import Settings
from streams.store.state_codec import StoredProgress

UNREADABLE_LINE_SCHEMA: Final = "firstseen.unreadable-line/1"

_BATCH_BYTES: Final = 8 << 20
# A line has no time of its own, and a file's would change with every copy: documents without a
# timestamp get the beginning of time, so that equal input gives equal bytes.
_NO_TIME_MS: Final = 0
_PARTITION: Final = 0
_SENDER: Final = "dedup"

_encode = msgspec.json.Encoder().encode


class LocalDedup:
    """One run over one file. ``progress`` is how far it has come: what was committed last."""

    def __init__(
        self,
        settings: Settings,
        fingerprinter: Fingerprinter,
        store: LocalStore,
        progress: RunProgress,
        outputs: Mapping[Kind, OutputFile],
    ) -> None:
        """Resume the run ``progress``, which was committed last."""
        self.progress = progress
        self._fingerprinter = fingerprinter
        self._store = store
        self._outputs = outputs
        self._include_body = settings.include_body
        self._batch_lines = settings.batch.documents
        self._reader = DocumentReader(settings.fields, settings.max_record_bytes)
        self._chain = chain_of(progress)
        self._next_packet = next_packet(store)
        nearness = Nearness.of(fingerprinter.profile)
        self._decider = LocalDecider(nearness, store, store.prints(nearness.scheme.bands))

    @property
    def documents(self) -> int:
        """The number of unique documents in the index."""
        return len(self._store)

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
        read = [self._read(line) for line in batch if not line.is_blank]
        packet = self._packet(
            [item for _, item in read if isinstance(item, Document)], batch[-1].number
        )
        decision = self._decider.decide(self._next_packet, packet)
        self._next_packet += 1
        written: dict[Kind, list[bytes]] = {kind: [] for kind in KINDS}
        row = 0
        for record, item in read:
            if isinstance(item, Rejection):
                written["dead_letters"].append(unreadable_line(item))
                counts[DEAD_LETTER + item.reason] += 1
                continue
            verdict = verdict_of(packet.columns, row, decision.matches.get(row))
            counts[verdict_name(verdict)] += 1
            if isinstance(verdict, DuplicateOf):
                value = self._duplicate(record, packet, row, verdict)
                written["duplicates"].append(value + b"\n")
            else:
                assert record.value is not None
                written["unique"].append(record.value + b"\n")
            row += 1
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
        self._commit([decision.new], progress)

    def _packet(self, documents: Sequence[Document], last: int) -> Packet:
        """Fingerprint the documents of a batch of lines, of which ``last`` is the last."""
        prints = self._fingerprinter.fingerprint_batch([item.content for item in documents])
        words = self._fingerprinter.scheme.bits // WORD_BITS
        columns = document_columns(documents, prints, words)
        return Packet(
            self._chain, Sender(_SENDER, self._next_packet), self.progress.lines - 1, last, columns
        )

    def _duplicate(
        self, record: RawRecord, packet: Packet, row: int, verdict: DuplicateOf
    ) -> bytes:
        """Return the JSON of a duplicate."""
        output = duplicate_record(
            arrival_of(record, packet, row),
            verdict,
            self._fingerprinter.identity,
            self._fingerprinter.scheme.bits,
            include_body=self._include_body,
        )
        assert output.value is not None
        return output.value

    def _commit(self, entries: Sequence[NewEntries], progress: RunProgress) -> None:
        commit_run(self._store, entries, progress, self._next_packet)
        self.progress = progress

    def _read(self, line: Line) -> tuple[RawRecord, Document | Rejection]:
        source = SourcePosition(self._chain.topic, _PARTITION, line.number)
        record = RawRecord(None, line.content, _NO_TIME_MS)
        if line.content is None:
            limit = self._reader.max_record_bytes
            detail = f"the line has {line.size} bytes, max_record_bytes is {limit}: raise it"
            return record, Rejection(source, record, RejectionReason.TOO_LARGE, detail)
        item = self._reader.read(source, record)
        # A tombstone is a null value, which no line is.
        assert isinstance(item, Document | Rejection)
        return record, item


def begin(store: LocalStore, progress: RunProgress) -> None:
    """Commit the beginning of a run: nothing of it is done."""
    commit_run(store, [], progress, next_packet(store))


def commit_run(
    store: LocalStore, entries: Sequence[NewEntries], run: RunProgress, packets: int
) -> None:
    """Commit new entries, and how far a run has come; ``packets``: of all runs of the state."""
    progress = Progress(chain_of(run), run.lines, packets, NO_CONTROL)
    store.commit(entries, StoredProgress(progress, run=encode_run(run)))


def next_packet(store: LocalStore) -> int:
    """Return the number of the next packet, which stands where an offset in the log would."""
    stored = store.progress()
    return 0 if stored is None else stored.progress.position


def chain_of(progress: RunProgress) -> Chain:
    """Return what stands for the raw partition of a run."""
    return Chain(topic_of(progress), "", _PARTITION)


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
