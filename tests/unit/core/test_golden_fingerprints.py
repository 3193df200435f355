"""Golden fingerprints: no change of the code may change fingerprints, which are stored for years.

A fingerprint lives as long as its index. If a test fails here, a text has another fingerprint than
in the first release. Either that is a mistake, or the index identity must change too (by the
version in the name of the changed part), and the values in ``golden_fingerprints.json`` as well.
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pytest

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile

GOLDEN = json.loads(Path(__file__).with_name("golden_fingerprints.json").read_text("utf-8"))
# All values are explicit, so that new defaults do not change the test.
GOLDEN_PROFILES = {
    "classic": Profile(64, 4, 16, 3, "rjieba", "tfidf-sublinear", "xxh3", 12),
    "wide": Profile(256, 16, 16, 48, "rjieba", "tfidf-sublinear", "xxh3", 12),
    "widest": Profile(512, 32, 16, 112, "rjieba", "tfidf-sublinear", "xxh3", 12),
    "published": Profile(64, 4, 16, 3, "rjieba", "tf", "java", 12),
    "jieba": Profile(128, 8, 16, 7, "jieba", "tfidf", "xxh3", 12),
    "ngrams": Profile(192, 12, 16, 20, "ngrams", "tf", "xxh3", 12),
}

SCRIPTS = "的一是了我不人在他有这上们来到时大地为子中你说生国年着就那和要她出也得里后自以会"
LETTERS = "etaoinshrdlcumwfgypbvkETAOIN0123456789αβγдёжéß한글かな"
SIGNS = "，。、；：？！“”（）…—％ \n\u3000\u00a0\u200b-_.😀𠮷ﬁ"


def _babble(seed: int, texts: int) -> list[str]:
    rng = random.Random(seed)
    made = []
    for _ in range(texts):
        alphabet = SCRIPTS * rng.randrange(3) + LETTERS + SIGNS * rng.randrange(2)
        size = int(400 * rng.random() ** 2)
        made.append("".join(alphabet[int(rng.random() * len(alphabet))] for _ in range(size)))
    return made


@pytest.mark.parametrize("profile", GOLDEN_PROFILES)
def test_texts_keep_their_fingerprints(profile: str) -> None:
    fingerprinter = Fingerprinter(GOLDEN_PROFILES[profile])
    texts: dict[str, str] = GOLDEN["texts"]
    found = {
        name: fingerprinter.fingerprint(text).fingerprint.hex() for name, text in texts.items()
    }
    assert found == GOLDEN["fingerprints"][profile]

    many = _babble(seed=1, texts=600)
    seen = hashlib.sha256()
    for start in range(0, len(many), 150):
        for each in fingerprinter.fingerprint_batch(many[start : start + 150]):
            seen.update(repr(tuple(each[:4])).encode())
    assert seen.hexdigest()[:32] == GOLDEN["digests_of_many"][profile]
