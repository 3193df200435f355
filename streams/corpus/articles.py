"""Articles, posts and broken records."""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple

from streams.corpus.draws import Deck, chance, integer, log_uniform, pick, pick_skewed, shuffled
from streams.corpus.generated import EditKind
from streams.corpus.language import Language, Pattern, Topic, chapters, expand, patterns

# ---- Articles: a topic, a cast, and a plan of sections.
#
# Articles of one field differ in whom and what they are about. So each article draws a cast once (a
# place, people, offices, companies, and a dozen of the topic's nouns, one of them the subject), and
# its sentences use that cast alone.

_PLANS: Final = """
fact figure, scene quote, problem turn, quote fact, fact fact quote, history turn,
problem quote turn, figure quote, history fact figure, turn figure quote, scene fact,
outlook quote, fact problem, outlook fact
"""
_PARAGRAPHS: Final = tuple(tuple(plan.split()) for plan in _PLANS.split(","))
_SPEAKERS = 3
_MIN_PATTERNS = 5
_MIN_ENTRIES = 4


class Article(NamedTuple):
    title: str
    text: str
    keywords: tuple[str, ...]


def capitalised(text: str) -> str:
    """Capitalise the first letter, also after an opening quotation mark."""
    for index, sign in enumerate(text[:2]):
        if sign.isalnum():
            return text[:index] + sign.upper() + text[index + 1 :]
    return text


