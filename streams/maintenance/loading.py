"""Loads documents into an index in one transaction, before any later document.

An entry in a shard's changelog needs a sequence number, which is an offset in the log. So for every
few thousand documents, the load appends a control record without decisions to the log, and the
documents get its offset. The record names all shards, so a leader waits for the report of each.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import IO, Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import Document, RawRecord, TopicPartition
from simhash_core.errors import FirstseenError, UsageError
from simhash_core.fingerprints.fingerprint import WORD_BITS
from simhash_core.log.columns import document_columns
from simhash_core.log.records import (
    BUNDLE_DOCUMENTS_LIMIT,
    NO_CONTROL,
    NO_OFFSET,
    Chain,
    Horizons,
    LogClock,
    Progress,
    sequence_number,
)
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import REPLACE
from simhash_core.text.verification import WITH_BANDS
from simhash_core.text.verification.shingles import SKETCH_BYTES
from simhash_core.verdicts import Rejection
from streams.documents.output_records import VERDICT_HEADER, source_position
from streams.documents.raw_documents import Tombstone
from streams.documents.timestamps import TIME_MS_MIN
from streams.errors import StateMismatchError
from streams.files.input_lines import InputLines, Line
from streams.kafka.clients import AdminClient
from streams.kafka.topic_follower import ReadRecord, TopicFollower
from streams.maintenance import Report
from streams.maintenance.exporting import EntryLines, ExportHeader, header_in
from streams.maintenance.index_topics import (
    ExclusiveMember,
    LogState,
    ShardHead,
    WorkersRunError,
    committed_by,
    index_topics,
    raw_watermarks,
    read_log,
    refuse_other_index,
    refuse_running_workers,
    shard_heads,
    window_of,
)
from streams.maintenance.index_transaction import IndexTransaction, LogReservations
from streams.offline.dedup_files import Batch
from streams.offline.fingerprint_pool import jobs_for, prepared_batches, started_pool
from streams.registry.schema_cache import command_reader
from streams.settings.settings import Settings
from streams.store.changelog_codec import LoggedProgress, encode_block, encode_progress
from streams.store.columns_codec import EncodedColumns, decode_columns, encode_columns
from streams.store.lineage import UNKNOWN
from streams.store.row_codec import EntryBlock
from streams.topics.admin import TopicsError, partitions_of
from streams.worker.index_on_kafka import (
    LOAD_COMMAND,
    Claim,
    Difference,
    differences,
    reading_rules,
)

# ---- The spool: a temporary file that holds everything until the whole input has been read.

_LENGTH_BYTES: Final = 4


class LoadedRun(NamedTuple):
    topic: str
    partition: int
    columns: DocumentColumns


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, int, EncodedColumns]).decode


class LoadSpool:
    """Keeps runs in a file: written first, then read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.documents = 0
        self.latest_ms = TIME_MS_MIN  # the latest time of a document
        self._file = file

    def write(self, run: LoadedRun) -> None:
        value = _encode((run.topic, run.partition, encode_columns(run.columns)))
        self._file.write(len(value).to_bytes(_LENGTH_BYTES, "big"))
        self._file.write(value)
        self.documents += len(run.columns)
        self.latest_ms = max(self.latest_ms, int(run.columns.times_ms.max()))

    def read(self) -> Iterator[LoadedRun]:
        self._file.seek(0)
        while head := self._file.read(_LENGTH_BYTES):
            topic, partition, columns = _decode(self._file.read(int.from_bytes(head, "big")))
            yield LoadedRun(topic, partition, decode_columns([columns]))


# ---- Documents of any sources as runs. A run has one source; this is the form of the index.

BATCH_DOCUMENTS: Final = 8192  # documents that are read and turned into runs together
_RUN_BYTES: Final = 512 * 1024  # a run is one record of the changelog: well below the topic's limit


