"""The English language of the demo stream, put together from its lists."""

from __future__ import annotations

from collections.abc import Mapping

from streams.corpus import names_en, sentences_en, voices_en
from streams.corpus.commonplaces_en import COMMONPLACES
from streams.corpus.grammar import Pattern, entries, parse
from streams.corpus.language import Language, Voice
from streams.corpus.topics_en_economy import BANKING, FARMING, SHIPPING, SOFTWARE
from streams.corpus.topics_en_leisure import FOOD, FOOTBALL, MUSEUMS, RIVERS
from streams.corpus.topics_en_society import HOSPITALS, HOUSING, RAILWAYS, SCHOOLS
from streams.corpus.verb_forms_en import gerund, participle, past, same

_WEEKDAYS = "[Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday]"
_MONTHS = "[January|February|March|April|May|June|July|August|September|October|November|December]"
_PHRASES = {
    "day": f"{_WEEKDAYS}; {{#1-28}} {_MONTHS}; {_WEEKDAYS} [morning|evening|afternoon]",
    "weekday": _WEEKDAYS,
    "year": "{#1871-2022}",
    "span": """[two|three|four|five|seven|nine] [weeks|months|years]; {#10-95} days; a year and a
        half; a [whole|long] [winter|summer|season]; [ten|eleven|eighteen] months;
        half a century""",
    "money": """{#12-980},000 pounds; {#1.1-48.9} million pounds; {#2-90} million pounds;
        [half|a quarter of] a million pounds""",
}


def _parsed(block: str) -> tuple[Pattern, ...]:
    return tuple(parse(entry) for entry in entries(block, " "))


def _words(text: str) -> int:
    return len(text.split())


def _voice(*manners: Mapping[str, str]) -> Voice:
    """Mix manners of writing: each section has the sentences of all that know the section.

    What no manner knows is told in the manner of the news.
    """
    voice = {}
    for section, news in sentences_en.SENTENCES.items():
        blocks = [manner[section] for manner in manners if section in manner]
        voice[section] = tuple(p for block in blocks or [news] for p in _parsed(block))
    return voice


EN = Language(
    code="en",
    topics=(
        HOUSING,
        SHIPPING,
        FOOTBALL,
        SCHOOLS,
        SOFTWARE,
        FOOD,
        RAILWAYS,
        FARMING,
        MUSEUMS,
        HOSPITALS,
        BANKING,
        RIVERS,
    ),
    commonplaces={role: _parsed(block) for role, block in COMMONPLACES.items()},
    voices=(
        _voice(sentences_en.SENTENCES),
        _voice(voices_en.BULLETIN, sentences_en.SENTENCES),
        _voice(voices_en.COLUMN, sentences_en.SENTENCES),
        _voice(voices_en.COLUMN, voices_en.BULLETIN),
    ),
    titles=_parsed(sentences_en.TITLES),
    phrases={slot: _parsed(block) for slot, block in _PHRASES.items()},
    actions={"do": same, "doing": gerund, "did": past, "done": participle},
    person=names_en.person,
    place=names_en.place,
    brand=names_en.brand,
    space=" ",
    stop=".",
    closed=(".", "!", "?", "”"),
    shortest=100,
    longest=500,
    measure=_words,
)
"""English."""
