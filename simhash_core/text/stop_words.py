"""Stop words: terms that are no features, whatever the segmenter makes of them."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from simhash_core.errors import UsageError
from simhash_core.text.normalization import normalize

WORDS_MAX: Final = 1_000_000


class StopWords(NamedTuple):
    """Terms as normalised texts have them, and a digest: equal sets have equal identities."""

    identity: str
    words: frozenset[str]


def parse_stop_words(text: str) -> StopWords:
    """Read a list with a word a line; blank lines are nothing.

    Raises ``UsageError`` that begins with ``stop_words`` for a list without words or too long.
    """
    lines = (normalize(line) for line in text.removeprefix("\ufeff").splitlines())
    words = frozenset(line for line in lines if line)
    if not 0 < len(words) <= WORDS_MAX:
        raise UsageError(f"stop_words has {len(words)} words: 1 to {WORDS_MAX} are needed")
    digest = hashlib.blake2b("\n".join(sorted(words)).encode(), digest_size=6)
    return StopWords(digest.hexdigest(), words)
