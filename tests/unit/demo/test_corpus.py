"""The demo stream: it is deterministic, and its labels are true; its texts and its grammar."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import unicodedata
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import cache

import pytest

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.verdicts import Rejection
from streams.corpus import corpus
from streams.corpus.articles import Cast
from streams.corpus.corpus import DEEPEST, EXAMPLE_LINES, example_lines, generate
from streams.corpus.generated import (
    BROKEN,
    COPIES,
    SHARES,
    EditKind,
    GeneratedRecord,
)
from streams.corpus.language import LANGUAGES, expand
from streams.documents.fields import FieldSettings
from streams.documents.raw_documents import DocumentReader
from tests.repository.source_tree import ROOT

SEED = 2024
DOCUMENTS = 2_500


@cache
def stream() -> tuple[GeneratedRecord, ...]:
    return tuple(generate(SEED, DOCUMENTS))


@cache
def texts() -> dict[str | None, str]:
    """Return the texts of all records that are not broken, by document id."""
    return {
        record.id: json.loads(record.value)["text"]
        for record in stream()
        if record.value is not None and record.kind not in BROKEN
    }


def of_kind(*kinds: EditKind) -> list[GeneratedRecord]:
    return [record for record in stream() if record.kind in kinds]


def copies_of_kind(kind: EditKind) -> list[tuple[str, str]]:
    """Return the texts of the copies of a kind, each with its parent's text."""
    return [(texts()[record.id], texts()[record.parent]) for record in of_kind(kind)]


def is_chinese(text: str) -> bool:
    return any("\u4e00" <= sign <= "\u9fff" for sign in text)


