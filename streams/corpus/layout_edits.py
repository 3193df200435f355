"""Edits that leave every word as it was: cuts, another order or typography, other lines around."""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Callable, Mapping
from functools import cache

from streams.corpus.draws import chance, integer, pick, shuffled
from streams.corpus.grammar import Pattern, expand
from streams.corpus.language import Language
from streams.corpus.word_lists import chapters, patterns_by_section

TITLE_MARKS = {"zh": "[转] ", "en": "Repost: "}
"""What some sites put before the title of what they print again."""

_CUT_MARKS = {
    "zh": ("", "", "……", "……[阅读全文]", "（未完待续）", "...查看更多"),
    "en": ("", "", "…", " [read more]", " (continued on page 4)", "... More"),
}
_ASCII_SIGNS = str.maketrans("，。！？：；（）", ",.!?:;()")
_FULL_WIDTH = str.maketrans(
    {sign: chr(ord(sign) + 0xFEE0) for sign in "0123456789%"}
    | {chr(code): chr(code + 0xFEE0) for code in (*range(65, 91), *range(97, 123))}
)
# After a typographic change a Chinese text may have ASCII stops, which also stand in numbers.
_SENTENCE_END = {
    "zh": re.compile(r"(?<=[。！？!?.])(?![。！？!?.\d”\"'」』]|$)"),
    "en": re.compile(r"(?<=[.!?])\s+"),
}
_MIN_KEPT, _MAX_KEPT = 0.70, 0.95
_MIN_EDITS, _MAX_EDITS = 2, 4


def truncate(rng: random.Random, language: Language, text: str) -> str:
    """Keep the first 70 to 95 % of a text, perhaps with a sign that something is missing."""
    kept = int(len(text) * (_MIN_KEPT + (_MAX_KEPT - _MIN_KEPT) * rng.random()))
    if language.space:
        blank = text.rfind(language.space, 0, kept)
        kept = blank if blank > len(text) * _MIN_KEPT else kept
    return text[:kept] + pick(rng, _CUT_MARKS[language.code])


def reorder(rng: random.Random, language: Language, text: str) -> str:
    """Put the paragraphs (of a text with one paragraph: the sentences) in another order."""
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
    """Set a text in another typography: two to four changes of signs, widths, case or space."""
    changes = shuffled(rng, _TYPOGRAPHY[language.code])
    for change in changes[: integer(rng, _MIN_EDITS, _MAX_EDITS)]:
        text = change(rng, text)
    return text


def repost(rng: random.Random, language: Language, title: str, text: str) -> str:
    """Print a text again between another site's header, footer or both: one to four lines."""

    def fill(slot: str) -> str:
        if slot == "title":
            return title
        return language.person(rng) if slot == "person" else language.brand(rng)

    def lines(patterns: tuple[Pattern, ...], limit: int) -> list[str]:
        chosen = shuffled(rng, patterns)[: integer(rng, 1, limit)]
        return [expand(pattern, rng, fill) for pattern in chosen]

    headed = chance(rng, 0.75)
    frame = _frame(language.code)
    above = lines(frame["headers"], 2) if headed else []
    below = lines(frame["footers"], 2) if not headed or chance(rng, 0.7) else []
    return "\n".join((*above, text, *below))


@cache
def _frame(code: str) -> Mapping[str, tuple[Pattern, ...]]:
    return patterns_by_section(chapters(code, "words")["reposts"])


def _ascii_punctuation(_rng: random.Random, text: str) -> str:
    return text.translate(_ASCII_SIGNS)


def _corner_quotes(rng: random.Random, text: str) -> str:
    opening, closing = pick(rng, (("「", "」"), ("『", "』"), ('"', '"')))
    return text.replace("“", opening).replace("”", closing)


def _straight_quotes(rng: random.Random, text: str) -> str:
    sign = pick(rng, ('"', "'", "''"))
    return text.replace("“", sign).replace("”", sign)


def _full_width(_rng: random.Random, text: str) -> str:
    return text.translate(_FULL_WIDTH)


def _spaced_numbers(_rng: random.Random, text: str) -> str:
    """Set a blank between Chinese characters and figures, as many style guides want."""
    text = re.sub(r"(?<=[\u4e00-\u9fff])(?=\d)", " ", text)
    return re.sub(r"(?<=[\d%])(?=[\u4e00-\u9fff])", " ", text)


def _indented(_rng: random.Random, text: str) -> str:
    return "\n".join("\u3000\u3000" + line for line in text.split("\n") if line)


def _blank_lines(_rng: random.Random, text: str) -> str:
    return "\n\n".join(line for line in text.split("\n") if line)


def _one_paragraph(_rng: random.Random, text: str) -> str:
    return " ".join(text.split("\n"))


def _space_after_signs(_rng: random.Random, text: str) -> str:
    return re.sub(r"([，。；：,;:.!?])(?=[^\d\s])", r"\1 ", text)


def _other_dashes(rng: random.Random, text: str) -> str:
    return text.replace("——", pick(rng, ("--", "—", " - ")))


def _upper(_rng: random.Random, text: str) -> str:
    return text.upper()


def _lower(_rng: random.Random, text: str) -> str:
    return text.lower()


def _double_spaces(rng: random.Random, text: str) -> str:
    return text.replace(". ", pick(rng, (".  ", ".\u00a0", ".   ")))


def _folded(rng: random.Random, text: str) -> str:
    """Fold the lines, as mail and old web pages have them; paragraphs stay apart."""
    width = integer(rng, 52, 78)
    lines = [line for line in text.split("\n") if line]
    return "\n\n".join(textwrap.fill(line, width) for line in lines)


_TYPOGRAPHY: dict[str, tuple[Callable[[random.Random, str], str], ...]] = {
    "zh": (
        _ascii_punctuation,
        _corner_quotes,
        _full_width,
        _spaced_numbers,
        _indented,
        _one_paragraph,
        _space_after_signs,
        _other_dashes,
        _blank_lines,
    ),
    "en": (
        _straight_quotes,
        _corner_quotes,
        _upper,
        _lower,
        _double_spaces,
        _folded,
        _full_width,
        _one_paragraph,
        _blank_lines,
    ),
}
