"""Recent unique documents: kept until everybody knows them, and no longer looked up after that."""

from __future__ import annotations

import numpy as np
import pytest

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.prints import prints_of
from simhash_core.log import unique_documents
from simhash_core.log.records import sequence_number
from simhash_core.log.unique_documents import RecentUniques
from tests.unit.core.log.log_of_records import FAR, packet
from tests.unit.core.log.made_to_order import Made, columns_of, flipped

SCHEME = BlockScheme(64, 4, 3)


def rows(count: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.arange(count)


def found(recent: RecentUniques, document: Made) -> list[tuple[int, int]]:
    return [each[1:] for each in recent.near(prints_of(SCHEME, columns_of([document])))]


def test_document_is_found_from_when_it_is_decided() -> None:
    recent = RecentUniques(SCHEME)
    recent.add(7, packet([FAR[1], FAR[2]]), np.array([1]))
    assert found(recent, FAR[1]) == []
    near = Made(flipped(FAR[2].fingerprint, 0, 9))
    assert found(recent, near) == [(2, sequence_number(7, 1))]
    assert len(recent) == 1


def test_document_is_kept_until_its_record_is_known() -> None:
    recent = RecentUniques(SCHEME)
    for offset, record in ((7, 20), (8, 30)):
        recent.add(offset, packet([FAR[offset]]), rows(1))
        recent.appended(record)
    recent.add(9, packet([FAR[9]]), rows(1))
    recent.forget_through(19)
    assert [len(found(recent, FAR[n])) for n in (7, 8, 9)] == [1, 1, 1]
    recent.forget_through(20)
    assert [len(found(recent, FAR[n])) for n in (7, 8, 9)] == [0, 1, 1]
    recent.forget_through(1_000)
    assert [len(found(recent, FAR[n])) for n in (7, 8, 9)] == [0, 0, 1]


def test_undecidable_document_is_found_by_content() -> None:
    recent = RecentUniques(SCHEME)
    text = packet([Made(b"", b"hi")])
    recent.add(3, text, rows(1))
    recent.appended(5)
    digest = text.columns.digest(0)
    assert recent.by_content(digest) == [sequence_number(3, 0)]
    assert recent.by_content(b"other") == []
    recent.forget_through(5)
    assert recent.by_content(digest) == []


def test_rebuilt_index_holds_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_documents, "_FORGOTTEN_LIMIT", 2)
    recent = RecentUniques(SCHEME)
    for offset in range(10):
        recent.add(offset, packet([FAR[offset], Made(b"", b"%d" % offset)]), rows(2))
        recent.appended(100 + offset)
    recent.forget_through(107)
    assert [len(found(recent, FAR[n])) for n in range(10)] == [0] * 8 + [1, 1]
    kept = packet([Made(b"", b"9")]).columns.digest(0)
    assert recent.by_content(kept) == [sequence_number(9, 1)]
