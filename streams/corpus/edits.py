"""Edits of articles: words, order, layout and typography."""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from streams.corpus.draws import chance, integer, pick, shuffled
from streams.corpus.language import (
    LANGUAGES,
    Language,
    Pattern,
    Topic,
    alternatives,
    chapters,
    expand,
    patterns_by_section,
    plain_words,
)

# ---- Interchangeable words, taken from the grammar of the articles.
#
# Alternatives of a pattern fit the same place of a sentence, and entries of a topic's role fit the
# same slot, so an edited text stays readable without another word list.

_KEY = 2  # index key length in characters; shorter words are left unchanged
_TOKEN = {
    "zh": re.compile(r"\d[\d.,]*|[A-Za-z]+|.", re.DOTALL),
    "en": re.compile(r"\d[\d.,]*\d|\d|[^\W\d_]+(?:['’-][^\W\d_]+)*|\s+|.", re.DOTALL),
}


class Unit(NamedTuple):
    text: str
    alternatives: tuple[str, ...]


class Thesaurus:
    """The interchangeable words of one topic, and the division of a text into units."""

    def __init__(self, language: Language, topic: Topic) -> None:
        self._token = _TOKEN[language.code]
        self._spaced = bool(language.space)
        self._groups: dict[str, tuple[str, ...]] = {}
        for group in _groups(language, topic):
            words = tuple(dict.fromkeys(word for word in group if len(word) >= _KEY))
            for word in words:
                if len(words) > 1:
                    self._groups.setdefault(word, words)
        self._by_key: dict[str, list[str]] = {}
        for word in sorted(self._groups, key=len, reverse=True):
            self._by_key.setdefault(word[:_KEY], []).append(word)

    def units(self, text: str) -> list[Unit]:
        """Divide a text: at each place the longest known word, else one token."""
        units: list[Unit] = []
        position = 0
        while position < len(text):
            for word in self._by_key.get(text[position : position + _KEY], ()):
                if text.startswith(word, position) and self._ends_at(text, position + len(word)):
                    units.append(Unit(word, self._groups[word]))
                    position += len(word)
                    break
            else:
                matched = self._token.match(text, position)
                token = matched.group() if matched else text[position]
                units.append(Unit(token, ()))
                position += len(token)
        return units

    def _ends_at(self, text: str, end: int) -> bool:
        """Whether a word may end here; in English, not inside another word."""
        return not self._spaced or end >= len(text) or not text[end].isalnum()


def _groups(language: Language, topic: Topic) -> Iterator[tuple[str, ...]]:
    # Without actors, because speakers are named again later.
    roles = {role: entries for role, entries in topic.roles.items() if role != "actors"}
    patterns: list[Pattern] = []
    for lists in (roles, language.commonplaces):
        for entries in lists.values():
            patterns.extend(entries)
            yield plain_words(entries)
    for lists in (*language.voices, language.phrases):
        for entries in lists.values():
            patterns.extend(entries)
    for pattern in patterns:
        yield from alternatives(pattern)


@cache
def thesaurus_of(language_code: str, topic_name: str) -> Thesaurus:
    language = LANGUAGES[language_code]
    topics = {topic.name: topic for topic in language.topics}
    return Thesaurus(language, topics[topic_name])


# ---- Edits of words, as by an editor: other words and numbers, clauses deleted and inserted.
#
# The size of an edit is the touched share of the text, in characters (Chinese) or words (English).

_COMMAS = frozenset("，,；;")
_STOPS = frozenset("。.！!？?")
_CLAUSE_SHARES = (0.0, 0.2, 0.5)  # share of edits that change whole clauses
_MAX_TRIES = 600


def edit_words(
    rng: random.Random,
    language: Language,
    thesaurus: Thesaurus,
    topic: Topic,
    text: str,
    band: tuple[float, float],
) -> str:
    total = language.measure(text)
    goal = total * (band[0] + (band[1] - band[0]) * (0.1 + 0.8 * rng.random()))
    edit = _Edit(rng, language, topic, thesaurus.units(text), room=total * band[1])
    clause_share = pick(rng, _CLAUSE_SHARES)
    swaps = iter(shuffled(rng, edit.swappable()))
    for _ in range(_MAX_TRIES):
        if edit.touched >= goal:
            break
        index = None if chance(rng, clause_share) else next(swaps, None)
        if index is not None:
            edit.swap(index)
        elif chance(rng, 0.5):
            edit.drop_clause()
        else:
            edit.add_clause()
    return edit.text()


