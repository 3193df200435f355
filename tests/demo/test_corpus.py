"""The demo stream: deterministic, readable where it should be, and true to its labels."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
import unicodedata
from collections import Counter, defaultdict
from datetime import datetime
from difflib import SequenceMatcher
from functools import cache
from typing import Any

import pytest

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.rejections import Rejection
from streams.demo.corpus import generate
from streams.demo.corpus_shape import CorpusShape
from streams.demo.generated import BROKEN, COPIES, POSTS, EditKind, GeneratedRecord, Outcome
from streams.demo.languages import LANGUAGES
from streams.fields import FieldSettings
from streams.raw_documents import DocumentReader

SEED = 2024
DOCUMENTS = 2_500
DIGEST = """
import hashlib, sys
from streams.demo.corpus import generate
digest = hashlib.sha256()
for record in generate(7, 300):
    digest.update(repr(record).encode())
print(digest.hexdigest())
"""


@cache
def stream() -> tuple[GeneratedRecord, ...]:
    """Generate the stream that most tests look at."""
    return tuple(generate(SEED, DOCUMENTS))


@cache
def readable() -> dict[str, dict[str, Any]]:
    """Return the JSON objects of all records that are not broken, by document id."""
    return {
        record.id: json.loads(record.value)
        for record in stream()
        if record.id is not None and record.value is not None and record.kind not in BROKEN
    }


def text_of(doc_id: str | None) -> str:
    """Return the text of a document of the stream."""
    assert doc_id is not None
    text = readable()[doc_id]["text"]
    assert isinstance(text, str)
    return text


def of_kind(*kinds: EditKind) -> list[GeneratedRecord]:
    """Return the records of these kinds."""
    return [record for record in stream() if record.kind in kinds]


def is_chinese(text: str) -> bool:
    """Tell Chinese from English."""
    return any("\u4e00" <= sign <= "\u9fff" for sign in text)


def content(text: str) -> str:
    """Return what two texts must share to be exactly equal in content."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def letters(text: str) -> str:
    """Return the letters and digits of a text, without case and width."""
    return "".join(filter(str.isalnum, content(text)))


def shingles(text: str) -> frozenset[str]:
    """Return the character 5-grams of a text's content."""
    text = content(text)
    return frozenset(text[at : at + 5] for at in range(len(text) - 4))


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of what both sets hold in what either holds."""
    return len(one & other) / len(one | other)


def test_the_same_seed_gives_the_same_bytes() -> None:
    """Given a seed, when the stream is made twice, then every record is equal; a longer stream
    begins with the shorter one.
    """
    assert list(generate(SEED, 400)) == list(stream()[:400])


def test_another_seed_gives_another_stream() -> None:
    """Given two seeds, then no article of one stream is in the other."""
    other = {
        json.loads(record.value)["text"]
        for record in generate(SEED + 1, 400)
        if record.kind is EditKind.ORIGINAL and record.value is not None
    }
    assert not other & {text_of(record.id) for record in of_kind(EditKind.ORIGINAL)}


def test_the_stream_does_not_depend_on_the_hash_seed_of_the_process() -> None:
    """Given processes with different string hashes, then they make the same stream."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            timeout=60,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    here = hashlib.sha256()
    for record in generate(7, 300):
        here.update(repr(record).encode())
    assert digests == {here.hexdigest() + "\n"}


def test_every_readable_record_keeps_the_contract() -> None:
    """Given a record that is not broken, then it is a JSON object with id, title, text and time,
    and its key is its id.
    """
    for record in stream():
        if record.kind in BROKEN:
            continue
        assert record.id is not None
        fields = readable()[record.id]
        assert record.key == record.id.encode() == fields["id"].encode()
        assert set(fields) - {"keywords", "lang"} == {"id", "title", "text", "timestamp"}
        assert isinstance(fields["title"], str)
        assert isinstance(fields["text"], str)
        assert all(isinstance(keyword, str) for keyword in fields.get("keywords", ()))
        if "lang" in fields:
            assert fields["lang"] == ("zh" if is_chinese(fields["text"]) else "en")


