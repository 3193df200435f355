"""Which words may stand for which: read off the grammar that the articles are written with.

Where a pattern has alternatives, they fit the same place in the same sentence; where a role of a
topic has entries, they fit the same slot. So an edit made with them still reads as a text, and no
word list besides the grammar is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import NamedTuple

from streams.corpus.grammar import Pattern, alternatives
from streams.corpus.language import Language, Topic
from streams.corpus.languages import LANGUAGES

_KEY = 2  # characters by which the words are indexed; shorter words are left alone
_TOKEN = {
    "zh": re.compile(r"\d[\d.,]*|[A-Za-z]+|.", re.DOTALL),
    "en": re.compile(r"\d[\d.,]*\d|\d|[^\W\d_]+(?:['’-][^\W\d_]+)*|\s+|.", re.DOTALL),
}


class Unit(NamedTuple):
    """A piece of a text: a word that has alternatives, or a token that has none."""

    text: str
    alternatives: tuple[str, ...]


class Thesaurus:
    """Interchangeable words in articles of one topic, and the division of a text into them."""

    def __init__(self, language: Language, topic: Topic) -> None:
        """Collect the words of the language's sentences and of the topic."""
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
        """Divide a text: at each place the longest known word, or else one token."""
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
        """Return whether a word may end here: in English, not in the middle of another."""
        return not self._spaced or end >= len(text) or not text[end].isalnum()


def _groups(language: Language, topic: Topic) -> Iterator[tuple[str, ...]]:
    roles = {field.name: getattr(topic, field.name) for field in fields(Topic)}
    del roles["name"], roles["actors"]  # whoever speaks is named again further down
    patterns: list[Pattern] = []
    for lists in (roles, language.commonplaces):
        for entries in lists.values():
            patterns.extend(entries)
            yield tuple(
                entry[0] for entry in entries if len(entry) == 1 and isinstance(entry[0], str)
            )
    for lists in (*language.voices, language.phrases):
        for entries in lists.values():
            patterns.extend(entries)
    for pattern in patterns:
        yield from alternatives(pattern)


@cache
def thesaurus_of(language_code: str, topic_name: str) -> Thesaurus:
    """Return the thesaurus of a topic; it is built once.

    Raises:
        ValueError: the demo has no such language or topic.
    """
    language = LANGUAGES.get(language_code)
    topics = {topic.name: topic for topic in language.topics} if language else {}
    if language is None or topic_name not in topics:
        raise ValueError(f"no topic {topic_name!r} in the language {language_code!r}")
    return Thesaurus(language, topics[topic_name])
