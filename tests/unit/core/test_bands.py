"""Bands of the sketch of shingles: where near texts meet, and where others do not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from simhash_core.errors import UsageError
from simhash_core.index.prints import BAND_KEY_BYTES
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import PROFILES, Profile, profile_named
from simhash_core.text.verification.shingles import SKETCH_BYTES, similarity, sketches

BANDS = 12
GOLDEN = [3855148194, 1259475088, 1834006197, 3552440488]
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
    assert sketches(["", " "], BANDS) == [b"", b""]


def test_fewer_bands_are_the_first_ones() -> None:
    assert _keys(*sketches([_text(3)], BANDS))[:5] == _keys(*sketches([_text(3)], 5))


def test_texts_meet_in_bands_by_the_square_of_their_similarity() -> None:
    """Given pairs that share about two thirds of their shingles, then so many bands are equal as
    the square of the similarity says; unrelated texts share none.
    """
    texts = [_text(seed) for seed in range(200)]
    edited = [text[:480] + _text(1000 + seed, 120) for seed, text in enumerate(texts)]
    ours = np.array([_keys(each) for each in sketches(texts, BANDS)])
    theirs = np.array([_keys(each) for each in sketches(edited, BANDS)])
    jaccard = 476 / (596 + 120)
    assert np.mean(ours == theirs) == pytest.approx(jaccard**2, abs=0.05)
    assert not np.any(ours == np.roll(theirs, 1, axis=0))


def test_keys_are_the_same_in_every_release() -> None:
    """Indexes hold keys for years: other ones need another identity."""
    text = "今天上午,市交通局发布公告称,跨江大桥的加固工程将于下月初开始,预计持续三个月。"
    assert _keys(*sketches([text], 4)) == GOLDEN


def test_bands_need_sketches_of_shingles() -> None:
    with pytest.raises(UsageError, match="set bands to 0"):
        Profile(256, 0, 16, 48, bands=8, verify="cosine").scheme()


def test_the_identity_says_how_many_bands() -> None:
    wide = Fingerprinter(profile_named("wide")).identity
    assert " blocks=0 " in wide
    assert " bands=12x2 " in wide
    assert "bands" not in Fingerprinter(PROFILES["classic"]).identity