def test_the_time_in_the_record_is_the_time_of_the_record() -> None:
    """Given RFC 3339 and epoch milliseconds, then both name `timestamp_ms`, which never falls."""
    written = set()
    for record in stream():
        stamp = readable().get(record.id or "", {}).get("timestamp")
        if isinstance(stamp, str):
            assert round(datetime.fromisoformat(stamp).timestamp() * 1000) == record.timestamp_ms
            written.add("Z" if stamp.endswith("Z") else stamp[-6:])
        elif stamp is not None:
            assert stamp == record.timestamp_ms
            written.add("ms")
    assert written == {"Z", "+08:00", "ms"}
    assert all(a.timestamp_ms <= b.timestamp_ms for a, b in itertools.pairwise(stream()))


def test_the_product_reads_what_is_whole_and_rejects_what_is_broken() -> None:
    """Given the reader of the product, then it makes a document of every record that is not
    broken, with the same id, text and time, and rejects every broken one.
    """
    reader = DocumentReader(FieldSettings())
    for offset, record in enumerate(stream()):
        raw = RawRecord(key=record.key, value=record.value, timestamp_ms=record.timestamp_ms)
        read = reader.read(SourcePosition("raw", 0, offset), raw)
        if record.expected is Outcome.DEAD_LETTER:
            assert isinstance(read, Rejection), record
        else:
            assert isinstance(read, Document), record
            assert read.id == record.id
            assert read.text == text_of(record.id)
            assert read.event_time_ms == record.timestamp_ms


def test_every_kind_occurs_about_as_often_as_the_shape_says() -> None:
    """Given the default proportions, then each kind is within five standard deviations."""
    counts = Counter(record.kind for record in stream())
    for kind, weight in CorpusShape().weights():
        deviation = (DOCUMENTS * weight * (1 - weight)) ** 0.5
        assert abs(counts[kind] - DOCUMENTS * weight) < 5 * deviation + 1, kind
    assert set(counts) == set(EditKind)


def test_labels_follow_from_the_root() -> None:
    """Given any record, then it is a dead letter where it is broken, unique where nothing like it
    came before, and else a duplicate; ids are never used twice.
    """
    for record in stream():
        if record.kind in BROKEN:
            assert (record.expected, record.root) == (Outcome.DEAD_LETTER, None)
        else:
            unique = record.root is None
            assert record.expected is (Outcome.UNIQUE if unique else Outcome.DUPLICATE)
            assert unique or record.kind is not EditKind.ORIGINAL
            assert not unique or record.kind not in COPIES
    ids = [record.id for record in stream() if record.id is not None]
    assert len(ids) == len(set(ids))
    assert all(record.id or record.kind is EditKind.NULL_RECORD for record in stream())


def test_a_copy_comes_after_its_parent_and_its_root() -> None:
    """Given a copy, then what it was made from came before, and has the same root; some copies
    are copies of copies, none deeper than the shape allows.
    """
    seen: dict[str, GeneratedRecord] = {}
    depth: dict[str, int] = {}
    for record in stream():
        if record.root is not None and record.parent is not None and record.id is not None:
            root, parent = seen[record.root], seen[record.parent]
            assert root.root is None
            assert root.id in (parent.id, parent.root)
            depth[record.id] = depth.get(record.parent, 0) + 1
        if record.id is not None:
            seen[record.id] = record
    assert set(depth.values()) == set(range(1, CorpusShape().deepest + 1))