def content(text: str) -> str:
    """Return a form of the text that is the same for texts with exactly equal content."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def shingles(text: str) -> frozenset[str]:
    text = content(text)
    return frozenset(text[at : at + 5] for at in range(len(text) - 4))


def test_a_seed_gives_the_example_file() -> None:
    """Published figures and bug reports name seeds. A change of the word lists changes the file."""
    content = (ROOT / "examples" / "documents.jsonl").read_bytes()
    assert content == b"".join(example_lines())
    assert content.count(b"\n") == EXAMPLE_LINES


COPIES_ALONE = {EditKind.ORIGINAL: 1.0, EditKind.EXACT_COPY: 3.0}


@pytest.mark.parametrize(
    ("shares", "chinese", "remembered", "digest"),
    [
        (SHARES, 0.6, 20_000, "026116c60fc9af64"),
        (SHARES, 1.0, 20, "21ab0f03e2cb4cbc"),
        (COPIES_ALONE, 0.0, 20_000, "054d4d45d1712a94"),
    ],
)
def test_a_seed_gives_the_same_records_and_labels(
    monkeypatch: pytest.MonkeyPatch,
    shares: dict[EditKind, float],
    chinese: float,
    remembered: int,
    digest: str,
) -> None:
    monkeypatch.setattr(corpus, "REMEMBERED_MAX", remembered)
    made = hashlib.sha256()
    for record in generate(5, 600, shares, chinese=chinese):
        made.update(
            repr([each if isinstance(each, bytes) else str(each) for each in record]).encode()
        )
        if shares is COPIES_ALONE:
            assert record.kind in COPIES_ALONE
            assert not is_chinese(json.loads(record.value or b"")["text"])
    assert made.hexdigest()[:16] == digest


def test_the_product_reads_what_is_whole_and_rejects_what_is_broken() -> None:
    reader = DocumentReader(FieldSettings())
    for offset, record in enumerate(stream()):
        raw = RawRecord(key=record.key, value=record.value, timestamp_ms=record.timestamp_ms)
        read = reader.read(SourcePosition("raw", 0, offset), raw)
        if record.kind in BROKEN:
            assert isinstance(read, Rejection), record
        else:
            assert isinstance(read, Document), record
            assert (read.id, read.text) == (record.id, texts()[record.id])
            assert read.event_time_ms == record.timestamp_ms


def test_labels_follow_from_the_root_and_copies_from_their_parents() -> None:
    seen: dict[str | None, GeneratedRecord] = {}
    depth: dict[str | None, int] = {}
    for record in stream():
        if record.kind in BROKEN:
            assert record.root is None
        elif record.root is None:
            assert record.kind not in COPIES
        else:
            assert record.kind is not EditKind.ORIGINAL
            root, parent = seen[record.root], seen[record.parent]
            assert root.root is None
            assert root.id in (parent.id, parent.root)
            depth[record.id] = depth.get(record.parent, 0) + 1
        assert record.id not in seen or record.kind is EditKind.NULL_RECORD
        seen[record.id] = record
    assert set(depth.values()) == set(range(1, DEEPEST + 1))


# ---- The texts.


def test_unrelated_articles_share_little() -> None:
    """No two articles share a quarter of their 5-grams, and half of the pairs nearly none."""
    rng = random.Random(1)
    by_language: dict[bool, list[frozenset[str]]] = {True: [], False: []}
    for record in of_kind(EditKind.ORIGINAL):
        text = texts()[record.id]
        by_language[is_chinese(text)].append(shingles(text))
    for chinese, sets in by_language.items():
        pairs = rng.sample(list(itertools.combinations(sets, 2)), 8_000)
        shared = sorted(len(one & other) / len(one | other) for one, other in pairs)
        assert shared[-1] < 0.25
        assert shared[len(shared) // 2] < (0.02 if chinese else 0.10)


def has_the_same_letters(text: str, parent: str) -> bool:
    letters, expected = ("".join(filter(str.isalnum, content(each))) for each in (text, parent))
    return letters == expected


def is_between_one_to_four_lines(text: str, parent: str) -> bool:
    above, found, below = text.partition(parent)
    added = [line for line in (above + "\n" + below).split("\n") if line]
    return bool(found) and 1 <= len(added) <= 4


def keeps_70_to_95_percent_of_the_beginning(text: str, parent: str) -> bool:
    pairs = zip(parent, text, strict=False)
    kept = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return 0.69 * len(parent) <= kept < 0.97 * len(parent)


def has_the_same_characters_in_another_order(text: str, parent: str) -> bool:
    return text != parent and sorted("".join(text.split())) == sorted("".join(parent.split()))


def changes(least: float, most: float) -> Callable[[str, str], bool]:
    """Return whether this share of the characters (words in English) was replaced."""

    def rule(text: str, parent: str) -> bool:
        old, new = (list(t) if is_chinese(parent) else t.split() for t in (parent, text))
        changed = sum(
            max(i2 - i1, j2 - j1)
            for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, False).get_opcodes()
            if tag != "equal"
        )
        return least * 0.6 < changed / len(old) < most * 1.25

    return rule


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (EditKind.EXACT_COPY, str.__eq__),
        (EditKind.TYPOGRAPHIC, has_the_same_letters),
        (EditKind.REPOST, is_between_one_to_four_lines),
        (EditKind.TRUNCATED, keeps_70_to_95_percent_of_the_beginning),
        (EditKind.REORDERED, has_the_same_characters_in_another_order),
        (EditKind.EDIT_1_5, changes(0.01, 0.05)),
        (EditKind.EDIT_5_10, changes(0.05, 0.10)),
        (EditKind.EDIT_10_20, changes(0.10, 0.20)),
    ],
)
def test_a_copy_differs_as_its_kind_says(kind: EditKind, rule: Callable[[str, str], bool]) -> None:
    copies = copies_of_kind(kind)[:60]
    assert [copy for copy in copies if not rule(*copy)] == []
    is_equal = sum(text == parent for text, parent in copies)
    assert kind is EditKind.EXACT_COPY or is_equal < 0.05 * len(copies)


def test_posts_have_one_root_just_where_their_contents_are_equal() -> None:
    first: dict[str, str | None] = {}
    for record in of_kind(
        EditKind.SHORT_POST, EditKind.EMOJI, EditKind.PUNCTUATION, EditKind.EMPTY
    ):
        known = first.setdefault(content(texts()[record.id]), record.id)
        assert record.root == (None if known == record.id else known)
    assert all(texts()[record.id].strip() == "" for record in of_kind(EditKind.EMPTY))
    assert any(record.root is not None for record in of_kind(EditKind.SHORT_POST))


# ---- The grammar.


def test_each_draw_is_one_of_the_sentences_of_a_pattern() -> None:
    pattern = "[据悉|[记者|我们]获悉]，{place}有{#3-5}处[|好]{#0.9-1.0}"
    rngs = (random.Random(seed) for seed in range(500))
    assert {expand(pattern, rng, str.upper) for rng in rngs} == {
        f"{who}，PLACE有{number}处{good}{decimal}"
        for who in ("据悉", "记者获悉", "我们获悉")
        for number in (3, 4, 5)
        for good in ("", "好")
        for decimal in ("0.9", "1.0")
    }


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_pattern_can_be_written_in_every_topic(code: str) -> None:
    language = LANGUAGES[code]
    rng = random.Random(9)
    for topic in language.topics:
        cast = Cast(rng, language, topic)
        reposts = (
            each.replace("{title}", "T") for each in itertools.chain(*language.reposts.values())
        )
        others = {"titles": language.titles, "reposts": tuple(reposts)}
        lists = (*language.voices, language.phrases, topic.roles, language.commonplaces, others)
        for section, pattern in (
            (name, pattern) for each in lists for name in each for pattern in each[name]
        ):
            sentence = expand(pattern, rng, cast.fill)
            assert sentence.strip() == sentence, (section, sentence)
            marks = "[]{}|" if section == "actions" else "[]{}|/"
            assert not set(sentence) & set(marks), (section, sentence)
