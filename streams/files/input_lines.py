r"""The lines of a file, packed or not, or of standard input, none longer than a limit.

A line ends in ``\n``; the last one may lack it. Its content is without it, and otherwise unchanged
(a ``\r`` before it stays). Of a line past the limit only its size is kept; it is never in memory.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol, Self

import xxhash

from simhash_core.errors import FirstseenError
from streams.files.packed_files import DAMAGED_ERRORS, open_raw, unpacked

STANDARD_INPUT: Final = "-"
_STANDARD_INPUT_NAME: Final = "stdin"
_READ_BYTES: Final = 1 << 16
_BLOCK_BYTES: Final = 2 << 20


class InputFileError(FirstseenError):
    """A file that broke off or is damaged; the message says after which line."""


class Line(NamedTuple):
    """A line without its end. ``number`` counts from 0; ``size`` is in bytes.

    ``content`` is None where the line is longer than the reader's limit.
    """

    number: int
    content: bytes | None
    size: int

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing but white space (of ASCII) in it."""
        return self.content is not None and not self.content.strip()


class LineSource(Protocol):
    """What documents are read from: lines, or the rows of a table as lines of JSON."""

    name: str
    """The file's name, for source positions."""
    total_bytes: int | None
    """The file's size; None for a pipe."""

    @property
    def bytes_read(self) -> int:
        """How much of ``total_bytes`` has been read."""
        ...

    @property
    def lines_read(self) -> int:
        """How many lines have been read."""
        ...

    @property
    def digest(self) -> int:
        r"""XXH3-64 of all lines read, each ended by ``\n``: whether a file still begins alike."""
        ...

    def __iter__(self) -> Iterator[Line]:
        """Yield the lines that are left; raises ``InputFileError`` where the file is damaged."""
        ...

    def skip(self, lines: int) -> bool:
        """Read ``lines`` lines and let them go; False where there are not so many."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class InputLines:
    """Reads the lines of ``file``: a path, packed (``.gz``, ``.zst``) or plain, or ``-``.

    ``name`` is the file's name without its directory: source positions carry it, so it must not
    depend on where the command was started. It can be encoded as UTF-8.
    """

    def __init__(self, file: str, longest_bytes: int) -> None:
        """Open it; raises ``UsageError`` for a file that cannot be opened."""
        self._longest_bytes = longest_bytes
        self._shown = "standard input" if file == STANDARD_INPUT else file
        self._number = 0
        self._seen = xxhash.xxh3_64()
        self._raw: BinaryIO
        if file == STANDARD_INPUT:
            self.name, self._raw = _STANDARD_INPUT_NAME, sys.stdin.buffer
        else:
            self.name = os.fsencode(Path(file).name).decode(errors="replace")
            self._raw = open_raw(file)
        self._lines = unpacked(self._raw, file)
        self.total_bytes = regular_size(self._raw)

    @property
    def bytes_read(self) -> int:
        """How much of ``total_bytes`` has been read; of a packed file, packed bytes."""
        return self._raw.tell() if self.total_bytes is not None else 0

    @property
    def lines_read(self) -> int:
        """How many lines have been read."""
        return self._number

    @property
    def digest(self) -> int:
        r"""XXH3-64 of all lines read, each ended by ``\n``: whether a file still begins alike."""
        return self._seen.intdigest()

    def __iter__(self) -> Iterator[Line]:
        """Yield the lines that are left; raises ``InputFileError`` where the file is damaged."""
        while (line := self._next()) is not None:
            yield line

    def block(self) -> bytes:
        r"""Return the next lines, some MiB of them, each ended by ``\n``; nothing at the end.

        Blank ones included. Quicker than one by one. Raises ``InputFileError`` for a line past the
        limit too.
        """
        try:
            content = self._lines.read(_BLOCK_BYTES)
            if content and not content.endswith(b"\n"):
                content += self._lines.readline(self._longest_bytes + 1)
        except DAMAGED_ERRORS as error:
            raise self._broken(f"the packed data is damaged or cut off ({error})") from None
        except OSError as error:
            raise self._broken(error.strerror or str(error)) from None
        if content and not content.endswith(b"\n"):
            if len(content) - content.rfind(b"\n") - 1 > self._longest_bytes:
                self._number += content.count(b"\n")
                raise self._broken(f"a line has more than {self._longest_bytes} bytes")
            content += b"\n"
        self._seen.update(content)
        self._number += content.count(b"\n")
        return content

    def skip(self, lines: int) -> bool:
        """Read ``lines`` lines and let them go; False where there are not so many."""
        return all(self._next() is not None for _ in range(lines))

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._lines is not self._raw:
            self._lines.close()
        if self._raw is not sys.stdin.buffer:
            self._raw.close()

    def __enter__(self) -> Self:
        """Give itself, to be closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def _next(self) -> Line | None:
        try:
            line = self._read()
        except DAMAGED_ERRORS as error:
            raise self._broken(f"the packed data is damaged or truncated ({error})") from None
        except OSError as error:
            raise self._broken(error.strerror or str(error)) from None
        if line is not None:
            self._number += 1
        return line

    def _read(self) -> Line | None:
        content = self._lines.readline(self._longest_bytes + 1)
        if not content:
            return None
        self._seen.update(content)
        if content.endswith(b"\n"):
            return Line(self._number, content[:-1], len(content) - 1)
        size = len(content)
        ended = False
        if size <= self._longest_bytes:
            return self._ended(Line(self._number, content, size))
        while not ended and (part := self._lines.readline(_READ_BYTES)):
            self._seen.update(part)
            ended = part.endswith(b"\n")
            size += len(part) - ended
        long_line = Line(self._number, None, size)
        return long_line if ended else self._ended(long_line)

    def _ended(self, line: Line) -> Line:
        """Add the end that the last line lacks, so that a file may grow after it."""
        self._seen.update(b"\n")
        return line

    def _broken(self, reason: str) -> InputFileError:
        return InputFileError(
            f"{self._shown}: {reason}, after line {self._number}: "
            "nothing after it can be read; get the file again"
        )


def regular_size(file: BinaryIO) -> int | None:
    """Return the size of a regular file, None for a pipe, a terminal or what has no number."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
