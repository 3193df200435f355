"""Articles, posts and broken records."""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from streams.corpus.draws import chance, deck, integer, log_uniform, pick, shuffled
from streams.corpus.generated import EditKind
from streams.corpus.language import Language, Topic, expand

# ---- Articles: a topic, a cast, and a plan of sections.
#
# Articles of one topic differ in their people and things. So each article draws a cast once (a
# place, people, offices, companies, and a dozen of the topic's nouns, one of them the subject), and
# its sentences use only that cast.

_PLANS: Final = """
fact figure, scene quote, problem turn, quote fact, fact fact quote, history turn,
problem quote turn, figure quote, history fact figure, turn figure quote, scene fact,
outlook quote, fact problem, outlook fact
"""
_PARAGRAPHS: Final = tuple(tuple(plan.split()) for plan in _PLANS.split(","))
_SPEAKERS = 3
_MIN_PATTERNS = 5
_MIN_ENTRIES = 4
_VERB_FORMS: Final = ("do", "doing", "did", "done")


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
    """The people and things of one article; fills the slots of its sentences."""

    def __init__(self, rng: random.Random, language: Language, topic: Topic) -> None:
        self._rng = rng
        self._language = language
        self._introduced: set[str] = set()
        self._decks: dict[str, Iterator[str]] = {
            role.removesuffix("s"): deck(rng, _entries(rng, language, topic, role))
            for role in topic.roles
        }
        phrase, fill, joint = partial(language.phrase, rng), self.fill, language.space
        things = shuffled(rng, topic.roles["things"])[: integer(rng, 8, 13)]
        self.focus = tuple(expand(thing, rng, fill) for thing in things)
        """The nouns of the article; the first is its subject."""
        place = phrase("place")
        for slot, members in {
            "place": [place],
            "place2": [phrase("place"), phrase("place")],
            "subject": self.focus[:1],
            "thing": self.focus,
            "office": [place + joint + fill("office") for _ in range(2)],
            "firm": [phrase("brand") + joint + fill("firm") for _ in range(2)],
            "name": [phrase("person"), phrase("person")],
        }.items():
            self._decks[slot] = deck(rng, members)
        self._speakers = deck(rng, [(fill("actor"), phrase("person")) for _ in range(_SPEAKERS)])

    def fill(self, slot: str) -> str:
        """Fill a slot, capitalised if its name is; raise ``KeyError`` for an unknown one."""
        if slot[0].isupper():
            return capitalised(self.fill(slot.lower()))
        if slot == "speaker":
            return self._speaker()
        if slot == "an_actor":
            actor = self.fill("actor")
            return f"an {actor}" if actor[0] in "aeiou" else f"a {actor}"
        if slot in _VERB_FORMS:  # of an action such as "do/doing/did/done it"
            verb, space, rest = self.fill("action").partition(" ")
            return verb.split("/")[_VERB_FORMS.index(slot)] + space + rest
        if slot in self._decks:
            return expand(next(self._decks[slot]), self._rng, self.fill)
        return self._language.phrase(self._rng, slot)

    def _speaker(self) -> str:
        actor, name = next(self._speakers)
        if name in self._introduced:
            return name.split(" ")[-1]
        self._introduced.add(name)
        return actor + self._language.space + name


