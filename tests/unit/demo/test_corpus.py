"""The demo stream: deterministic, true to its labels; its texts; the grammar they are made with."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import unicodedata
from collections import Counter
from difflib import SequenceMatcher
from functools import cache
from typing import Any

import pytest

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.verdicts import Rejection
from streams.corpus import corpus
from streams.corpus.articles import Cast
from streams.corpus.corpus import generate
from streams.corpus.edits import thesaurus_of
from streams.corpus.generated import (
    BROKEN,
    COPIES,
    POSTS,
    CorpusShape,
    EditKind,
    GeneratedRecord,
    Outcome,
)
from streams.corpus.language import (
    LANGUAGES,
    alternatives,
    expand,
    parse,
    read_chapters,
    read_topic,
)
from streams.documents.fields import FieldSettings
from streams.documents.raw_documents import DocumentReader

SEED = 2024
DOCUMENTS = 2_500
# Seeds are named in figures and bug reports. Who changes the word lists on purpose changes this.
GOLDEN = "684991b5483a4098badac8209d7654dd5b388fdc658355e1237ad4fac4458506"


@cache
def stream() -> tuple[GeneratedRecord, ...]:
    """The stream that most tests look at."""
    return tuple(generate(SEED, DOCUMENTS))


@cache
def readable() -> dict[str | None, dict[str, Any]]:
    """The JSON objects of all records that are not broken, by document id."""
    return {
        record.id: json.loads(record.value)
        for record in stream()
        if record.value is not None and record.kind not in BROKEN
    }


def text_of(doc_id: str | None) -> str:
    text = readable()[doc_id]["text"]
    assert isinstance(text, str)
    return text


def of_kind(*kinds: EditKind) -> list[GeneratedRecord]:
    return [record for record in stream() if record.kind in kinds]


def texts_of(kind: EditKind) -> list[tuple[str, str]]:
    """The texts of the copies of a kind, each with its parent's."""
    return [(text_of(record.id), text_of(record.parent)) for record in of_kind(kind)]


def is_chinese(text: str) -> bool:
    return any("\u4e00" <= sign <= "\u9fff" for sign in text)


def content(text: str) -> str:
    """What two texts must share to be exactly equal in content."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def letters(text: str) -> str:
    """The letters and digits of a text, without case and width."""
    return "".join(filter(str.isalnum, content(text)))


def shingles(text: str) -> frozenset[str]:
    """The character 5-grams of a text's content."""
    text = content(text)
    return frozenset(text[at : at + 5] for at in range(len(text) - 4))


def test_the_stream_of_a_seed_is_that_of_earlier_versions() -> None:
    """Each process has a hash seed of its own (PYTHONHASHSEED): nothing depends on it."""
    digest = hashlib.sha256()
    for record in generate(SEED, 400):
        digest.update(repr(record).encode())
    assert digest.hexdigest() == GOLDEN


def test_the_product_reads_what_is_whole_and_rejects_what_is_broken() -> None:
    reader = DocumentReader(FieldSettings())
    for offset, record in enumerate(stream()):
        raw = RawRecord(key=record.key, value=record.value, timestamp_ms=record.timestamp_ms)
        read = reader.read(SourcePosition("raw", 0, offset), raw)
        if record.expected is Outcome.DEAD_LETTER:
            assert isinstance(read, Rejection), record
        else:
            assert isinstance(read, Document), record
            assert (read.id, read.text) == (record.id, text_of(record.id))
            assert read.event_time_ms == record.timestamp_ms


def test_every_kind_occurs_about_as_often_as_the_shape_says() -> None:
    counts = Counter(record.kind for record in stream())
    for kind, weight in CorpusShape().weights():
        deviation = (DOCUMENTS * weight * (1 - weight)) ** 0.5
        assert abs(counts[kind] - DOCUMENTS * weight) < 5 * deviation + 1, kind
    assert set(counts) == set(EditKind)


def test_labels_follow_from_the_root() -> None:
    for record in stream():
        if record.kind in BROKEN:
            assert (record.expected, record.root) == (Outcome.DEAD_LETTER, None)
        else:
            unique = record.root is None
            assert record.expected is (Outcome.UNIQUE if unique else Outcome.DUPLICATE)
            assert unique or record.kind is not EditKind.ORIGINAL
            assert not unique or record.kind not in COPIES


