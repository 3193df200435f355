"""Realistic edits of any text: near-duplicates made where nobody has labelled any.

Words are replaced, put in and left out in short runs, as an editor does it, and what is put in
comes from another text of the same collection, so that an edit has its words. Sentences go and
come. The demo's own edits do the rest: another order, a cut, another typography, another site's
lines above and below. Every draw follows from the random numbers that are given.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from streams.corpus.draws import integer, pick
from streams.corpus.language import Language
from streams.corpus.languages import LANGUAGES
from streams.corpus.layout_edits import reorder, repost, retype, truncate

SHARE_MIN: Final = 0.02
SHARE_MAX: Final = 0.15
"""Of the words (of Chinese: the characters) of a text that an edit of words touches."""

_RUN: Final = (1, 4)
_CHINESE_SHARE: Final = 0.15
_WORD: Final = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\d+|\s+|.", re.DOTALL)
_CHINESE: Final = re.compile(r"[\u3400-\u9fff]")
_STOPS: Final = "。！？!?\n"
_SENTENCE: Final = re.compile(rf"[^{_STOPS}.]*(?:[{_STOPS}]+|\.+\s*|$)")


class Edit(StrEnum):
    """What is done to a text."""

    SUBSTITUTE = "substitute"
    INSERT = "insert"
    DELETE = "delete"
    SENTENCES = "sentences"
    REORDER = "reorder"
    TRUNCATE = "truncate"
    BOILERPLATE = "boilerplate"
    RETYPE = "retype"


EDITS: Final = tuple(Edit)


class _Draw(NamedTuple):
    """All that an edit has to go by."""

    rng: random.Random
    text: str
    other: str
    share: float

    @property
    def language(self) -> Language:
        """The nearer of the two languages that the demo's edits know."""
        chinese = len(_CHINESE.findall(self.text))
        return LANGUAGES["zh" if chinese > len(self.text) * _CHINESE_SHARE else "en"]


def edited(rng: random.Random, edit: Edit, text: str, other: str, share: float) -> str:
    """Return an edit of ``text``; one of words or sentences touches ``share`` of it.

    ``other`` is where words and sentences that are put in come from. A text that is too short for
    an edit comes back as it was.
    """
    return _EDITS[edit](_Draw(rng, text, other, share))


def drawn_share(rng: random.Random) -> float:
    """Draw the share that an edit touches."""
    return SHARE_MIN + (SHARE_MAX - SHARE_MIN) * rng.random()


def _substitute(draw: _Draw) -> str:
    return _change_words(draw, takes=True, puts=True)


def _insert(draw: _Draw) -> str:
    return _change_words(draw, takes=False, puts=True)


def _delete(draw: _Draw) -> str:
    return _change_words(draw, takes=True, puts=False)


def _change_words(draw: _Draw, *, takes: bool, puts: bool) -> str:
    """Take short runs of words out, put runs of the other text in, or both, at random places."""
    words, source = _WORD.findall(draw.text), _WORD.findall(draw.other)
    left = max(1, round(len(words) * draw.share))
    while left > 0 and words:
        run = min(left, integer(draw.rng, *_RUN))
        at = int(draw.rng.random() * len(words))
        begin = int(draw.rng.random() * max(1, len(source) - run))
        words[at : at + (run if takes else 0)] = source[begin : begin + run] if puts else []
        left -= run
    return "".join(words)


def _sentences(draw: _Draw) -> str:
    """Let sentences go, and put others in their places or elsewhere."""
    sentences = _sentences_of(draw.text)
    source = _sentences_of(draw.other)
    for _ in range(max(1, round(len(sentences) * draw.share))):
        at = int(draw.rng.random() * len(sentences))
        what = draw.rng.random()
        new = [pick(draw.rng, source)] if source and what < 2 / 3 else []
        removed = 1 if what > 1 / 3 and len(sentences) > 1 else 0
        sentences[at : at + removed] = new
    return "".join(sentences)


def _sentences_of(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE.findall(text) if sentence]


def _boilerplate(draw: _Draw) -> str:
    title = draw.text.strip().partition("\n")[0][:40]
    return repost(draw.rng, draw.language, title, draw.text)


_EDITS: Final[Mapping[Edit, Callable[[_Draw], str]]] = {
    Edit.SUBSTITUTE: _substitute,
    Edit.INSERT: _insert,
    Edit.DELETE: _delete,
    Edit.SENTENCES: _sentences,
    Edit.REORDER: lambda draw: reorder(draw.rng, draw.language, draw.text),
    Edit.TRUNCATE: lambda draw: truncate(draw.rng, draw.language, draw.text),
    Edit.BOILERPLATE: _boilerplate,
    Edit.RETYPE: lambda draw: retype(draw.rng, draw.language, draw.text),
}


class EditedCopy(NamedTuple):
    """A copy of the text at this place in the list; what was done to it, one edit or two."""

    of: int
    edits: tuple[Edit, ...]
    text: str


def edited_copies(texts: Sequence[str], copies: int, seed: int) -> list[EditedCopy]:
    """Return so many edited copies of each text, all kinds of edits in turn; every fourth has two.

    The same texts and seed give the same copies.
    """
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret
    copies_of_all = []
    for number in range(len(texts) * copies):
        of = number // copies
        edits = [EDITS[number % len(EDITS)]]
        if number % 4 == 3:  # noqa: PLR2004 - every fourth
            edits.append(pick(rng, EDITS))
        text = texts[of]
        for edit in edits:
            other = pick(rng, texts)
            text = edited(rng, edit, text, other, drawn_share(rng))
        copies_of_all.append(EditedCopy(of, tuple(edits), text))
    return copies_of_all
