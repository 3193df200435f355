"""Files that are part of an index: idf model, user dictionary, stop words. Read once a process.

What a file holds counts, not where it is: digests of the contents are in the index identity, so a
worker with another file refuses to share the index. A file that changes under a running worker
changes nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from simhash_core.errors import UsageError
from simhash_core.text.idf_format import MOST_BYTES, decode_idf
from simhash_core.text.stop_words import parse_stop_words
from simhash_core.text.user_dictionary import parse_user_dictionary

_WORD_LIST_BYTES_MOST: Final = 64 * 1024 * 1024


def file_content(setting: str, path: str, most_bytes: int) -> bytes:
    """Return what a file holds.

    Raises ``UsageError`` that begins with the setting's name for one that cannot be read or is
    larger.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise UsageError(f"{setting} cannot be read from {path}: {error.strerror}") from None
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"{setting} cannot be read from {path!r}: {error}") from None
    if len(content) > most_bytes:
        raise UsageError(f"{setting}: {path} has more than {most_bytes} bytes")
    return content


def _text(setting: str, path: str) -> str:
    try:
        return file_content(setting, path, _WORD_LIST_BYTES_MOST).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{setting}: {path} is not UTF-8 (byte {error.start})") from None


_READERS: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "idf": lambda path: decode_idf(file_content("idf", path, MOST_BYTES)),
        "user_dictionary": lambda path: parse_user_dictionary(_text("user_dictionary", path)),
        "stop_words": lambda path: parse_stop_words(_text("stop_words", path)),
    }
)


def read_index_files(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes to a profile with what the files hold in place of their paths.

    Raises ``UsageError`` that begins with the setting's name for a file that is none of its kind.
    """
    return {
        name: _read(name, value) if name in _READERS else value for name, value in changes.items()
    }


@cache
def _read(setting: str, path: str) -> Any:  # noqa: ANN401 - a model, a dictionary or a list
    return _READERS[setting](path)