def test_copies_come_soon_and_late() -> None:
    """Given the distance from parent to copy, then it spans three orders of magnitude."""
    position = {record.id: at for at, record in enumerate(stream())}
    distances = sorted(position[record.id] - position[record.parent] for record in of_kind(*COPIES))
    assert distances[len(distances) // 10] < 10
    assert distances[-len(distances) // 10] > 500


def test_articles_have_the_length_of_articles() -> None:
    """Given originals, then the Chinese have 150 to 1,500 characters, the English 100 to 500
    words, and three fifths are Chinese.
    """
    texts = [text_of(record.id) for record in of_kind(EditKind.ORIGINAL)]
    chinese = [text for text in texts if is_chinese(text)]
    assert 0.5 < len(chinese) / len(texts) < 0.7
    for text in texts:
        length = len(text) if is_chinese(text) else len(text.split())
        least, most = (150, 1500) if is_chinese(text) else (100, 500)
        assert least <= length <= most, text


def test_no_pattern_shows_through() -> None:
    """Given any text or title, then it holds no bracket, slot or bar of the grammar."""
    for fields in readable().values():
        is_post = not fields["title"]
        assert is_post or not re.search(r"[\[\]{}|]", re.sub(r"\[[^\]{}|]*\]", "", fields["text"]))


def test_unrelated_articles_share_little() -> None:
    """Given originals, then no two share a quarter of their character 5-grams; half of the
    Chinese pairs share less than 2 %, half of the English less than 10 %.
    """
    rng = random.Random(1)
    by_language: dict[bool, list[frozenset[str]]] = {True: [], False: []}
    for record in of_kind(EditKind.ORIGINAL):
        text = text_of(record.id)
        by_language[is_chinese(text)].append(shingles(text))
    for chinese, sets in by_language.items():
        pairs = rng.sample(list(itertools.combinations(range(len(sets)), 2)), 8_000)
        shared = sorted(jaccard(sets[one], sets[other]) for one, other in pairs)
        assert shared[-1] < 0.25
        assert shared[len(shared) // 2] < (0.02 if chinese else 0.10)


def test_an_exact_copy_has_the_title_and_text_of_its_parent() -> None:
    """Given an exact copy, then only id and time are new."""
    for record in of_kind(EditKind.EXACT_COPY):
        assert text_of(record.id) == text_of(record.parent)
        assert readable()[record.id or ""]["title"] == readable()[record.parent or ""]["title"]


def test_a_typographic_copy_has_the_same_letters() -> None:
    """Given a copy in another typography, then letters and digits are the same after NFKC and
    case folding, and most texts are not the same bytes.
    """
    copies = of_kind(EditKind.TYPOGRAPHIC)
    for record in copies:
        assert letters(text_of(record.id)) == letters(text_of(record.parent))
    changed = sum(text_of(record.id) != text_of(record.parent) for record in copies)
    assert changed > 0.95 * len(copies)


def test_a_repost_has_the_article_between_other_lines() -> None:
    """Given a repost, then its parent's text stands in it whole, with one to four lines more."""
    for record in of_kind(EditKind.REPOST):
        above, parent, below = text_of(record.id).partition(text_of(record.parent))
        assert parent
        assert 1 <= len([line for line in (above + "\n" + below).split("\n") if line]) <= 4


def test_a_truncated_copy_keeps_most_of_the_beginning() -> None:
    """Given a truncated copy, then 70 to 95 % of its parent's text is where it begins."""
    for record in of_kind(EditKind.TRUNCATED):
        parent = text_of(record.parent)
        pairs = zip(parent, text_of(record.id), strict=False)
        kept = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        assert 0.69 * len(parent) <= kept < 0.97 * len(parent)


def test_a_reordered_copy_has_the_same_words_in_another_order() -> None:
    """Given a reordered copy, then the characters are the same, their order is not."""
    for record in of_kind(EditKind.REORDERED):
        text, parent = text_of(record.id), text_of(record.parent)
        assert Counter("".join(text.split())) == Counter("".join(parent.split()))
        assert text != parent


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        (EditKind.EDIT_1_5, 0.01, 0.05),
        (EditKind.EDIT_5_10, 0.05, 0.10),
        (EditKind.EDIT_10_20, 0.10, 0.20),
    ],
)
def test_an_edit_is_as_large_as_its_kind_says(kind: EditKind, least: float, most: float) -> None:
    """Given edited copies, when they are aligned with their parents (characters of Chinese, words
    of English), then the share of what was replaced, dropped or put in is within the band.

    The alignment finds the smallest difference, so it may come out a little below the band, and
    where it has to choose between equal words a little above.
    """
    shares = []
    for record in of_kind(kind)[:60]:
        parent, text = text_of(record.parent), text_of(record.id)
        old, new = (list(t) if is_chinese(parent) else t.split() for t in (parent, text))
        changed = sum(
            max(i2 - i1, j2 - j1)
            for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, False).get_opcodes()
            if tag != "equal"
        )
        shares.append(changed / len(old))
    assert min(shares) > least * 0.6
    assert max(shares) < most * 1.25
    within = sum(least * 0.9 <= share <= most * 1.1 for share in shares)
    assert within >= 0.9 * len(shares)


