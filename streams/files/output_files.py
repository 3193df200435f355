"""Output files: complete or absent (``NewFile``), resumable (``ContinuedFile``), or a ``Stream``.

A stream is a pipe or a device, which can be neither renamed nor truncated.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from simhash_core.errors import FirstseenError, UsageError

STANDARD_OUTPUT: Final = "-"
PARTIAL_SUFFIX: Final = ".partial"
_BUFFER_BYTES: Final = 1 << 20
_NO_LOCKS: Final = frozenset({errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS})


class OutputFileError(FirstseenError):
    """A file cannot be written; the message names it and the reason."""


def partial_path(path: Path) -> Path:
    return path.with_name(path.name + PARTIAL_SUFFIX)


class OutputFile(ABC):
    """Methods raise ``OutputFileError``."""

    _path: Path
    _file: BinaryIO

    def write(self, data: bytes) -> None:
        with _errors_named(self._path):
            self._file.write(data)

    def sync(self) -> int:
        """Make the written data durable if possible; return the length to resume from."""
        return 0

    @abstractmethod
    def finish(self) -> None: ...

    def close(self) -> None:
        """Release the file, even if its disk is full; the class decides what remains."""
        with suppress(OSError):
            self._file.close()


class NewFile(OutputFile):
    """Writes ``.partial`` beside the path; ``finish`` renames it, ``close`` removes it.

    The file is gzip if its name ends in ``.gz``. The gzip header has no time and no name, so equal
    content gives equal bytes.
    """

    def __init__(self, path: Path) -> None:
        """Create it; raise ``OutputFileError``, also if another process is writing it."""
        self._path = path
        self._partial = partial_path(path)
        with _errors_named(self._partial):
            self._file = _open_locked(self._partial)
            self._file.truncate(0)
        self._gzip: gzip.GzipFile | None = None
        if path.suffix == ".gz":
            self._gzip = gzip.GzipFile(
                filename="", mode="wb", fileobj=self._file, compresslevel=6, mtime=0
            )

    def write(self, data: bytes) -> None:
        with _errors_named(self._path):
            (self._gzip or self._file).write(data)

    def finish(self) -> None:
        with _errors_named(self._path):
            if self._gzip is not None:
                self._gzip.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._partial.replace(self._path)
            self._file.close()

    def close(self) -> None:
        if not self._file.closed:
            with suppress(OSError):
                self._partial.unlink()
            super().close()


class ContinuedFile(OutputFile):
    def __init__(self, path: Path, length: int) -> None:
        """Open it; raise ``OutputFileError`` if it is shorter than ``length``."""
        self._path = path
        with _errors_named(path):
            self._file = _open_locked(path)
            size = self._file.seek(0, os.SEEK_END)
            if size < length:
                self._file.close()
                raise OutputFileError(
                    f"{path} has {size} bytes, but had {length} when the run was interrupted: "
                    f"restore it, or discard the run with --abandon"
                )
            self._file.truncate(length)
            self._file.seek(length)

    def sync(self) -> int:
        with _errors_named(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.tell()

    def finish(self) -> None:
        self.sync()
        self._file.close()


class Stream(OutputFile):
    """A pipe, a terminal or a device: written data cannot be taken back."""

    def __init__(self, path: Path | None) -> None:
        self._path = path or Path("standard output")
        self._file = sys.stdout.buffer
        if path is not None:
            with _errors_named(path):
                self._file = path.open("wb")

    def write(self, data: bytes) -> None:
        with _errors_named(self._path):
            self._file.write(data)
            self._file.flush()

    def finish(self) -> None:
        if self._file is not sys.stdout.buffer:
            with _errors_named(self._path):
                self._file.close()

    def close(self) -> None:
        if self._file is not sys.stdout.buffer:
            super().close()


@contextmanager
def new_output(name: str) -> Iterator[OutputFile]:
    """Open standard output (``-``) or a ``NewFile``; raise ``UsageError`` if the file exists."""
    if name != STANDARD_OUTPUT and Path(name).exists():
        raise UsageError(f"{name} exists: name another file, or delete it")
    output = Stream(None) if name == STANDARD_OUTPUT else NewFile(Path(name))
    try:
        yield output
        output.finish()
    finally:
        output.close()


def _open_locked(path: Path) -> BinaryIO:
    """Open for writing without truncation, under an exclusive lock."""
    file: BinaryIO = path.open("r+b" if path.exists() else "w+b", buffering=_BUFFER_BYTES)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise OutputFileError(
            f"{path} is being written by another process: wait for it, or name another file"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # some network file systems have no locks
            file.close()
            raise
    return file


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    """Turn ``OSError`` into ``OutputFileError``."""
    try:
        yield
    except BrokenPipeError:  # the command ends quietly when its reader is gone
        raise
    except OSError as error:
        raise OutputFileError(f"cannot write {path}: {error.strerror or error}") from error