class Cast:
    """Whom and what one article is about; fills the slots of its sentences."""

    def __init__(self, rng: random.Random, language: Language, topic: Topic) -> None:
        self._rng = rng
        self._language = language
        self._topic = topic
        self._decks: dict[str, Deck[Pattern]] = {}
        self._introduced: set[str] = set()
        self._place = language.place(rng)
        focus = shuffled(rng, topic.roles["things"])[: integer(rng, 8, 13)]
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
        """Fill a slot, capitalised if its name is; raise ``KeyError`` for an unknown one."""
        if slot[0].isupper():
            return capitalised(self.fill(slot.lower()))
        if slot in self._members:
            return self._members[slot]()
        if f"{slot}s" in self._topic.roles:
            return self._role(f"{slot}s")
        if slot in self._language.actions:
            return self._language.in_form(self._role("actions"), slot)
        return self._written(pick_skewed(self._rng, self._language.phrases[slot]))

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
        if role not in self._decks:
            self._decks[role] = Deck(self._rng, self._entries(role))
        return self._written(self._decks[role].draw())

    def _entries(self, role: str) -> Sequence[Pattern]:
        """Return the topic's own entries, or some of them and as many commonplaces."""
        own = self._topic.roles[role]
        if role not in self._language.commonplaces:
            return own
        chosen = shuffled(self._rng, own)[: max(_MIN_ENTRIES, len(own) * 2 // 3)]
        return chosen + shuffled(self._rng, self._language.commonplaces[role])[: len(chosen)]

    def _written(self, pattern: Pattern) -> str:
        return expand(pattern, self._rng, self.fill)


class _Writer:
    def __init__(self, rng: random.Random, language: Language, topic: Topic) -> None:
        self._rng = rng
        self._language = language
        self._voice = pick(rng, language.voices)
        self._sections: dict[str, Deck[Pattern]] = {}
        self.cast = Cast(rng, language, topic)
        self.length = 0
        self.paragraphs: list[str] = []

    def paragraph(self, sections: tuple[str, ...], room: int) -> None:
        """Add a paragraph of these sections, as far as there is room."""
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
        if section not in self._sections:
            # Like real authors, each article uses only half of a section's patterns.
            patterns = shuffled(self._rng, self._voice[section])
            usual = patterns[: max(_MIN_PATTERNS, len(patterns) // 2)]
            self._sections[section] = Deck(self._rng, usual)
        sentence = expand(self._sections[section].draw(), self._rng, self.cast.fill)
        if not sentence.endswith(self._language.closed):
            sentence += self._language.stop
        return capitalised(sentence)


def write_article(rng: random.Random, language: Language, topic: Topic) -> Article:
    writer = _Writer(rng, language, topic)
    # The joints of sentences and paragraphs need some of the length.
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


# ---- Posts.
#
# A short post is two clauses of everyday talk. Posts repeat each other only if equal after NFKC,
# case folding and white space: so few words say too little for a near duplicate.

_EMOJI: Final = (
    "😀😂🤣😊😍😎😭😡🤔🙄😴🥳👍👎👏🙏💪🔥🎉🌧🌈🌸🍀🍉🍜🍺"
    "🎂🎈🐱🐶🐼🦊🚀🚲🏀🎸📚💡💔💯🧧🌙🌊🍵🐢🦆🥟🎣🧩"
)
_SIGNS: Final = "。！？…～—、，：；.!?,;:*#/=+&@%^|·"
_MAX_SIGNS: Final = 6
_EMPTY: Final = ("", "", " ", "\n", "\t \n", "\u3000")
_COMMAS: Final = {"zh": ("，", "！", "。", "，", "…"), "en": (", ", "! ", ". ", ", ", "... ")}


_REPEATED: Final = 0.25  # probability that a short post repeats an earlier one


class Post(NamedTuple):
    """``root``: id of the first post with this content, if it repeats."""

    text: str
    root: str | None


class PostBox:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._sent: dict[str, list[str]] = {"zh": [], "en": []}
        self._first: dict[str, str] = {}

    def post(self, doc_id: str, kind: EditKind, code: str) -> Post:
        """Make a post in language ``code``."""
        match kind:
            case EditKind.SHORT_POST:
                text = self._short_text(code)
            case EditKind.EMOJI:
                text = self._signs(_EMOJI)
            case EditKind.PUNCTUATION:
                text = self._signs(_SIGNS)
            case _:
                text = pick(self._rng, _EMPTY)
        content = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
        first = self._first.setdefault(content, doc_id)
        return Post(text, None if first == doc_id else first)

    def _short_text(self, code: str) -> str:
        """Return 5 to 40 characters, perhaps those of an earlier post."""
        sent = self._sent[code]
        if sent and chance(self._rng, _REPEATED):
            return pick(self._rng, sent)
        openers, remarks = _clauses(code)
        comma = pick(self._rng, _COMMAS[code])
        clauses = (expand(pick(self._rng, each), self._rng, str) for each in (openers, remarks))
        sent.append(comma.join(clauses))
        return sent[-1]

    def _signs(self, signs: str) -> str:
        return "".join(pick(self._rng, signs) for _ in range(integer(self._rng, 1, _MAX_SIGNS)))


@cache
def _clauses(code: str) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...]]:
    words = chapters(code, "words")["posts"]
    return patterns(words["openers"]), patterns(words["remarks"])


# ---- Records that no reader can make a document of, as on real topics.

_LOG_LINES = (
    "ERROR 504 upstream timed out while reading the feed",
    "<html><head><title>502 Bad Gateway</title></head></html>",
    "id,title,text\n17,晨报,内容缺失",
    "正在维护，请稍后再试",
    "{'id': 'a1', 'text': 'single quotes'}",
    "\x00\x01\x02\x03",
)


def broken_value(rng: random.Random, kind: EditKind, fields: dict[str, object]) -> bytes:
    """Break a record of these JSON fields."""
    whole = json.dumps(fields, ensure_ascii=False)
    match kind:
        case EditKind.NOT_JSON:
            return pick(rng, _LOG_LINES).encode()
        case EditKind.TRUNCATED_JSON:
            value = whole[: integer(rng, len(whole) // 4, len(whole) - 2)]
        case EditKind.JSON_ARRAY:
            value = json.dumps([fields["id"], fields["text"]], ensure_ascii=False)
        case EditKind.TEXT_MISSING:
            value = json.dumps({name: fields[name] for name in fields if name != "text"})
        case EditKind.TEXT_NUMBER:
            value = json.dumps(fields | {"text": integer(rng, 0, 99_999)})
        case _:  # INVALID_UTF8
            # As old feeds encode Chinese; in English text, a sign loses a byte.
            if any(sign >= "\u4e00" for sign in whole):
                return whole.encode("gb18030")
            return whole.encode().replace(b'"text": "', b'"text": "\xe2\x80', 1)
    return value.encode()
