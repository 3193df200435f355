"""Documents of files, folders and standard input, one after another, as records to be sent.

A file (packed or not) or ``-`` has a JSON object a line. A line is sent as it is, whatever it
holds: to judge it is the filter's business. Its key is its id, where it has one; lines without
anything are skipped. A folder has one document a file, in the order of their names: the text is
the file's content, the id its path within the folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from simhash_core.errors import UsageError
from streams.documents.fields import Field, FieldSettings
from streams.documents.json_values import UnreadableError, decode_json, decode_text
from streams.files.input_lines import STANDARD_INPUT, InputFileError, InputLines
from streams.files.packed_files import unpacked_name

_LINE_SUFFIXES: Final = (".jsonl", ".ndjson")


class InputRecord(NamedTuple):
    """One record: ``where`` it came from is for people. ``value`` None: too long to be sent."""

    where: str
    size_bytes: int
    key: bytes | None
    value: bytes | None


class InputDocuments:
    """The documents of ``paths``, to be gone through once.

    ``longest_bytes`` bounds a line, and a file of a folder: a longer one comes without its value,
    and is never held in memory.
    """

    def __init__(self, paths: Sequence[str], fields: FieldSettings, longest_bytes: int) -> None:
        """Look at what there is; raises ``UsageError`` for what cannot be read."""
        self.blank_lines = 0
        self.unreadable = 0
        """Lines that are no JSON object or have an id that is none, files that are not UTF-8: the
        filter will make dead letters of them."""
        self._fields = fields
        self._id = Field(fields.id)
        self._longest_bytes = longest_bytes
        self._done_bytes = 0
        self._lines: InputLines | None = None
        if list(paths).count(STANDARD_INPUT) > 1:
            raise UsageError("standard input (-) is named twice, but can be read only once")
        self._sources: list[str | tuple[Path, list[Path]]] = [
            (Path(path), _texts_in(Path(path))) if Path(path).is_dir() else path for path in paths
        ]
        self.total_bytes = self._measure()

    @property
    def bytes_read(self) -> int:
        """How much of ``total_bytes`` has been read."""
        return self._done_bytes + (self._lines.bytes_read if self._lines else 0)

    def __iter__(self) -> Iterator[InputRecord]:
        """Yield the records; raises ``InputFileError`` where a file is damaged."""
        for source in self._sources:
            if isinstance(source, str):
                yield from self._of_lines(source)
            else:
                folder, files = source
                for file in files:
                    yield self._of_file(folder, file)

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
        shown = os.fsencode(file.relative_to(folder).as_posix()).decode(errors="replace")
        try:
            with file.open("rb") as opened:
                content = opened.read(self._longest_bytes + 1)
                size = max(len(content), os.fstat(opened.fileno()).st_size)
        except OSError as error:
            raise InputFileError(f"cannot read {file}: {error.strerror}") from None
        self._done_bytes += size
        if len(content) > self._longest_bytes:
            return InputRecord(str(file), size, None, None)
        return InputRecord(str(file), size, shown.encode(), self._as_value(shown, content))

    def _as_value(self, document_id: str, content: bytes) -> bytes:
        """Return a file's content as a value; one that is not UTF-8 is left for the filter."""
        if self._fields.format == "text":
            return content
        try:
            text = decode_text(content)
        except UnreadableError:
            self.unreadable += 1
            return content
        fields = {self._fields.id: document_id} if self._fields.id else {}
        return msgspec.json.encode(fields | {self._fields.text: text})

    def _measure(self) -> int | None:
        """Return the bytes that there are, None where a pipe is among the files."""
        total, is_known = 0, True
        for source in self._sources:
            if source == STANDARD_INPUT:
                is_known = False
                continue
            files = [Path(source)] if isinstance(source, str) else source[1]
            for file in files:
                try:
                    status = file.stat()
                except OSError as error:
                    raise UsageError(f"cannot read {file}: {error.strerror}") from None
                is_known = is_known and stat.S_ISREG(status.st_mode)
                total += status.st_size
        return total if is_known else None


def _texts_in(folder: Path) -> list[Path]:
    """Return the files under a folder, of which each is a document; raises ``UsageError``."""
    files = files_in(folder)
    for file in files:
        if unpacked_name(file.name).endswith(_LINE_SUFFIXES):
            raise UsageError(
                f"{file} has a document a line, and in a folder each file is one document: "
                "name such files themselves, not their folder"
            )
    return files


def files_in(folder: Path) -> list[Path]:
    """Return the files under a folder, by name; hidden ones are left out.

    Raises ``UsageError`` for a folder without a file.
    """
    paths: list[Path] = []
    for directory, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith("."))
        paths += [Path(directory, name) for name in files if not name.startswith(".")]
    paths = [file for file in paths if file.is_file()]
    if not paths:
        raise UsageError(f"there are no files in the folder {folder}")
    return sorted(paths)
