"""The documents of a run, file after file, in batches; each batch says where it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from streams.documents.fields import FieldSettings
from streams.files.document_files import DocumentFile, document_files, open_documents
from streams.files.input_lines import STANDARD_INPUT, Line, LineSource
from streams.settings.settings import Settings

_BATCH_BYTES: Final = 8 << 20


class Batch(NamedTuple):
    """Lines of one file, and how far the file has been read with them."""

    file: int
    """The number of the file in the run, from 0."""
    lines: Sequence[Line]
    lines_read: int
    digest: int


class DedupInputs:
    """The files of a run, to be gone through once."""

    def __init__(self, paths: Sequence[str], settings: Settings) -> None:
        """Look at all files; raises ``UsageError`` for what cannot be read."""
        self.files: Final = document_files(paths, settings.fields)
        self._fields: Final[FieldSettings] = settings.fields
        self._longest_bytes: Final = settings.max_record_bytes
        self._batch_lines: Final = settings.batch.documents
        self._open: dict[int, LineSource] = {}
        self._done_bytes = 0
        # Each is opened once before the work begins: a table whose column is missing is noticed.
        for number, file in enumerate(self.files):
            if file.path != STANDARD_INPUT and not file.texts:
                self._source(number).close()
                del self._open[number]
        self.total_bytes: Final = _total_bytes(self.files)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files, as source positions have them."""
        return tuple(file.name for file in self.files)

    @property
    def bytes_read(self) -> int:
        """How much of ``total_bytes`` has been read."""
        return self._done_bytes + sum(source.bytes_read for source in self._open.values())

    def skip_to(self, file: int, lines: int, digest: int) -> bool:
        """Go to where a run was interrupted; False where the file begins otherwise now."""
        source = self._source(file)
        return not lines or (source.skip(lines) and source.digest == digest)

    def batches(self, first_file: int = 0) -> Iterator[Batch]:
        """Yield what is left, from a file on; raises ``InputFileError`` for a damaged file."""
        for number in range(first_file, len(self.files)):
            source = self._source(number)
            with closing(source):
                for lines in _batches(source, self._batch_lines):
                    yield Batch(number, lines, source.lines_read, source.digest)
                self._done_bytes += source.total_bytes or 0
            del self._open[number]

    def close(self) -> None:
        """Close what is open."""
        for source in self._open.values():
            source.close()
        self._open.clear()

    def _source(self, number: int) -> LineSource:
        if number not in self._open:
            self._open[number] = open_documents(
                self.files[number], self._fields, self._longest_bytes
            )
        return self._open[number]


def _total_bytes(files: Iterable[DocumentFile]) -> int | None:
    """Return the size of all files; None where a pipe is among them."""
    total = 0
    for file in files:
        for path in file.texts or (Path(file.path),):
            if not path.is_file():
                return None
            with suppress(OSError):
                total += path.stat().st_size
    return total


def _batches(lines: Iterable[Line], limit: int) -> Iterator[list[Line]]:
    """Yield batches of at most ``limit`` lines, and not much more than ``_BATCH_BYTES`` bytes."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line.content or b"")
        if len(batch) >= limit or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
