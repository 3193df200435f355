"""Files of documents: found in folders, checked before the work begins, opened.

The name without ``.gz`` or ``.zst`` decides the kind: ``.csv`` and ``.tsv`` are tables with a
header, ``.parquet`` is a table, other files have one document per line. In a folder, a file that is
neither a table nor ``.jsonl`` or ``.ndjson`` is one document.
"""

from __future__ import annotations

import csv
import io
import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec

from simhash_core.errors import UsageError
from streams.documents.fields import Field, FieldSettings
from streams.documents.json_values import UnreadableError, decode_json, decode_text
from streams.files.input_lines import (
    DAMAGED_ERRORS,
    STANDARD_INPUT,
    InputFileError,
    InputLines,
    Line,
    LineSource,
    open_raw,
    readable,
    unpacked,
    unpacked_name,
)

# ---- Tables and folders as lines of JSON: a row, or a text file, is an object.

SURPLUS_COLUMN: Final = "(surplus)"  # key of the cells of a CSV row beyond the last column
_CSV_CELL_CHARACTERS: Final = 64 << 20
_PARQUET_ROWS: Final = 1024


class InputRows(LineSource):
    def __init__(
        self,
        name: str,
        rows: Iterator[bytes],
        longest_bytes: int,
        size: int,
        *,
        position: Callable[[], int],
        close: Callable[[], object] = lambda: None,
    ) -> None:
        """``rows`` yields lines without ends; ``position`` returns how much of ``size`` is read."""
        super().__init__()
        self.name = name
        self.total_bytes = size
        self._rows = rows
        self._longest_bytes = longest_bytes
        self._position = position
        self._close = close

    @property
    def bytes_read(self) -> int:
        return self._position()

    def __iter__(self) -> Iterator[Line]:
        for content in self._rows:
            self._seen.update(content)
            self._seen.update(b"\n")
            number, self._number = self._number, self._number + 1
            is_short = len(content) <= self._longest_bytes
            yield Line(number, content if is_short else None, len(content))

    def close(self) -> None:
        self._close()


def csv_rows(file: str, name: str, longest_bytes: int, fields: FieldSettings) -> InputRows:
    """Open a CSV file (``.tsv``: tab-separated); raise ``UsageError`` if it lacks the text."""
    raw = open_raw(file)
    content = unpacked(raw, file)
    delimiter = "\t" if unpacked_name(file).endswith(".tsv") else ","
    # A longer cell makes its row a dead letter, so the limit only bounds the memory.
    csv.field_size_limit(max(_CSV_CELL_CHARACTERS, longest_bytes, csv.field_size_limit()))
    text = io.TextIOWrapper(content, "utf-8-sig", errors="surrogateescape", newline="")
    ended = _AtEnd(text)
    reader = csv.DictReader(ended, restkey=SURPLUS_COLUMN, delimiter=delimiter)

    with ExitStack() as opened:
        opened.callback(raw.close)
        opened.callback(text.close)
        try:
            _check_columns(file, list(reader.fieldnames or ()), fields)
            if ended.is_reached:
                raise UsageError(f'{file}: a quote (") in the header is never closed: close it')
        except (*DAMAGED_ERRORS, csv.Error, OSError) as error:
            raise UsageError(f"cannot read {file}: {error}") from None
        lines = _csv_lines(file, reader, ended, fields.timestamp)
        size = Path(file).stat().st_size
        close = opened.pop_all().close
    return InputRows(name, lines, longest_bytes, size, position=raw.tell, close=close)


def _check_columns(file: str, columns: list[str], fields: FieldSettings) -> None:
    """Raise ``UsageError`` if a field has two columns, or the text, or its object, has none."""
    column = fields.text
    for name in msgspec.structs.astuple(fields):
        if name and columns.count(name) > 1:
            raise UsageError(
                f"{file} has {columns.count(name)} columns {name!r}: rename all but one"
            )
    if column not in columns and column.partition(".")[0] not in columns:
        listed = ", ".join(map(repr, columns)) or "none"
        raise UsageError(
            f"{file} has no column {column!r}, its columns are {listed}: name the column with the "
            "text: --set fields.text=COLUMN"
        )


