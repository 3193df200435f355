"""A user dictionary: words that the segmenter's own dictionary lacks.

Lines as jieba has them: ``word``, ``word frequency`` or ``word frequency tag``, separated by
blanks. Without a frequency the segmenter gives one that makes the word come out whole.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from simhash_core.errors import UsageError
from simhash_core.text.normalization import normalize

WORDS_MAX: Final = 1_000_000
FREQUENCY_MAX: Final = 1_000_000_000

_FIELDS_MAX: Final = 3


class UserWord(NamedTuple):
    """A word as normalised texts have it; None where the segmenter is to choose."""

    text: str
    frequency: int | None
    tag: str | None


class UserDictionary(NamedTuple):
    """Words, and a digest of them: equal lists have equal identities."""

    identity: str
    words: tuple[UserWord, ...]


def parse_user_dictionary(text: str) -> UserDictionary:
    """Read a user dictionary.

    Raises ``UsageError`` that begins with ``user_dictionary`` for a line that is none.
    """
    words = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        if line.strip():
            words.append(_word(number, line))
    if not 0 < len(words) <= WORDS_MAX:
        raise UsageError(f"user_dictionary has {len(words)} words: 1 to {WORDS_MAX} are needed")
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
