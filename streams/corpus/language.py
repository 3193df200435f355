"""What the writer of articles must know of a language: topics, sentences, names, lengths."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Final, TypeAlias

from streams.corpus.grammar import Pattern
from streams.corpus.word_lists import Sections, patterns

Voice: TypeAlias = Mapping[str, tuple[Pattern, ...]]
"""Sentence patterns by section: lede, fact, figure, quote, scene, problem, turn, and so on."""

_MINIMUM_ENTRIES: Final = {"things": 24, "actions": 12, "problems": 8, "views": 7, "scenes": 7}


@dataclass(frozen=True, slots=True)
class Topic:
    """What an article can be about: the vocabulary of one topic, by grammatical role.

    A sentence pattern names roles, never words, so one pattern serves every topic and no two
    topics share content words.
    """

    name: str
    """What the topic is called, as a heading would."""
    things: tuple[Pattern, ...]
    """Nouns (English: in the plural): what the articles are about."""
    actors: tuple[Pattern, ...]
    """What a person of the field is called, one person (also before a name)."""
    crowds: tuple[Pattern, ...]
    """The same people as a group."""
    offices: tuple[Pattern, ...]
    """Public bodies, as they stand after the name of a place."""
    firms: tuple[Pattern, ...]
    """Companies, as they stand after a trade name."""
    actions: tuple[Pattern, ...]
    """What one does in the field: verb and object (English: the base form)."""
    sites: tuple[Pattern, ...]
    """Where it happens (English: with the article)."""
    problems: tuple[Pattern, ...]
    """What goes wrong: a noun phrase."""
    results: tuple[Pattern, ...]
    """What came of it: a clause."""
    figures: tuple[Pattern, ...]
    """A measured quantity: a clause with a number."""
    views: tuple[Pattern, ...]
    """What one may say about it: a clause for between quotation marks."""
    scenes: tuple[Pattern, ...]
    """What a reporter sees there: a sentence without its full stop."""


def read_topic(name: str, sections: Sections) -> Topic:
    """Build a topic from its word lists, a section for each role.

    Raises:
        ValueError: a role is missing, or has too few entries to tell two articles apart.
    """
    roles: dict[str, tuple[Pattern, ...]] = {}
    for field in fields(Topic):
        if field.name == "name":
            continue
        if field.name not in sections:
            raise ValueError(f"topic {name!r} lacks the role {field.name!r}; add its word list")
        entries = sections[field.name]
        minimum = _MINIMUM_ENTRIES.get(field.name, 3)
        if len(entries) < minimum:
            shown = f"topic {name!r} has {len(entries)} entries of {field.name!r}"
            raise ValueError(f"{shown}; an article needs at least {minimum}")
        roles[field.name] = patterns(entries)
    return Topic(name=name, **roles)


@dataclass(frozen=True, slots=True)
class Language:
    """One language of the demo stream.

    A Chinese text is measured in characters and an English one in words, here and in the edits:
    to count Chinese words takes a segmenter, and the demo must not share one with what it tests.
    """

    code: str
    """`zh` or `en`."""
    topics: tuple[Topic, ...]
    commonplaces: Mapping[str, tuple[Pattern, ...]]
    """Entries by role that suit every topic; a role may be missing."""
    voices: tuple[Voice, ...]
    """Ways of writing an article; each has every section that the articles are made of."""
    titles: tuple[Pattern, ...]
    phrases: Mapping[str, tuple[Pattern, ...]]
    """Slots that need no topic: dates, spans of time, sums of money."""
    actions: Mapping[str, Callable[[str], str]]
    """The forms of an action: slot name and what it does to the base form."""
    person: Callable[[random.Random], str]
    place: Callable[[random.Random], str]
    brand: Callable[[random.Random], str]
    space: str
    """What stands between two words, and between two sentences."""
    stop: str
    """The full stop."""
    closed: tuple[str, ...]
    """What a sentence may end with instead of a full stop."""
    shortest: int
    longest: int
    """Length of an article, in characters (zh) or words (en)."""
    measure: Callable[[str], int]
    """The length of a text in characters (zh) or words (en)."""
