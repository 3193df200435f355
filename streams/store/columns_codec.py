"""Columns of documents to bytes and back (docs/formats.md, "Columns").

A column of numbers is a base and what is added to it, in as few bytes a number as the column needs:
none where all are equal. Byte strings are joined, and their lengths are such a column. So the
offsets and times of a packet take a few bytes a document, and nothing is done for one document at a
time, in either direction.

What is decoded is checked: lengths fit, offsets rise, ids are UTF-8. So whoever reads columns need
not expect anything else of them.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import FirstseenError
from simhash_core.log.packets import REASON_CODES, BytesColumn, DocumentColumns
from simhash_core.log.sequence import PACKET_DOCUMENTS_LIMIT

DIGEST_BYTES: Final = 16
WORD_BYTES: Final = 8
WORDS_LIMIT: Final = 8
"""A fingerprint has 512 bits at most."""

_INT64: Final = range(-(1 << 63), 1 << 63)
_WIDTHS: Final = (0, 1, 2, 4, 8)
_MODULUS: Final = 1 << 64
_CONTINUATION_MASK: Final = 0xC0
_CONTINUATION: Final = 0x80


class ColumnsError(FirstseenError, ValueError):
    """What was read are no columns: damage, or bytes that no version of this codec has written."""


class EncodedNumbers(msgspec.Struct, frozen=True, array_like=True):
    """``base``, and unsigned little-endian numbers of ``width`` bytes each that are added to it."""

    base: int
    width: int
    added: bytes


class EncodedColumns(msgspec.Struct, frozen=True, array_like=True):
    """The columns of ``DocumentColumns``. ``words``: of 64 bits, in a fingerprint."""

    documents: int
    words: int
    offsets: EncodedNumbers
    times_ms: EncodedNumbers
    undecidable: EncodedNumbers
    id_bytes: EncodedNumbers
    ids: bytes
    sketch_bytes: EncodedNumbers
    sketches: bytes
    digests: bytes
    fingerprints: bytes


def encode_columns(columns: DocumentColumns) -> EncodedColumns:
    """Return columns in the form in which MessagePack has them."""
    return EncodedColumns(
        documents=len(columns),
        words=columns.fingerprints.shape[1],
        offsets=encode_numbers(columns.offsets),
        times_ms=encode_numbers(columns.times_ms),
        undecidable=encode_numbers(columns.undecidable.astype(np.int64)),
        id_bytes=encode_numbers(_lengths(columns.ids)),
        ids=columns.ids.joined,
        sketch_bytes=encode_numbers(_lengths(columns.sketches)),
        sketches=columns.sketches.joined,
        digests=columns.digests.tobytes(),
        fingerprints=columns.fingerprints.tobytes(),
    )


def decode_columns(encoded: EncodedColumns) -> DocumentColumns:
    """Return the columns; raises ``ColumnsError`` for what can be none."""
    documents, words = encoded.documents, encoded.words
    if not 0 <= documents <= PACKET_DOCUMENTS_LIMIT:
        raise ColumnsError(f"{documents} documents: at most {PACKET_DOCUMENTS_LIMIT} can be")
    if not 1 <= words <= WORDS_LIMIT:
        raise ColumnsError(f"fingerprints of {words} words: it must be 1 to {WORDS_LIMIT}")
    offsets = decode_numbers(encoded.offsets, documents)
    if documents and (offsets[0] < 0 or not bool(np.all(offsets[1:] > offsets[:-1]))):
        raise ColumnsError("the offsets do not rise from 0 on")
    undecidable = decode_numbers(encoded.undecidable, documents)
    if documents and not 0 <= undecidable.min() <= undecidable.max() < len(REASON_CODES):
        raise ColumnsError("a document is undecidable for no known reason")
    ids = _strings(encoded.id_bytes, encoded.ids, documents)
    _check_utf8(ids)
    return DocumentColumns(
        offsets=offsets,
        times_ms=decode_numbers(encoded.times_ms, documents),
        ids=ids,
        digests=_matrix(encoded.digests, np.dtype(np.uint8), documents, DIGEST_BYTES),
        fingerprints=_matrix(encoded.fingerprints, np.dtype(np.uint64), documents, words),
        undecidable=undecidable.astype(np.uint8),
        sketches=_strings(encoded.sketch_bytes, encoded.sketches, documents),
    )


def encode_numbers(values: NDArray[np.int64]) -> EncodedNumbers:
    """Return a column of numbers, int64 (n,)."""
    if not len(values):
        return EncodedNumbers(0, 0, b"")
    base = int(values.min())
    span = int(values.max()) - base
    width = next(each for each in _WIDTHS if span < 1 << 8 * each)
    if not width:
        return EncodedNumbers(base, 0, b"")
    added = values.astype(np.uint64) - np.uint64(base % _MODULUS)
    return EncodedNumbers(base, width, added.astype(f"<u{width}").tobytes())


def decode_numbers(encoded: EncodedNumbers, count: int) -> NDArray[np.int64]:
    """Return a column of ``count`` numbers, int64; raises ``ColumnsError``."""
    base, width, added = encoded.base, encoded.width, encoded.added
    if width not in _WIDTHS or len(added) != width * count or base not in _INT64:
        raise ColumnsError(f"{len(added)} bytes are no {count} numbers of {width} bytes each")
    if not width:
        return np.full(count, base, dtype=np.int64)
    values = np.frombuffer(added, dtype=f"<u{width}").astype(np.uint64)
    return (values + np.uint64(base % _MODULUS)).astype(np.int64)


def _lengths(strings: BytesColumn) -> NDArray[np.int64]:
    bounds = strings.bounds.astype(np.int64)
    return bounds[1:] - bounds[:-1]


def _strings(sizes: EncodedNumbers, joined: bytes, count: int) -> BytesColumn:
    lengths = decode_numbers(sizes, count)
    if count and (lengths.min() < 0 or lengths.max() > len(joined)):
        raise ColumnsError(f"a byte string of {lengths.max()} bytes in {len(joined)}")
    bounds = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    if bounds[-1] != len(joined):
        raise ColumnsError(f"byte strings of {bounds[-1]} bytes in all in {len(joined)}")
    return BytesColumn(joined, bounds.astype(np.uint32))


def _check_utf8(strings: BytesColumn) -> None:
    """Raise ``ColumnsError`` unless each string is UTF-8, not only all of them joined."""
    try:
        strings.joined.decode()
    except UnicodeDecodeError as error:
        raise ColumnsError(f"the ids are not UTF-8: {error}") from error
    starts = strings.bounds[strings.bounds < len(strings.joined)]
    first = np.frombuffer(strings.joined, dtype=np.uint8)[starts]
    if np.any(first & _CONTINUATION_MASK == _CONTINUATION):
        raise ColumnsError("an id begins within a character")


def _matrix(raw: bytes, dtype: np.dtype, rows: int, columns: int) -> NDArray:  # type: ignore[type-arg]
    if len(raw) != rows * columns * dtype.itemsize:
        raise ColumnsError(f"{len(raw)} bytes are no {rows} rows of {columns} {dtype}")
    return np.frombuffer(raw, dtype=dtype).reshape(rows, columns)
