"""Tables and folders as lines of JSON: a row of CSV or Parquet, or a text file, is an object."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import xxhash

from simhash_core.errors import UsageError
from streams.files.input_lines import InputFileError, Line
from streams.files.packed_files import DAMAGED_ERRORS, open_raw, unpacked, unpacked_name

SURPLUS_COLUMN: Final = "(surplus)"
"""Where the cells of a CSV row stand that are past the last column of the header."""

_PARQUET_ROWS: Final = 1024


class InputRows:
    """Rows that were made into lines of JSON; a ``LineSource``."""

    def __init__(
        self,
        name: str,
        rows: Iterator[bytes],
        longest_bytes: int,
        size: int,
        *,
        position: Callable[[], int],
        close: Callable[[], object],
    ) -> None:
        """``rows`` yields lines without their ends; ``position``: how much of ``size`` is read."""
        self.name = name
        self.total_bytes: int | None = size
        self._rows = rows
        self._longest_bytes = longest_bytes
        self._position = position
        self._close = close
        self._number = 0
        self._seen = xxhash.xxh3_64()

    @property
    def bytes_read(self) -> int:
        """How much of ``total_bytes`` has been read."""
        return self._position()

    @property
    def lines_read(self) -> int:
        """How many rows have been read."""
        return self._number

    @property
    def digest(self) -> int:
        r"""XXH3-64 of all rows read, as JSON, each ended by ``\n``."""
        return self._seen.intdigest()

    def __iter__(self) -> Iterator[Line]:
        """Yield the rows that are left; raises ``InputFileError`` where the file is damaged."""
        for content in self._rows:
            self._seen.update(content)
            self._seen.update(b"\n")
            number, self._number = self._number, self._number + 1
            is_short = len(content) <= self._longest_bytes
            yield Line(number, content if is_short else None, len(content))

    def skip(self, lines: int) -> bool:
        """Read ``lines`` rows and let them go; False where there are not so many."""
        rest = iter(self)
        return all(next(rest, None) is not None for _ in range(lines))

    def close(self) -> None:
        """Close the file."""
        self._close()


def csv_rows(file: str, name: str, longest_bytes: int, column: str) -> InputRows:
    """Return the rows of a CSV file (``.tsv``: by tabs) with a header.

    Raises ``UsageError`` for a file that cannot be opened, or whose header lacks ``column``.
    """
    raw = open_raw(file)
    content = unpacked(raw, file)
    delimiter = "\t" if unpacked_name(file).endswith(".tsv") else ","
    csv.field_size_limit(max(longest_bytes, csv.field_size_limit()))
    text = io.TextIOWrapper(content, "utf-8-sig", errors="surrogateescape", newline="")
    reader = csv.DictReader(text, restkey=SURPLUS_COLUMN, delimiter=delimiter)

    def close() -> None:
        text.close()
        raw.close()

    try:
        _check_column(file, list(reader.fieldnames or ()), column)
    except (*DAMAGED_ERRORS, csv.Error, OSError) as error:
        close()
        raise UsageError(f"cannot read {file}: {error}") from None
    except UsageError:
        close()
        raise
    return InputRows(
        name,
        _csv_lines(file, reader),
        longest_bytes,
        Path(file).stat().st_size,
        position=raw.tell,
        close=close,
    )


def _check_column(file: str, columns: list[str], column: str) -> None:
    """Raise ``UsageError`` where the text's column, or what it is nested in, is not there."""
    if column not in columns and column.partition(".")[0] not in columns:
        listed = ", ".join(map(repr, columns)) or "none"
        raise UsageError(
            f"{file} has no column {column!r}, its columns are {listed}: name the one with the "
            "text by --set fields.text=COLUMN"
        )


def _csv_lines(file: str, reader: csv.DictReader[str]) -> Iterator[bytes]:
    while True:
        try:
            row = next(reader, None)
        except (*DAMAGED_ERRORS, csv.Error, OSError) as error:
            raise InputFileError(f"{file}: {error}, after line {reader.line_num}") from None
        if row is None:
            return
        # Bytes that are not UTF-8 come out as they were: to refuse them is the reader's business.
        yield json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogateescape")


def parquet_rows(file: str, name: str, longest_bytes: int, column: str) -> InputRows:
    """Return the rows of a Parquet file.

    Raises ``UsageError`` for one that cannot be opened or lacks ``column``, or without pyarrow.
    """
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
    try:
        _check_column(file, list(table.schema_arrow.names), column)
    except UsageError:
        table.close()
        raise
    size = Path(file).stat().st_size
    done = [0]

    def lines() -> Iterator[bytes]:
        encode = msgspec.json.Encoder(enc_hook=str).encode
        rows = max(1, table.metadata.num_rows)
        try:
            for batch in table.iter_batches(batch_size=_PARQUET_ROWS):
                for row in batch.to_pylist():
                    yield encode(row)
                done[0] += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            raise InputFileError(f"{file}: {error}, after row {done[0]}") from None
        done[0] = rows

    return InputRows(
        name,
        lines(),
        longest_bytes,
        size,
        position=lambda: size * done[0] // max(1, table.metadata.num_rows),
        close=table.close,
    )


def text_rows(
    folder: str, files: list[Path], longest_bytes: int, fields: tuple[str, str]
) -> InputRows:
    """Return text files of a folder as objects; ``fields`` are the names of id and text."""
    id_field, text_field = fields
    done = [0]

    def lines() -> Iterator[bytes]:
        for file in files:
            opened: BinaryIO
            try:
                with file.open("rb") as opened:
                    content = opened.read(longest_bytes + 1)
            except OSError as error:
                raise InputFileError(f"cannot read {file}: {error.strerror}") from None
            done[0] += len(content)
            name = file.relative_to(folder).as_posix()
            # What is not UTF-8 comes out as it is, as from a file of lines.
            text = content.decode("utf-8-sig", "surrogateescape")
            value = {id_field or "id": name, text_field: text}
            yield json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")

    name = Path(folder).resolve().name
    size = sum(file.stat().st_size for file in files)
    return InputRows(
        name, lines(), longest_bytes, size, position=lambda: done[0], close=lambda: None
    )
