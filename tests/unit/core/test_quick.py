"""The profile without segmentation: bits of shingles, in any language."""

from __future__ import annotations

import random

import pytest

from simhash_core.errors import UnknownNameError, UsageError
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import PROFILES, Profile
from simhash_core.text.verification.shingles import similarity
from simhash_core.text.word_lists import parse_stop_words
from simhash_core.verdicts import UndecidableReason

QUICK = PROFILES["quick"]
_CHARACTERS = [chr(code) for code in range(0x4E00, 0x4E00 + 2000)]
GOLDEN = "168531fadceaa585e9da631acf17e8a887350d1868ae294c1c7cd789af487585"


def _text(seed: int, characters: int = 600) -> str:
    return "".join(random.Random(seed).choices(_CHARACTERS, k=characters))


def test_distance_orders_by_similarity() -> None:
    fingerprinter = Fingerprinter(QUICK)
    base = fingerprinter.fingerprint(_text(1, 2_000))
    distances = []
    for kept in (1_900, 1_500, 1_000, 0):
        other = fingerprinter.fingerprint(_text(1, 2_000)[:kept] + _text(2, 2_000 - kept))
        distances.append(distance_bits(base.fingerprint, other.fingerprint))
        jaccard = similarity(base.sketch, other.sketch)
        assert distances[-1] == pytest.approx(256 * (1 - jaccard) / 2, abs=30)
    assert distances == sorted(distances)


def test_no_terms_and_no_parts_of_terms() -> None:
    fingerprinter = Fingerprinter(QUICK)
    assert fingerprinter.weighted_terms(_text(3)) == []
    assert "segmenter" not in fingerprinter.identity
    assert " fingerprint=shingles-1/5x512 " in fingerprinter.identity


def test_few_different_shingles_are_undecidable() -> None:
    fingerprinter = Fingerprinter(QUICK)
    assert fingerprinter.fingerprint(_text(4, 40) * 50).undecidable is (
        UndecidableReason.TOO_FEW_FEATURES
    )
    assert fingerprinter.fingerprint("……!!!???").undecidable is UndecidableReason.NO_FEATURES
    assert fingerprinter.fingerprint(" \n").undecidable is UndecidableReason.EMPTY
    assert fingerprinter.fingerprint(_text(4, 140)).undecidable is None


def test_a_batch_gives_what_each_gives_alone() -> None:
    texts = [_text(5), "", "短", _text(6), " ", _text(7, 130)]
    made = Fingerprinter(QUICK).fingerprint_batch(texts)
    assert made == [Fingerprinter(QUICK).fingerprint(text) for text in texts]


def test_the_fingerprint_is_the_same_in_every_release() -> None:
    assert Fingerprinter(QUICK).fingerprint(_text(8)).fingerprint.hex() == GOLDEN


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (Profile(256, 16, 16, 48, fingerprint="shingles"), "set verify to shingles"),
        (
            Profile(
                256,
                0,
                16,
                48,
                bands=4,
                fingerprint="shingles",
                verify="shingles",
                stop_words=parse_stop_words("的"),
            ),
            "stop_words has no effect",
        ),
    ],
)
def test_what_does_not_go_with_shingles(profile: Profile, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Fingerprinter(profile)


def test_an_unknown_fingerprint_is_refused_and_the_known_are_listed() -> None:
    with pytest.raises(UnknownNameError, match="shingles, terms"):
        Profile(256, 16, 16, 48, fingerprint="ngrams").scheme()
