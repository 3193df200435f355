"""Sketches of shingles estimate the Jaccard similarity; near texts share bands of sketches."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.analysis.exact_similarity import exact_jaccard
from simhash_core.document_columns import BytesColumn
from simhash_core.fingerprints.bands import PAIRS, TRIPLES, Bands
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.prints import band_keys
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import PROFILES, profile_named
from simhash_core.text.verification import verifier_of
from simhash_core.text.verification.shingles import SKETCH_BYTES, similarity, sketches, words
from tests.rigs.invariants import band_key

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


def test_long_and_short_texts_of_a_batch_give_what_each_gives_alone() -> None:
    rng = random.Random(1)
    texts = [drawn(rng, characters) for characters in (1, 5, 6, 9, 20, 100, 700, 5_000) * 9]
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
    assert _keys(text, Bands(4, PAIRS)) == [3855148194, 1259475088, 1834006197, 3552440488]
    assert _keys(text, Bands(4, TRIPLES)) == [1859951, 15249097, 1976175, 15395017]


# ---------------------------------------------------------------- bands

_CHARACTERS = [chr(code) for code in range(0x4E00, 0x4E00 + 2000)]
EITHER = pytest.mark.parametrize("bands", [Bands(12, PAIRS), Bands(27, TRIPLES)])


def _text(seed: int, characters: int = 600) -> str:
    return "".join(random.Random(seed).choices(_CHARACTERS, k=characters))


def _keys(text: str, bands: Bands) -> list[int]:
    (sketch,) = sketches([text], bands)
    return _keys_of(sketch, bands)


def _keys_of(sketch: bytes, bands: Bands) -> list[int]:
    return [int(key) for key in band_keys(BytesColumn.of([sketch]), bands)[0]]


@EITHER
def test_the_tail_follows_the_sketch_and_changes_no_similarity(bands: Bands) -> None:
    a, b = _text(1), _text(1)[:400] + _text(2)[:200]
    plain, banded = sketches([a, b]), sketches([a, b], bands)
    assert [len(each) for each in banded] == [SKETCH_BYTES + bands.tail_bytes] * 2
    assert [each[:SKETCH_BYTES] for each in banded] == plain
    assert similarity(*banded) == similarity(*plain)
    assert all(_keys(a, bands))
    assert sketches(["", " "], bands) == [b"", b""]


def test_bands_of_two_bins_take_four_bytes_each_and_those_of_three_one() -> None:
    assert Bands(12, PAIRS).tail_bytes == 48
    assert [Bands(number, TRIPLES).tail_bytes for number in (0, 1, 27, 64)] == [0, 3, 27, 66]
    assert " bands=27x3 " in Fingerprinter(profile_named("wide")).identity
    assert "bands" not in Fingerprinter(PROFILES["classic"]).identity


@pytest.mark.parametrize("number", [13, 20, 27, 64])
def test_two_bands_of_three_have_one_bin_in_common_at_most(number: int) -> None:
    members = [set(band) for band in Bands(number, TRIPLES).members.tolist()]
    assert all(len(band) == TRIPLES for band in members)
    assert all(len(a & b) <= 1 for at, a in enumerate(members) for b in members[:at])


@EITHER
def test_texts_share_bands_by_a_power_of_their_similarity(bands: Bands) -> None:
    """The pairs share about two thirds of their shingles; unrelated texts share no band."""
    texts = [_text(seed) for seed in range(200)]
    edited = [text[:480] + _text(1000 + seed, 120) for seed, text in enumerate(texts)]
    ours, theirs = (
        band_keys(BytesColumn.of(sketches(each, bands)), bands) for each in (texts, edited)
    )
    jaccard = 476 / (596 + 120)
    assert np.mean(ours == theirs) == pytest.approx(jaccard**bands.bins, abs=0.05)
    assert not np.any(ours == np.roll(theirs, 1, axis=0))


@EITHER
def test_keys_are_the_documented_ones(bands: Bands) -> None:
    scheme = BlockScheme(256, 0, 72, bands=bands.number, band_bins=bands.bins)
    (sketch,) = sketches([_text(1)], bands)
    documented = [band_key(scheme, sketch, band) for band in range(bands.number)]
    assert [int.from_bytes(key, "little") for key in documented] == _keys(_text(1), bands)
    assert not any(_keys_of(sketch[: bands.tail_bytes - 1], bands))
    (other,) = sketches([_text(1)[:500] + _text(2)[:100]], bands)
    ours, theirs = _keys_of(sketch, bands), _keys_of(other, bands)
    shared = [band for band in range(bands.number) if ours[band] == theirs[band]]
    assert 0 < len(shared) < bands.number
    assert list(bands.shared(sketch, other)) == shared


@given(
    seed=st.integers(0, 999),
    at=st.sampled_from([0.0, 0.5, 0.518, 1.0]),
    mean_at=st.sampled_from([0.0, 0.6, 0.7]),
)
def test_many_sketches_are_similar_as_each_pair_is(seed: int, at: float, mean_at: float) -> None:
    chance = random.Random(seed)
    one = chance.randbytes(SKETCH_BYTES)
    pairs = []
    for _ in range(20):
        kept = chance.randrange(SKETCH_BYTES + 1)
        other = one[:kept] + chance.randbytes(SKETCH_BYTES - kept)
        pairs.append((chance.randrange(100), one, other + b"tail"))
    verifier = verifier_of("shingles", at, mean_at, 256)
    assert verifier is not None
    rows = np.arange(len(pairs))
    ours = words(BytesColumn.of([a for _, a, _ in pairs]), rows)
    theirs = words(BytesColumn.of([b for _, _, b in pairs]), rows)
    assert ours is not None
    assert theirs is not None
    distances = np.array([pair[0] for pair in pairs], dtype=np.uint16)
    similar = verifier.are_similar(distances, ours, theirs).tolist()
    assert similar == [verifier.similarity(*pair) is not None for pair in pairs]


def test_an_empty_sketch_is_compared_alone() -> None:
    column = BytesColumn.of([bytes(SKETCH_BYTES), b"", bytes(SKETCH_BYTES)])
    assert words(column, np.array([0, 1])) is None
    assert words(column, np.array([0, 2])) is not None
