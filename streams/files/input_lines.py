r"""Lines of a file (``.gz``, ``.zst`` or plain) or of standard input, with a length limit.

A line ends in ``\n``, which the last line may lack; a ``\r`` before it stays. If a line is over the
limit, only its size is kept, so it is never in memory.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self, cast

import xxhash
import zstandard

from simhash_core.errors import FirstseenError, UsageError

PACKED_SUFFIXES: Final = (".gz", ".zst")
DAMAGED_ERRORS: Final = (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)
"""Errors of reading a damaged or truncated packed file."""

_CHUNK_BYTES: Final = 1 << 17


def unpacked_name(name: str) -> str:
    for suffix in PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


@contextmanager
def readable(shown: str | Path) -> Iterator[None]:
    """Turn errors of reading a file into ``UsageError``."""
    try:
        yield
    except DAMAGED_ERRORS as error:
        raise UsageError(f"cannot read {shown}: the compressed data is damaged ({error})") from None
    except OSError as error:
        raise UsageError(f"cannot read {shown}: {error.strerror or error}") from None


def open_raw(file: str) -> BinaryIO:
    with readable(file):
        return Path(file).open("rb")


def unpacked(raw: BinaryIO, name: str) -> BinaryIO:
    if name.endswith(".gz"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    if name.endswith(".zst"):
        return io.BufferedReader(_ZstandardReader(raw), _CHUNK_BYTES)
    return raw


class _ZstandardReader(io.RawIOBase):
    """Unpacks all frames; unlike the library's reader, it detects a missing end."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._frame: Any = None
        self._packed = b""
        self._content = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        while not self._content and self._advance():
            pass
        size = min(len(buffer), len(self._content))
        buffer[:size] = self._content[:size]
        self._content = self._content[size:]
        return size

    def _advance(self) -> bool:
        """Unpack one more piece; return False at the end of the file."""
        packed = self._packed or self._raw.read(_CHUNK_BYTES)
        self._packed = b""
        if not packed:
            if self._frame is not None:
                raise EOFError("the file ends within a frame")
            return False
        if self._frame is None:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._content = self._frame.decompress(packed)
        if self._frame.eof:
            self._packed, self._frame = self._frame.unused_data, None
        return True


STANDARD_INPUT: Final = "-"
_READ_BYTES: Final = 1 << 16
_BLOCK_BYTES: Final = 2 << 20


class InputFileError(FirstseenError):
    """A file is damaged or truncated; the message says after which line."""


class Line(NamedTuple):
    """A line without its end."""

    number: int  # from 0
    content: bytes | None  # None: it is longer than the limit
    size: int  # in bytes

    @property
    def is_blank(self) -> bool:
        return self.content is not None and not self.content.strip()


class LineSource(ABC):
    """A source of documents: lines, or rows of a table as lines of JSON."""

    name: str
    total_bytes: int | None  # size of the file; None for a pipe

    def __init__(self) -> None:
        self._number = 0
        self._seen = xxhash.xxh3_64()

    @property
    @abstractmethod
    def bytes_read(self) -> int: ...

    @property
    def lines_read(self) -> int:
        return self._number

    @property
    def digest(self) -> int:
        r"""XXH3-64 of all lines read, each ended by ``\n``; detects a changed file."""
        return self._seen.intdigest()

    @abstractmethod
    def __iter__(self) -> Iterator[Line]:
        """Yield the remaining lines; raise ``InputFileError`` if the file is damaged."""

    def skip(self, lines: int) -> bool:
        """Skip ``lines`` lines; return False if there are fewer."""
        rest = iter(self)
        return all(next(rest, None) is not None for _ in range(lines))

    @abstractmethod
    def close(self) -> None: ...


class InputLines(LineSource):
    """Reads ``file``: a path, or ``-`` for standard input.

    ``name`` is the file's name without its directory, because source positions must not depend on
    the working directory. It can be encoded as UTF-8.
    """

    def __init__(self, file: str, longest_bytes: int) -> None:
        super().__init__()
        self._longest_bytes = longest_bytes
        self._shown = "standard input" if file == STANDARD_INPUT else file
        self._raw: BinaryIO
        if file == STANDARD_INPUT:
            self.name, self._raw = "stdin", sys.stdin.buffer
        else:
            self.name = os.fsencode(Path(file).name).decode(errors="replace")
            self._raw = open_raw(file)
        self._lines = unpacked(self._raw, file)
        self.total_bytes = regular_size(self._raw)

    @property
    def bytes_read(self) -> int:
        """How many of ``total_bytes`` have been read; of a packed file, packed bytes."""
        return self._raw.tell() if self.total_bytes is not None else 0

    def __iter__(self) -> Iterator[Line]:
        with self._errors_named():
            while (line := self._read()) is not None:
                self._number += 1
                yield line

    def block(self) -> bytes:
        r"""Return the next lines, about 2 MiB, each ended by ``\n``; empty at the end.

        This is faster than line by line. Raises ``InputFileError``, also for a line over the limit.
        """
        with self._errors_named():
            content = self._lines.read(_BLOCK_BYTES)
            if content and not content.endswith(b"\n"):
                content += self._lines.readline(self._longest_bytes + 1)
        if content and not content.endswith(b"\n"):
            if len(content) - content.rfind(b"\n") - 1 > self._longest_bytes:
                self._number += content.count(b"\n")
                raise self._broken(f"a line has more than {self._longest_bytes} bytes")
            content += b"\n"
        self._seen.update(content)
        self._number += content.count(b"\n")
        return content

    def close(self) -> None:
        if self._lines is not self._raw:
            self._lines.close()
        if self._raw is not sys.stdin.buffer:
            self._raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except DAMAGED_ERRORS as error:
            raise self._broken(f"the compressed data is damaged or truncated ({error})") from None
        except OSError as error:
            raise self._broken(error.strerror or str(error)) from None

    def _read(self) -> Line | None:
        content = self._lines.readline(self._longest_bytes + 1)
        if not content:
            return None
        self._seen.update(content)
        if content.endswith(b"\n"):
            return Line(self._number, content[:-1], len(content) - 1)
        size = len(content)
        is_long = size > self._longest_bytes
        while is_long and (part := self._lines.readline(_READ_BYTES)):
            self._seen.update(part)
            size += len(part)
            if part.endswith(b"\n"):
                return Line(self._number, None, size - 1)
        self._seen.update(b"\n")  # the missing end of the last line, so that the file may grow
        return Line(self._number, None if is_long else content, size)

    def _broken(self, reason: str) -> InputFileError:
        return InputFileError(
            f"{self._shown}: {reason}, after line {self._number}: "
            "nothing after it can be read; get the file again"
        )


def regular_size(file: BinaryIO) -> int | None:
    """Return the size of a regular file; None for a pipe or a terminal."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
