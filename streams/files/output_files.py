"""Files that a command writes: whole or not at all, or so that they can be continued.

``NewFile`` is written under another name and gets its own at the end. ``ContinuedFile`` is cut to a
length that is known to be good and continues from there. ``Stream`` is a pipe or a device, which
can neither be renamed nor cut.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from simhash_core.errors import FirstseenError, UsageError

STANDARD_OUTPUT: Final = "-"
PARTIAL_SUFFIX: Final = ".partial"
_BUFFER_BYTES: Final = 1 << 20
_NO_LOCKS: Final = frozenset({errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS})


class OutputFileError(FirstseenError):
    """A file that cannot be written; the message names it and the reason."""


class OutputFile(Protocol):
    """What is common to all: bytes go in, and end well or not."""

    def write(self, data: bytes) -> None:
        """Add to the file; raises ``OutputFileError``."""
        ...

    def sync(self) -> int:
        """Make everything written so far last, as far as it can; return the file's length."""
        ...

    def finish(self) -> None:
        """End well: the file is whole."""
        ...

    def close(self) -> None:
        """End at once, if it has not ended well: what that leaves behind is the class's rule."""
        ...


class NewFile:
    """Written beside its path as ``.partial``, renamed by ``finish``, removed by ``close``.

    gzip by its name (``.gz``), with no time and no name inside: equal content gives equal bytes.
    """

    def __init__(self, path: Path) -> None:
        """Begin it; raises ``OutputFileError``, also where another process is writing it."""
        self._path = path
        self._partial = path.with_name(path.name + PARTIAL_SUFFIX)
        with _errors_named(self._partial):
            self._file = _open_locked(self._partial)
            self._file.truncate(0)
        self._gzip: gzip.GzipFile | None = None
        if path.suffix == ".gz":
            self._gzip = gzip.GzipFile(
                filename="", mode="wb", fileobj=self._file, compresslevel=6, mtime=0
            )

    def write(self, data: bytes) -> None:
        """Add to the file."""
        with _errors_named(self._path):
            (self._gzip or self._file).write(data)

    def sync(self) -> int:
        """Return 0: nothing lasts before the end."""
        return 0

    def finish(self) -> None:
        """Give the file its name, whatever had it before."""
        with _errors_named(self._path):
            if self._gzip is not None:
                self._gzip.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._partial.replace(self._path)
            self._file.close()

    def close(self) -> None:
        """Remove what was written, unless it was finished."""
        if not self._file.closed:
            with suppress(OSError):
                self._partial.unlink()
            _drop(self._file)


class ContinuedFile:
    """Cut to ``length`` bytes and continued; ``close`` leaves it as it is."""

    def __init__(self, path: Path, length: int) -> None:
        """Open it; raises ``OutputFileError`` where it is shorter than it was left."""
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

    def write(self, data: bytes) -> None:
        """Add to the file."""
        with _errors_named(self._path):
            self._file.write(data)

    def sync(self) -> int:
        """Bring everything to the disk, so that no loss of power takes it; return the length."""
        with _errors_named(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.tell()

    def finish(self) -> None:
        """Close the file."""
        self.sync()
        self._file.close()

    def close(self) -> None:
        """Close the file, whatever is still in the buffer."""
        _drop(self._file)


class Stream:
    """A pipe, a terminal or a device: what was written is gone, and stays."""

    def __init__(self, path: Path | None) -> None:
        """Open a device or a named pipe; None is standard output. Raises ``OutputFileError``."""
        self._path = path or Path("standard output")
        self._file: BinaryIO = sys.stdout.buffer
        if path is not None:
            with _errors_named(path):
                self._file = path.open("wb")

    def write(self, data: bytes) -> None:
        """Pass on at once, so that a reader need not wait."""
        with _errors_named(self._path):
            self._file.write(data)
            self._file.flush()

    def sync(self) -> int:
        """Return 0: there is nothing to go back to."""
        return 0

    def finish(self) -> None:
        """Close a device; standard output stays open."""
        if self._file is not sys.stdout.buffer:
            with _errors_named(self._path):
                self._file.close()

    def close(self) -> None:
        """Let go of a device."""
        if self._file is not sys.stdout.buffer:
            _drop(self._file)


@contextmanager
def new_output(name: str) -> Iterator[OutputFile]:
    """Open standard output (``-``), or a new file, which gets its name once all is written.

    Raises ``UsageError`` where the file is there already, ``OutputFileError`` where it cannot be
    written.
    """
    if name != STANDARD_OUTPUT and Path(name).exists():
        raise UsageError(f"{name} exists: name another file, or delete it")
    output = Stream(None) if name == STANDARD_OUTPUT else NewFile(Path(name))
    try:
        yield output
        output.finish()
    finally:
        output.close()


def _open_locked(path: Path) -> BinaryIO:
    """Open for writing without cutting, and keep all other processes out until it is closed."""
    file: BinaryIO = path.open("r+b" if path.exists() else "w+b", buffering=_BUFFER_BYTES)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise OutputFileError(
            f"{path} is being written by another process: wait for it, or name another file"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # some network file systems know no locks
            file.close()
            raise
    return file


def _drop(file: BinaryIO) -> None:
    """Close a file that nobody wants to read: a full disk is no news any more."""
    with suppress(OSError):
        file.close()


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    """Turn what the system says into an error that names the file.

    Not for a reader that has gone: the command ends quietly then.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFileError(f"cannot write {path}: {error.strerror or error}") from error