def loaded_runs(sources: Sequence[TopicPartition], columns: DocumentColumns) -> Iterator[LoadedRun]:
    """Yield documents in runs; ``sources`` has the source of each document."""
    for (topic, partition), rows in _rows_by_source(sources).items():
        falls = np.flatnonzero(np.diff(columns.offsets[rows]) <= 0) + 1
        for part in np.split(rows, falls):
            for each in _small(columns, part):
                is_all = len(each) == len(columns)
                yield LoadedRun(topic, partition, columns if is_all else columns.take(each))


def _rows_by_source(sources: Sequence[TopicPartition]) -> dict[TopicPartition, NDArray[np.intp]]:
    if sources and sources.count(sources[0]) == len(sources):
        return {sources[0]: np.arange(len(sources), dtype=np.intp)}
    rows: dict[TopicPartition, list[int]] = {}
    for row, source in enumerate(sources):
        rows.setdefault(source, []).append(row)
    return {source: np.array(own, dtype=np.intp) for source, own in rows.items()}


def _small(columns: DocumentColumns, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Split rows into runs of about ``_RUN_BYTES`` bytes."""
    sizes = (
        np.diff(columns.ids.bounds.astype(np.int64))[rows]
        + np.diff(columns.sketches.bounds.astype(np.int64))[rows]
        + columns.fingerprints.shape[1] * 8
        + 32
    )
    numbers = np.cumsum(sizes) // _RUN_BYTES
    ends = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(rows)]
    return [rows[low:high] for low, high in pairwise(ends) if high > low]


# ---- Sources: files of texts or fingerprints, exports, and topics.

Form = Literal["auto", "texts", "fingerprints"]
_LONGEST_LINE_BYTES: Final = 64 << 20
_TEXTS_TOGETHER: Final = 1024
_COMPARED_LATER: Final = frozenset(
    {"index.blocks, index.block_bits, index.cuts", "index.distance", "index.mean_at"}
)
"""Settings that do not affect fingerprints and sketches."""


class OtherExportError(StateMismatchError):
    """Fingerprints or sketches of an export cannot be compared with those of the index."""

    def __init__(self, file: str, differences: Sequence[Difference]) -> None:
        lines = "\n  ".join(map(str, differences))
        super().__init__(
            f"the export {file} was made with other settings, so its fingerprints or sketches "
            f"cannot be compared with those of this index:\n  {lines}\n"
            "Use the settings of the export, or load the texts instead (a FILE of texts, or "
            "--topic). Only blocks and thresholds may differ."
        )


class FileSource:
    def __init__(
        self,
        settings: Settings,
        fingerprinter: Fingerprinter,
        file: str,
        form: Form,
        jobs: int | None = None,
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``form`` auto: the first line decides. ``jobs`` None: one process for each core.

        ``announce`` is called with what the user should know before the load.
        """
        self.refused: Counter[str] = Counter()
        self._settings = settings
        self._fingerprinter = fingerprinter
        self._file = file
        self._form = form
        self._jobs = jobs
        self._announce = announce

    def runs(self, report: Report) -> Iterator[LoadedRun]:
        """Raises ``UsageError``, ``InputFileError``, and ``OtherExportError``."""
        with InputLines(self._file, _LONGEST_LINE_BYTES) as opened:
            lines = (line for line in opened if not line.is_blank)
            first = next(lines, None)
            if first is None:
                return
            content = first.content or b""
            header = header_in(content)
            if header is not None:
                self._check(header)
                loaded = self._of_prints(opened.lines_read, b"", opened)
            elif self._has_prints(content):
                loaded = self._of_prints(first.number, content + b"\n", opened)
            else:
                loaded = self._of_texts(chain([first], lines), opened)
            for run in loaded:
                report(f"reading {opened.name}", opened.bytes_read, opened.total_bytes or 0)
                yield run

    def _has_prints(self, line: bytes) -> bool:
        if self._form != "auto":
            return self._form == "fingerprints"
        text = f'"{self._settings.fields.text}"'.encode()
        return b'"fingerprint"' in line and text not in line

    def _check(self, header: ExportHeader) -> None:
        theirs = Claim(header.index, "", 0, 0)
        differing = differences(theirs, self._fingerprinter.identity, "")
        if not all(map(_is_compared_later, differing)):
            raise OtherExportError(
                self._file, [each for each in differing if not _is_compared_later(each)]
            )
        if differing:
            self._announce(
                f"the export {self._file} was made with other blocks or thresholds; those of this "
                f"index now apply to its entries ({'; '.join(map(str, differing))})"
            )

    def _of_prints(self, first: int, start: bytes, opened: InputLines) -> Iterator[LoadedRun]:
        """Yield runs of ``start``, whose first line has this number, and of all that follows."""
        scheme = self._fingerprinter.scheme
        has_bands = self._settings.index_profile().verify == WITH_BANDS
        reader = EntryLines(
            scheme.bits,
            needs_sketches=self._fingerprinter.verifier is not None,
            sketch_bytes=SKETCH_BYTES + scheme.sketch_bands.tail_bytes if has_bands else None,
        )
        content = start + opened.block()
        while content:
            yield from loaded_runs(*reader.columns(first, content, opened.name))
            first = opened.lines_read
            content = opened.block()

    def _of_texts(self, lines: Iterator[Line], opened: InputLines) -> Iterator[LoadedRun]:
        jobs = jobs_for(self._jobs, opened.total_bytes)
        batches = _batches(opened.name, lines)
        with started_pool(self._settings, jobs) as pool:
            for _, prepared in prepared_batches(
                self._settings, self._fingerprinter, pool, jobs, batches
            ):
                self.refused.update(each.reason for each in prepared.refused.values())
                sources = [TopicPartition(opened.name, 0)] * len(prepared.columns)
                yield from loaded_runs(sources, prepared.columns)


def _is_compared_later(difference: Difference) -> bool:
    """Return whether the fingerprints and sketches of both indexes can be compared."""
    if difference.setting in _COMPARED_LATER:
        return True
    theirs, ours = (each.rpartition("@") for each in (difference.theirs, difference.ours))
    is_threshold = difference.setting == "index.verify, index.verify_at"
    return is_threshold and theirs[0] == ours[0] != ""


class TopicSource:
    """All documents that are now on a topic, such as ``unique``, and were not removed on it.

    On a topic of ``mode=tag``, duplicates are not among them: nothing may name one as its original.
    A tombstone removes the documents with its id that are before it in its partition, as compaction
    by key does; with ``index.same_id=replace`` so does a later document.
    """

    def __init__(
        self, settings: Settings, fingerprinter: Fingerprinter, admin: AdminClient, topic: str
    ) -> None:
        self.refused: Counter[str] = Counter()
        self._fingerprinter = fingerprinter
        self._reader = command_reader(settings, settings.max_record_bytes)
        self._replaces = settings.index_profile().same_id == REPLACE
        self._settings = settings
        self._partitions = partitions_of(admin, [topic])
        self._topic = topic
        if topic not in self._partitions:
            raise TopicsError(f"topic {topic} is missing, or this user may not see it")

    def runs(self, report: Report) -> Iterator[LoadedRun]:
        """Yield all runs; raise ``BrokerUnavailableError`` if the broker stops answering."""
        with self._follower() as follower:
            ends = follower.ends()
            removed = self._removals(follower.batches(ends), sum(ends.values()), report)
        with self._follower() as follower:
            total, done = sum(ends.values()), 0
            documents: list[Document] = []
            for records in follower.batches(ends):
                read = (self._document(each, removed) for each in records)
                documents += [each for each in read if each is not None]
                if len(documents) >= BATCH_DOCUMENTS:
                    yield from self._runs(documents)
                    documents = []
                done += len(records)
                report(f"reading {self._topic}", done, total)
            yield from self._runs(documents)

    def _follower(self) -> TopicFollower:
        return TopicFollower(self._settings, self._partitions, from_beginning=True)

    def _removals(
        self, batches: Iterator[list[ReadRecord]], total: int, report: Report
    ) -> dict[tuple[TopicPartition, str], int]:
        """Return the offset before which an id is removed, by partition and id."""
        removed: dict[tuple[TopicPartition, str], int] = {}
        done = 0
        for records in batches:
            for each in records:
                if self._replaces or each.value is None:
                    item = self._read(each)
                    if not isinstance(item, Rejection):
                        name = item.id if isinstance(item, Document) else item.document_id
                        removed[each.partition, name] = each.position.offset
            done += len(records)
            report(f"looking for deletes on {self._topic}", done, total)
        return removed

    def _document(
        self, read: ReadRecord, removed: Mapping[tuple[TopicPartition, str], int]
    ) -> Document | None:
        """Return a document; None, counted, if it is refused, a duplicate, or removed."""
        item = self._read(read)
        if not isinstance(item, Document):
            self.refused[item.reason if isinstance(item, Rejection) else "tombstone"] += 1
            return None
        if (VERDICT_HEADER, b"duplicate") in read.headers:
            self.refused["duplicate"] += 1
            return None
        if read.position.offset < removed.get((read.partition, item.id), 0):
            self.refused["removed"] += 1
            return None
        return item

    def _read(self, read: ReadRecord) -> Document | Rejection | Tombstone:
        """Return what a record is, with its first id and source."""
        record = RawRecord(read.key, read.value, read.timestamp_ms, tuple(read.headers))
        headers = {name: value for name, value in read.headers if value is not None}
        source = read.position
        if "firstseen-source" in headers:
            with suppress(UsageError, UnicodeDecodeError):
                source = source_position(headers["firstseen-source"].decode())
        return self._reader.read(source, record)

    def _runs(self, documents: Sequence[Document]) -> Iterator[LoadedRun]:
        if not documents:
            return
        prints = self._fingerprinter.fingerprint_batch([each.content for each in documents])
        words = self._fingerprinter.scheme.bits // WORD_BITS
        columns = document_columns(documents, prints, words)
        sources = [TopicPartition(each.source.topic, each.source.partition) for each in documents]
        yield from loaded_runs(sources, columns)


def _refuse_in_flight(shards: Sequence[ShardHead], log: LogState) -> None:
    """Raise ``UsageError`` if a worker must read the log from before its end."""
    known = {each.partition: each.progress for each in shards}

    def lacks_outputs(chain: Chain, last: int) -> bool:
        was = known.get(chain.partition)
        if was is None:
            return last != NO_OFFSET
        return was.progress.chain == chain and last >= was.progress.next

    if log.undecided or any(lacks_outputs(*each) for each in log.heads):
        raise UsageError(
            "the log has documents without an output, and the documents to load are later than the "
            "index, so that its window moves: start the workers, wait until they have no lag, stop "
            "them, and repeat the command"
        )


LoadSource = FileSource | TopicSource
"""``refused`` counts unreadable documents by reason; ``runs`` yields the others."""


def _batches(topic: str, lines: Iterator[Line]) -> Iterator[Batch]:
    while batch := list(islice(lines, _TEXTS_TOGETHER)):
        yield Batch(topic, batch)


EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_KEEP_DOCUMENTS: Final = 50_000


class IndexNotEmptyError(FirstseenError):
    """The index has documents, and ``adds`` was not given."""


@dataclass(slots=True)
class LoadAccount:
    """The figures of a load."""

    documents: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    shards: dict[int, int] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)  # where each shard starts to read
    log_offset: int = NO_CONTROL
    seconds: float = 0.0