class _AtEnd:
    """Yields lines, and then an empty one: a row that has it has a quote that nothing closes.

    The reader would take the rest of the file for one cell, and say nothing.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.is_reached = False
        self._lines = iter(lines)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        if (line := next(self._lines, None)) is not None:
            return line
        if self.is_reached:
            raise StopIteration
        self.is_reached = True
        return "\n"


def _csv_lines(
    file: str, reader: csv.DictReader[str], end: _AtEnd, time_column: str
) -> Iterator[bytes]:
    while True:
        done = reader.line_num
        try:
            row = next(reader, None)
        except (*DAMAGED_ERRORS, csv.Error, OSError) as error:
            raise InputFileError(f"{file}: {error}, after line {reader.line_num}") from None
        if row is None:
            return
        if end.is_reached:
            raise InputFileError(
                f'{file}: a quote (") is never closed, in the row after line {done}: close it'
            )
        if row.get(time_column) == "":  # a table has no other way to leave a time out
            row |= {time_column: None}
        # Keep bytes that are not UTF-8: the reader refuses them.
        yield json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogateescape")


def parquet_rows(file: str, name: str, longest_bytes: int, fields: FieldSettings) -> InputRows:
    """Open a Parquet file; raise ``UsageError`` if it lacks the text, or without pyarrow."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise UsageError(
            f"cannot read {file}: Parquet needs pyarrow (pip install 'firstseen[parquet]')"
        ) from None
    try:
        table: Any = parquet.ParquetFile(file)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"cannot read {file}: {error}") from None
    with ExitStack() as opened:
        opened.callback(table.close)
        _check_columns(file, list(table.schema_arrow.names), fields)
        opened.pop_all()
    size = Path(file).stat().st_size
    total: int = max(1, table.metadata.num_rows)
    done = 0

    def lines() -> Iterator[bytes]:
        nonlocal done
        encode = msgspec.json.Encoder(enc_hook=str).encode
        try:
            for batch in table.iter_batches(batch_size=_PARQUET_ROWS):
                yield from map(encode, _parquet_values(batch))
                done += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            raise InputFileError(f"{file}: {error}, after row {done}") from None
        done = total

    def position() -> int:
        return size * done // total

    return InputRows(name, lines(), longest_bytes, size, position=position, close=table.close)


def _parquet_values(batch: Any) -> list[dict[str, object]]:  # noqa: ANN401 - pyarrow has no types
    try:
        rows: list[dict[str, object]] = batch.to_pylist()
    except (ValueError, OverflowError):
        columns = [map(_parquet_value, column) for column in batch.columns]
        names = batch.schema.names
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return rows


def _parquet_value(scalar: Any) -> object:  # noqa: ANN401 - pyarrow has no types
    """Return a value; as text if it is a time for which Python has no object."""
    try:
        return scalar.as_py()
    except ValueError:  # it has nanoseconds
        import pyarrow as pa  # noqa: PLC0415 - an extra

        if getattr(scalar.type, "tz", None):
            scalar = scalar.cast(pa.timestamp("ns", "UTC"))
        text: str = scalar.cast(pa.string()).as_py()
        return text.replace(" ", "T")
    except OverflowError:  # not in the years 1 to 9999
        return str(scalar.value)


def text_rows(
    folder: str, files: list[Path], longest_bytes: int, fields: tuple[str, str]
) -> InputRows:
    """Return text files of a folder as objects; ``fields`` names the fields of id and text."""
    id_field, text_field = fields
    done = 0

    def lines() -> Iterator[bytes]:
        nonlocal done
        for file in files:
            content, size = _read_start(file, longest_bytes + 1)
            done += size
            name = encodable(file.relative_to(folder).as_posix())
            # Keep bytes that are not UTF-8, as from a file of lines.
            text = content.decode("utf-8-sig", "surrogateescape")
            value = {id_field or "id": name, text_field: text}
            yield json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")

    name = Path(folder).resolve().name
    size = sum(file.stat().st_size for file in files)
    return InputRows(name, lines(), longest_bytes, size, position=lambda: done)


# ---- Records to be sent, from files, folders and standard input.
#
# Every line is sent unchanged, because the filter judges its content. Its key is its id, if it has
# one. A file of a folder is one document; its id is its path within the folder.

_LINE_SUFFIXES: Final = (".jsonl", ".ndjson")


class InputRecord(NamedTuple):
    where: str  # its origin, for messages
    size_bytes: int
    key: bytes | None
    value: bytes | None  # None: it is too long


