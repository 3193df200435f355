"""Deduplicates files without a broker, with the same core and verdicts, in one shard.

A file is a topic of one partition; the number of a line, from 0, is its offset. For each batch of
lines, the outputs are written and flushed before index and progress are committed together. A
killed run resumes at its last commit, and truncates the outputs to the length that they had then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from simhash_core.errors import UsageError
from simhash_core.fingerprints.bands import NO_BANDS, Bands
from simhash_core.index.look_up import Nearness
from simhash_core.index.prints import Prints
from simhash_core.log.columns import verdict_of
from simhash_core.log.local_decider import LocalDecider, MemoryEntries
from simhash_core.log.records import NO_CONTROL, Chain, Packet, Progress, Sender, sequence_number
from simhash_core.log.shard_stream import NewEntries
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile
from simhash_core.verdicts import DuplicateOf, RejectionReason, verdict_name
from streams.documents.output_records import bytes_view, encode_duplicate
from streams.documents.raw_documents import DocumentReader
from streams.files.input_lines import Line
from streams.files.output_files import OutputFile
from streams.files.text_files import PARTITION, Refused, read_line
from streams.offline.dedup_files import (
    BLANK,
    DEAD_LETTER,
    KINDS,
    Batch,
    DedupInputs,
    Kind,
    OutputState,
    RunProgress,
    abandon,
    check_can_be_continued,
    check_new,
    check_same_command,
    close_outputs,
    decode_run,
    encode_run,
    new_run,
    open_outputs,
    output_paths,
    own_paths,
)
from streams.offline.fingerprint_pool import Prepared, jobs_for, prepared_batches, started_pool
from streams.settings.settings import Settings
from streams.store.rocksdb_store import block_cache
from streams.store.row_codec import StoredProgress, StoreIdentity
from streams.store.shard_directory import RocksDisk, open_shard
from streams.store.shard_store import ShardStore

# ---- The index: one shard, in memory or on disk.

_APPLICATION: Final = "local"  # no worker and no ``Deduplicator`` opens a state of this owner


class MemoryStore(MemoryEntries):
    """A store in memory; it begins without entries."""

    def __init__(self) -> None:
        super().__init__()
        self._progress: StoredProgress | None = None

    def prints(self, _bands: Bands = NO_BANDS) -> Iterator[tuple[NDArray[np.uint64], Prints]]:
        return iter(())

    def progress(self) -> StoredProgress | None:
        return self._progress

    def commit(
        self,
        entries: Sequence[NewEntries],
        progress: StoredProgress,
        removed: Sequence[int] = (),
        expired_before: int = 0,
    ) -> None:
        for new in entries:
            self.add(new)
        self.remove(removed)
        self.drop_before(expired_before)
        self._progress = progress

    def close(self) -> None:
        pass


LocalStore = MemoryStore | ShardStore


def open_local_index(
    settings: Settings, fingerprinter: Fingerprinter, state: Path | None, application: str
) -> AbstractContextManager[LocalStore]:
    """Open the index in the directory ``state``, created if missing; in memory if it is None.

    Raises ``IndexMismatchError`` for a state of another index or application, and
    ``StoreError`` for one that is in use, damaged, of another format, or unreachable.
    """
    if state is None:
        return closing(MemoryStore())
    owner = StoreIdentity(fingerprinter.identity, application, PARTITION)
    disk = RocksDisk(block_cache(settings.block_cache_bytes))
    return closing(open_shard(state, owner, fingerprinter.scheme.bits, disk))


UNREADABLE_LINE_SCHEMA: Final = "firstseen.unreadable-line/1"

_SENDER: Final = "dedup"

_HINTS: Final[Mapping[str, str]] = {
    RejectionReason.MISSING_TEXT: ": name the field of the text with --set fields.text=NAME",
    RejectionReason.WRONG_TYPE: ": name the field of the text with --set fields.text=NAME",
    RejectionReason.NOT_JSON: ": to read lines of plain text, use --set fields.format=text",
}

_encode = msgspec.json.Encoder().encode


class LocalDedup:
    """One run over some files; ``progress`` is that of the last commit."""

    def __init__(
        self,
        settings: Settings,
        fingerprinter: Fingerprinter,
        store: LocalStore,
        progress: RunProgress,
        outputs: Mapping[Kind, OutputFile],
        batches: Iterable[tuple[Batch, Prepared]],
    ) -> None:
        """Resume the run ``progress``, which is in the store; ``batches`` are the rest of it."""
        self.progress = progress
        self._fingerprinter = fingerprinter
        self._store = store
        self._outputs = outputs
        self._include_body = settings.include_body
        self._batches = batches
        stored = store.progress()
        assert stored is not None
        self._next_packet = stored.progress.position  # it serves as a log offset
        nearness = Nearness.of(fingerprinter.profile)
        prints = store.prints(nearness.scheme.sketch_bands)
        self._decider = LocalDecider(nearness, store, prints, stored.progress.clock)

    @property
    def documents(self) -> int:
        return len(self._store)

    def run(self) -> Iterator[RunProgress]:
        """Decide the batches; yield the progress after each commit.

        Finishes the outputs. Raises ``InputFileError``, ``OutputFileError``, ``WorkerLostError``,
        and ``UsageError`` if no line of the first batch is a document.
        """
        is_first = not self.progress.all_lines
        for batch, prepared in self._batches:
            if is_first:
                name = self.progress.inputs[batch.file]
                _check_readable(batch.lines, prepared.refused, name)
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
            if (refused := prepared.refused.get(number)) is not None:
                written["dead_letters"].append(unreadable_line(chain.topic, line, refused))
                counts[DEAD_LETTER + refused.reason] += 1
                continue
            assert line.content is not None
            verdict = verdict_of(packet.columns, row, decision.matches.get(row))
            counts[verdict_name(verdict)] += 1
            if isinstance(verdict, DuplicateOf):
                value = self._duplicate(line.content, packet, row, verdict)
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

    def _duplicate(self, content: bytes, packet: Packet, row: int, verdict: DuplicateOf) -> bytes:
        return encode_duplicate(
            packet.source(row),
            packet.columns.document_id(row),
            int(packet.columns.times_ms[row]),
            verdict,
            self._fingerprinter.identity,
            self._fingerprinter.scheme.bits,
            body=content if self._include_body else None,
        )

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
    """Store a new run; the packets and the clock of the last one go on."""
    stored = store.progress()
    position = 0 if stored is None else stored.progress.position
    clock = None if stored is None else stored.progress.clock
    at = Progress(chain_of(progress), progress.lines, position, NO_CONTROL, clock)
    store.commit([], StoredProgress(at, run=encode_run(progress)))


def chain_of(progress: RunProgress) -> Chain:
    """Return the chain of the file that a run is reading."""
    return Chain(progress.topic(progress.file), "", PARTITION)


def unreadable_line(topic: str, line: Line, refused: Refused) -> bytes:
    fields = {
        "schema": UNREADABLE_LINE_SCHEMA,
        "source": {"topic": topic, "partition": PARTITION, "offset": line.number},
        "line": line.number + 1,
        "reason": refused.reason,
        "detail": refused.detail.encode(errors="replace").decode(),
        "value": bytes_view(line.content),
    }
    return _encode(fields) + b"\n"


def _check_beginning(inputs: DedupInputs, settings: Settings) -> None:
    """Raise ``UsageError`` as ``run`` would, before anything is written."""
    if (lines := inputs.first_lines()) is None:
        return
    reader = DocumentReader(settings.fields, settings.max_record_bytes)
    name, refused = inputs.names[0], {}
    for row, line in enumerate(lines):
        if not line.is_blank:
            item = read_line(reader, name, line)
            if not isinstance(item, Refused):
                return
            refused[row] = item
    _check_readable(lines, refused, name)


def _check_readable(lines: Sequence[Line], refused: Mapping[int, Refused], name: str) -> None:
    read = sum(not line.is_blank for line in lines)
    if not read or len(refused) < read:
        return
    number, (reason, detail) = next(iter(refused.items()))
    first = f"line {lines[number].number + 1}: {reason}, {detail}"
    which = "the only line" if read == 1 else f"none of the first {read:,} lines"
    hint = _HINTS.get(reason, "")
    raise UsageError(f"{which} of {name} is {'no' if read == 1 else 'a'} document ({first}){hint}")


class DedupRequest(NamedTuple):
    """A user's request; an output that is None gets its default path."""

    files: Sequence[str]
    outputs: Mapping[Kind, str | None]
    state: Path | None = None
    abandon: bool = False
    force: bool = False
    jobs: int | None = 1  # fingerprint processes; None: one per core, if the input is large enough