@dataclass(slots=True)
class _Edit:
    rng: random.Random
    language: Language
    topic: Topic
    units: list[Unit]
    room: float
    touched: int = 0
    _changed: set[int] = field(default_factory=set)

    def text(self) -> str:
        return "".join(unit.text for unit in self.units)

    def swappable(self) -> list[int]:
        return [
            index
            for index, unit in enumerate(self.units)
            if unit.alternatives or unit.text[0].isdigit()
        ]

    def swap(self, index: int) -> None:
        old = self.units[index]
        if index in self._changed:
            return
        others = [word for word in old.alternatives if word != old.text]
        new = pick(self.rng, others) if others else _other_number(self.rng, old.text)
        split = str.split if self.language.space else list
        if self._spend(_changed_items(split(old.text), split(new))):
            self.units[index] = Unit(new, ())
            self._changed.add(index)

    def drop_clause(self) -> None:
        """Delete the text from a comma to the next comma or full stop."""
        start = int(self.rng.random() * len(self.units))
        while start < len(self.units) and self.units[start].text not in _COMMAS:
            start += 1
        end = start + 1
        while end < len(self.units) and self.units[end].text not in _COMMAS | _STOPS:
            end += 1
        if end >= len(self.units) or any(index in self._changed for index in range(start, end)):
            return
        clause = "".join(unit.text for unit in self.units[start:end])
        if self._spend(self.language.measure(clause)):
            self._changed.update(range(start, end))
            for index in range(start, end):
                self.units[index] = Unit("", ())

    def add_clause(self) -> None:
        """Insert a clause of the topic before a full stop."""
        index = int(self.rng.random() * len(self.units))
        while index < len(self.units) and self.units[index].text not in {"。", "."}:
            index += 1
        if index >= len(self.units) or index in self._changed:
            return
        clause = expand(pick(self.rng, self.topic.roles["results"]), self.rng, str)
        clause = f", and {clause}" if self.language.space else f"，{clause}"
        if self._spend(self.language.measure(clause)):
            self.units[index] = Unit(clause + self.units[index].text, ())
            self._changed.add(index)

    def _spend(self, amount: int) -> bool:
        if amount == 0 or self.touched + amount > self.room:
            return False
        self.touched += amount
        return True


def _changed_items(old: list[str], new: list[str]) -> int:
    """Return the length of the longer list without the common prefix and suffix."""
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return max(len(old), len(new))


def _other_number(rng: random.Random, number: str) -> str:
    """Draw all digits but the first, so that size and form stay."""
    first, rest = number[0], number[1:]
    if not any(sign.isdigit() for sign in rest):
        return str(1 + int(rng.random() * 9)) + rest
    return first + "".join(str(int(rng.random() * 10)) if sign.isdigit() else sign for sign in rest)


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
# A Chinese text may have ASCII stops after a typographic edit; they also occur in numbers.
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
    """Make two to four changes of signs, widths, case or space."""
    changes = shuffled(rng, _TYPOGRAPHY[language.code])
    for change in changes[: integer(rng, _MIN_EDITS, _MAX_EDITS)]:
        text = change(rng, text)
    return text


def repost(rng: random.Random, language: Language, title: str, text: str) -> str:
    """Add one to four lines of another site above or below a text, or both."""

    def fill(slot: str) -> str:
        if slot == "title":
            return title
        return language.person(rng) if slot == "person" else language.brand(rng)

    def lines(patterns: tuple[Pattern, ...], limit: int) -> list[str]:
        chosen = shuffled(rng, patterns)[: integer(rng, 1, limit)]
        return [expand(pattern, rng, fill) for pattern in chosen]

    headed = chance(rng, 0.75)
    frame = patterns_by_section(chapters(language.code, "words")["reposts"])
    above = lines(frame["headers"], 2) if headed else []
    below = lines(frame["footers"], 2) if not headed or chance(rng, 0.7) else []
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
_CORNER_QUOTES, _WIDE, _ONE_PARAGRAPH, _BLANK_LINES = _IN_BOTH
_TYPOGRAPHY: Final[dict[str, tuple[_Change, ...]]] = {
    "zh": (
        lambda _, text: text.translate(_ASCII_SIGNS),
        _CORNER_QUOTES,
        _WIDE,
        lambda _, text: _spaced_numbers(text),
        lambda _, text: "\n".join("\u3000\u3000" + line for line in _lines(text)),
        _ONE_PARAGRAPH,
        lambda _, text: re.sub(r"([，。；：,;:.!?])(?=[^\d\s])", r"\1 ", text),
        lambda rng, text: text.replace("——", pick(rng, ("--", "—", " - "))),
        _BLANK_LINES,
    ),
    "en": (
        lambda rng, text: _quoted(rng, text, '" "', "' '", "'' ''"),
        _CORNER_QUOTES,
        lambda _, text: text.upper(),
        lambda _, text: text.lower(),
        lambda rng, text: text.replace(". ", pick(rng, (".  ", ".\u00a0", ".   "))),
        _folded,
        _WIDE,
        _ONE_PARAGRAPH,
        _BLANK_LINES,
    ),
}
