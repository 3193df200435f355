"""Files that are part of an index: idf model, user dictionary, stop words. Read once a process.

What a file holds counts, not where it is: digests of the contents are in the index identity, so a
worker with another file refuses to share the index. A file that changes under a running worker
changes nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from simhash_core.errors import UsageError
from simhash_core.text.idf_format import BYTES_MAX, decode_idf
from simhash_core.text.stop_words import parse_stop_words
from simhash_core.text.user_dictionary import parse_user_dictionary
from streams.settings.named_files import FileProblemError, bounded_bytes, bounded_text

_WORD_LIST_BYTES_MAX: Final = 64 * 1024 * 1024


def file_content(setting: str, path: str, bytes_limit: int) -> bytes:
    """Return what a file holds; raises ``UsageError`` that names the setting and the file."""
    try:
        return bounded_bytes(path, bytes_limit)
    except FileProblemError as error:
        raise UsageError(f"{setting}: {path} {error}") from None


def _text(setting: str, path: str) -> str:
    try:
        return bounded_text(path, _WORD_LIST_BYTES_MAX)
    except FileProblemError as error:
        raise UsageError(f"{setting}: {path} {error}") from None


_READERS: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "idf": lambda path: decode_idf(file_content("idf", path, BYTES_MAX)),
        "user_dictionary": lambda path: parse_user_dictionary(_text("user_dictionary", path)),
        "stop_words": lambda path: parse_stop_words(_text("stop_words", path)),
    }
)


def read_index_files(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes to a profile with what the files hold in place of their paths.

    Raises ``UsageError``, with the setting, for a file that is none of its kind.
    """
    return {
        name: _read(name, value) if name in _READERS else value for name, value in changes.items()
    }


@cache
def _read(setting: str, path: str) -> Any:  # noqa: ANN401 - a model, a dictionary or a list
    try:
        return _READERS[setting](path)
    except UsageError as error:
        raise UsageError(str(error), setting=setting) from None
