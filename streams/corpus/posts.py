"""Posts with the truth about them: short ones, and those without a word in them.

A short post is two clauses of everyday talk. Posts share phrases, as real ones do, yet no two of
them share both clauses unless one is a copy: each pair of clauses is used once.

Two posts repeat each other where their content is equal after NFKC, case folding and white space;
nothing less, since a text of few words says too little to be called near another.
"""

from __future__ import annotations

import random
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Final

from streams.corpus.draws import chance, integer, pick
from streams.corpus.generated import EditKind
from streams.corpus.grammar import Pattern, expand
from streams.corpus.word_lists import chapters, patterns

_EMOJI: Final = (
    "😀😂🤣😊😍😎😭😡🤔🙄😴🥳👍👎👏🙏💪🔥🎉🌧🌈🌸🍀🍉🍜🍺"
    "🎂🎈🐱🐶🐼🦊🚀🚲🏀🎸📚💡💔💯🧧🌙🌊🍵🐢🦆🥟🎣🧩"
)
_SIGNS: Final = "。！？…～—、，：；.!?,;:*#/=+&@%^|·"
_MAX_SIGNS: Final = 6
_EMPTY: Final = ("", "", " ", "\n", "\t \n", "\u3000")
_COMMAS: Final = {
    "zh": ("，", "！", "。", "，", "…"),
    "en": (", ", "! ", ". ", ", ", "... "),
}
_TRIES: Final = 50


@dataclass(frozen=True, slots=True)
class Post:
    """A text of a few characters, and the id of the first post with this content, if it repeats."""

    text: str
    root: str | None


def content_of(text: str) -> str:
    """Return what counts as the content of a text: NFKC, case folded, white space collapsed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


class PostBox:
    """Makes posts and remembers their contents."""

    def __init__(self, rng: random.Random, repeated: float) -> None:
        """Start empty; `repeated` is the probability that a short post repeats an earlier one."""
        self._rng = rng
        self._repeated = repeated
        self._short = _ShortPosts(rng)
        self._sent: dict[str, list[str]] = {"zh": [], "en": []}
        self._first: dict[str, str] = {}

    def post(self, doc_id: str, kind: EditKind, code: str) -> Post:
        """Make a post of the kind, in a language (`zh` or `en`) where it has words.

        Raises:
            ValueError: the kind is not one of posts.
        """
        match kind:
            case EditKind.SHORT_POST:
                text = self._short_text(code)
            case EditKind.EMOJI:
                text = self._signs(_EMOJI)
            case EditKind.PUNCTUATION:
                text = self._signs(_SIGNS)
            case EditKind.EMPTY:
                text = pick(self._rng, _EMPTY)
            case _:
                raise ValueError(f"{kind!r} is not a kind of post")
        first = self._first.setdefault(content_of(text), doc_id)
        return Post(text, None if first == doc_id else first)

    def _short_text(self, code: str) -> str:
        sent = self._sent[code]
        if not (sent and chance(self._rng, self._repeated)):
            text = self._short.post(code)
            if text is not None:
                sent.append(text)
                return text
        return pick(self._rng, sent)

    def _signs(self, signs: str) -> str:
        return "".join(pick(self._rng, signs) for _ in range(integer(self._rng, 1, _MAX_SIGNS)))


class _ShortPosts:
    """Makes short posts, no two of which say the same."""

    def __init__(self, rng: random.Random) -> None:
        """Start with no post made."""
        self._rng = rng
        self._drawn: set[tuple[str, int, int]] = set()

    def post(self, code: str) -> str | None:
        """Make a post of 5 to 40 characters in a language, `zh` or `en`.

        Returns None where no new pair of clauses was found in a bounded number of draws.
        """
        openers, remarks, commas = _clauses(code)
        for _ in range(_TRIES):
            first = integer(self._rng, 0, len(openers) - 1)
            second = integer(self._rng, 0, len(remarks) - 1)
            if (code, first, second) in self._drawn:
                continue
            self._drawn.add((code, first, second))
            opener = expand(openers[first], self._rng, str)
            return opener + pick(self._rng, commas) + expand(remarks[second], self._rng, str)
        return None


@cache
def _clauses(code: str) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...], tuple[str, ...]]:
    """Return what a post of a language begins with, what follows, and the signs between."""
    words = chapters(code, "words")["posts"]
    return patterns(words["openers"]), patterns(words["remarks"]), _COMMAS[code]
