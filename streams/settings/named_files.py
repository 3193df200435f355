"""Files that settings name, read whole and up to a limit: secrets, word lists, settings.

``FileProblemError`` does not name the file, because the name may be a secret set by mistake.
Orchestrators provide a secret as a separate file; our own Kafka properties that end in ``.file``
name such a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from simhash_core.errors import UsageError
from simhash_core.text.idf import BYTES_MAX, decode_idf
from simhash_core.text.word_lists import parse_stop_words, parse_user_dictionary

SECRETS_IN_FILES: Final = (
    "sasl.password",
    "sasl.oauthbearer.client.secret",
    "ssl.key.password",
    "ssl.keystore.password",
)
"""Kafka properties whose value may be in a file, which our own property ``NAME.file`` names."""

_BYTES_MAX: Final = 64 * 1024


class FileProblemError(Exception):
    """A file that cannot be used; the message continues a sentence about it."""


def bounded_bytes(path: str | Path, bytes_limit: int) -> bytes:
    """Read a file; raise ``FileProblemError``, also if it is over the limit."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(bytes_limit + 1)
    except OSError as error:
        raise FileProblemError(f"cannot be read: {error.strerror or error}") from None
    except ValueError:  # a NUL in the name
        raise FileProblemError("cannot be read: its name is not a valid path") from None
    if len(content) > bytes_limit:
        raise FileProblemError(f"has more than {bytes_limit} bytes")
    return content


def bounded_text(path: str | Path, bytes_limit: int) -> str:
    """Read UTF-8 without a byte order mark; raise ``FileProblemError``."""
    try:
        return bounded_bytes(path, bytes_limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileProblemError(f"is not UTF-8 (byte {error.start})") from None


def secret_of_file(path: str) -> str:
    """Return a file without one line end; ``ValueError`` omits the path, which may be secret."""
    try:
        secret = bounded_text(path, _BYTES_MAX)
    except FileProblemError as error:
        raise ValueError(f"the file that it names {error}") from None
    secret = secret.removesuffix("\n").removesuffix("\r")
    if not secret or "\0" in secret:
        raise ValueError("the file is empty or not text")
    return secret


# ---- Files that are part of an index: idf model, user dictionary, stop words.
#
# Digests of their contents are in the index identity, so a worker with another file refuses to
# share the index. Each is read once per process: a later change has no effect.

_WORD_LIST_BYTES_MAX: Final = 64 * 1024 * 1024


def file_content(setting: str, path: str, bytes_limit: int) -> bytes:
    """Read a file; raise ``UsageError`` that names the setting and the file."""
    try:
        return bounded_bytes(path, bytes_limit)
    except FileProblemError as error:
        raise UsageError(f"{setting}: {path} {error}") from None


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "idf": lambda path: decode_idf(bounded_bytes(path, BYTES_MAX)),
    "user_dictionary": lambda path: parse_user_dictionary(bounded_text(path, _WORD_LIST_BYTES_MAX)),
    "stop_words": lambda path: parse_stop_words(bounded_text(path, _WORD_LIST_BYTES_MAX)),
}


def read_index_files(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the paths in changes to a profile by contents; raise ``UsageError``."""
    return {
        name: _read(name, value) if name in _READERS else value for name, value in changes.items()
    }


@cache
def _read(setting: str, path: str) -> Any:  # noqa: ANN401 - a model, a dictionary or a list
    try:
        return _READERS[setting](path)
    except FileProblemError as error:
        raise UsageError(f"{setting}: {path} {error}", setting=setting) from None
    except UsageError as error:
        raise UsageError(str(error), setting=setting) from None