def test_a_copy_resembles_its_parent_far_more_than_anything_else() -> None:
    """Given copies of articles, then each shares more of its letters' 5-grams with its parent
    than any two unrelated articles share.
    """
    for record in of_kind(*COPIES):
        if record.kind is EditKind.TYPOGRAPHIC:
            continue  # the same letters: tested above
        one, other = (shingles(letters(text_of(i))) for i in (record.id, record.parent))
        assert jaccard(one, other) > 0.3, record.id


def test_posts_repeat_each_other_exactly_or_not_at_all() -> None:
    """Given posts, then two have the same root just where their contents are equal after NFKC,
    case folding and white space; the first of them is unique.
    """
    first: dict[str, str | None] = {}
    for record in of_kind(*POSTS):
        known = first.setdefault(content(text_of(record.id)), record.id)
        assert record.root == (None if known == record.id else known)
    assert all(text_of(record.id).strip() == "" for record in of_kind(EditKind.EMPTY))
    repeated = [record for record in of_kind(EditKind.SHORT_POST) if record.root is not None]
    assert repeated


def test_short_posts_are_short_and_unlike_each_other() -> None:
    """Given short posts that are not repeats, then they have 5 to 40 characters, and no two are
    the same but for a sign or two, as near-duplicates would be.
    """
    posts = [text_of(r.id) for r in of_kind(EditKind.SHORT_POST) if r.root is None]
    assert all(5 <= len(post) <= 40 for post in posts)
    by_start = defaultdict(list)
    for post in posts:
        by_start[letters(post)[:4]].append(letters(post))
    for alike in by_start.values():
        for one, other in itertools.combinations(alike, 2):
            assert SequenceMatcher(None, one, other).ratio() < 0.9, (one, other)


def test_posts_without_words_have_none() -> None:
    """Given posts of emoji and of punctuation, then no letter or digit is in them."""
    for record in of_kind(EditKind.EMOJI, EditKind.PUNCTUATION):
        assert text_of(record.id)
        assert not letters(text_of(record.id))


def test_the_shape_decides_what_is_in_the_stream() -> None:
    """Given a shape of English originals and exact copies alone, then nothing else comes."""
    others: dict[str, Any] = {
        str(kind): 0.0 for kind, _ in CorpusShape().weights() if kind not in BROKEN
    }
    shares = {**others, "broken": 0.0, "original": 1.0, "exact_copy": 3.0}
    records = list(generate(5, 200, CorpusShape(**shares, chinese=0.0)))
    assert {record.kind for record in records} == {EditKind.ORIGINAL, EditKind.EXACT_COPY}
    assert not any(is_chinese(json.loads(record.value or b"")["text"]) for record in records)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"original": -0.1}, "original"),
        ({"repost": float("nan")}, "repost"),
        ({"chinese": 1.5}, "chinese"),
        ({"deepest": 0}, "deepest"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(settings: dict[str, Any], named: str) -> None:
    """Given a setting out of its range, then the error names it."""
    with pytest.raises(ValueError, match=named):
        CorpusShape(**settings)


def test_a_stream_of_less_than_nothing_is_refused() -> None:
    """Given a negative number of documents, then the error comes before the first record."""
    with pytest.raises(ValueError, match="-1"):
        generate(1, -1)
    assert list(generate(1, 0)) == []


@pytest.mark.parametrize("code", sorted(LANGUAGES))
def test_every_language_has_twelve_topics_with_words_of_their_own(code: str) -> None:
    """Given the topics of a language, then there are 12, and no noun stands in two of them."""
    topics = LANGUAGES[code].topics
    assert len({topic.name for topic in topics}) == 12
    nouns = Counter(thing for topic in topics for thing in set(topic.things))
    shared = [noun for noun, count in nouns.items() if count > 1]
    assert len(shared) <= 2, shared
