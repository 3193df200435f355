"""Columns of documents as bytes: any come back equal, and what is damaged is refused."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.document_columns import BytesColumn, DocumentColumns
from streams.store.columns_codec import (
    ColumnsError,
    EncodedColumns,
    EncodedNumbers,
    decode_columns,
    decode_numbers,
    encode_columns,
    encode_numbers,
)
from tests.unit.store.samples import columns_of, sample
from tests.unit.store.strategies import columns, int64, same_columns


@given(columns())
def test_any_columns_come_back_with_their_types(documents: DocumentColumns) -> None:
    packed = msgspec.msgpack.encode(encode_columns(documents))
    found = decode_columns([msgspec.msgpack.decode(packed, type=EncodedColumns)])
    assert same_columns(found, documents)


def test_scopes_that_no_document_has_take_no_bytes() -> None:
    plain = columns_of([sample(1), sample(2)])
    scoped = dataclasses.replace(plain, scopes=BytesColumn.of([b"", b"a"]))
    assert len(msgspec.msgpack.decode(msgspec.msgpack.encode(encode_columns(plain)))) == 11
    assert len(msgspec.msgpack.decode(msgspec.msgpack.encode(encode_columns(scoped)))) == 14


@given(st.lists(int64))
def test_numbers_come_back(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    assert decode_numbers([encode_numbers(array)], [len(values)]).tolist() == values


@pytest.mark.parametrize(
    ("values", "width"),
    [
        ([5, 5, 5], 0),
        ([-3, 252], 1),
        ([-3, 253], 2),
        ([0, 2**16], 4),
        ([0, 2**32], 8),
        ([-(2**63), 2**63 - 1], 8),
    ],
)
def test_numbers_take_as_few_bytes_as_they_need(values: list[int], width: int) -> None:
    encoded = encode_numbers(np.array(values, dtype=np.int64))
    assert (encoded.base, encoded.width) == (min(values), width)
    assert len(encoded.added) == width * len(values)


def test_a_document_adds_little_beside_its_own_bytes() -> None:
    encoded = encode_columns(columns_of([sample(offset) for offset in range(1000, 1250)]))
    own = len(encoded.ids) + len(encoded.digests) + len(encoded.fingerprints)
    assert len(msgspec.msgpack.encode(encoded)) - own < 4 * 250 + 100


WRONG = {
    "too many documents": {"documents": 65_537},
    "a negative number of documents": {"documents": -1},
    "no words": {"words": 0},
    "too many words": {"words": 9},
    "fewer words than bytes": {"words": 2},
    "offsets of another number": {"offsets": EncodedNumbers(5, 1, b"\0")},
    "offsets that do not rise": {"offsets": EncodedNumbers(5, 0, b"")},
    "offsets below zero": {"offsets": EncodedNumbers(-5, 1, b"\0\1")},
    "offsets that run over": {"offsets": EncodedNumbers(2**63 - 1, 1, b"\0\1")},
    "a width that is none": {"times_ms": EncodedNumbers(0, 3, bytes(6))},
    "a base beyond 64 bits": {"times_ms": EncodedNumbers(2**63, 0, b"")},
    "an unknown reason": {"undecidable": EncodedNumbers(4, 0, b"")},
    "ids longer than they are": {"id_bytes": EncodedNumbers(9, 0, b"")},
    "ids of negative length": {"id_bytes": EncodedNumbers(-1, 1, b"\0\3")},
    "ids that are not UTF-8": {"ids": b"\xff\xff"},
    "ids cut within a character": {"ids": "é".encode()},
    "a digest that is cut": {"digests": bytes(31)},
    "a fingerprint that is cut": {"fingerprints": bytes(15)},
    "sketches that are not there": {"sketch_bytes": EncodedNumbers(1, 0, b"")},
}


@pytest.mark.parametrize("changed", WRONG.values(), ids=WRONG.keys())
def test_invalid_columns_are_refused(changed: dict[str, object]) -> None:
    right = EncodedColumns(
        documents=2,
        words=1,
        offsets=EncodedNumbers(5, 1, b"\0\1"),
        times_ms=EncodedNumbers(0, 0, b""),
        undecidable=EncodedNumbers(0, 0, b""),
        id_bytes=EncodedNumbers(1, 0, b""),
        ids=b"ab",
        sketch_bytes=EncodedNumbers(0, 0, b""),
        sketches=b"",
        digests=bytes(32),
        fingerprints=bytes(16),
    )
    assert len(decode_columns([right])) == 2

    with pytest.raises(ColumnsError):
        decode_columns([msgspec.structs.replace(right, **changed)])
