"""User dictionaries, stop words, and the tables of jieba."""

from __future__ import annotations

import hashlib
from importlib.metadata import files
from typing import Final, NamedTuple

from simhash_core.errors import UsageError
from simhash_core.text.normalization import normalize

USER_WORDS_MAX: Final = 1_000_000
FREQUENCY_MAX: Final = 1_000_000_000
STOP_WORDS_MAX: Final = 1_000_000

_FIELDS_MAX: Final = 3


def read_jieba_file(name: str) -> bytes:
    """Return a file of jieba's package without the import of jieba, which takes 0.2 s.

    Raises ``UsageError`` if it is not installed.
    """
    for each in files("jieba") or ():
        if each.as_posix() == f"jieba/{name}":
            return each.read_binary()
    raise UsageError(f"jieba is installed without its file {name}: reinstall it (pip)")


class UserWord(NamedTuple):
    """A normalised word; the segmenter chooses values that are None."""

    text: str
    frequency: int | None
    tag: str | None


class UserDictionary(NamedTuple):
    """Words and their digest; equal lists have equal digests."""

    identity: str
    words: tuple[UserWord, ...]


def parse_user_dictionary(text: str) -> UserDictionary:
    """Read lines as jieba does: ``word``, ``word frequency`` or ``word frequency tag``.

    Without a frequency, the segmenter chooses one that keeps the word whole. Raises ``UsageError``
    with a message that begins with ``user_dictionary`` for an invalid line.
    """
    words = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        if line.strip():
            words.append(_word(number, line))
    if not 0 < len(words) <= USER_WORDS_MAX:
        raise UsageError(
            f"user_dictionary has {len(words)} words: 1 to {USER_WORDS_MAX} are needed"
        )
    digest = hashlib.blake2b(repr([tuple(word) for word in words]).encode(), digest_size=6)
    return UserDictionary(digest.hexdigest(), tuple(words))


def _word(number: int, line: str) -> UserWord:
    fields = line.split()
    frequency, tag = None, None
    rest = fields[1:]
    if rest and rest[0].isascii() and rest[0].isdigit() and len(rest[0]) <= len(str(FREQUENCY_MAX)):
        frequency, rest = min(int(rest[0]), FREQUENCY_MAX), rest[1:]
    if rest and rest[0].isascii() and rest[0].isalpha():
        tag, rest = rest[0], rest[1:]
    word = normalize(fields[0])
    if rest or len(fields) > _FIELDS_MAX or not word or " " in word:
        raise UsageError(
            f"user_dictionary, line {number}: expected 'word', 'word frequency' or "
            f"'word frequency tag', got {line[:80]!r}"
        )
    return UserWord(word, frequency, tag)


class StopWords(NamedTuple):
    """Normalised terms that are not features, and their digest; equal sets have equal digests."""

    identity: str
    words: frozenset[str]


def parse_stop_words(text: str) -> StopWords:
    """Read one word per line; raises ``UsageError`` that begins with ``stop_words``."""
    lines = (normalize(line) for line in text.removeprefix("\ufeff").splitlines())
    words = frozenset(line for line in lines if line)
    if not 0 < len(words) <= STOP_WORDS_MAX:
        raise UsageError(f"stop_words has {len(words)} words: 1 to {STOP_WORDS_MAX} are needed")
    digest = hashlib.blake2b("\n".join(sorted(words)).encode(), digest_size=6)
    return StopWords(digest.hexdigest(), words)