class Loading:
    def __init__(
        self,
        settings: Settings,
        admin: AdminClient,
        identity: str,
        *,
        adds: bool,
        begin: str | None,
    ) -> None:
        """Inspect the index and refuse an impossible load. Blocking.

        With ``adds`` the index may already have documents. ``begin`` says where workers start to
        read raw records: ``EARLIEST``, ``LATEST``, or the application from whose offsets they
        continue; None if the index has progress, or the raw topic is empty.

        Raises ``IndexNotEmptyError``, ``WorkersRunError``, ``UsageError`` and others.
        """
        self._settings = settings
        self._identity = identity
        self._topics = index_topics(admin, settings, changes=True)
        refuse_other_index(self._topics.shards, identity, settings)
        if not (adds or self._topics.is_empty):
            raise IndexNotEmptyError(
                f"the index of application {settings.application_id!r} is not empty: --add adds "
                "to it, 'firstseen index drop --everything' empties it, and --application-id "
                "starts another"
            )
        self._admin = admin
        self._continued: str | None = None
        self._begins = self._begin_offsets(begin)

    def run(self, source: LoadSource, report: Report) -> LoadAccount:
        """Load all of a source, or nothing. Blocking.

        Raises what the source raises, ``WorkersRunError`` if a worker of the index, or of the
        application that it continues, was started in between, and ``IndexChangeError``.
        """
        began = time.monotonic()
        account = LoadAccount()
        with tempfile.TemporaryFile(prefix="firstseen-load-") as file:
            spool = LoadSpool(file)
            for run in source.runs(report):
                spool.write(run)
            account.refused = source.refused
            if not spool.documents:
                raise UsageError("nothing to load: no document could be read")
            self._refuse_continued()
            partitions = self._topics.raw.partitions
            report("joining the group", 0, 0)
            with ExclusiveMember(self._settings, partitions, LOAD_COMMAND) as member:
                committed = member.committed()  # from here on no worker has an open transaction
                shards = shard_heads(self._settings, range(partitions))
                if self._topics.is_empty and not all(each.is_empty for each in shards):
                    raise IndexNotEmptyError("a worker of this index has started since")
                log = read_log(self._settings, self._identity, shards)
                heads = self._heads(shards, log)
                clock = log.replica.clock_before(log.replica.position)
                moves = not self._topics.is_empty and self._moves(clock, spool.latest_ms)
                if moves:
                    _refuse_in_flight(shards, log)
                with (
                    LogReservations(
                        self._settings,
                        self._identity,
                        log.replica,
                        heads,
                        begins=self._topics.is_empty or moves,
                    ) as reservations,
                    IndexTransaction(self._settings, LOAD_COMMAND) as transaction,
                ):
                    clock = self._send(
                        spool, clock, reservations, transaction, member, account, report
                    )
                    if self._topics.is_empty:
                        self._begin(account.log_offset, clock, transaction)
                        account.begins = self._begins
                    elif moves:
                        transaction.continue_behind(account.log_offset, clock, shards)
                    offsets = self._offsets(shards, committed)
                    report("committing", spool.documents, spool.documents)
                    transaction.commit(offsets, member.metadata())
        account.seconds = round(time.monotonic() - began, 3)
        return account

    def _send(
        self,
        spool: LoadSpool,
        clock: LogClock | None,
        reservations: LogReservations,
        transaction: IndexTransaction,
        member: ExclusiveMember,
        account: LoadAccount,
        report: Report,
    ) -> LogClock | None:
        """Send each run to the shard with the fewest entries; return ``clock`` after them.

        A shard gets at most one record for a log offset, as with packets.
        """
        counts = dict.fromkeys(range(self._topics.raw.partitions), 0)
        horizons = Horizons(window_of(self._settings), clock)
        now_ms = int(time.time() * 1000)
        free: set[int] = set()
        limit = BUNDLE_DOCUMENTS_LIMIT
        reported = 0
        for run in spool.read():
            count = len(run.columns)
            if not free or limit + count > BUNDLE_DOCUMENTS_LIMIT:
                account.log_offset = reservations.take()
                free, limit = set(counts), 0
            horizons.bundle(account.log_offset, run.columns, now_ms)
            first = sequence_number(account.log_offset, limit)
            sequences = np.arange(first, first + count, dtype=np.uint64)
            limit += count
            block = EntryBlock(Chain(run.topic, "", run.partition), sequences, run.columns)
            partition = min(free, key=lambda each: (counts[each], each))
            free.remove(partition)
            transaction.change(partition, encode_block(block))
            counts[partition] += count
            account.documents += count
            if account.documents - reported >= _KEEP_DOCUMENTS:
                reported = account.documents
                member.keep()
                report("loading", reported, spool.documents)
        account.shards = counts
        return horizons.before(account.log_offset + 1)

    def _moves(self, clock: LogClock | None, latest_ms: int) -> bool:
        """Return whether a document of that time moves the watermark into another slice.

        Then workers must begin behind the loaded documents, with that watermark: otherwise these
        would expire with what was in the index before.
        """
        window = window_of(self._settings)
        if window is None:
            return False
        number = min(latest_ms, int(time.time() * 1000)) // window.slice_ms
        return clock is None or clock.slices[-1][0] < number

    def _heads(self, shards: list[ShardHead], log: LogState) -> list[tuple[Chain, int]]:
        """Return the heads of all chains: a leader waits only for shards that the log names."""
        known = {chain.partition for chain, _ in log.heads}
        raw = self._topics.raw
        missing = [each.partition for each in shards if each.partition not in known]
        return log.heads + [(Chain(raw.name, raw.identifier, each), NO_OFFSET) for each in missing]

    def _begin(self, control: int, clock: LogClock | None, transaction: IndexTransaction) -> None:
        raw, reading = self._topics.raw, reading_rules(self._settings)
        for partition, first in self._begins.items():
            chain = Chain(raw.name, raw.identifier, partition)
            progress = Progress(chain, first, control + 1, control, clock)
            logged = LoggedProgress(progress, self._identity, reading, lineage=UNKNOWN.next(""))
            transaction.change(partition, encode_progress(logged))

    def _offsets(self, shards: list[ShardHead], committed: Mapping[int, int]) -> dict[int, int]:
        """Return the new group offsets: as before, or where the shards begin."""
        had = {
            each.partition: 0 if each.progress is None else each.progress.progress.next
            for each in shards
        }
        return {**had, **{each: committed[each] for each in had.keys() & committed}, **self._begins}

    def _begin_offsets(self, begin: str | None) -> dict[int, int]:
        """Return the raw offsets to begin at; empty for an index that already has progress."""
        if not self._topics.is_empty:
            if begin is not None:
                raise UsageError(
                    "the index already has committed offsets, and its workers continue there"
                )
            return {}
        raw = self._topics.raw
        marks = raw_watermarks(self._settings, raw)
        if begin is None and any(each.end > each.start for each in marks.values()):
            raise UsageError(
                f"{raw.name} has records: choose whether workers read them (--begin earliest), "
                "skip them (--begin latest), or continue from the offsets of another application "
                "(--begin ID)"
            )
        if begin is None or begin == EARLIEST:
            return dict.fromkeys(range(raw.partitions), 0)
        if begin == LATEST:
            return {partition: marks[partition].readable_end for partition in range(raw.partitions)}
        self._continued = begin
        return self._offsets_of(begin)

    def _offsets_of(self, application: str) -> dict[int, int]:
        """Return the raw offsets of another application, whose workers must not run."""
        raw = self._topics.raw
        # A document that its workers output after this would be loaded and read again.
        refuse_running_workers(self._admin, self._settings, application)
        committed = committed_by(self._settings, application, raw)
        if not committed:
            raise UsageError(
                f"the application {application!r} has no committed offsets in {raw.name}"
            )
        return {partition: committed.get(partition, 0) for partition in range(raw.partitions)}

    def _refuse_continued(self) -> None:
        """Raise ``WorkersRunError`` if the continued application has read more since."""
        if self._continued is None or self._offsets_of(self._continued) == self._begins:
            return
        raise WorkersRunError(
            f"workers of {self._continued} have run since, and documents that they wrote may be "
            "among the loaded ones. Nothing was changed. Repeat the command, and do not start them "
            "meanwhile"
        )
