"""Files that settings name, read whole and up to a limit: secrets, word lists, settings themselves.

What is wrong with a file is a ``FileProblemError`` without its name: who asked knows it, and it may
be a secret that was given by the wrong name.
"""

from __future__ import annotations

from pathlib import Path


class FileProblemError(Exception):
    """A file that cannot be used; the message continues a sentence about it."""


def bounded_bytes(path: str | Path, bytes_limit: int) -> bytes:
    """Return what a file holds; raises ``FileProblemError``, also for more than the limit."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(bytes_limit + 1)
    except OSError as error:
        raise FileProblemError(f"cannot be read: {error.strerror or error}") from None
    except ValueError:  # a NUL in the name
        raise FileProblemError("cannot be read: its name is no path") from None
    if len(content) > bytes_limit:
        raise FileProblemError(f"has more than {bytes_limit} bytes")
    return content


def bounded_text(path: str | Path, bytes_limit: int) -> str:
    """Return the text of a file in UTF-8, less a byte order mark; raises ``FileProblemError``."""
    try:
        return bounded_bytes(path, bytes_limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileProblemError(f"is not UTF-8 (byte {error.start})") from None
