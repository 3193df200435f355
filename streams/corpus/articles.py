"""Articles: a topic, a cast that stays the same from first line to last, and a plan of sections.

What tells one real article from another of its field is whom and what it is about. So each article
draws a cast once (a place, two or three people, offices, companies, and a dozen of the topic's
nouns, one of them the subject) and its sentences then speak of that cast alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from streams.corpus.draws import Deck, chance, integer, log_uniform, pick, pick_skewed, shuffled
from streams.corpus.grammar import Pattern, expand
from streams.corpus.language import Language, Topic

_ROLES = {
    "actor": "actors",
    "crowd": "crowds",
    "site": "sites",
    "problem": "problems",
    "result": "results",
    "figure": "figures",
    "view": "views",
    "scene": "scenes",
}
_PARAGRAPHS: tuple[tuple[str, ...], ...] = (
    ("fact", "figure"),
    ("scene", "quote"),
    ("problem", "turn"),
    ("quote", "fact"),
    ("fact", "fact", "quote"),
    ("history", "turn"),
    ("problem", "quote", "turn"),
    ("figure", "quote"),
    ("history", "fact", "figure"),
    ("turn", "figure", "quote"),
    ("scene", "fact"),
    ("outlook", "quote"),
    ("fact", "problem"),
    ("outlook", "fact"),
)
_SPEAKERS = 3
_MIN_PATTERNS = 5
_MIN_ENTRIES = 4


@dataclass(frozen=True, slots=True)
class Article:
    """A text of our own, with what a record says about it."""

    title: str
    text: str
    keywords: tuple[str, ...]


def capitalised(text: str) -> str:
    """Make the first letter of a sentence a capital; opening quotation marks are passed over."""
    for index, sign in enumerate(text[:2]):
        if sign.isalnum():
            return text[:index] + sign.upper() + text[index + 1 :]
    return text


class Cast:
    """Whom and what one article is about; fills the slots of its sentences."""

    def __init__(self, rng: random.Random, language: Language, topic: Topic) -> None:
        """Draw the cast of an article on the topic."""
        self._rng = rng
        self._language = language
        self._topic = topic
        self._decks: dict[str, Deck[Pattern]] = {}
        self._introduced: set[str] = set()
        self._place = language.place(rng)
        focus = shuffled(rng, topic.things)[: integer(rng, 8, 13)]
        self.focus = tuple(self._written(thing) for thing in focus)
        """The nouns of the article; the first is its subject."""
        self._speakers = Deck(
            rng, tuple((self._role("actors"), language.person(rng)) for _ in range(_SPEAKERS))
        )
        self._members: dict[str, Callable[[], str]] = {
            "place": lambda: self._place,
            "place2": Deck(rng, (language.place(rng), language.place(rng))).draw,
            "subject": lambda: self.focus[0],
            "thing": Deck(rng, self.focus).draw,
            "office": Deck(rng, (self._office(), self._office())).draw,
            "firm": Deck(rng, (self._firm(), self._firm())).draw,
            "name": Deck(rng, (language.person(rng), language.person(rng))).draw,
            "speaker": self._speaker,
            "an_actor": self._an_actor,
        }

    def fill(self, slot: str) -> str:
        """Fill a slot of a pattern; a slot name with a capital asks for one.

        Raises:
            KeyError: no role, phrase or form of that name exists in this language.
        """
        if slot[0].isupper():
            return capitalised(self.fill(slot.lower()))
        if slot in self._members:
            return self._members[slot]()
        if slot in _ROLES:
            return self._role(_ROLES[slot])
        if slot in self._language.actions:
            return self._language.actions[slot](self._role("actions"))
        if slot in self._language.phrases:
            return self._written(pick_skewed(self._rng, self._language.phrases[slot]))
        raise KeyError(f"the slot {{{slot}}} is filled by nothing in {self._language.code!r}")

    def _speaker(self) -> str:
        actor, name = self._speakers.draw()
        if name in self._introduced:
            return name.split(" ")[-1]
        self._introduced.add(name)
        return actor + self._language.space + name

    def _an_actor(self) -> str:
        actor = self._role("actors")
        return f"an {actor}" if actor[0] in "aeiou" else f"a {actor}"

    def _office(self) -> str:
        return self._place + self._language.space + self._role("offices")

    def _firm(self) -> str:
        return self._language.brand(self._rng) + self._language.space + self._role("firms")

    def _role(self, role: str) -> str:
        deck = self._decks.get(role)
        if deck is None:
            deck = self._decks[role] = Deck(self._rng, self._entries(role))
        return self._written(deck.draw())

    def _entries(self, role: str) -> list[Pattern]:
        """Choose from the topic's own entries and, as many again, from the commonplaces."""
        own: tuple[Pattern, ...] = getattr(self._topic, role)
        common = self._language.commonplaces.get(role)
        if common is None:
            return list(own)
        chosen = shuffled(self._rng, own)[: max(_MIN_ENTRIES, len(own) * 2 // 3)]
        return chosen + shuffled(self._rng, common)[: len(chosen)]

    def _written(self, pattern: Pattern) -> str:
        return expand(pattern, self._rng, self.fill)


class _Writer:
    """Writes one article sentence by sentence, and knows how long it is."""

    def __init__(self, rng: random.Random, language: Language, topic: Topic) -> None:
        self._rng = rng
        self._language = language
        self._voice = pick(rng, language.voices)
        self._sections: dict[str, Deck[Pattern]] = {}
        self.cast = Cast(rng, language, topic)
        self.length = 0
        self.paragraphs: list[str] = []

    def paragraph(self, sections: tuple[str, ...], room: int) -> None:
        """Add a paragraph of these sections; sentences for which there is no room are left out."""
        sentences: list[str] = []
        for section in sections:
            sentence = self._sentence(section)
            length = self._language.measure(sentence)
            if self.length + length > room:
                break
            sentences.append(sentence)
            self.length += length
        if sentences:
            self.paragraphs.append(self._language.space.join(sentences))

    def _sentence(self, section: str) -> str:
        deck = self._sections.get(section)
        if deck is None:
            # Every writer has habits: of a section's patterns, each article uses but half.
            patterns = shuffled(self._rng, self._voice[section])
            usual = patterns[: max(_MIN_PATTERNS, len(patterns) // 2)]
            deck = self._sections[section] = Deck(self._rng, usual)
        sentence = expand(deck.draw(), self._rng, self.cast.fill)
        if not sentence.endswith(self._language.closed):
            sentence += self._language.stop
        return capitalised(sentence)


def write_article(rng: random.Random, language: Language, topic: Topic) -> Article:
    """Write one article; its length in the language's measure is within the language's limits."""
    writer = _Writer(rng, language, topic)
    # What joins the sentences and paragraphs counts in the length as well.
    room = language.longest - language.longest // 20
    goal = log_uniform(rng, language.shortest + 10, room - language.shortest // 4)
    title = expand(pick(rng, language.titles), rng, writer.cast.fill)
    writer.paragraph(("lede", "fact") if chance(rng, 0.5) else ("lede",), room)
    plan = Deck(rng, _PARAGRAPHS)
    while writer.length < goal:
        before = writer.length
        writer.paragraph(plan.draw(), room)
        if writer.length == before:
            break
    if chance(rng, 0.6):
        writer.paragraph(("close",), room)
    focus = writer.cast.focus
    return Article(
        title=capitalised(title),
        text=("\n" if chance(rng, 0.7) else "\n\n").join(writer.paragraphs),
        keywords=(*focus[: integer(rng, 2, 4)], topic.name),
    )
