"""Sketches of shingles estimate the Jaccard similarity; near texts share bands of sketches."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.analysis.exact_similarity import exact_jaccard
from simhash_core.index.prints import BAND_KEY_BYTES
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import PROFILES, profile_named
from simhash_core.text.verification.shingles import BAND_BINS, SKETCH_BYTES, similarity, sketches

STANDARD_ERROR = 0.0235  # at one half, from the module's formula


def edited(rng: random.Random, text: str, share: float) -> str:
    return "".join(rng.choice("天地玄黄宇宙洪荒") if rng.random() < share else c for c in text)


def drawn(rng: random.Random, characters: int) -> str:
    return "".join(chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(characters))


@pytest.mark.parametrize("characters", [20, 100, 500, 3_000])
def test_the_estimate_is_unbiased_and_as_exact_as_it_says(characters: int) -> None:
    rng = random.Random(characters)
    originals = [drawn(rng, characters) for _ in range(200)]
    copies = [edited(rng, text, 0.08) for text in originals]
    exact = np.array([exact_jaccard(a, b) for a, b in zip(originals, copies, strict=True)])
    pairs = zip(sketches(originals), sketches(copies), strict=True)
    errors = np.array([similarity(a, b) for a, b in pairs]) - exact
    assert 0.3 < exact.mean() < 0.7
    assert abs(errors.mean()) < 4 * STANDARD_ERROR / 200**0.5
    assert errors.std() < 1.25 * STANDARD_ERROR


@given(st.lists(st.text(max_size=60), max_size=8))
def test_a_batch_gives_what_each_text_gives_alone(texts: list[str]) -> None:
    assert sketches(texts) == [sketches([text])[0] for text in texts]


@given(st.text(), st.text())
def test_similarity_is_symmetric_and_bounded(a: str, b: str) -> None:
    first, second = sketches([a, b])
    assert similarity(first, second) == similarity(second, first)
    assert 0.0 <= similarity(first, second) <= 1.0
    assert similarity(first, first) == (1.0 if first else 0.0)
    assert len(first) in (0, SKETCH_BYTES)


def test_encoding_and_white_space_do_not_count_capitals_do() -> None:
    texts = ["Kafka topics, one by one", "Ｋａｆｋａ  topics，\none by\tone", "KAFKA TOPICS"]
    plain, wide, loud = sketches(texts)
    assert plain == wide
    assert similarity(plain, loud) < 0.1


def test_a_sketch_stays_what_it_was() -> None:
    """These bytes, and the keys of bands, may change only with a new identity."""
    (made,) = sketches(["流式去重 streaming near-duplicate filter"])
    assert made.hex()[:64] == "a356ee7e151100acf851a874b69ce6d33cd8c50e1f6db0be9a2e5247ee175857"
    text = "今天上午,市交通局发布公告称,跨江大桥的加固工程将于下月初开始,预计持续三个月。"
    assert _keys(*sketches([text], 4)) == [3855148194, 1259475088, 1834006197, 3552440488]
    assert _keys(*sketches([text], 4, 3)) == [3675685967, 1813152563, 2865116509, 4238151416]
    assert _keys(*sketches([text], 4, 4)) == [13617858, 1853398430, 164962678, 2234808445]


# ---------------------------------------------------------------- bands

BANDS = 12
_CHARACTERS = [chr(code) for code in range(0x4E00, 0x4E00 + 2000)]


def _text(seed: int, characters: int = 600) -> str:
    return "".join(random.Random(seed).choices(_CHARACTERS, k=characters))


def _keys(sketch: bytes) -> list[int]:
    return [int(key) for key in np.frombuffer(sketch[SKETCH_BYTES:], dtype="<u4")]


def test_keys_stand_at_the_end_and_change_no_similarity() -> None:
    a, b = _text(1), _text(1)[:400] + _text(2)[:200]
    plain, banded = sketches([a, b]), sketches([a, b], BANDS)
    assert [len(each) for each in banded] == [SKETCH_BYTES + BANDS * BAND_KEY_BYTES] * 2
    assert [each[:SKETCH_BYTES] for each in banded] == plain
    assert similarity(*banded) == similarity(*plain)
    assert all(_keys(banded[0]))
    assert _keys(*sketches([a], 5)) == _keys(banded[0])[:5]
    assert " bands=12x2 " in Fingerprinter(profile_named("wide")).identity
    assert "bands" not in Fingerprinter(PROFILES["classic"]).identity
    assert sketches(["", " "], BANDS) == [b"", b""]


@pytest.mark.parametrize("band_bins", BAND_BINS)
def test_texts_meet_in_bands_by_a_power_of_their_similarity(band_bins: int) -> None:
    """The pairs share about two thirds of their shingles; unrelated texts share no band."""
    texts = [_text(seed) for seed in range(200)]
    edited = [text[:480] + _text(1000 + seed, 120) for seed, text in enumerate(texts)]
    ours = np.array([_keys(each) for each in sketches(texts, BANDS, band_bins)])
    theirs = np.array([_keys(each) for each in sketches(edited, BANDS, band_bins)])
    jaccard = 476 / (596 + 120)
    assert np.mean(ours == theirs) == pytest.approx(jaccard**band_bins, abs=0.05)
    assert not np.any(ours == np.roll(theirs, 1, axis=0))
