"""What a copy changed, in one line for a reader: “−12 +3 characters; “旧” → “新””.

The difference is taken twice, so that it stays fast: first over sentences, then over the words of
those sentences that differ. White space counts as one blank.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

TEXT_MAX: Final = 5_000
"""Characters of a text that are looked at; the rest is left out, and the summary says so."""
WORK_MAX: Final = 40_000
"""Words and pairs of equal words that are aligned; passages after that are shown whole."""

_SENTENCE = re.compile(r".*?(?:[。！？!?；;]|[.](?=\s)|$)[”’」』\"')）]*", re.DOTALL)
_WORD = re.compile(r"[^\W\d_\u3400-\u9fff]+|\d[\d.,]*|\s+|.", re.DOTALL)
_SHOWN = 24  # characters of one passage that are shown at most
_SHORTEST_LIMIT = 60
_LONG_LIST = 400  # items
_LIST_WORK = 50  # what a list costs, however short


class _Change(NamedTuple):
    old: str
    new: str


def describe_change(original_text: str, text: str, limit: int = 160) -> str:
    """Summarise in at most `limit` characters what changed from the original to the copy.

    Says so where only white space, signs, widths or case differ, and where the same sentences
    stand in another order. Otherwise gives the characters taken away and put in, then the largest
    changes, as many as there is room for.

    Raises:
        ValueError: the limit is below 60, too little to say anything.
    """
    if limit < _SHORTEST_LIMIT:
        raise ValueError(f"limit is {limit}; give at least {_SHORTEST_LIMIT} characters")
    if original_text == text:
        return "no change"
    cut = max(len(original_text), len(text)) > TEXT_MAX
    scope = f" in the first {TEXT_MAX:,} characters" if cut else ""
    old, new = (" ".join(t[:TEXT_MAX].split()) for t in (original_text, text))
    if old == new:
        return "no change" + scope if cut else "white space only"
    if _letters(old) == _letters(new):
        return "signs, widths, case or white space only" + scope
    before, after = (_SENTENCE.findall(t) for t in (old, new))
    if _multiset(before) == _multiset(after):
        return "the same sentences in another order" + scope
    return _summary(list(_changes(before, after)), scope, limit)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _multiset(sentences: list[str]) -> Counter[str]:
    return Counter(sentence.strip() for sentence in sentences if sentence.strip())


def _summary(changes: list[_Change], scope: str, limit: int) -> str:
    replaced = sum(len(change.old) for change in changes)
    added = sum(len(change.new) for change in changes)
    summary = f"−{replaced} +{added} characters{scope}"
    visible = [change for change in changes if change.old.strip() or change.new.strip()]
    for change in sorted(visible, key=lambda change: -len(change.old) - len(change.new)):
        shown = f"; {_shown(change)}"
        if len(summary) + len(shown) > limit:
            break
        summary += shown
    return summary


def _shown(change: _Change) -> str:
    if not change.old.strip():
        return f"+ “{_clipped(change.new)}”"
    if not change.new.strip():
        return f"− “{_clipped(change.old)}”"
    return f"“{_clipped(change.old)}” → “{_clipped(change.new)}”"


def _clipped(passage: str) -> str:
    passage = passage.strip()
    if len(passage) <= _SHOWN:
        return passage
    half = _SHOWN // 2 - 1
    return f"{passage[:half]}…{passage[-half:]}"


def _changes(before: list[str], after: list[str]) -> Iterator[_Change]:
    """Yield the changed passages, given the sentences of both texts, in the order of the text."""
    work = WORK_MAX
    for i1, i2, j1, j2 in _differing(before, after):
        passages = [("".join(before[i1:i2]), "".join(after[j1:j2]))]
        if i2 - i1 == j2 - j1:
            passages = list(zip(before[i1:i2], after[j1:j2], strict=True))
        for old, new in passages:
            old_words, new_words = _WORD.findall(old), _WORD.findall(new)
            work -= _work(old_words, new_words)
            if work < 0 or not (old and new):
                yield _Change(old, new)
                continue
            for k1, k2, m1, m2 in _differing(old_words, new_words):
                yield _Change("".join(old_words[k1:k2]), "".join(new_words[m1:m2]))


def _work(old: list[str], new: list[str]) -> int:
    """Estimate what aligning two lists costs: the pairs of equal items, and a little a list."""
    counts = Counter(new)
    return _LIST_WORK + len(old) + len(new) + sum(counts[item] for item in old)


def _differing(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    # In long lists items that come again and again are no anchors (autojunk): it keeps the work
    # near linear where a text says one thing a thousand times.
    matcher = SequenceMatcher(None, old, new, autojunk=len(new) > _LONG_LIST)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            yield i1, i2, j1, j2
