"""The languages of the generated documents: their patterns for sentences, and word lists.

Files under ``words/`` have chapters (``# name``) with sections (``## name``); other lines are
patterns, but ``>`` starts a comment. Patterns before a section are in the section "".
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Final, NamedTuple, TypeAlias

from streams.corpus.draws import integer, pick, pick_skewed

Sections: TypeAlias = Mapping[str, tuple[str, ...]]
"""The patterns of each section of a chapter, in file order."""

_CHOICE: Final = re.compile(r"\[([^\[\]]*)\]")
_SLOT: Final = re.compile(r"\{([^{}]*)\}")
_NUMBER: Final = "#"


def expand(pattern: str, rng: random.Random, fill: Callable[[str], str]) -> str:
    """Return a sentence made from a pattern; ``fill`` returns the content of a slot.

    ::

        [据悉|据了解]    alternatives (they nest; an empty one is allowed)
        {place}          a slot
        {#3-40}          a number from 3 to 40; {#0.5-2.5} keeps the digits after the point
    """
    choices = 1
    while choices:
        pattern, choices = _CHOICE.subn(lambda found: pick(rng, found[1].split("|")), pattern)

    def filled(found: re.Match[str]) -> str:
        slot = found[1]
        return _number(rng, slot[1:]) if slot.startswith(_NUMBER) else fill(slot)

    return _SLOT.sub(filled, pattern)


def _number(rng: random.Random, span: str) -> str:
    low, high = span.split("-")
    digits = len(low.partition(".")[2])
    step = 10**digits
    drawn = integer(rng, round(float(low) * step), round(float(high) * step))
    return f"{drawn / step:.{digits}f}"


def _chapters(language: str, file: str) -> Mapping[str, Sections]:
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


class Topic(NamedTuple):
    """The vocabulary of one topic by grammatical role.

    Sentence patterns name roles, never words, so each pattern serves every topic, and topics share
    no content words.
    """

    name: str
    roles: Sections


_NEWS: Final = "news"
_VOICES: Final = {
    "zh": ((_NEWS,),),
    "en": ((_NEWS,), ("bulletin", _NEWS), ("column", _NEWS), ("column", "bulletin")),
}
"""The voices of each language; a voice combines chapters of sentences.txt."""


class Language:
    """One language of the demo stream.

    Chinese texts are measured in characters, English ones in words: counting Chinese words takes a
    segmenter, and the demo must not share one with what it tests.
    """

    def __init__(self, code: str) -> None:
        words = _chapters(code, "words")
        is_chinese = code == "zh"
        self.code = code
        self.topics = tuple(Topic(*topic) for topic in _chapters(code, "topics").items())
        self.commonplaces = words.get("commonplaces", {})  # for every topic, by role
        self.voices = tuple(_voice(code, ways) for ways in _VOICES[code])
        self.titles = words["titles"][""]
        self.phrases = words["phrases"]  # slots without a topic: names, dates, times, money
        self.reposts = words["reposts"]
        self.space = "" if is_chinese else " "  # between words and between sentences
        self.stop = "。" if is_chinese else "."
        # A sentence with one of these ends gets no full stop.
        self.closed = ("。", "！", "？", "”") if is_chinese else (".", "!", "?", "”")
        # The shortest and the longest article, in the unit of ``measure``.
        self.shortest, self.longest = (150, 1500) if is_chinese else (100, 500)

    def measure(self, text: str) -> int:
        """Return the length in characters (zh) or words (en)."""
        return len(text.split()) if self.space else len(text)

    def phrase(self, rng: random.Random, name: str) -> str:
        """Return a phrase such as a date, a sum, or an invented name."""
        return expand(pick_skewed(rng, self.phrases[name]), rng, partial(self.phrase, rng))


def _voice(code: str, ways: tuple[str, ...]) -> Sections:
    """Return the patterns of each section (lede, fact, quote, …), those of the news by default."""
    by_way = _chapters(code, "sentences")
    return {
        section: tuple(entry for way in ways for entry in by_way[way].get(section, ())) or news
        for section, news in by_way[_NEWS].items()
    }


LANGUAGES: Final[Mapping[str, Language]] = {code: Language(code) for code in ("zh", "en")}