def test_ids_are_never_used_twice() -> None:
    ids = [record.id for record in stream() if record.id is not None]
    assert len(ids) == len(set(ids))
    assert all(record.id or record.kind is EditKind.NULL_RECORD for record in stream())


def test_a_copy_comes_after_its_parent_and_its_root_and_is_no_deeper_than_the_shape() -> None:
    seen: dict[str | None, GeneratedRecord] = {}
    depth: dict[str | None, int] = {}
    for record in stream():
        if record.root is not None:
            root, parent = seen[record.root], seen[record.parent]
            assert root.root is None
            assert root.id in (parent.id, parent.root)
            depth[record.id] = depth.get(record.parent, 0) + 1
        seen[record.id] = record
    assert set(depth.values()) == set(range(1, CorpusShape().deepest + 1))


def test_the_shape_decides_what_is_in_the_stream() -> None:
    others = {str(kind): 0.0 for kind, _ in CorpusShape().weights() if kind not in BROKEN}
    shares: dict[str, Any] = {**others, "broken": 0.0, "original": 1.0, "exact_copy": 3.0}
    records = list(generate(5, 200, CorpusShape(**shares, chinese=0.0)))
    assert {record.kind for record in records} == {EditKind.ORIGINAL, EditKind.EXACT_COPY}
    assert not any(is_chinese(json.loads(record.value or b"")["text"]) for record in records)


def test_only_the_last_articles_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "REMEMBERED_MAX", 20)
    again = {EditKind.EXACT_COPY, EditKind.TYPOGRAPHIC, EditKind.REPOST, EditKind.EDIT_1_5}
    depth: dict[str | None, int] = {}
    remembered: list[str | None] = []
    for record in generate(5, 600):
        if record.kind in COPIES:
            assert record.parent in remembered[-20:]
            depth[record.id] = depth.get(record.parent, 0) + 1
        copied_again = record.kind in again and depth[record.id] < CorpusShape().deepest
        if record.kind is EditKind.ORIGINAL or copied_again:
            remembered.append(record.id)
    assert len(remembered) > 60


@pytest.mark.parametrize(
    ("name", "value"),
    [("original", -0.1), ("repost", float("nan")), ("chinese", 1.5), ("deepest", 0)],
)
def test_a_shape_that_cannot_be_is_refused_by_name(name: str, value: float) -> None:
    shape: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=name):
        CorpusShape(**shape)


def test_a_negative_number_of_documents_is_refused_before_the_first() -> None:
    with pytest.raises(ValueError, match="-1"):
        generate(1, -1)
    assert list(generate(1, 0)) == []


# ---- The texts.


