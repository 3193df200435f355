"""Idf models: counted in bounded memory, written and read whole, refused if incomplete."""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.analysis.idf_training import DocumentFrequencies
from simhash_core.errors import UsageError
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.idf import decode_idf, encode_idf, parse_idf, read_header
from simhash_core.text.normalization import NORMALIZATION
from simhash_core.text.profiles import Profile
from tests.repository.source_tree import ROOT

BITS_64 = Profile(64, 4, 16, 3, min_features=12)
TEXT = "市交通局发布公告称，跨江大桥的加固工程将于下月初开始，施工期间大桥封闭，货车绕行北环高速。"


def _model(documents: list[list[str]], least: int = 1, terms_max: int = 1000) -> bytes:
    frequencies = DocumentFrequencies(terms_max)
    for terms in documents:
        frequencies.add(terms)
    return encode_idf(*frequencies.model("news", "words", least))


SMALL = _model([["大桥", "的", "的", "，"], ["的", "kafka"], ["的", "大桥"]])


def test_idf_is_the_logarithm_of_how_rare_a_term_is_as_in_the_formats_page() -> None:
    model = decode_idf(SMALL)
    assert model.table == {
        "的": round(math.log(2), 4),
        "大桥": round(math.log(1 + 3 / 2), 4),
        "kafka": round(math.log(4), 4),
    }
    assert model.unknown == model.table["kafka"]
    assert model.identity == "news-bc76e4edd44d"
    page = (ROOT / "docs/formats.md").read_text("utf-8")
    found = re.search(r"<!-- example: idf model -->\n```text\n(.*?)```", page, re.DOTALL)
    assert found is not None
    assert found[1].encode() == SMALL


def test_rare_terms_are_left_out() -> None:
    assert decode_idf(_model([["a"], ["a", "b"]], least=2)).table.keys() == {"a"}


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8), min_size=1, max_size=30))
def test_counts_are_exact_while_terms_fit(documents: list[list[str]]) -> None:
    frequencies = DocumentFrequencies(8)
    for terms in documents:
        frequencies.add(terms)
    expected = Counter(term for terms in documents for term in set(terms))
    if not expected:
        return
    header, table = frequencies.model("x", "words", 1)
    assert header.undercount == 0
    assert table == {
        term: round(math.log(1 + len(documents) / count), 4) for term, count in expected.items()
    }


def test_memory_is_bounded_and_common_terms_are_counted_well() -> None:
    rng = random.Random(3)
    common = [f"w{i}" for i in range(50)]
    frequencies = DocumentFrequencies(500)
    truth: Counter[str] = Counter()
    for i in range(2000):
        terms = {*rng.sample(common, 10), *(f"rare{i}-{j}" for j in range(10))}
        if i > 1500 or i % 97 == 0:  # it is dropped several times before it is common
            terms.add("late")
        truth.update(terms)
        frequencies.add(terms)
        assert len(frequencies) <= 500 + len(terms)
    header, table = frequencies.model("x", "words", 2)
    assert 0 < header.undercount < 100
    assert table.keys() >= {*common, "late"}
    for term, idf in table.items():
        found = round(2000 / (math.exp(idf) - 1))
        assert truth[term] - header.undercount <= found <= truth[term]


def test_models_that_cannot_be() -> None:
    profile = msgspec.structs.replace(BITS_64, idf=decode_idf(SMALL), segmenter="ngrams")
    with pytest.raises(UsageError, match="trained on terms of the segmenter 'words', the index"):
        Fingerprinter(profile)
    with pytest.raises(UsageError, match="no term is in 2 documents or more of 1"):
        _model([["a"]], least=2)
    with pytest.raises(UsageError, match="terms_max is 0"):
        DocumentFrequencies(0)


def _signed(text: str) -> bytes:
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return f"{text}digest {digest}\n".encode()


def _with_terms(lines: str) -> bytes:
    """Return a model with a correct digest, whose header says that it has two terms."""
    header, _ = read_header(_model([["a"], ["a", "b"]]))
    return _signed(f"firstseen-idf/1\n{msgspec.json.encode(header).decode()}\n{lines}")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is not a model, it begins with ''"),
        ("的 0.9\n".encode(), "the file is not a model"),
        (SMALL.replace(b"idf/1", b"idf/2", 1), "it has format version 2, this release"),
        (SMALL[:-60], "damaged or truncated"),
        (SMALL[:-1], "damaged or truncated"),
        (SMALL.replace(b"0.6931", b"0.6932"), "damaged or truncated"),
        (SMALL + b"\n", "damaged or truncated"),
        (_with_terms("0.5000 a\nb\n"), "line 4: expected 'idf term', got 'b'"),
        (_with_terms("0.5000 a\n-1.0000 b\n"), "line 4"),
        (_with_terms("0.5000 a\n"), "it has 1 terms, its header says 2"),
        (_with_terms("0.5000 a\n0.6000 a\n"), "it has 1 terms, its header says 2"),
        (_signed('firstseen-idf/1\n{"name":"x"}\n'), "header"),
        (_signed("firstseen-idf/1\n"), "header"),
        (
            _signed(
                SMALL.decode().replace(NORMALIZATION, "nfc-9").rpartition("digest ")[0],
            ),
            f"nfc-9, this is {NORMALIZATION}",
        ),
    ],
)
def test_a_damaged_model_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=f"^idf model.*{message}"):
        decode_idf(data)


def test_a_model_is_part_of_the_identity_by_name_and_content() -> None:
    other = _model([["大桥"], ["的"]])
    identities = {
        Fingerprinter(msgspec.structs.replace(BITS_64, idf=decode_idf(data))).identity
        for data in (SMALL, SMALL, other)
    }
    assert len(identities) == 2
    assert all(re.search(r" idf=news-[0-9a-f]{12} ", identity) for identity in identities)
    one, two = (
        Fingerprinter(msgspec.structs.replace(BITS_64, idf=decode_idf(SMALL))) for _ in range(2)
    )
    assert one.fingerprint(TEXT) == two.fingerprint(TEXT)
    assert one.fingerprint(TEXT) != Fingerprinter(BITS_64).fingerprint(TEXT)


def test_terms_of_an_idf_table_are_normalised() -> None:
    model = parse_idf("mine", "Ａ 1\n桥 2.5\na 4.0\n".encode())
    assert dict(model.table) == {"a": 4.0, "桥": 2.5}
    assert model.idf("unknown") == 3.25
    assert model.identity.startswith("mine-")


def test_other_lines_than_term_and_idf_are_refused() -> None:
    for data in (
        *("a 1 c\n2\n", "a 1\n b 2\n", "a 1\nb x\n", "a 1\n\nb 2\n", "a 1\r\nb 2\r\n"),
        *("a -1\n", "a nan\n", "a inf\n", ""),
    ):
        with pytest.raises(UsageError, match=r"^idf model mine"):
            parse_idf("mine", data.encode())
