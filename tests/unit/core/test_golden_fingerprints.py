"""Golden fingerprints: no change of the code may change fingerprints, which are stored for years.

A fingerprint lives as long as its index. If a test fails here, a text has another fingerprint than
in the first release. Either that is a mistake, or the index identity must change too (by the
version in the name of the changed part), and the values here as well.
"""

from __future__ import annotations

import hashlib
import random
from functools import cache

import pytest

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile

TEXTS = {
    "chinese": (
        "今天上午，市交通局发布公告称，跨江大桥的加固工程将于下月初开始，预计持续三个月。"
        "施工期间大桥每晚十点至次日五点封闭，公交线路改由隧道通行，货车需要绕行北环高速。"
    ),
    "english": (
        "The harbour board said on Monday that the Straße to the old pier will stay closed until "
        "spring; engineers found that internationalisation of the timetable had caused "
        "counterintuitively long queues, and that the pier needs 1,250 new oak piles."
    ),
    "mixed": (
        "新版本 Firstseen 2.0 支持 Kafka 4.x，吞吐量提升 35％；配置项 delivery=exactly_once_v2\n\n"
        "为默认值。😀 Ｆｕｌｌ　Ｗｉｄｔｈ … 𠮷野家的牛丼，一个千载难逢的机会。"
    ),
}
# All values are explicit, so that new defaults do not change the test.
GOLDEN_PROFILES = {
    "classic": Profile(64, 4, 16, 3, "rjieba", "tfidf-sublinear", "xxh3", 12),
    "wide": Profile(256, 16, 16, 48, "rjieba", "tfidf-sublinear", "xxh3", 12),
    "widest": Profile(512, 32, 16, 112, "rjieba", "tfidf-sublinear", "xxh3", 12),
    "published": Profile(64, 4, 16, 3, "rjieba", "tf", "java", 12),
    "jieba": Profile(128, 8, 16, 7, "jieba", "tfidf", "xxh3", 12),
    "ngrams": Profile(192, 12, 16, 20, "ngrams", "tf", "xxh3", 12),
}
GOLDEN = {
    ("classic", "chinese"): "312fd00c87ef2764",
    ("classic", "english"): "db533430bc693bf1",
    ("classic", "mixed"): "8db14a94d98247f7",
    ("wide", "chinese"): "312fd00c87ef2764d0df5419dd26ed3ac8e8e9e33d85fc698f0637657e177af4",
    ("wide", "english"): "db533430bc693bf1ac2f411292c3b2b91cd62f0ab2acc859a84af808d5ce1147",
    ("wide", "mixed"): "8db14a94d98247f77d133d946a6a49d49610490a45ce37e442fca771544ee4e0",
    ("widest", "chinese"): (
        "312fd00c87ef2764d0df5419dd26ed3ac8e8e9e33d85fc698f0637657e177af4"
        "e1e259ccc638dd51f949b4ac26e90a1d8ad0b88a311c75d1ee048af3be6f5961"
    ),
    ("widest", "english"): (
        "db533430bc693bf1ac2f411292c3b2b91cd62f0ab2acc859a84af808d5ce1147"
        "c8a33d1940794a9167d8d542f79a68a335857e62b7acee021045ca601a932afb"
    ),
    ("widest", "mixed"): (
        "8db14a94d98247f77d133d946a6a49d49610490a45ce37e442fca771544ee4e0"
        "826a91bf90af61c94de70b912b380e355a76b38100ddb14f59a7afb8da404524"
    ),
    ("published", "chinese"): "2002038f41069b01",
    ("published", "english"): "203f5b6589cea7ea",
    ("published", "mixed"): "0000025c96963c32",
    ("jieba", "chinese"): "312fd00c87e72765d0df5419dd26ed3a",
    ("jieba", "english"): "db533530bc693bf1ac2f011392c3b2b9",
    ("jieba", "mixed"): "9db102d4f8066f9f7c33352c22ea4bdc",
    ("ngrams", "chinese"): "76693183be7a5a343897b6314c3fc612f52e2bed932a1274",
    ("ngrams", "english"): "70df74ae12418b52e0a09211d3be81c5d948c80e70d163c9",
    ("ngrams", "mixed"): "ce2cb3f0e85e050d75e49967850e32063a1243e9340070cf",
}
GOLDEN_MANY = {
    "classic": "a7b48b30c3f142ffa60688e96d6b7f12",
    "wide": "d47759ed111fbb78fb78c56e4564a131",
    "widest": "ec6824f96d55f83757899ca15d97279d",
    "published": "b3688756d631cc6891defaeb025e6c90",
    "jieba": "56f70d88e838339705ad3f5afb1642b6",
    "ngrams": "7c2a70d63df731f7132f054427e057e1",
}

SCRIPTS = "的一是了我不人在他有这上们来到时大地为子中你说生国年着就那和要她出也得里后自以会"
LETTERS = "etaoinshrdlcumwfgypbvkETAOIN0123456789αβγдёжéß한글かな"
SIGNS = "，。、；：？！“”（）…—％ \n\u3000\u00a0\u200b-_.😀𠮷ﬁ"


@cache
def _fingerprinter(profile: str) -> Fingerprinter:
    return Fingerprinter(GOLDEN_PROFILES[profile])


def _babble(seed: int, texts: int) -> list[str]:
    rng = random.Random(seed)
    made = []
    for _ in range(texts):
        alphabet = SCRIPTS * rng.randrange(3) + LETTERS + SIGNS * rng.randrange(2)
        size = int(400 * rng.random() ** 2)
        made.append("".join(alphabet[int(rng.random() * len(alphabet))] for _ in range(size)))
    return made


@pytest.mark.parametrize(("profile", "name"), GOLDEN)
def test_a_text_keeps_its_fingerprint(profile: str, name: str) -> None:
    made = _fingerprinter(profile).fingerprint(TEXTS[name])
    assert made.fingerprint.hex() == GOLDEN[profile, name]


@pytest.mark.parametrize("profile", GOLDEN_MANY)
def test_many_texts_keep_all_that_is_known_of_them(profile: str) -> None:
    texts = _babble(seed=1, texts=600)
    fingerprinter = _fingerprinter(profile)
    seen = hashlib.sha256()
    for start in range(0, len(texts), 150):
        for made in fingerprinter.fingerprint_batch(texts[start : start + 150]):
            seen.update(repr(tuple(made[:4])).encode())
    assert seen.hexdigest()[:32] == GOLDEN_MANY[profile]
