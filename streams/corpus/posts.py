"""Posts with the truth about them: new, or an exact repeat of an earlier one.

Two posts repeat each other where their content is equal after NFKC, case folding and white space;
nothing less, since a text of few words says too little to be called near another.
"""

from __future__ import annotations

import random
import unicodedata
from dataclasses import dataclass

from streams.corpus.draws import chance, pick
from streams.corpus.generated import EditKind
from streams.corpus.short_posts import ShortPosts, emoji_post, empty_post, punctuation_post


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
        self._short = ShortPosts(rng)
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
                text = emoji_post(self._rng)
            case EditKind.PUNCTUATION:
                text = punctuation_post(self._rng)
            case EditKind.EMPTY:
                text = empty_post(self._rng)
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
