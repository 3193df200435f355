"""The languages of the generated documents: grammar, word lists and names."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
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
    """Read a pattern; raise ``ValueError`` for an unmatched bracket or an invalid number range."""
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
            raise ValueError(f"pattern {text!r} has {sign!r} at {mark.start()} outside of [...]")
        elif sign == "|":
            stack[-1].append([])
        elif sign == "]":
            options = stack.pop()
            stack[-1][-1].append(Choice(tuple(map(tuple, options))))
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
        return Number(float(low), float(high), len(low.partition(".")[2]))
    except ValueError:
        hint = "write {#low-high}, such as {#3-40}"
        raise ValueError(f"pattern {text!r} has the number range {name!r}; {hint}") from None


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


def plain_words(options: tuple[Pattern, ...]) -> tuple[str, ...]:
    """Return those of some patterns that are one plain word."""
    return tuple(each[0] for each in options if len(each) == 1 and isinstance(each[0], str))


def alternatives(pattern: Pattern) -> Iterator[tuple[str, ...]]:
    """Yield each set of plain words that a pattern treats as interchangeable."""
    for part in pattern:
        if isinstance(part, Choice):
            plain = plain_words(part.options)
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
PatternLists: TypeAlias = Mapping[str, tuple[Pattern, ...]]


@cache
def chapters(language: str, file: str) -> Mapping[str, Sections]:
    source = files("streams.corpus").joinpath("words", language, f"{file}.txt")
    return read_chapters(source.read_text("utf-8"), f"{language}/{file}.txt")


def read_chapters(text: str, name: str) -> Mapping[str, Sections]:
    """Read a word list; raise ``ValueError``, with ``name``, for an entry before a chapter."""
    chapters: dict[str, dict[str, tuple[str, ...]]] = {}
    sections: dict[str, tuple[str, ...]] | None = None
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
            sections[section] = (*sections.get(section, ()), line)
    return chapters


def patterns(entries: tuple[str, ...]) -> tuple[Pattern, ...]:
    return tuple(map(parse, entries))


def patterns_by_section(sections: Sections) -> PatternLists:
    return {section: patterns(entries) for section, entries in sections.items()}


# ---- Topics.

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
    roles: PatternLists


def read_topic(name: str, sections: Sections) -> Topic:
    """Build a topic; raise ``ValueError`` for a role that is missing or has too few entries."""
    for role, minimum in _ROLES.items():
        if len(sections.get(role, ())) < minimum:
            raise ValueError(f"topic {name!r} needs at least {minimum} entries of {role!r}")
    return Topic(name, {role: patterns(sections[role]) for role in _ROLES})


# ---- English verb forms: close, closing, closed, (has) closed. Only the first word changes.
#
# Irregular verbs, and those that double their last letter, are in the chapter ``verbs`` of
# words/en/words.txt.


def inflected(action: str, form: str) -> str:
    """Return an action in the form ``doing``, ``did`` or ``done``."""
    verb, space, rest = action.partition(" ")
    irregular, doubling = _verbs()
    stem = verb + verb[-1] if verb in doubling else verb
    if form == "doing":
        changed = (verb[:-1] if verb.endswith("e") else stem) + "ing"
    elif verb in irregular:
        changed = irregular[verb][form == "done"]
    elif verb.endswith("y") and verb[-2] not in "aeiou":
        changed = verb[:-1] + "ied"
    else:
        changed = stem + ("d" if verb.endswith("e") else "ed")
    return changed + space + rest


@cache
def _verbs() -> tuple[Mapping[str, tuple[str, str]], frozenset[str]]:
    verbs = chapters("en", "words")["verbs"]
    irregular = {base: (did, done) for base, did, done in map(str.split, verbs["irregular"])}
    return irregular, frozenset(" ".join(verbs["doubling"]).split())


# ---- Chinese and English, from their word lists.

Voice: TypeAlias = PatternLists
"""Sentence patterns by section: lede, fact, figure, quote, scene, problem, turn, and so on."""

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
        self.topics = tuple(read_topic(*topic) for topic in chapters(code, "topics").items())
        # For every topic, by role.
        self.commonplaces = patterns_by_section(words.get("commonplaces", {}))
        self.voices = tuple(_voice(code, ways) for ways in _VOICES[code])
        self.titles = patterns(words["titles"][""])
        # Slots without a topic: dates, times, money.
        self.phrases = patterns_by_section(words["phrases"])
        # By slot name, from the base form of an action.
        self.actions: Mapping[str, Callable[[str], str]] = (
            {"action": str}
            if is_chinese
            else {"do": str}
            | {form: partial(inflected, form=form) for form in ("doing", "did", "done")}
        )
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


def _voice(code: str, ways: tuple[str, ...]) -> Voice:
    """Mix ways of writing; a section that none of them has is that of the news."""
    by_way = chapters(code, "sentences")
    voice = {}
    for section, news in by_way[_NEWS].items():
        mixed = [entry for way in ways for entry in by_way[way].get(section, ())]
        voice[section] = patterns(tuple(mixed) or news)
    return voice


LANGUAGES: Final[Mapping[str, Language]] = {code: Language(code) for code in ("zh", "en")}
