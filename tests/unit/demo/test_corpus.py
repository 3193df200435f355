"""The demo stream: deterministic, readable where it should be, and true to its labels."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import pytest

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.verdicts import Rejection
from streams.corpus import corpus
from streams.corpus.corpus import generate
from streams.corpus.generated import BROKEN, COPIES, CorpusShape, EditKind, GeneratedRecord, Outcome
from streams.documents.fields import FieldSettings
from streams.documents.raw_documents import DocumentReader
from tests.unit.demo.generated_stream import (
    DOCUMENTS,
    SEED,
    is_chinese,
    stream,
    text_of,
)

GOLDEN = "684991b5483a4098badac8209d7654dd5b388fdc658355e1237ad4fac4458506"


def test_the_stream_of_a_seed_is_known() -> None:
    """Given a seed, then its records are those of earlier versions: seeds are named in figures and
    bug reports. Who changes the word lists on purpose changes this digest, and says so there. Each
    process has a hash seed of its own (PYTHONHASHSEED): the stream does not depend on it.
    """
    digest = hashlib.sha256()
    for record in generate(SEED, 400):
        digest.update(repr(record).encode())
    assert digest.hexdigest() == GOLDEN


def test_the_product_reads_what_is_whole_and_rejects_what_is_broken() -> None:
    """Given the reader of the product, then it makes a document of every record that is not
    broken, with the same id, text and time, and rejects every broken one.
    """
    reader = DocumentReader(FieldSettings())
    for offset, record in enumerate(stream()):
        raw = RawRecord(key=record.key, value=record.value, timestamp_ms=record.timestamp_ms)
        read = reader.read(SourcePosition("raw", 0, offset), raw)
        if record.expected is Outcome.DEAD_LETTER:
            assert isinstance(read, Rejection), record
        else:
            assert isinstance(read, Document), record
            assert read.id == record.id
            assert read.text == text_of(record.id)
            assert read.event_time_ms == record.timestamp_ms


def test_every_kind_occurs_about_as_often_as_the_shape_says() -> None:
    """Given the default proportions, then each kind is within five standard deviations."""
    counts = Counter(record.kind for record in stream())
    for kind, weight in CorpusShape().weights():
        deviation = (DOCUMENTS * weight * (1 - weight)) ** 0.5
        assert abs(counts[kind] - DOCUMENTS * weight) < 5 * deviation + 1, kind
    assert set(counts) == set(EditKind)


def test_labels_follow_from_the_root() -> None:
    """Given any record, then it is a dead letter where it is broken, unique where nothing like it
    came before, and else a duplicate; ids are never used twice.
    """
    for record in stream():
        if record.kind in BROKEN:
            assert (record.expected, record.root) == (Outcome.DEAD_LETTER, None)
        else:
            unique = record.root is None
            assert record.expected is (Outcome.UNIQUE if unique else Outcome.DUPLICATE)
            assert unique or record.kind is not EditKind.ORIGINAL
            assert not unique or record.kind not in COPIES
    ids = [record.id for record in stream() if record.id is not None]
    assert len(ids) == len(set(ids))
    assert all(record.id or record.kind is EditKind.NULL_RECORD for record in stream())


def test_a_copy_comes_after_its_parent_and_its_root() -> None:
    """Given a copy, then what it was made from came before, and has the same root; some copies
    are copies of copies, none deeper than the shape allows.
    """
    seen: dict[str, GeneratedRecord] = {}
    depth: dict[str, int] = {}
    for record in stream():
        if record.root is not None and record.parent is not None and record.id is not None:
            root, parent = seen[record.root], seen[record.parent]
            assert root.root is None
            assert root.id in (parent.id, parent.root)
            depth[record.id] = depth.get(record.parent, 0) + 1
        if record.id is not None:
            seen[record.id] = record
    assert set(depth.values()) == set(range(1, CorpusShape().deepest + 1))


def test_the_shape_decides_what_is_in_the_stream() -> None:
    """Given a shape of English originals and exact copies alone, then nothing else comes."""
    others: dict[str, Any] = {
        str(kind): 0.0 for kind, _ in CorpusShape().weights() if kind not in BROKEN
    }
    shares = {**others, "broken": 0.0, "original": 1.0, "exact_copy": 3.0}
    records = list(generate(5, 200, CorpusShape(**shares, chinese=0.0)))
    assert {record.kind for record in records} == {EditKind.ORIGINAL, EditKind.EXACT_COPY}
    assert not any(is_chinese(json.loads(record.value or b"")["text"]) for record in records)


def test_old_articles_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given room for 20 articles, then a parent is one of the last 20 that could be copied, and
    the ring of them has been written around more than once.
    """
    monkeypatch.setattr(corpus, "REMEMBERED_MAX", 20)
    again = {EditKind.EXACT_COPY, EditKind.TYPOGRAPHIC, EditKind.REPOST, EditKind.EDIT_1_5}
    depth: dict[str | None, int] = {}
    remembered: list[str | None] = []
    for record in generate(5, 600):
        if record.kind in COPIES:
            assert record.parent in remembered[-20:]
            depth[record.id] = depth.get(record.parent, 0) + 1
        copied_again = record.kind in again and depth[record.id] < CorpusShape().deepest
        if record.kind is EditKind.ORIGINAL or copied_again:
            remembered.append(record.id)
    assert len(remembered) > 60


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"original": -0.1}, "original"),
        ({"repost": float("nan")}, "repost"),
        ({"chinese": 1.5}, "chinese"),
        ({"deepest": 0}, "deepest"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(settings: dict[str, Any], named: str) -> None:
    """Given a setting out of its range, then the error names it."""
    with pytest.raises(ValueError, match=named):
        CorpusShape(**settings)


def test_a_stream_of_less_than_nothing_is_refused() -> None:
    """Given a negative number of documents, then the error comes before the first record."""
    with pytest.raises(ValueError, match="-1"):
        generate(1, -1)
    assert list(generate(1, 0)) == []
