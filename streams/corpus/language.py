"""What the writer of articles must know of a language: words, sentences, names, lengths."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from streams.corpus.grammar import Pattern
from streams.corpus.topics import Topic

Voice: TypeAlias = Mapping[str, tuple[Pattern, ...]]
"""Sentence patterns by section: lede, fact, figure, quote, scene, problem, turn, and so on."""


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