def _entries(rng: random.Random, language: Language, topic: Topic, role: str) -> Sequence[str]:
    """Return the topic's own entries, or some of them and as many that fit every topic."""
    own, commonplaces = topic.roles[role], language.commonplaces.get(role)
    if commonplaces is None:
        return own
    chosen = shuffled(rng, own)[: max(_MIN_ENTRIES, len(own) * 2 // 3)]
    return chosen + shuffled(rng, commonplaces)[: len(chosen)]


def _usual(rng: random.Random, patterns: Sequence[str]) -> Iterator[str]:
    """Yield half of the patterns of a section, because one author does not use them all."""
    return deck(rng, shuffled(rng, patterns)[: max(_MIN_PATTERNS, len(patterns) // 2)])


def write_article(rng: random.Random, language: Language, topic: Topic) -> Article:
    cast = Cast(rng, language, topic)
    voice = {name: _usual(rng, section) for name, section in pick(rng, language.voices).items()}
    # Leave room for the separators of sentences and paragraphs, and for the last paragraph.
    room = language.longest - language.longest // 10
    goal = log_uniform(rng, language.shortest + 10, room - language.shortest // 4)
    title = expand(pick(rng, language.titles), rng, cast.fill)

    def sentence(section: str) -> str:
        text = expand(next(voice[section]), rng, cast.fill)
        return capitalised(text if text.endswith(language.closed) else text + language.stop)

    paragraphs: list[str] = []
    length = 0
    opening = ("lede", "fact") if chance(rng, 0.5) else ("lede",)
    for sections in chain([opening], deck(rng, _PARAGRAPHS)):
        paragraph = language.space.join(map(sentence, sections))
        length += language.measure(paragraph)
        if length > room:
            break
        paragraphs.append(paragraph)
        if length >= goal:
            break
    if chance(rng, 0.6):
        paragraphs.append(sentence("close"))
    return Article(
        title=capitalised(title),
        text=("\n" if chance(rng, 0.7) else "\n\n").join(paragraphs),
        keywords=(*cast.focus[: integer(rng, 2, 4)], topic.name),
    )


# ---- Posts.
#
# A short post is two clauses of everyday talk. A post repeats another only if both are equal after
# NFKC, case folding and white space, because so few words say too little for a near duplicate.

_EMOJI: Final = (
    "😀😂🤣😊😍😎😭😡🤔🙄😴🥳👍👎👏🙏💪🔥🎉🌧🌈🌸🍀🍉🍜🍺"
    "🎂🎈🐱🐶🐼🦊🚀🚲🏀🎸📚💡💔💯🧧🌙🌊🍵🐢🦆🥟🎣🧩"
)
_SIGNS: Final = "。！？…～—、，：；.!?,;:*#/=+&@%^|·"
_MAX_SIGNS: Final = 6
_EMPTY: Final = ("", "", " ", "\n", "\t \n", "\u3000")
_REPEATED: Final = 0.25  # probability that a short post repeats an earlier one


class PostBox:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._sent: dict[Language, list[str]] = {}
        self._first: dict[str, str] = {}

    def post(self, doc_id: str, kind: EditKind, language: Language) -> tuple[str, str | None]:
        """Return a text, and the id of the first post with this content, if it repeats one."""
        match kind:
            case EditKind.SHORT_POST:
                text = self._short_text(language)
            case EditKind.EMOJI | EditKind.PUNCTUATION:
                signs = _EMOJI if kind is EditKind.EMOJI else _SIGNS
                count = integer(self._rng, 1, _MAX_SIGNS)
                text = "".join(pick(self._rng, signs) for _ in range(count))
            case _:
                text = pick(self._rng, _EMPTY)
        content = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
        first = self._first.setdefault(content, doc_id)
        return text, None if first == doc_id else first

    def _short_text(self, language: Language) -> str:
        """Return 5 to 40 characters, perhaps those of an earlier post."""
        sent = self._sent.setdefault(language, [])
        if sent and chance(self._rng, _REPEATED):
            return pick(self._rng, sent)
        sent.append(language.phrase(self._rng, "post"))
        return sent[-1]


# ---- Records that cannot be read as documents. Real topics have such records.

_LOG_LINES = (
    "ERROR 504 upstream timed out while reading the feed",
    "<html><head><title>502 Bad Gateway</title></head></html>",
    "id,title,text\n17,晨报,内容缺失",
    "正在维护，请稍后再试",
    "{'id': 'a1', 'text': 'single quotes'}",
    "\x00\x01\x02\x03",
)


def broken_value(rng: random.Random, kind: EditKind, fields: dict[str, object]) -> bytes:
    """Return an unreadable version of the record that has ``fields``."""
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
            # Old feeds encode Chinese as GB 18030. In an English text, one character lacks a byte.
            if any(sign >= "\u4e00" for sign in whole):
                return whole.encode("gb18030")
            return whole.encode().replace(b'"text": "', b'"text": "\xe2\x80', 1)
    return value.encode()
