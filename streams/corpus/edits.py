"""Edits of articles: words, order, layout and typography."""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from streams.corpus.draws import chance, integer, pick, shuffled
from streams.corpus.language import Language, expand

# ---- Edits of words.

_RUN = (1, 4)
_WORD = re.compile(r"[^\s，。！？：；（）\u3000-\u9fff\uac00-\ud7af]+\s*|\s+|.", re.DOTALL)
"""A word with the punctuation and blanks after it; in Chinese, Japanese, Korean: a character."""


def change_words(
    rng: random.Random,
    text: str,
    other: str,
    share: float,
    *,
    takes: bool = True,
    puts: bool = True,
) -> str:
    """Delete short runs of words (Chinese: characters), insert runs of another text, or both.

    The edit touches ``share`` of the text, at random places.
    """
    words, source = _WORD.findall(text), _WORD.findall(other)
    left = max(1, round(len(words) * share))
    while left > 0 and words:
        run = min(left, integer(rng, *_RUN))
        at = int(rng.random() * len(words))
        begin = int(rng.random() * max(1, len(source) - run))
        words[at : at + (run if takes else 0)] = source[begin : begin + run] if puts else []
        left -= run
    return "".join(words)


# ---- Edits that keep every word: truncation, order, typography, added lines.

TITLE_MARKS = {"zh": "[转] ", "en": "Repost: "}

_CUT_MARKS = {
    "zh": ("", "", "……", "……[阅读全文]", "（未完待续）", "...查看更多"),
    "en": ("", "", "…", " [read more]", " (continued on page 4)", "... More"),
}
_ASCII_SIGNS = str.maketrans("，。！？：；（）", ",.!?:;()")
_FULL_WIDTH = str.maketrans(
    {sign: chr(ord(sign) + 0xFEE0) for sign in "0123456789%"}
    | {chr(code): chr(code + 0xFEE0) for code in (*range(65, 91), *range(97, 123))}
)
# A Chinese text may have ASCII full stops after a typographic edit; these also occur in numbers.
_SENTENCE_END = {
    "zh": re.compile(r"(?<=[。！？!?.])(?![。！？!?.\d”\"'」』]|$)"),
    "en": re.compile(r"(?<=[.!?])\s+"),
}
_MIN_KEPT, _MAX_KEPT = 0.70, 0.95
_MIN_EDITS, _MAX_EDITS = 2, 4


def truncate(rng: random.Random, language: Language, text: str) -> str:
    """Keep the first 70 to 95 % of a text, perhaps with a mark of truncation."""
    kept = int(len(text) * (_MIN_KEPT + (_MAX_KEPT - _MIN_KEPT) * rng.random()))
    if language.space:
        blank = text.rfind(language.space, 0, kept)
        kept = blank if blank > len(text) * _MIN_KEPT else kept
    return text[:kept] + pick(rng, _CUT_MARKS[language.code])


def reorder(rng: random.Random, language: Language, text: str) -> str:
    """Reorder the paragraphs, or the sentences of a single paragraph."""
    for separator in ("\n\n", "\n"):
        if separator in text:
            parts, joint = text.split(separator), separator
            break
    else:
        parts, joint = _SENTENCE_END[language.code].split(text), language.space
    moved = shuffled(rng, parts)
    if moved == parts:
        moved = parts[1:] + parts[:1]
    return joint.join(moved)


def retype(rng: random.Random, language: Language, text: str) -> str:
    """Make two to four changes of punctuation, widths, case or white space."""
    changes = shuffled(rng, _TYPOGRAPHY[language.code])
    for change in changes[: integer(rng, _MIN_EDITS, _MAX_EDITS)]:
        text = change(rng, text)
    return text


def repost(rng: random.Random, language: Language, title: str, text: str) -> str:
    """Add one to four lines of another site above or below a text, or both."""

    def lines(patterns: Sequence[str], limit: int) -> list[str]:
        chosen = shuffled(rng, patterns)[: integer(rng, 1, limit)]
        return [expand(pattern, rng, fill) for pattern in chosen]

    def fill(slot: str) -> str:
        return title if slot == "title" else language.phrase(rng, slot)

    headed = chance(rng, 0.75)
    above = lines(language.reposts["headers"], 2) if headed else []
    below = lines(language.reposts["footers"], 2) if not headed or chance(rng, 0.7) else []
    return "\n".join((*above, text, *below))


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def _spaced_numbers(text: str) -> str:
    """Put a space between Chinese characters and numbers, as many style guides ask for."""
    text = re.sub(r"(?<=[\u4e00-\u9fff])(?=\d)", " ", text)
    return re.sub(r"(?<=[\d%])(?=[\u4e00-\u9fff])", " ", text)


def _quoted(rng: random.Random, text: str, *pairs: str) -> str:
    opening, closing = pick(rng, pairs).split(" ")
    return text.replace("“", opening).replace("”", closing)


def _folded(rng: random.Random, text: str) -> str:
    width = integer(rng, 52, 78)
    return "\n\n".join(textwrap.fill(line, width) for line in _lines(text))


_Change: TypeAlias = Callable[[random.Random, str], str]
_IN_BOTH: Final[tuple[_Change, ...]] = (
    lambda rng, text: _quoted(rng, text, "「 」", "『 』", '" "'),
    lambda _, text: text.translate(_FULL_WIDTH),
    lambda _, text: text.replace("\n", " "),
    lambda _, text: "\n\n".join(_lines(text)),
)
_TYPOGRAPHY: Final[dict[str, tuple[_Change, ...]]] = {
    "zh": (
        *_IN_BOTH,
        lambda _, text: text.translate(_ASCII_SIGNS),
        lambda _, text: _spaced_numbers(text),
        lambda _, text: "\n".join("\u3000\u3000" + line for line in _lines(text)),
        lambda _, text: re.sub(r"([，。；：,;:.!?])(?=[^\d\s])", r"\1 ", text),
        lambda rng, text: text.replace("——", pick(rng, ("--", "—", " - "))),
    ),
    "en": (
        *_IN_BOTH,
        lambda rng, text: _quoted(rng, text, '" "', "' '", "'' ''"),
        lambda _, text: text.upper(),
        lambda _, text: text.lower(),
        lambda rng, text: text.replace(". ", pick(rng, (".  ", ".\u00a0", ".   "))),
        _folded,
    ),
}
