"""The languages of the generated documents, Chinese and English, put together from their lists."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from streams.corpus.english_verbs import gerund, participle, past, same
from streams.corpus.grammar import Pattern
from streams.corpus.language import Language, Topic, Voice, read_topic
from streams.corpus.names import CHINESE_NAMES, ENGLISH_NAMES
from streams.corpus.word_lists import chapters, patterns, patterns_by_section

_NEWS: Final = "news"
_ENGLISH_VOICES: Final = (
    (_NEWS,),
    ("bulletin", _NEWS),
    ("column", _NEWS),
    ("column", "bulletin"),
)
"""The ways of writing in words/en/sentences.txt that each English voice mixes."""


def _topics(code: str) -> tuple[Topic, ...]:
    return tuple(read_topic(name, roles) for name, roles in chapters(code, "topics").items())


def _voice(code: str, ways: tuple[str, ...]) -> Voice:
    """Mix ways of writing: each section has the sentences of all that know the section.

    A section that no way has is taken from the news.
    """
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


def _titles(code: str) -> tuple[Pattern, ...]:
    return patterns(chapters(code, "words")["titles"][""])


def _words(text: str) -> int:
    return len(text.split())


def _unchanged(action: str) -> str:
    return action


_ZH: Final = Language(
    code="zh",
    topics=_topics("zh"),
    commonplaces={},
    voices=(_voice("zh", (_NEWS,)),),
    titles=_titles("zh"),
    phrases=patterns_by_section(chapters("zh", "words")["phrases"]),
    actions={"action": _unchanged},
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
    titles=_titles("en"),
    phrases=patterns_by_section(chapters("en", "words")["phrases"]),
    actions={"do": same, "doing": gerund, "did": past, "done": participle},
    person=ENGLISH_NAMES.person,
    place=ENGLISH_NAMES.place,
    brand=ENGLISH_NAMES.brand,
    space=" ",
    stop=".",
    closed=(".", "!", "?", "”"),
    shortest=100,
    longest=500,
    measure=_words,
)
LANGUAGES: Final[Mapping[str, Language]] = MappingProxyType({"zh": _ZH, "en": _EN})
"""Chinese and English, by code."""
