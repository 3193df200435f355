"""Encodes and decodes columns of documents (docs/formats.md, "Columns").

A column of numbers is a base and offsets from it, in as few bytes as the column needs: none if all
numbers are equal. Byte strings are joined, and their lengths are a column of numbers. So offsets
and times take a few bytes per document, and no step handles single documents.

Decoding checks lengths, rising offsets and UTF-8, so readers of columns need no checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import (
    DELETE,
    DOCUMENT,
    REASON_CODES,
    BytesColumn,
    DocumentColumns,
)
from simhash_core.errors import ErrorReason, FirstseenError
from simhash_core.log.records import BUNDLE_DOCUMENTS_LIMIT

DIGEST_BYTES: Final = 16
WORD_BYTES: Final = 8
WORDS_LIMIT: Final = 8  # A fingerprint has 512 bits at most

_INT64: Final = range(-(1 << 63), 1 << 63)
_STRING_LIMIT: Final = 1 << 31
_WIDTHS: Final = (0, 1, 2, 4, 8)
_MODULUS: Final = 1 << 64
_CONTINUATION_MASK: Final = 0xC0
_CONTINUATION: Final = 0x80


class ColumnsError(FirstseenError, ValueError):
    reason = ErrorReason.FORMAT


DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ColumnsError)
"""What decoding a damaged record raises; msgspec also limits the depth of what it skips."""


class EncodedNumbers(msgspec.Struct, frozen=True, array_like=True):
    """Numbers as a base and unsigned little-endian offsets from it, of ``width`` bytes each."""

    base: int
    width: int
    added: bytes


_ZEROS: Final = EncodedNumbers(0, 0, b"")


class _PlainColumns(msgspec.Struct, frozen=True, array_like=True):
    documents: int
    words: int  # of 64 bits, in a fingerprint
    offsets: EncodedNumbers
    times_ms: EncodedNumbers
    undecidable: EncodedNumbers
    id_bytes: EncodedNumbers
    ids: bytes
    sketch_bytes: EncodedNumbers
    sketches: bytes
    digests: bytes
    fingerprints: bytes


class EncodedColumns(_PlainColumns, frozen=True, array_like=True):
    """Columns with optional fields at the end, which are left out if no document uses them."""

    operations: EncodedNumbers = _ZEROS
    scope_bytes: EncodedNumbers = _ZEROS
    scopes: bytes = b""


def encode_columns(columns: DocumentColumns) -> EncodedColumns:
    operations, scopes = columns.operations, columns.scopes
    encoded = EncodedColumns(
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
        operations=_ZEROS if operations is None else encode_numbers(operations.astype(np.int64)),
        scope_bytes=_ZEROS if scopes is None else encode_numbers(_lengths(scopes)),
        scopes=b"" if scopes is None else scopes.joined,
    )
    if operations is not None or scopes is not None:
        return encoded
    # The MessagePack array then has fewer fields; decoding sets the defaults.
    plain = msgspec.structs.astuple(encoded)[: len(_PlainColumns.__struct_fields__)]
    return cast("EncodedColumns", _PlainColumns(*plain))


def decode_columns(
    parts: Sequence[EncodedColumns], runs: Sequence[int] | None = None
) -> DocumentColumns:
    """Decode and join the columns of many records at once; raise ``ColumnsError``.

    ``runs`` are the lengths of consecutive runs of documents within which offsets rise; their sum
    is the number of documents. None: offsets rise within each of ``parts``.
    """
    words = parts[0].words
    if not 1 <= words <= WORDS_LIMIT:
        raise ColumnsError(f"fingerprints of {words} words: it must be 1 to {WORDS_LIMIT}")
    counts = [each.documents for each in parts]
    for each, count in zip(parts, counts, strict=True):
        if not 0 <= count <= BUNDLE_DOCUMENTS_LIMIT:
            raise ColumnsError(f"{count} documents: the limit is {BUNDLE_DOCUMENTS_LIMIT}")
        if len(each.digests) != count * DIGEST_BYTES:
            raise ColumnsError(f"{len(each.digests)} bytes are not {count} digests")
        if each.words != words or len(each.fingerprints) != count * words * WORD_BYTES:
            raise ColumnsError(f"{len(each.fingerprints)} bytes are not {count} fingerprints")
    offsets = decode_numbers([each.offsets for each in parts], counts)
    check_rising(offsets, counts if runs is None else runs)
    undecidable = decode_numbers([each.undecidable for each in parts], counts)
    if len(undecidable) and not 0 <= undecidable.min() <= undecidable.max() < len(REASON_CODES):
        raise ColumnsError("a document is undecidable for an unknown reason")
    ids = _strings([each.id_bytes for each in parts], [each.ids for each in parts], counts)
    _check_utf8(ids)
    digests = b"".join([each.digests for each in parts])
    fingerprints = b"".join([each.fingerprints for each in parts])
    return DocumentColumns(
        offsets=offsets,
        times_ms=decode_numbers([each.times_ms for each in parts], counts),
        ids=ids,
        digests=np.frombuffer(digests, dtype=np.uint8).reshape(-1, DIGEST_BYTES),
        fingerprints=np.frombuffer(fingerprints, dtype=np.uint64).reshape(-1, words),
        undecidable=undecidable.astype(np.uint8),
        sketches=_strings(
            [each.sketch_bytes for each in parts], [each.sketches for each in parts], counts
        ),
        operations=_operations(parts, counts),
        scopes=_scopes(parts, counts),
    )


def _operations(parts: Sequence[EncodedColumns], counts: Sequence[int]) -> NDArray[np.uint8] | None:
    if all(each.operations == _ZEROS for each in parts):
        return None
    operations = decode_numbers([each.operations for each in parts], counts)
    if len(operations) and not DOCUMENT <= operations.min() <= operations.max() <= DELETE:
        raise ColumnsError("a row is neither a document nor a deletion")
    return operations.astype(np.uint8)


def _scopes(parts: Sequence[EncodedColumns], counts: Sequence[int]) -> BytesColumn | None:
    if all(each.scope_bytes == _ZEROS and not each.scopes for each in parts):
        return None
    scopes = _strings([each.scope_bytes for each in parts], [each.scopes for each in parts], counts)
    _check_utf8(scopes)
    return scopes


def encode_numbers(values: NDArray[np.int64]) -> EncodedNumbers:
    if not len(values):
        return _ZEROS
    base = int(values.min())
    span = int(values.max()) - base
    width = next(each for each in _WIDTHS if span < 1 << 8 * each)
    if not width:
        return EncodedNumbers(base, 0, b"")
    added = values.astype(np.uint64) - np.uint64(base % _MODULUS)
    return EncodedNumbers(base, width, added.astype(f"<u{width}").tobytes())


def decode_numbers(parts: Sequence[EncodedNumbers], counts: Sequence[int]) -> NDArray[np.int64]:
    """Decode and join columns of ``counts`` numbers each, int64; raise ``ColumnsError``."""
    for each, count in zip(parts, counts, strict=True):
        if each.width not in _WIDTHS or len(each.added) != each.width * count:
            raise ColumnsError(f"{len(each.added)} bytes are not {count} numbers of {each.width}")
        if each.base not in _INT64:
            raise ColumnsError("a base of numbers has more than 64 bits")
    if len(parts) == 1:
        return _one_column(parts[0], counts[0])
    bases = np.array([each.base for each in parts], dtype=np.int64)
    values = np.repeat(bases, counts).view(np.uint64)
    widths = [each.width for each in parts]
    for width in {*widths} - {0}:
        joined = b"".join([each.added for each in parts if each.width == width])
        added = np.frombuffer(joined, dtype=f"<u{width}").astype(np.uint64)
        if len(added) == len(values):
            values += added
        else:
            values[np.repeat(np.array(widths) == width, counts)] += added
    return values.view(np.int64)


def _one_column(encoded: EncodedNumbers, count: int) -> NDArray[np.int64]:
    if not encoded.width:
        return np.full(count, encoded.base, dtype=np.int64)
    values = np.frombuffer(encoded.added, dtype=f"<u{encoded.width}").astype(np.uint64)
    values += np.uint64(encoded.base % _MODULUS)
    return values.view(np.int64)


def check_rising(values: NDArray[np.int64], counts: Sequence[int]) -> None:
    """Raise ``ColumnsError`` unless each of the joined columns rises and has no negative number."""
    rising = values[1:] > values[:-1]
    if len(counts) > 1:
        ends = np.cumsum(counts)
        rising[ends[(ends > 0) & (ends < len(values))] - 1] = True
    if len(values) and (values.min() < 0 or not rising.all()):
        raise ColumnsError("offsets or rows do not ascend from 0")


def _lengths(strings: BytesColumn) -> NDArray[np.int64]:
    bounds = strings.bounds.astype(np.int64)
    return bounds[1:] - bounds[:-1]


def _strings(
    sizes: Sequence[EncodedNumbers], joined: Sequence[bytes], counts: Sequence[int]
) -> BytesColumn:
    lengths = decode_numbers(sizes, counts)
    if len(lengths) and (lengths.min() < 0 or lengths.max() > _STRING_LIMIT):
        raise ColumnsError(f"a byte string of {lengths.max()} bytes")
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    at_ends = bounds[np.cumsum(counts)].tolist()
    if at_ends != list(accumulate(map(len, joined))):
        raise ColumnsError("byte strings with other lengths than given")
    return BytesColumn(b"".join(joined), bounds.astype(np.uint32))


def _check_utf8(strings: BytesColumn) -> None:
    """Raise ``ColumnsError`` unless each single string is UTF-8."""
    try:
        strings.joined.decode()
    except UnicodeDecodeError as error:
        raise ColumnsError(f"ids or scopes are not UTF-8: {error}") from error
    starts = strings.bounds[strings.bounds < len(strings.joined)]
    first = np.frombuffer(strings.joined, dtype=np.uint8)[starts]
    if np.any(first & _CONTINUATION_MASK == _CONTINUATION):
        raise ColumnsError("an id or a scope begins within a character")
