"""The languages of the generated documents: grammar, word lists and names."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple, TypeAlias

from streams.corpus.draws import chance, pick, pick_skewed

# ---- A grammar for sentences.
#
#     [据悉|据了解]    alternatives (they nest; an empty one is allowed)
#     {place}          a slot, which the article fills
#     {#3-40}          a number from 3 to 40; {#0.5-2.5} keeps the digits after the point
#
# The word lists under ``words/`` hold one pattern a line.

_MARKS = re.compile(r"[\[\]|]|\{[^{}]*\}")


class Slot(NamedTuple):
    name: str


class Number(NamedTuple):
    low: float
    high: float
    digits: int  # after the point


class Choice(NamedTuple):
    options: tuple[Pattern, ...]


Part: TypeAlias = "str | Slot | Number | Choice"
Pattern: TypeAlias = "tuple[Part, ...]"


def parse(text: str) -> Pattern:
    """Read a pattern; raise ``ValueError`` if it is invalid."""
    stack: list[list[list[Part]]] = [[[]]]
    end = 0
    for mark in _MARKS.finditer(text):
        if mark.start() > end:
            stack[-1][-1].append(text[end : mark.start()])
        end = mark.end()
        sign = mark.group()
        if sign == "[":
            stack.append([[]])
        elif len(stack) == 1 and sign in "]|":
            raise ValueError(f"pattern {text!r} has {sign!r} outside of [...]")
        elif sign == "|":
            stack[-1].append([])
        elif sign == "]":
            options = stack.pop()
            stack[-1][-1].append(Choice(tuple(map(tuple, options))))
        elif sign.startswith("{#"):
            low, _, high = sign[2:-1].partition("-")
            digits = len(low.partition(".")[2])
            stack[-1][-1].append(Number(float(low), float(high), digits))
        else:
            stack[-1][-1].append(Slot(sign[1:-1]))
    if len(stack) > 1:
        raise ValueError(f"pattern {text!r} opens a [ that it does not close")
    if end < len(text):
        stack[-1][-1].append(text[end:])
    return tuple(stack[0][0])


def expand(pattern: Pattern, rng: random.Random, fill: Callable[[str], str]) -> str:
    parts: list[str] = []
    for part in pattern:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, Choice):
            parts.append(expand(pick(rng, part.options), rng, fill))
        elif isinstance(part, Slot):
            parts.append(fill(part.name))
        else:
            step = 10**part.digits
            span = round((part.high - part.low) * step) + 1
            drawn = round(part.low * step) + int(rng.random() * span)
            parts.append(f"{drawn / step:.{part.digits}f}")
    return "".join(parts)


# ---- Word lists under ``words/``.
#
# A file has chapters (``# name``) with sections (``## name``); other lines are entries, but ``>``
# starts a comment and blank lines are ignored. Entries before a section are in the section "".

Sections: TypeAlias = Mapping[str, tuple[str, ...]]
"""The entries of each section of a chapter, in file order."""
PatternLists: TypeAlias = Mapping[str, tuple[Pattern, ...]]


@cache
def chapters(language: str, file: str) -> Mapping[str, Sections]:
    source = files("streams.corpus").joinpath("words", language, f"{file}.txt")
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    chapter = section = ""
    for line in source.read_text("utf-8").splitlines():
        if line.startswith("# "):
            chapter, section = line[2:], ""
        elif line.startswith("## "):
            section = line[3:]
        elif line and not line.startswith(">"):
            sections = found.setdefault(chapter, {})
            sections[section] = (*sections.get(section, ()), line)
    return found


def patterns(entries: tuple[str, ...]) -> tuple[Pattern, ...]:
    return tuple(map(parse, entries))


def patterns_by_section(sections: Sections) -> PatternLists:
    return {section: patterns(entries) for section, entries in sections.items()}


class Topic(NamedTuple):
    """The vocabulary of one topic by grammatical role.

    Sentence patterns name roles, never words, so each pattern serves every topic, and topics share
    no content words.
    """

    name: str
    roles: PatternLists


# ---- Chinese and English, from their word lists.

_NEWS: Final = "news"
_VOICES: Final = {
    "zh": ((_NEWS,),),
    "en": ((_NEWS,), ("bulletin", _NEWS), ("column", _NEWS), ("column", "bulletin")),
}
"""The ways of writing in sentences.txt that each voice mixes."""


class Language:
    """One language of the demo stream.

    Chinese texts are measured in characters, English ones in words: counting Chinese words takes a
    segmenter, and the demo must not share one with what it tests.
    """

    def __init__(self, code: str) -> None:
        words = chapters(code, "words")
        is_chinese = code == "zh"
        self.code = code
        self.topics = tuple(
            Topic(name, patterns_by_section(roles))
            for name, roles in chapters(code, "topics").items()
        )
        # For every topic, by role.
        self.commonplaces = patterns_by_section(words.get("commonplaces", {}))
        self.voices = tuple(_voice(code, ways) for ways in _VOICES[code])
        self.titles = patterns(words["titles"][""])
        # Slots without a topic: dates, times, money.
        self.phrases = patterns_by_section(words["phrases"])
        # Slots of an action; an English one has a verb in these forms.
        self.actions = ("action",) if is_chinese else ("do", "doing", "did", "done")
        self.space = "" if is_chinese else " "  # between words and between sentences
        self.stop = "。" if is_chinese else "."
        # Sentence ends instead of a full stop.
        self.closed = ("。", "！", "？", "”") if is_chinese else (".", "!", "?", "”")
        # Lengths of an article, as measured.
        self.shortest, self.longest = (150, 1500) if is_chinese else (100, 500)
        self._names = {
            name: list("".join(lines)) if is_chinese else " ".join(lines).split()
            for name, lines in words["names"].items()
        }
        if is_chinese:
            self._names["place_ranks"] = " ".join(words["names"]["place_ranks"]).split()

    def measure(self, text: str) -> int:
        """Return the length in characters (zh) or words (en)."""
        return len(text.split()) if self.space else len(text)

    def in_form(self, action: str, slot: str) -> str:
        """Return an action, such as ``do/doing/did/done it``, in the form of a slot."""
        verb, space, rest = action.partition(" ")
        return verb.split("/")[self.actions.index(slot)] + space + rest

    # Names are made of parts; none is meant to be real.

    def person(self, rng: random.Random) -> str:
        names = self._names
        if self.space:
            return f"{pick(rng, names['given'])} {pick(rng, names['surnames'])}"
        name = pick_skewed(rng, names["surnames"]) + pick(rng, names["given"])
        return name + pick(rng, names["given"]) if chance(rng, 0.8) else name

    def place(self, rng: random.Random) -> str:
        """Return a place name, in Chinese with its rank, such as county."""
        names = self._names
        if self.space:
            return pick(rng, names["place_first"]) + pick_skewed(rng, names["place_second"])
        name = pick(rng, names["place_first"]) + pick(rng, names["place_second"])
        return name + pick_skewed(rng, names["place_ranks"])

    def brand(self, rng: random.Random) -> str:
        """Return a trade name, without the line of business."""
        names = self._names
        if self.space and chance(rng, 0.5):
            return f"{pick(rng, names['surnames'])} & {pick(rng, names['surnames'])}"
        return pick(rng, names["brand_first"]) + pick(rng, names["brand_second"])


def _voice(code: str, ways: tuple[str, ...]) -> PatternLists:
    """Return the patterns of each section (lede, fact, quote, …); by default those of the news."""
    by_way = chapters(code, "sentences")
    voice = {}
    for section, news in by_way[_NEWS].items():
        mixed = [entry for way in ways for entry in by_way[way].get(section, ())]
        voice[section] = patterns(tuple(mixed) or news)
    return voice


LANGUAGES: Final[Mapping[str, Language]] = {code: Language(code) for code in ("zh", "en")}
