"""What can be loaded: files of texts or of fingerprints, exports, and topics of documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Final, Literal, Protocol

from confluent_kafka.admin import AdminClient

from simhash_core.documents import Document, RawRecord, SourcePosition, TopicPartition
from simhash_core.errors import IndexMismatchError, UsageError
from simhash_core.fingerprints.fingerprint import WORD_BITS
from simhash_core.log.columns import document_columns
from simhash_core.rejections import Rejection
from simhash_core.text.fingerprinter import Fingerprinter
from streams.care.entry_lines import EntryLines, ExportHeader, header_in
from streams.care.load_spool import LoadedRun
from streams.care.loaded_batches import BATCH_DOCUMENTS, loaded_runs
from streams.files.input_lines import InputLines, Line
from streams.kafka.topic_follower import ReadRecord, TopicFollower
from streams.offline.dedup_inputs import Batch
from streams.offline.fingerprint_pool import jobs_for, prepared_by, started_pool
from streams.ordering.index_identity import Claim, differences
from streams.output.received_outputs import source_position
from streams.registry.schema_fetches import command_reader
from streams.settings.settings import Settings
from streams.topics.admin import TopicsError, partitions_of

Form = Literal["auto", "texts", "fingerprints"]
Report = Callable[[str, int, int], None]
"""Told a step in words, how much is done, and how much there is (0: not known)."""

_LONGEST_LINE_BYTES: Final = 64 << 20
_TEXTS_TOGETHER: Final = 1024
_COMPARED_LATER: Final = frozenset({"index.blocks, index.block_bits, index.cuts", "index.distance"})
"""Settings on which neither fingerprints nor sketches depend."""


class LoadSource(Protocol):
    """Something to be loaded. ``refused``: documents that cannot be read, by reason."""

    refused: Counter[str]

    def runs(self, report: Report) -> Iterator[LoadedRun]:
        """Yield all of it."""
        ...


class Texts:
    """Turns documents into runs. ``refused``: what could not be read, by reason."""

    def __init__(self, settings: Settings, fingerprinter: Fingerprinter) -> None:
        """Read documents as a worker with these settings does."""
        self.refused: Counter[str] = Counter()
        self._fingerprinter = fingerprinter
        self._reader = command_reader(settings, settings.max_record_bytes)
        self._words = fingerprinter.scheme.bits // WORD_BITS

    def read(self, source: SourcePosition, record: RawRecord) -> Document | None:
        """Return the document in a record; None for one that is refused, and counted."""
        item = self._reader.read(source, record)
        if isinstance(item, Document):
            return item
        self.refused[item.reason if isinstance(item, Rejection) else "tombstone"] += 1
        return None

    def runs(self, documents: Sequence[Document]) -> Iterator[LoadedRun]:
        """Yield documents with their fingerprints."""
        if not documents:
            return
        prints = self._fingerprinter.fingerprint_batch([each.content for each in documents])
        columns = document_columns(documents, prints, self._words)
        sources = [TopicPartition(each.source.topic, each.source.partition) for each in documents]
        yield from loaded_runs(sources, columns)


class FileSource:
    """A file of lines: an export, fingerprints, or texts."""

    def __init__(
        self,
        settings: Settings,
        fingerprinter: Fingerprinter,
        file: str,
        form: Form,
        jobs: int | None = None,
    ) -> None:
        """``form`` auto: its first line tells. The file is opened by ``runs``.

        ``jobs``: processes that fingerprint texts; None: one for each core.
        """
        self.refused: Counter[str] = Counter()
        self._settings = settings
        self._fingerprinter = fingerprinter
        self._file = file
        self._form = form
        self._jobs = jobs

    def runs(self, report: Report) -> Iterator[LoadedRun]:
        """Yield all of it.

        Raises ``UsageError``, ``InputFileError``, and ``IndexMismatchError`` for an export of an
        index whose fingerprints are others.
        """
        with InputLines(self._file, _LONGEST_LINE_BYTES) as opened:
            lines = iter(opened)
            ahead = list(islice((line for line in lines if not line.is_blank), 1))
            if not ahead:
                return
            header = header_in(ahead[0].content or b"")
            if header is not None:
                self._check(header)
                ahead = []
            has_prints = header is not None or self._has_prints(ahead)
            if has_prints:
                loaded = self._of_prints(ahead, opened)
            else:
                rest = chain(ahead, (line for line in lines if not line.is_blank))
                loaded = self._of_texts(rest, opened)
            for run in loaded:
                report(f"reading {opened.name}", opened.bytes_read, opened.total_bytes or 0)
                yield run

    def _has_prints(self, ahead: Sequence[Line]) -> bool:
        if self._form != "auto":
            return self._form == "fingerprints"
        content = ahead[0].content or b""
        return (
            b'"fingerprint"' in content
            and f'"{self._settings.fields.text}"'.encode() not in content
        )

    def _check(self, header: ExportHeader) -> None:
        theirs = Claim(header.index, "", 0, 0)
        differing = differences(theirs, self._fingerprinter.identity, "")
        if any(each.setting not in _COMPARED_LATER for each in differing):
            raise IndexMismatchError(
                f"the export {self._file}", header.index, self._fingerprinter.identity
            )

    def _of_prints(self, ahead: Sequence[Line], opened: InputLines) -> Iterator[LoadedRun]:
        reader = EntryLines(
            self._fingerprinter.scheme.bits,
            needs_sketches=self._fingerprinter.verifier is not None,
        )
        first = ahead[0].number if ahead else opened.lines_read
        content = b"".join([(line.content or b"") + b"\n" for line in ahead]) + opened.block()
        while content:
            yield from loaded_runs(*reader.columns(first, content, opened.name))
            first = opened.lines_read
            content = opened.block()

    def _of_texts(self, lines: Iterator[Line], opened: InputLines) -> Iterator[LoadedRun]:
        jobs = jobs_for(self._jobs, opened.total_bytes)
        topics = partial(_name_of, opened.name)
        with started_pool(self._settings, jobs) as pool:
            prepare = prepared_by(self._settings, self._fingerprinter, pool, jobs, topics)
            for _, prepared in prepare(_batches(lines)):
                self.refused.update(each.reason for each in prepared.refused.values())
                sources = [TopicPartition(opened.name, 0)] * len(prepared.columns)
                yield from loaded_runs(sources, prepared.columns)


class TopicSource:
    """All documents that a topic has now, such as ``unique``."""

    def __init__(
        self, settings: Settings, fingerprinter: Fingerprinter, admin: AdminClient, topic: str
    ) -> None:
        """Raise ``TopicsError`` for a topic that is not there."""
        self._texts = Texts(settings, fingerprinter)
        self.refused = self._texts.refused
        self._settings = settings
        self._partitions = partitions_of(admin, [topic])
        self._topic = topic
        if topic not in self._partitions:
            raise TopicsError(f"topic {topic} is missing, or this user may not see it")

    def runs(self, report: Report) -> Iterator[LoadedRun]:
        """Yield all of it; raises ``BrokerUnavailableError`` where the broker falls silent."""
        with TopicFollower(self._settings, self._partitions, from_beginning=True) as follower:
            ends = follower.ends()
            total, done = sum(ends.values()), 0
            documents: list[Document] = []
            for records in follower.batches(ends):
                read = map(self._read, records)
                documents += [each for each in read if each is not None]
                if len(documents) >= BATCH_DOCUMENTS:
                    yield from self._texts.runs(documents)
                    documents = []
                done += len(records)
                report(f"reading {self._topic}", done, total)
            yield from self._texts.runs(documents)

    def _read(self, read: ReadRecord) -> Document | None:
        """Return a document, under the id and the source that it had where it was put out."""
        record = RawRecord(read.key, read.value, read.timestamp_ms, tuple(read.headers))
        headers = {name: value for name, value in read.headers if value is not None}
        source = read.position
        if "firstseen-source" in headers:
            try:
                source = source_position(headers["firstseen-source"].decode())
            except (UsageError, UnicodeDecodeError):
                source = read.position
        return self._texts.read(source, record)


def _batches(lines: Iterator[Line]) -> Iterator[Batch]:
    while batch := list(islice(lines, _TEXTS_TOGETHER)):
        yield Batch(0, batch, 0, 0)


def _name_of(name: str, _batch: Batch) -> str:
    return name
