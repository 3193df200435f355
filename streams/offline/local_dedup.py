"""Deduplication of files with no broker: the same core, the same verdicts, one shard.

A file is a topic of one partition, and the number of a line, from 0, is its offset. Each batch of
lines is decided, its outputs are written and flushed, and only then is it committed to the index,
together with how far the run has come: a run that is killed continues from its last commit, with
the outputs cut to what they were then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from simhash_core.documents import RawRecord
from simhash_core.errors import UsageError
from simhash_core.index.look_up import Nearness
from simhash_core.log.columns import verdict_of
from simhash_core.log.local_decider import LocalDecider
from simhash_core.log.outputs import NewEntries
from simhash_core.log.packets import Chain, Packet, Sender
from simhash_core.log.records import NO_CONTROL, Progress
from simhash_core.log.sequence import sequence_number
from simhash_core.rejections import RejectionReason
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.verdicts import DuplicateOf, verdict_name
from streams.files.input_lines import Line
from streams.files.output_files import OutputFile
from streams.offline.dedup_inputs import Batch, DedupInputs
from streams.offline.dedup_progress import (
    BLANK,
    DEAD_LETTER,
    KINDS,
    Kind,
    OutputState,
    RunProgress,
    encode_run,
)
from streams.offline.fingerprint_pool import (
    NO_TIME_MS,
    PARTITION,
    Prepared,
    PreparedBatches,
    Refused,
)
from streams.offline.local_index import LocalStore
from streams.output.output_records import duplicate_record
from streams.output.record_views import bytes_view
from streams.output.verdict_headers import Arrivals
from streams.settings.settings import Settings
from streams.store.state_codec import StoredProgress

UNREADABLE_LINE_SCHEMA: Final = "firstseen.unreadable-line/1"

_SENDER: Final = "dedup"

_HINTS: Final[Mapping[str, str]] = {
    RejectionReason.MISSING_TEXT: ": name the field of the text with --set fields.text=NAME",
    RejectionReason.WRONG_TYPE: ": name the field of the text with --set fields.text=NAME",
    RejectionReason.NOT_JSON: ": lines of plain text are read with --set fields.format=text",
}

_encode = msgspec.json.Encoder().encode


class LocalDedup:
    """One run over some files. ``progress`` is how far it has come: what was committed last."""

    def __init__(
        self,
        settings: Settings,
        fingerprinter: Fingerprinter,
        store: LocalStore,
        progress: RunProgress,
        outputs: Mapping[Kind, OutputFile],
        prepare: PreparedBatches,
    ) -> None:
        """Resume the run ``progress``, which was committed last.

        ``prepare`` reads and fingerprints batches, ahead of those that are decided.
        """
        self.progress = progress
        self._fingerprinter = fingerprinter
        self._store = store
        self._outputs = outputs
        self._include_body = settings.include_body
        self._arrivals = Arrivals()
        self._prepare = prepare
        self._next_packet = next_packet(store)
        nearness = Nearness.of(fingerprinter.profile)
        stored = store.progress()
        self._decider = LocalDecider(
            nearness,
            store,
            store.prints(nearness.scheme.bands),
            None if stored is None else stored.progress.clock,
        )

    @property
    def documents(self) -> int:
        """The number of unique documents in the index."""
        return len(self._store)

    def run(self, inputs: DedupInputs) -> Iterator[RunProgress]:
        """Decide what is left of ``inputs``; yield the progress after each commit.

        At the end the outputs are finished. Raises ``InputFileError``, ``OutputFileError``,
        ``WorkerLostError``, and ``UsageError`` where nothing at the beginning is a document.
        """
        is_first = not self.progress.all_lines
        for batch, prepared in self._prepare(inputs.batches(self.progress.file)):
            if is_first:
                _check_readable(batch, prepared, self.progress.inputs[batch.file])
                is_first = False
            self._decide(batch, prepared)
            yield self.progress
        for output in self._outputs.values():
            output.finish()
        self._commit([], replace(self.progress, finished=True))
        yield self.progress

    def _decide(self, batch: Batch, prepared: Prepared) -> None:
        before = self.progress
        if batch.file != before.file:
            before = replace(before, file=batch.file, lines=0, lines_before=before.all_lines)
        chain = chain_of(before)
        counts = Counter(before.counts)
        sender = Sender(_SENDER, self._next_packet)
        last = batch.lines[-1].number
        packet = Packet(chain, sender, before.lines - 1, last, prepared.columns)
        decision = self._decider.decide(self._next_packet, packet)
        self._next_packet += 1
        written: dict[Kind, list[bytes]] = {kind: [] for kind in KINDS}
        row = 0
        for number, line in enumerate(batch.lines):
            if line.is_blank:
                counts[BLANK] += 1
                continue
            refused = prepared.refused.get(number)
            if refused is not None:
                written["dead_letters"].append(unreadable_line(chain.topic, line, refused))
                counts[DEAD_LETTER + refused.reason] += 1
                continue
            assert line.content is not None
            verdict = verdict_of(packet.columns, row, decision.matches.get(row))
            counts[verdict_name(verdict)] += 1
            if isinstance(verdict, DuplicateOf):
                record = RawRecord(None, line.content, NO_TIME_MS)
                value = self._duplicate(record, packet, row, verdict)
                written["duplicates"].append(value + b"\n")
            else:
                written["unique"].append(line.content + b"\n")
            row += 1
        for kind, output_lines in written.items():
            self._outputs[kind].write(b"".join(output_lines))
        outputs = {
            kind: OutputState(state.path, self._outputs[kind].sync())
            for kind, state in before.outputs.items()
        }
        progress = replace(
            before,
            lines=batch.lines_read,
            digest=batch.digest,
            counts=dict(counts),
            outputs=outputs,
        )
        self._commit([decision.new], progress, decision.removed)

    def _duplicate(
        self, record: RawRecord, packet: Packet, row: int, verdict: DuplicateOf
    ) -> bytes:
        """Return the JSON of a duplicate."""
        output = duplicate_record(
            self._arrivals.of(record, packet.source(row), packet, row),
            verdict,
            self._fingerprinter.identity,
            self._fingerprinter.scheme.bits,
            include_body=self._include_body,
        )
        assert output.value is not None
        return output.value

    def _commit(
        self, entries: Sequence[NewEntries], run: RunProgress, removed: Sequence[int] = ()
    ) -> None:
        clock = self._decider.clock_before(self._next_packet)
        progress = Progress(chain_of(run), run.lines, self._next_packet, NO_CONTROL, clock)
        expired_before = 0 if clock is None else sequence_number(clock.horizon, 0)
        self._store.commit(
            entries, StoredProgress(progress, run=encode_run(run)), removed, expired_before
        )
        self.progress = run


def begin(store: LocalStore, progress: RunProgress) -> None:
    """Commit the beginning of a run: nothing of it is done."""
    stored = store.progress()
    clock = None if stored is None else stored.progress.clock
    at = Progress(chain_of(progress), progress.lines, next_packet(store), NO_CONTROL, clock)
    store.commit([], StoredProgress(at, run=encode_run(progress)))


def next_packet(store: LocalStore) -> int:
    """Return the number of the next packet, which stands where an offset in the log would."""
    stored = store.progress()
    return 0 if stored is None else stored.progress.position


def chain_of(progress: RunProgress) -> Chain:
    """Return what stands for the raw partition of the file that a run is reading."""
    return Chain(topic_of(progress, progress.file), "", PARTITION)


def topic_of(progress: RunProgress, file: int) -> str:
    """Return what stands for a topic in the source positions of a file of a run.

    A file that is run again is a new arrival of each document, so the run is in the name.
    """
    name = progress.inputs[file]
    return f"{name}#{progress.run}" if progress.run else name


def unreadable_line(topic: str, line: Line, refused: Refused) -> bytes:
    """Return the line of JSON that is written for a line that cannot be read."""
    return (
        _encode(
            {
                "schema": UNREADABLE_LINE_SCHEMA,
                "source": {"topic": topic, "partition": PARTITION, "offset": line.number},
                "line": line.number + 1,
                "reason": refused.reason,
                "detail": refused.detail.encode(errors="replace").decode(),
                "value": bytes_view(line.content),
            }
        )
        + b"\n"
    )


def _check_readable(batch: Batch, prepared: Prepared, name: str) -> None:
    """Raise ``UsageError`` where no line of the first batch is a document: nothing is written."""
    read = sum(not line.is_blank for line in batch.lines)
    if not read or len(prepared.refused) < read:
        return
    number, (reason, detail) = next(iter(prepared.refused.items()))
    first = f"line {batch.lines[number].number + 1}: {reason}, {detail}"
    lines = "the only line" if read == 1 else f"none of the first {read:,} lines"
    hint = _HINTS.get(reason, "")
    raise UsageError(f"{lines} of {name} is {'no' if read == 1 else 'a'} document ({first}){hint}")