class Launched(NamedTuple):
    """A prepared run, for ``dedup.run()``."""

    dedup: LocalDedup
    inputs: DedupInputs
    identity: str
    resumed_after: int | None  # lines done before an interruption; None: a new run
    documents_before: int  # in those lines


@contextmanager
def launched(
    settings: Settings,
    request: DedupRequest,
    fingerprinter_of: Callable[[Profile], Fingerprinter] = Fingerprinter,
) -> Iterator[Launched]:
    """Open input, index and outputs, and resume an interrupted run; close everything at the end.

    ``fingerprinter_of`` may return a caching fingerprinter. Raises ``UsageError``,
    ``IndexMismatchError``, ``InterruptedRunError``, ``OutputFileError``, and what the store raises.
    """
    paths = output_paths(request.files, request.outputs)
    if request.state is None:
        if request.abandon:
            raise UsageError(
                "--abandon discards an interrupted run in a state: name the state with --state"
            )
        if not request.force:
            check_new(paths)
    else:
        check_can_be_continued(paths)
    with ExitStack() as opened:
        left_out = own_paths(paths, request.state)
        inputs = opened.enter_context(closing(DedupInputs(request.files, settings, left_out)))
        jobs = jobs_for(request.jobs, inputs.total_bytes)
        pool = opened.enter_context(started_pool(settings, jobs))
        fingerprinter = fingerprinter_of(settings.index_profile())
        store = opened.enter_context(
            open_local_index(settings, fingerprinter, request.state, _APPLICATION)
        )
        stored = store.progress()
        previous = None if stored is None else decode_run(stored.run)
        run = _run_to_do(previous, inputs, paths, request)
        resumed = run is previous
        if not resumed:
            _check_beginning(inputs, settings)
            begin(store, run)
        outputs = open_outputs(run, with_state=request.state is not None)
        opened.callback(close_outputs, outputs.values())
        batches = prepared_batches(settings, fingerprinter, pool, jobs, inputs.batches(run))
        dedup = LocalDedup(settings, fingerprinter, store, run, outputs, batches)
        done = run.all_lines if resumed else None
        yield Launched(dedup, inputs, fingerprinter.identity, done, run.documents)


def _run_to_do(
    previous: RunProgress | None,
    inputs: DedupInputs,
    paths: Mapping[Kind, Path],
    request: DedupRequest,
) -> RunProgress:
    if request.state is None:
        return new_run(0, inputs.names, paths)
    if previous is not None and not previous.finished and not request.abandon:
        check_same_command(previous, inputs.names, paths)
        inputs.skip_done(previous)
        return previous
    if not request.force:
        check_new(paths, previous)
    if previous is not None and not previous.finished:
        abandon(previous)
    return new_run(previous.run + 1 if previous else 1, inputs.names, paths)