class InputDocuments:
    """The documents of ``paths``, for one iteration.

    ``longest_bytes`` limits a line and a file of a folder: a longer one has no value and is never
    in memory.
    """

    def __init__(self, paths: Sequence[str], fields: FieldSettings, longest_bytes: int) -> None:
        self.blank_lines = 0
        self.unreadable = 0
        """The number of lines and files that will become dead letters, because they are no JSON
        object, have an invalid id, or are not UTF-8.
        """
        self._fields = fields
        self._id = Field(fields.id)
        self._longest_bytes = longest_bytes
        self._done_bytes = 0
        self._lines: InputLines | None = None
        _check_standard_input(paths)
        self._paths = paths
        self._texts = {path: _texts_in(Path(path)) for path in paths if Path(path).is_dir()}
        self.total_bytes = total_size(
            file for path in paths for file in self._texts.get(path, [Path(path)])
        )

    @property
    def bytes_read(self) -> int:
        return self._done_bytes + (self._lines.bytes_read if self._lines else 0)

    def __iter__(self) -> Iterator[InputRecord]:
        for path in self._paths:
            if path in self._texts:
                yield from (self._of_file(Path(path), file) for file in self._texts[path])
            else:
                yield from self._of_lines(path)

    def _of_lines(self, file: str) -> Iterator[InputRecord]:
        shown = "standard input" if file == STANDARD_INPUT else file
        with InputLines(file, self._longest_bytes) as lines:
            self._lines = lines
            for line in lines:
                if line.is_blank:
                    self.blank_lines += 1
                    continue
                where = f"{shown}, line {line.number + 1}"
                key = None if line.content is None else self._key_of(line.content)
                yield InputRecord(where, line.size, key, line.content)
            self._done_bytes += lines.total_bytes or 0
            self._lines = None

    def _key_of(self, line: bytes) -> bytes | None:
        if self._fields.format == "text":
            return None
        try:
            content = decode_json(line)
            if isinstance(content, dict):
                document_id = self._id.identifier(content)
                return None if document_id is None else document_id.encode()
        except UnreadableError:
            pass
        self.unreadable += 1
        return None

    def _of_file(self, folder: Path, file: Path) -> InputRecord:
        document_id = encodable(file.relative_to(folder).as_posix())
        content, size = _read_start(file, self._longest_bytes + 1)
        self._done_bytes += size
        if len(content) > self._longest_bytes:
            return InputRecord(str(file), size, None, None)
        value = self._as_value(document_id, content)
        return InputRecord(str(file), size, document_id.encode(), value)

    def _as_value(self, document_id: str, content: bytes) -> bytes:
        """Return a file's content as a value; the filter refuses one that is not UTF-8."""
        if self._fields.format == "text":
            return content
        try:
            text = decode_text(content)
        except UnreadableError:
            self.unreadable += 1
            return content
        fields = {self._fields.id: document_id} if self._fields.id else {}
        return msgspec.json.encode(fields | {self._fields.text: text})


def _read_start(file: Path, limit: int) -> tuple[bytes, int]:
    """Return the first ``limit`` unpacked bytes of a file, and its size on the disk.

    Raises ``InputFileError``.
    """
    try:
        with file.open("rb") as raw:
            content = unpacked(raw, file.name).read(limit)
            return content, max(raw.tell(), os.fstat(raw.fileno()).st_size)
    except DAMAGED_ERRORS as error:
        raise InputFileError(
            f"cannot read {file}: the compressed data is damaged ({error})"
        ) from None
    except OSError as error:
        raise InputFileError(f"cannot read {file}: {error.strerror}") from None


def total_size(files: Iterable[Path]) -> int | None:
    """Return the bytes of all files; None if one is a pipe or standard input.

    Raises ``UsageError`` for a missing file.
    """
    total, is_known = 0, True
    for file in files:
        if str(file) == STANDARD_INPUT:
            is_known = False
            continue
        with readable(file):
            status = file.stat()
        is_known = is_known and stat.S_ISREG(status.st_mode)
        total += status.st_size
    return total if is_known else None


def _check_standard_input(paths: Sequence[str]) -> None:
    if list(paths).count(STANDARD_INPUT) > 1:
        raise UsageError("standard input (-) is named twice, but can be read only once")


def _texts_in(folder: Path) -> list[Path]:
    """Return the files under a folder, each a document; raise ``UsageError`` for files of lines."""
    files = files_in(folder)
    for file in files:
        if unpacked_name(file.name).endswith(_LINE_SUFFIXES):
            raise UsageError(
                f"{file} has one document per line, but in a folder each file is one document: "
                "name such files, not their folder"
            )
    return files


def files_in(folder: Path, left_out: Collection[Path] = ()) -> list[Path]:
    """Return the visible files under a folder, sorted; raise ``UsageError`` for none."""
    paths: list[Path] = []
    for directory, names, files in os.walk(folder):
        resolved = Path(directory).resolve()
        names[:] = [
            name for name in names if not name.startswith(".") and resolved / name not in left_out
        ]
        visible = (
            Path(directory, name)
            for name in files
            if not name.startswith(".") and resolved / name not in left_out
        )
        paths += [file for file in visible if file.is_file()]
    if not paths:
        raise UsageError(f"there are no files in the folder {folder}")
    return sorted(paths)


