"""The verifiers of candidates: worked examples, edge cases, and the error of estimates."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simhash_core.analysis.exact_similarity import vector_cosine
from simhash_core.documents import Content
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile, profile_named
from simhash_core.text.verification import VERIFICATIONS, Verification, Verifier, cosine, metadata
from streams.settings.settings import IndexSettings, Settings

TEXT = "市交通局发布公告称，跨江大桥的加固工程将于下月初开始，施工期间大桥封闭，货车绕行北环高速。"
OTHER = "一家初创公司展示了新型电池，充电只要六分钟，研究人员说关键在于薄如蝉翼的陶瓷隔膜。"


# ---------------------------------------------------------------- metadata


def test_near_by_content_and_metadata() -> None:
    """M2, μ = 0.9, at 0.25: distance 2 always, 3 from a quarter shared, 4 from seven tenths on."""
    near = {(2, 0.0), (3, 0.25), (4, 0.7), (5, 1.0), (3, None)}
    for case in near | {(3, 0.24), (4, 0.69), (6, 1.0), (4, None)}:
        assert (metadata.combined(*case) >= metadata.USUAL_THRESHOLD) == (case in near), case


@pytest.mark.parametrize("shared", [0, 10, 20, 30, 40])
def test_a_sketch_of_metadata_estimates_its_jaccard(shared: int) -> None:
    errors = []
    for seed in range(20):
        names = [f"{seed}/{i}" for i in range(80 - shared)]
        contents = [Content("", keywords=tuple(names[:40])), Content("", tags=tuple(names[-40:]))]
        a, b = metadata.sketches(contents)
        truth = shared / (80 - shared)
        errors.append(metadata.jaccard(a, b) - truth)
        assert abs(errors[-1]) <= 4 * (truth * (1 - truth) / 100) ** 0.5 + 0.04
        assert len(a) == len(b) == metadata.FUNCTIONS
    assert abs(sum(errors) / len(errors)) < 0.02


def test_keywords_tags_and_references_are_one_set_in_one_spelling() -> None:
    a, b, none, blank = metadata.sketches(
        [
            Content("", keywords=("Kafka", "北京"), references=("doi:10/x",)),
            Content("", keywords=("doi:10/x",), tags=("北京", "ＫＡＦＫＡ", "kafka")),
            Content(""),
            Content("", keywords=(" ", "")),
        ]
    )
    assert a == b
    assert a[:8].hex() == "f3127d6996d2cb4b", "stored sketches stay as they are"
    assert none == blank == b""
    assert metadata.similarity(3, a, none) == metadata.similarity(3, none, a) == 0.25


# ---------------------------------------------------------------- cosine


def _sketch(vector: dict[int, float]) -> bytes:
    weights = np.array(list(vector.values()))
    hashes = np.array(list(vector), dtype=np.uint32)
    return cosine.sketches(weights, hashes, np.array([0, len(vector)]))[0]


def test_the_heaviest_terms_are_kept_and_ties_go_to_the_lower_hash() -> None:
    vector = dict.fromkeys(range(1000, 1100), 1.0) | {7: 5.0, 2**32 - 1: 3.0}
    sketch = _sketch(vector)
    assert len(sketch) == 5 * cosine.TERMS
    kept = np.frombuffer(sketch, dtype="<u4", count=cosine.TERMS).tolist()
    assert kept == [7, *range(1000, 1062), 2**32 - 1]
    assert sketch == _sketch(dict(reversed(vector.items())))


def test_vectors_without_terms_and_with_nothing_shared() -> None:
    empty, some, other = cosine.sketches(
        np.array([2.0, 1.0, 1.0]), np.array([5, 6, 7], dtype=np.uint32), np.array([0, 0, 2, 3])
    )
    assert empty == b""
    assert cosine.similarity(empty, some) == 0.0
    assert cosine.similarity(some, other) == 0.0
    assert cosine.similarity(some, some) == 1.0
    assert cosine.similarity(_sketch({1: 0.0}), _sketch({1: 0.0})) == 1.0
    hashes = np.array([9, 9, 3], dtype=np.uint32)  # two terms with the same hash count as one
    (sketch,) = cosine.sketches(np.array([1.0, 2.0, 2.0]), hashes, np.array([0, 3]))
    assert sketch == (3).to_bytes(4, "little") + (9).to_bytes(4, "little") + b"\xff\xff"


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(5, 60), st.floats(0, 1))
def test_short_vectors_are_estimated_closely(seed: int, terms: int, shared: float) -> None:
    rng = random.Random(seed)
    a = {term: rng.uniform(0.2, 9) for term in range(terms)}
    others = [term if rng.random() < shared else term + 1000 for term in range(terms)]
    b = {term: rng.uniform(0.2, 9) for term in others}
    exact = vector_cosine({str(t): w for t, w in a.items()}, {str(t): w for t, w in b.items()})
    found = cosine.similarity(_sketch(a), _sketch(b))
    assert found == cosine.similarity(_sketch(b), _sketch(a)) == pytest.approx(exact, abs=0.01)


# ---------------------------------------------------------------- the mean of two similarities

MEAN = Verifier(
    Verification(
        "of bytes", 0.5, lambda batch: [b""] * len(batch.contents), lambda _, a, b: _of(a, b)
    ),
    at=0.5,
    mean_at=0.68,
    bits=256,
)


def _of(a: bytes, b: bytes) -> float:
    """Return the similarity that either sketch holds, in hundredths."""
    return max(a + b) / 100


@pytest.mark.parametrize(
    ("distance", "hundredths", "is_near"),
    [
        (0, 49, False),
        (0, 50, True),
        (35, 50, True),  # (0.50 + 1 - 35/256) / 2 = 0.68164
        (36, 50, False),  # … 0.67969
        (36, 51, True),
        (64, 60, False),  # … 0.675
        (64, 62, True),  # (0.62 + 1 - 64/256) / 2 = 0.685
        (72, 64, False),
        (72, 65, True),
        (164, 100, False),
    ],
)
def test_the_more_bits_differ_the_more_of_the_sketches_is_equal(
    distance: int, hundredths: int, is_near: bool
) -> None:
    sketch = bytes([hundredths])
    found = MEAN.similarity(distance, sketch, b"")
    assert found == MEAN.similarity(distance, b"", sketch)
    assert found == (hundredths / 100 if is_near else None)
    assert is_near == (hundredths / 100 >= MEAN.minimum(distance) - 1e-9)


def test_without_a_mean_the_distance_does_not_count() -> None:
    alone = MEAN._replace(mean_at=0.0)
    assert [alone.minimum(distance) for distance in (0, 72, 256)] == [0.5] * 3
    sketch = bytes([50])
    for bits in (1, 64):
        assert alone._replace(bits=bits).similarity(256, sketch, b"") == 0.5


def test_only_an_index_with_a_mean_has_it_in_its_identity() -> None:
    wide, quick = (Fingerprinter(profile_named(name)) for name in ("wide", "quick"))
    assert " verify=shingles-1/5x512x4@0.505 mean=0.68" in wide.identity
    assert "mean=" not in quick.identity
    assert Settings(index=IndexSettings(mean_at=0)).index_profile().mean_at == 0
    for verify in ("cosine", "metadata", "none"):
        assert Settings(index=IndexSettings(verify=verify)).index_profile().mean_at == 0
    both = IndexSettings(verify="cosine", mean_at=0.8)
    assert Settings(index=both).index_profile().mean_at == 0.8


# ---------------------------------------------------------------- all


@pytest.mark.parametrize("verify", [name for name in VERIFICATIONS if name != "none"])
def test_every_verification_tells_a_copy_from_another_text(verify: str) -> None:
    fingerprinter = Fingerprinter(
        Profile(64, 4, 16, 3, min_features=12, verify=verify, verify_at=0.2)
    )
    assert fingerprinter.verifier is not None
    contents = [
        Content(TEXT, keywords=("交通", "大桥")),
        Content(TEXT + "完。", keywords=("交通", "大桥")),
        Content(OTHER, keywords=("电池",)),
    ]
    a, copy, other = fingerprinter.fingerprint_batch(contents)
    assert [a, copy, other] == [fingerprinter.fingerprint(content) for content in contents]
    similarity = fingerprinter.verifier.similarity
    assert similarity(2, a.sketch, copy.sketch) == similarity(2, copy.sketch, a.sketch)
    assert similarity(2, a.sketch, copy.sketch) is not None
    assert similarity(30, a.sketch, other.sketch) is None
    assert f"verify={verify}-1/" in fingerprinter.identity
    assert fingerprinter.fingerprint("").sketch == b""
