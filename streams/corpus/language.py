"""The languages of the generated documents: grammar, word lists and names."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
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


@dataclass(frozen=True, slots=True)
class Slot:
    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number from ``low`` to ``high`` with ``digits`` digits after the point."""

    low: float
    high: float
    digits: int


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Pattern, ...]


Pattern: TypeAlias = "tuple[str | Slot | Number | Choice, ...]"


def parse(text: str) -> Pattern:
    """Read a pattern; raise ``ValueError`` for an unmatched bracket or an invalid number range."""
    stack: list[list[list[str | Slot | Number | Choice]]] = [[[]]]
    end = 0
    for mark in _MARKS.finditer(text):
        if mark.start() > end:
            stack[-1][-1].append(text[end : mark.start()])
        end = mark.end()
        sign = mark.group()
        if sign == "[":
            stack.append([[]])
        elif len(stack) == 1 and sign in "]|":
            raise ValueError(f"pattern {text!r} has {sign!r} at {mark.start()} outside of [...]")
        elif sign == "|":
            stack[-1].append([])
        elif sign == "]":
            options = stack.pop()
            stack[-1][-1].append(Choice(tuple(tuple(option) for option in options)))
        else:
            stack[-1][-1].append(_slot(sign[1:-1], text))
    if len(stack) > 1:
        raise ValueError(f"pattern {text!r} opens a [ that it does not close; add the ]")
    if end < len(text):
        stack[-1][-1].append(text[end:])
    return tuple(stack[0][0])


def _slot(name: str, text: str) -> Slot | Number:
    if not name.startswith("#"):
        return Slot(name)
    low, _dash, high = name[1:].partition("-")
    try:
        digits = len(low.partition(".")[2])
        return Number(float(low), float(high), digits)
    except ValueError:
        hint = "write {#low-high}, such as {#3-40}"
        raise ValueError(f"pattern {text!r} has the number range {name!r}; {hint}") from None


def expand(pattern: Pattern, rng: random.Random, fill: Callable[[str], str]) -> str:
    parts: list[str] = []
    for part in pattern:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, Choice):
            option = part.options[int(rng.random() * len(part.options))]
            # Most alternatives are one plain word: avoid the recursion.
            plain = option[0] if len(option) == 1 else None
            parts.append(plain if isinstance(plain, str) else expand(option, rng, fill))
        elif isinstance(part, Slot):
            parts.append(fill(part.name))
        else:
            parts.append(_number(part, rng))
    return "".join(parts)


def _number(part: Number, rng: random.Random) -> str:
    step = 10**part.digits
    span = round((part.high - part.low) * step) + 1
    drawn = round(part.low * step) + int(rng.random() * span)
    return f"{drawn / step:.{part.digits}f}"


def alternatives(pattern: Pattern) -> Iterator[tuple[str, ...]]:
    """Yield each set of plain words that a pattern treats as interchangeable."""
    for part in pattern:
        if not isinstance(part, Choice):
            continue
        plain = tuple(
            option[0] for option in part.options if len(option) == 1 and isinstance(option[0], str)
        )
        if len(plain) > 1:
            yield plain
        for option in part.options:
            yield from alternatives(option)


# ---- Word lists under ``words/``.
#
# A file has chapters (``# name``) with sections (``## name``); other lines are entries, but ``>``
# starts a comment and blank lines are ignored. Entries before a section are in the section "".

Sections: TypeAlias = Mapping[str, tuple[str, ...]]
"""The entries of each section of a chapter, in file order."""


@cache
def chapters(language: str, file: str) -> Mapping[str, Sections]:
    source = files("streams.corpus").joinpath("words", language, f"{file}.txt")
    return read_chapters(source.read_text("utf-8"), f"{language}/{file}.txt")


def read_chapters(text: str, name: str) -> Mapping[str, Sections]:
    """Read a word list; raise ``ValueError``, with ``name``, for an entry before a chapter."""
    chapters: dict[str, dict[str, list[str]]] = {}
    sections: dict[str, list[str]] | None = None
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith(">"):
            continue
        if line.startswith("# "):
            sections, section = chapters.setdefault(line[2:], {}), ""
        elif sections is None:
            raise ValueError(f"{name}, line {number}: {line!r} stands before the first '# chapter'")
        elif line.startswith("## "):
            section = line[3:]
        else:
            sections.setdefault(section, []).append(line)
    return {
        chapter: {section: tuple(entries) for section, entries in sections.items()}
        for chapter, sections in chapters.items()
    }


