"""Files that settings name, read whole and up to a limit: secrets, word lists, settings themselves.

What is wrong with a file is a ``FileProblemError`` without its name: the caller knows it, and it
may be a secret that somebody set by the wrong name.

Orchestrators provide a secret as a file with nothing else in it. Kafka properties of ours that end
in ``.file`` name one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

SECRET_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"{name}.file": name
        for name in (
            "sasl.password",
            "sasl.oauthbearer.client.secret",
            "ssl.key.password",
            "ssl.keystore.password",
        )
    }
)
"""Kafka properties of ours that name a file, and the property whose value is in it."""

_BYTES_MAX: Final = 64 * 1024


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


def secret_of_file(path: str) -> str:
    """Return what a file holds, less one end of line.

    Raises ``ValueError`` without the path in its message: it may be the secret itself, given by
    the wrong name.
    """
    try:
        secret = bounded_text(path, _BYTES_MAX)
    except FileProblemError as error:
        raise ValueError(f"the file that it names {error}") from None
    secret = secret.removesuffix("\n").removesuffix("\r")
    if not secret or "\0" in secret:
        raise ValueError("the file is empty or not text")
    return secret