def test_unrelated_articles_share_little() -> None:
    """No two share a quarter of their 5-grams, and half of the pairs nearly none."""
    rng = random.Random(1)
    by_language: dict[bool, list[frozenset[str]]] = {True: [], False: []}
    for record in of_kind(EditKind.ORIGINAL):
        text = text_of(record.id)
        by_language[is_chinese(text)].append(shingles(text))
    for chinese, sets in by_language.items():
        pairs = rng.sample(list(itertools.combinations(sets, 2)), 8_000)
        shared = sorted(len(one & other) / len(one | other) for one, other in pairs)
        assert shared[-1] < 0.25
        assert shared[len(shared) // 2] < (0.02 if chinese else 0.10)


def test_an_exact_copy_has_the_title_and_text_of_its_parent() -> None:
    for record in of_kind(EditKind.EXACT_COPY):
        copy, parent = readable()[record.id], readable()[record.parent]
        assert (copy["title"], copy["text"]) == (parent["title"], parent["text"])


def test_a_typographic_copy_has_the_same_letters_in_other_bytes() -> None:
    copies = texts_of(EditKind.TYPOGRAPHIC)
    assert all(letters(text) == letters(parent) for text, parent in copies)
    assert sum(text != parent for text, parent in copies) > 0.95 * len(copies)


def test_a_repost_has_the_article_between_one_to_four_lines() -> None:
    for text, parent in texts_of(EditKind.REPOST):
        above, found, below = text.partition(parent)
        assert found
        assert 1 <= len([line for line in (above + "\n" + below).split("\n") if line]) <= 4


def test_a_truncated_copy_keeps_70_to_95_percent_of_the_beginning() -> None:
    for text, parent in texts_of(EditKind.TRUNCATED):
        pairs = zip(parent, text, strict=False)
        kept = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        assert 0.69 * len(parent) <= kept < 0.97 * len(parent)


def test_a_reordered_copy_has_the_same_characters_in_another_order() -> None:
    for text, parent in texts_of(EditKind.REORDERED):
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
    """The share of characters (words in English) that were replaced, dropped or put in.

    The alignment finds the smallest difference, so it may come out a little below the band, and
    where it has to choose between equal words a little above.
    """
    shares = []
    for text, parent in texts_of(kind)[:60]:
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


def test_posts_have_one_root_just_where_their_contents_are_equal() -> None:
    first: dict[str, str | None] = {}
    for record in of_kind(*POSTS):
        known = first.setdefault(content(text_of(record.id)), record.id)
        assert record.root == (None if known == record.id else known)
    assert all(text_of(record.id).strip() == "" for record in of_kind(EditKind.EMPTY))
    assert any(record.root is not None for record in of_kind(EditKind.SHORT_POST))


# ---- The grammar: alternatives, slots, numbers, and words that can be exchanged.


@pytest.mark.parametrize(
    ("pattern", "sentences"),
    [
        (
            "[据悉|[记者|我们]获悉]，{place}有{#3-5}处",
            {f"{who}，PLACE有{n}处" for who in ("据悉", "记者获悉", "我们获悉") for n in (3, 4, 5)},
        ),
        ("{#0.8-1.1}", {"0.8", "0.9", "1.0", "1.1"}),  # as many digits as its range
        ("a[|b]", {"a", "ab"}),
    ],
)
def test_each_draw_is_one_of_the_sentences_of_a_pattern(pattern: str, sentences: set[str]) -> None:
    """Slots are filled with their own names here."""
    rngs = (random.Random(seed) for seed in range(200))
    assert {expand(parse(pattern), rng, str.upper) for rng in rngs} == sentences


@pytest.mark.parametrize("broken", ["[a|b", "a]", "a|b", "{#3}", "{#a-b}"])
def test_a_pattern_that_cannot_be_read_is_named(broken: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        parse(broken)


def test_a_word_list_has_chapters_sections_and_entries_without_notes() -> None:
    farming = "# Farming\n\n## things\n[winter|spring] barley\n{#3-9} hens\n"
    text = f"> a note\n\n{farming}\n# titles\nnews\n"
    assert read_chapters(text, "words.txt") == {
        "Farming": {"things": ("[winter|spring] barley", "{#3-9} hens")},
        "titles": {"": ("news",)},
    }


def test_an_entry_before_the_first_chapter_is_named_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"words\.txt, line 2"):
        read_chapters("> a note\nbarley\n", "words.txt")


def test_the_plain_words_of_one_level_are_interchangeable() -> None:
    found = set(alternatives(parse("[甲|乙|{slot}丙]的[丁[戊|己]|庚]")))
    assert found == {("甲", "乙"), ("戊", "己")}


def test_a_topic_that_lacks_a_word_list_is_named_with_it() -> None:
    with pytest.raises(ValueError, match=r"'园艺'.*'things'"):
        read_topic("园艺", {})


@pytest.mark.parametrize("code", sorted(LANGUAGES))
def test_every_pattern_can_be_written_in_every_topic(code: str) -> None:
    language = LANGUAGES[code]
    rng = random.Random(9)
    for subject in language.topics:
        cast = Cast(rng, language, subject)
        for lists in (*language.voices, language.phrases, {"title": language.titles}):
            for section, patterns in lists.items():
                for pattern in patterns:
                    sentence = expand(pattern, rng, cast.fill)
                    assert sentence.strip() == sentence, (section, sentence)
                    assert not set(sentence) & set("[]{}|"), (section, sentence)


def test_the_thesaurus_divides_a_text_without_loss_and_knows_other_words() -> None:
    text = "据悉，滴灌带和冬小麦也被列入名单，亩产达到612公斤。"
    units = thesaurus_of("zh", "农业").units(text)
    assert "".join(unit.text for unit in units) == text
    wheat = next(unit for unit in units if unit.text == "冬小麦")
    assert "早稻" in wheat.alternatives
    assert "612" in [unit.text for unit in units]