_CSV: Final = (".csv", ".tsv")
_PARQUET: Final = ".parquet"
_SNIFFED_BYTES: Final = 4096
_OTHER_FORMATS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x1f\x8b", "gzip data: give it a name that ends in .gz"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data: give it a name that ends in .zst"),
    (b"PAR1", "a Parquet file: give it a name that ends in .parquet"),
    (b"PK\x03\x04", "a ZIP archive (or an office document): unpack it first"),
    (b"BZh", "bzip2 data: unpack it first"),
    (b"\xfd7zXZ\x00", "xz data: unpack it first"),
    (b"%PDF", "a PDF document: extract its text first"),
    (b"\xff\xfe", "UTF-16 text: convert it to UTF-8 first"),
    (b"\xfe\xff", "UTF-16 text: convert it to UTF-8 first"),
)


class DocumentFile(NamedTuple):
    """A file of documents, or the text files of a folder."""

    name: str  # for source positions
    path: str
    texts: tuple[Path, ...] = ()  # the text files of a folder, each a document


def document_files(
    paths: Sequence[str], fields: FieldSettings, left_out: Collection[Path] = ()
) -> list[DocumentFile]:
    """Return the files that ``paths`` name, in order; the content of a folder is sorted by name.

    Of a folder, the files and folders in ``left_out`` (resolved paths) are not read.
    Raises ``UsageError`` for anything unreadable, before work begins.
    """
    _check_standard_input(paths)
    files: list[DocumentFile] = []
    for path in paths:
        if path == STANDARD_INPUT:
            files.append(DocumentFile("stdin", path))
        elif Path(path).is_dir():
            files += _in_folder(path, left_out)
        else:
            files.append(DocumentFile(encodable(Path(path).name), path))
    for each in files:
        if fields.format == "text" and (
            each.texts or unpacked_name(each.path).endswith((*_CSV, _PARQUET))
        ):
            raise UsageError(
                f"{each.path} is not a file of lines, which fields.format=text needs: remove "
                f"that setting"
            )
        if each.path != STANDARD_INPUT and not each.texts:
            _check_content(each.path)
    names = Counter(file.name for file in files)
    files = [
        file._replace(name=encodable(file.path)) if names[file.name] > 1 else file for file in files
    ]
    # A source position must name one document: a duplicate would otherwise name itself.
    for name, count in Counter(file.name for file in files).items():
        if count > 1:
            raise UsageError(f"{name} is named {count} times: name each file once")
    return files


def open_documents(file: DocumentFile, fields: FieldSettings, longest_bytes: int) -> LineSource:
    """Open a file; raise ``UsageError`` if it is unreadable or lacks the column of the text."""
    kind = unpacked_name(file.path)
    if file.texts:
        return text_rows(file.path, list(file.texts), longest_bytes, (fields.id, fields.text))
    if kind.endswith(_CSV):
        return csv_rows(file.path, file.name, longest_bytes, fields)
    if kind.endswith(_PARQUET):
        return parquet_rows(file.path, file.name, longest_bytes, fields)
    lines = InputLines(file.path, longest_bytes)
    lines.name = file.name
    return lines


def _in_folder(folder: str, left_out: Collection[Path]) -> list[DocumentFile]:
    tables, texts = [], []
    for file in files_in(Path(folder), left_out):
        name = unpacked_name(file.name)
        if name.endswith((*_CSV, _PARQUET, *_LINE_SUFFIXES)):
            tables.append(DocumentFile(encodable(file.relative_to(folder).as_posix()), str(file)))
        else:
            texts.append(file)
    if texts:
        tables.append(DocumentFile(encodable(Path(folder).resolve().name), folder, tuple(texts)))
    return tables


def _check_content(path: str) -> None:
    """Raise ``UsageError`` for a file that is unreadable or in an unknown format."""
    if not Path(path).is_file() and Path(path).exists():
        return  # the first bytes of a pipe or device can be read only once
    with open_raw(path) as raw, readable(path):
        content = unpacked(raw, path).read(_SNIFFED_BYTES)
    if unpacked_name(path).endswith(_PARQUET):
        return
    for magic, hint in _OTHER_FORMATS:
        if content.startswith(magic):
            raise UsageError(f"cannot read {path}: it is {hint}")


def encodable(name: str) -> str:
    """Return a name that UTF-8 can encode, for any bytes in the file system."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
