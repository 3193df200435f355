"""The files that hold documents: found in folders, checked before the work begins, opened.

What a file is follows from its name, without ``.gz`` or ``.zst`` at its end: ``.csv`` and ``.tsv``
are tables with a header, ``.parquet`` is a table, all others have a document a line. A folder
stands for the tables and the files of lines in it, and for its other files, each a document.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from simhash_core.errors import UsageError
from streams.documents.fields import FieldSettings
from streams.files.input_documents import files_in
from streams.files.input_lines import STANDARD_INPUT, InputLines, LineSource
from streams.files.packed_files import DAMAGED_ERRORS, open_raw, unpacked, unpacked_name
from streams.files.table_rows import csv_rows, parquet_rows, text_rows

_CSV: Final = (".csv", ".tsv")
_PARQUET: Final = ".parquet"
_LINES: Final = (".jsonl", ".ndjson")
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
    """A file of documents, or the text files of a folder; ``name`` is for source positions."""

    name: str
    path: str
    texts: tuple[Path, ...] = ()
    """Of a folder: the files of which each is a document."""


def document_files(paths: Sequence[str], fields: FieldSettings) -> list[DocumentFile]:
    """Return what ``paths`` stand for, in their order, the content of a folder by name.

    Raises ``UsageError`` for what cannot be read: nothing is begun then.
    """
    if list(paths).count(STANDARD_INPUT) > 1:
        raise UsageError("standard input (-) is named twice, but can be read only once")
    files: list[DocumentFile] = []
    for path in paths:
        files += (
            _in_folder(path) if path != STANDARD_INPUT and Path(path).is_dir() else [_file(path)]
        )
    for each in files:
        if fields.format == "text" and (each.texts or _is_table(each.path)):
            raise UsageError(
                f"{each.path} is not a file of lines, which fields.format=text needs: remove "
                f"that setting"
            )
        if each.path != STANDARD_INPUT and not each.texts:
            _check_content(each.path)
    return _distinct(files)


def open_documents(file: DocumentFile, fields: FieldSettings, longest_bytes: int) -> LineSource:
    """Open a file; raises ``UsageError`` where it cannot be, or lacks the column of the text."""
    kind = unpacked_name(file.path)
    column = fields.text
    if file.texts:
        return text_rows(file.path, list(file.texts), longest_bytes, (fields.id, column))
    if kind.endswith(_CSV):
        return csv_rows(file.path, file.name, longest_bytes, column)
    if kind.endswith(_PARQUET):
        return parquet_rows(file.path, file.name, longest_bytes, column)
    lines = InputLines(file.path, longest_bytes)
    lines.name = file.name
    return lines


def _file(path: str) -> DocumentFile:
    if path == STANDARD_INPUT:
        return DocumentFile("stdin", path)
    return DocumentFile(_encodable(Path(path).name), path)


def _in_folder(folder: str) -> list[DocumentFile]:
    tables, texts = [], []
    for file in files_in(Path(folder)):
        name = unpacked_name(file.name)
        if name.endswith((*_CSV, _PARQUET, *_LINES)):
            tables.append(DocumentFile(_encodable(file.relative_to(folder).as_posix()), str(file)))
        else:
            texts.append(file)
    if texts:
        tables.append(DocumentFile(_encodable(Path(folder).resolve().name), folder, tuple(texts)))
    return tables


def _distinct(files: list[DocumentFile]) -> list[DocumentFile]:
    """Let files of one name have their path for a name: positions must tell them apart."""
    names = [file.name for file in files]
    return [
        file._replace(name=_encodable(file.path)) if names.count(file.name) > 1 else file
        for file in files
    ]


def _is_table(path: str) -> bool:
    return unpacked_name(path).endswith((*_CSV, _PARQUET))


def _check_content(path: str) -> None:
    """Raise ``UsageError`` for a file that cannot be opened, or is in none of the formats."""
    if not Path(path).is_file() and Path(path).exists():
        return  # a pipe or a device: its first bytes can be read once only
    with open_raw(path) as raw:
        try:
            content = unpacked(raw, path).read(_SNIFFED_BYTES)
        except DAMAGED_ERRORS as error:
            raise UsageError(f"cannot read {path}: the packed data is damaged ({error})") from None
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    if unpacked_name(path).endswith(_PARQUET):
        return
    for magic, hint in _OTHER_FORMATS:
        if content.startswith(magic):
            raise UsageError(f"cannot read {path}: it is {hint}")


def _encodable(name: str) -> str:
    """Return a name that can be encoded as UTF-8, whatever bytes a file system has in it."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
