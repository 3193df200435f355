"""The texts of the demo stream: articles unlike each other, copies like their parents."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from difflib import SequenceMatcher

import pytest

from streams.corpus.generated import POSTS, EditKind
from tests.unit.demo.generated_stream import (
    content,
    is_chinese,
    jaccard,
    letters,
    of_kind,
    readable,
    shingles,
    text_of,
)


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
