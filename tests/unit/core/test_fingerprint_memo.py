"""What is remembered of documents: exactly what was made, within a bound."""

from __future__ import annotations

import msgspec
import pytest

from simhash_core.documents import Content
from simhash_core.text.fingerprinter import Fingerprinter, FingerprintMemo
from simhash_core.text.profiles import PROFILES

TEXTS = [f"第{number}号公告:市交通局发布,跨江大桥的加固工程将于下月初开始。" for number in range(8)]


def test_the_latest_documents_are_there_and_old_ones_go() -> None:
    memo = FingerprintMemo[int](memory_bytes=6 * 1_100)
    for number in range(20):
        memo.keep(Content(f"{number:050}"), number)
        assert memo.get(Content(f"{0:050}")) == 0
    assert [memo.get(Content(f"{number:050}")) for number in (17, 18, 19)] == [17, 18, 19]
    assert memo.get(Content(f"{1:050}")) is None


@pytest.mark.parametrize("memory_bytes", [0, 2_000])
def test_a_document_larger_than_the_memory_is_not_kept(memory_bytes: int) -> None:
    memo = FingerprintMemo[int](memory_bytes)
    memo.keep(Content("x" * 2_000), 1)
    assert memo.get(Content("x" * 2_000)) is None


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_repeats_have_the_same_fingerprint(name: str) -> None:
    batched, alone = Fingerprinter(PROFILES[name]), Fingerprinter(PROFILES[name])
    expected = [alone.fingerprint(text) for text in TEXTS]
    for order in ([0, 1, 1, 0, 2], [2, 3, 4, 0], [5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7]):
        made = batched.fingerprint_batch([TEXTS[each] for each in order])
        assert made == [expected[each] for each in order]


def test_what_stands_beside_the_text_counts() -> None:
    profile = msgspec.structs.replace(
        PROFILES["classic"], verify="metadata", verify_at=0.25, min_features=1
    )
    made = Fingerprinter(profile).fingerprint_batch(
        [
            Content(TEXTS[0], keywords=("桥",)),
            Content(TEXTS[0], keywords=("路",)),
            Content(TEXTS[0]),
        ]
    )
    assert len({each.sketch for each in made}) == 3
    assert len({each.fingerprint for each in made}) == 1