def patterns(entries: tuple[str, ...]) -> tuple[Pattern, ...]:
    return tuple(map(parse, entries))


def patterns_by_section(sections: Sections) -> Mapping[str, tuple[Pattern, ...]]:
    return {section: patterns(entries) for section, entries in sections.items()}


# ---- English verb forms: close, closing, closed, (has) closed. Only the first word changes.
#
# Irregular verbs, and those that double their last letter, are in the chapter ``verbs`` of
# words/en/words.txt.


@cache
def _irregular() -> Mapping[str, tuple[str, str]]:
    forms = (line.split() for line in chapters("en", "words")["verbs"]["irregular"])
    return {base: (past_form, participle_form) for base, past_form, participle_form in forms}


@cache
def _doubling() -> frozenset[str]:
    return frozenset(" ".join(chapters("en", "words")["verbs"]["doubling"]).split())


def _doubled(verb: str) -> str:
    return verb + verb[-1] if verb in _doubling() else verb


def _regular_past(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return _doubled(verb) + "ed"


def gerund(action: str) -> str:
    verb, space, rest = action.partition(" ")
    stem = verb[:-1] if verb.endswith("e") else _doubled(verb)
    return f"{stem}ing{space}{rest}"


def past(action: str) -> str:
    return _past_form(action, 0)


def participle(action: str) -> str:
    return _past_form(action, 1)


def _past_form(action: str, form: int) -> str:
    verb, space, rest = action.partition(" ")
    forms = _irregular().get(verb)
    return (_regular_past(verb) if forms is None else forms[form]) + space + rest


# ---- Names of people, places and companies, made of parts; none is meant to be real.


class ChineseNames:
    def __init__(self, parts: Sections) -> None:
        characters = {name: "".join(lines) for name, lines in parts.items()}
        self._parts: Final = characters
        self._ranks: Final = " ".join(parts["place_ranks"]).split()

    def person(self, rng: random.Random) -> str:
        name = pick_skewed(rng, self._parts["surnames"]) + pick(rng, self._parts["given"])
        return name + pick(rng, self._parts["given"]) if chance(rng, 0.8) else name

    def place(self, rng: random.Random) -> str:
        """Return a place name with its rank, such as county."""
        parts = self._parts
        name = pick(rng, parts["place_first"]) + pick(rng, parts["place_second"])
        return name + pick_skewed(rng, self._ranks)

    def brand(self, rng: random.Random) -> str:
        """Return a trade name, without the line of business."""
        return pick(rng, self._parts["brand_first"]) + pick(rng, self._parts["brand_second"])


class EnglishNames:
    def __init__(self, parts: Sections) -> None:
        self._parts: Final = {name: " ".join(lines).split() for name, lines in parts.items()}

    def person(self, rng: random.Random) -> str:
        return f"{pick(rng, self._parts['given'])} {pick(rng, self._parts['surnames'])}"

    def place(self, rng: random.Random) -> str:
        return pick(rng, self._parts["place_first"]) + pick_skewed(rng, self._parts["place_second"])

    def brand(self, rng: random.Random) -> str:
        """Return a trade name, without the line of business."""
        if chance(rng, 0.5):
            surnames = self._parts["surnames"]
            return f"{pick(rng, surnames)} & {pick(rng, surnames)}"
        return pick(rng, self._parts["brand_first"]) + pick(rng, self._parts["brand_second"])


CHINESE_NAMES: Final = ChineseNames(chapters("zh", "words")["names"])
ENGLISH_NAMES: Final = EnglishNames(chapters("en", "words")["names"])


Voice: TypeAlias = Mapping[str, tuple[Pattern, ...]]
"""Sentence patterns by section: lede, fact, figure, quote, scene, problem, turn, and so on."""

_ROLES: Final[Mapping[str, int]] = {
    "things": 24,  # nouns (English: plural), the subjects of articles
    "actors": 3,  # what a person of the field is called, also before a name
    "crowds": 3,  # the same people as a group
    "offices": 3,  # public bodies, after the name of a place
    "firms": 3,  # companies, after a trade name
    "actions": 12,  # verb and object (English: base form)
    "sites": 3,  # where it happens (English: with the article)
    "problems": 8,  # what goes wrong: a noun phrase
    "results": 3,  # a clause
    "figures": 3,  # a measured quantity: a clause with a number
    "views": 7,  # an opinion: a clause for a quotation
    "scenes": 7,  # what a reporter sees: a sentence without its full stop
}
"""The grammatical roles of a topic's words, with the entries that an article needs."""


class Topic(NamedTuple):
    """The vocabulary of one topic by role.

    Sentence patterns name roles, never words, so each pattern serves every topic, and topics share
    no content words.
    """

    name: str
    roles: Mapping[str, tuple[Pattern, ...]]


def read_topic(name: str, sections: Sections) -> Topic:
    """Build a topic; raise ``ValueError`` for a role that is missing or has too few entries."""
    for role, minimum in _ROLES.items():
        if role not in sections:
            raise ValueError(f"topic {name!r} lacks the role {role!r}; add its word list")
        if len(sections[role]) < minimum:
            shown = f"topic {name!r} has {len(sections[role])} entries of {role!r}"
            raise ValueError(f"{shown}; an article needs at least {minimum}")
    return Topic(name, {role: patterns(sections[role]) for role in _ROLES})


@dataclass(frozen=True, slots=True)
class Language:
    """One language of the demo stream.

    Chinese texts are measured in characters, English ones in words: counting Chinese words takes a
    segmenter, and the demo must not share one with what it tests.
    """

    code: str  # zh or en
    topics: tuple[Topic, ...]
    commonplaces: Mapping[str, tuple[Pattern, ...]]  # by role, for every topic; may lack roles
    voices: tuple[Voice, ...]  # ways of writing, each with all sections
    titles: tuple[Pattern, ...]
    phrases: Mapping[str, tuple[Pattern, ...]]  # slots without a topic: dates, times, money
    actions: Mapping[str, Callable[[str], str]]  # by slot name, from the base form of an action
    person: Callable[[random.Random], str]
    place: Callable[[random.Random], str]
    brand: Callable[[random.Random], str]
    space: str  # between words and between sentences
    stop: str
    closed: tuple[str, ...]  # sentence ends instead of a full stop
    shortest: int  # length of an article, as measured
    longest: int
    measure: Callable[[str], int]  # length in characters (zh) or words (en)


# ---- Chinese and English, from their word lists.

_NEWS: Final = "news"
_ENGLISH_VOICES: Final = ((_NEWS,), ("bulletin", _NEWS), ("column", _NEWS), ("column", "bulletin"))
"""The ways of writing in words/en/sentences.txt that each English voice mixes."""


def _topics(code: str) -> tuple[Topic, ...]:
    return tuple(read_topic(name, roles) for name, roles in chapters(code, "topics").items())


def _voice(code: str, ways: tuple[str, ...]) -> Voice:
    """Mix ways of writing; a section that none of them has is that of the news."""
    by_way = chapters(code, "sentences")
    return {
        section: tuple(
            pattern
            for entries in [by_way[way][section] for way in ways if section in by_way[way]]
            or [news]
            for pattern in patterns(entries)
        )
        for section, news in by_way[_NEWS].items()
    }


_ZH: Final = Language(
    code="zh",
    topics=_topics("zh"),
    commonplaces={},
    voices=(_voice("zh", (_NEWS,)),),
    titles=patterns(chapters("zh", "words")["titles"][""]),
    phrases=patterns_by_section(chapters("zh", "words")["phrases"]),
    actions={"action": str},
    person=CHINESE_NAMES.person,
    place=CHINESE_NAMES.place,
    brand=CHINESE_NAMES.brand,
    space="",
    stop="。",
    closed=("。", "！", "？", "”"),
    shortest=150,
    longest=1500,
    measure=len,
)
_EN: Final = Language(
    code="en",
    topics=_topics("en"),
    commonplaces=patterns_by_section(chapters("en", "words")["commonplaces"]),
    voices=tuple(_voice("en", ways) for ways in _ENGLISH_VOICES),
    titles=patterns(chapters("en", "words")["titles"][""]),
    phrases=patterns_by_section(chapters("en", "words")["phrases"]),
    actions={"do": str, "doing": gerund, "did": past, "done": participle},
    person=ENGLISH_NAMES.person,
    place=ENGLISH_NAMES.place,
    brand=ENGLISH_NAMES.brand,
    space=" ",
    stop=".",
    closed=(".", "!", "?", "”"),
    shortest=100,
    longest=500,
    measure=lambda text: len(text.split()),
)
LANGUAGES: Final[Mapping[str, Language]] = MappingProxyType({"zh": _ZH, "en": _EN})
