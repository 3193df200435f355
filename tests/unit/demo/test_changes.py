"""What a copy changed, said in one line."""

from __future__ import annotations

import json
import random
import time

import pytest

from streams.corpus.corpus import generate
from streams.corpus.generated import BROKEN, EditKind
from streams.demo.summary import TEXT_MAX, describe_change


def test_equal_texts() -> None:
    """Given the same text twice, then nothing changed."""
    assert describe_change("今天下雨。", "今天下雨。") == "no change"


@pytest.mark.parametrize(
    ("original", "copy", "said"),
    [
        ("今天 下雨。", "今天\n下雨。", "white space only"),
        ("今天有12人。", "今天有１２人.", "signs, widths, case or white space only"),
        ("A Day at Sea.", "a DAY at sea!", "signs, widths, case or white space only"),
        ("甲。乙丙。丁。", "丁。甲。乙丙。", "the same sentences in another order"),
        ("One ran. Two sat. ", "Two sat. One ran.", "the same sentences in another order"),
    ],
)
def test_changes_that_leave_the_words(original: str, copy: str, said: str) -> None:
    """Given the same words in other dress or order, then the summary says that and no more."""
    assert describe_change(original, copy) == said


def test_a_replaced_word_is_shown_with_what_it_replaced() -> None:
    """Given one word for another in a long text, then the numbers and both words are shown."""
    original = "前面一句。今年的冬小麦长得很好。后面一句。"
    copy = "前面一句。今年的早稻长得很好。后面一句。"
    assert describe_change(original, copy) == "−3 +2 characters; “冬小麦” → “早稻”"


def test_words_taken_away_and_put_in() -> None:
    """Given a clause dropped and another added, then each is shown by its sign."""
    said = describe_change("It rained. We left early. End.", "It rained hard. We left early.")
    assert said.startswith("−5 +5 characters; ")
    assert "+ “hard”" in said
    assert "− “End.”" in said


def test_the_largest_changes_come_first_and_the_limit_is_kept() -> None:
    """Given more changes than there is room for, then the largest are shown within the limit."""
    original = "甲一。乙二。丙三。" * 5
    copy = original.replace("甲", "戊己庚辛壬", 1).replace("丙", "子", 1)
    said = describe_change(original, copy, limit=60)
    assert len(said) <= 60
    assert said.index("戊己庚辛壬") < said.index("子")


def test_a_long_passage_is_clipped() -> None:
    """Given a long passage that went, then its beginning and end are shown."""
    said = describe_change("开头。" + "很长的话" * 50 + "。", "开头。")
    assert "很长的话很长的话很长的…" in said
    assert len(said) <= 160


def test_a_limit_too_small_is_refused() -> None:
    """Given a limit that holds no sentence, then the error names it."""
    with pytest.raises(ValueError, match="10"):
        describe_change("甲", "乙", limit=10)


def test_a_very_long_text_is_cut_and_the_summary_says_so() -> None:
    """Given texts over the limit, then only their beginnings are compared, and that is said."""
    original = "".join(f"第{n}句话。" for n in range(3_000))
    assert len(original) > TEXT_MAX
    said = describe_change(original, original.replace("第7句", "第七句", 1))
    assert said == "−1 +1 characters in the first 5,000 characters; “7” → “七”"
    assert describe_change(original, original + "完") == "no change in the first 5,000 characters"


@pytest.mark.parametrize(
    ("original", "copy"),
    [
        ("a. b. " * 2_000, "b. a. " * 2_000),
        ("a b. " * 2_000, "b a. " * 2_000),
        ("好。" * 2_500, "坏。好。" * 1_250),
        ("的是" * 2_500, "是的的" * 1_600),
        ("的" * 240 + "。", "的" * 239 + "是。"),
    ],
)
def test_texts_made_to_be_slow_are_not(original: str, copy: str) -> None:
    """Given texts that say the same few things over and over, then the summary is still quick.

    Without a bound on the work one of these takes minutes; the limit here leaves room for a busy
    machine.
    """
    started = time.process_time()
    assert len(describe_change(original, copy)) <= 160
    assert time.process_time() - started < 0.5


def test_each_kind_of_copy_gets_a_summary_that_fits() -> None:
    """Given a generated stream, then each copy of its parent is described: exact ones as no
    change, reordered ones by their order, reposts as additions alone.
    """
    records = list(generate(11, 600))
    texts = {
        record.id: json.loads(record.value)["text"]
        for record in records
        if record.kind not in BROKEN and record.value is not None
    }
    said: dict[EditKind, set[str]] = {}
    for record in random.Random(1).sample(records, len(records)):
        if record.parent is not None:
            change = describe_change(texts[record.parent], texts[record.id])
            assert 0 < len(change) <= 160
            said.setdefault(record.kind, set()).add(change)
    assert said[EditKind.EXACT_COPY] == {"no change"}
    assert all(change.startswith("−0 +") for change in said[EditKind.REPOST])
    assert all(change.startswith("−") for change in said[EditKind.EDIT_10_20])
    assert said[EditKind.TYPOGRAPHIC] <= {
        "no change",
        "white space only",
        "signs, widths, case or white space only",
    }
