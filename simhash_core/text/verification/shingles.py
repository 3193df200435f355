"""Sketches of character shingles, which estimate what share of two texts is the same.

A shingle is a run of 5 characters of the normalised text, without white space but with capitals.
The Jaccard similarity of two texts is the share of their distinct shingles that both texts have. A
sketch estimates it from 256 bytes (``SKETCH_BYTES``) for any length of the text:

- *One permutation hashing* (Li, Owen & Zhang 2012): each shingle is hashed once, to one of 512 bins
  and a value; a bin keeps its lowest value. The probability that a bin has the same shingle for two
  texts is their similarity.
- *Densification* (Shrivastava 2017): an empty bin gets the value of the first filled bin on a fixed
  path through the bins, so that short texts have full sketches too.
- *b-bit minwise hashing* (Li & König 2010): 4 bits of each lowest value are kept; each bin draws
  different ones. Two different values have equal bits once in 16 times; the estimate corrects for
  this.

The standard error at a similarity of one half is 0.0235, by sqrt(p (1 - p) / 512) · 16/15 with
p = 1/16 + 15/16 · 1/2.

A sketch may have a tail, from which the keys of bands are computed
(``simhash_core.fingerprints.bands``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import BytesColumn
from simhash_core.fingerprints.bands import NO_BANDS, PAIRS, TAIL_BITS, TRIPLES, Bands
from simhash_core.text.normalization import normalize_batch

SHINGLE_CHARACTERS: Final = 5
BINS: Final = 512
KEPT_BITS: Final = 4
SKETCH_BYTES: Final = BINS * KEPT_BITS // 8
IDENTITY: Final = f"shingles-1/{SHINGLE_CHARACTERS}x{BINS}x{KEPT_BITS}"

_LAST_BIN: Final = BINS - 1
_BIN_BITS: Final = BINS.bit_length() - 1
_HASH_BITS: Final = 32
_CHANCE: Final = 0.5**KEPT_BITS
_FIRST_BITS: Final = int.from_bytes(b"\x11" * SKETCH_BYTES, "little")  # the lowest bit of each bin
_FIRST_BITS_OF_WORD: Final = np.uint64(0x1111_1111_1111_1111)
_EMPTY: Final = np.uint32(2**_HASH_BITS - 1)
_BETWEEN: Final = "\0" * SHINGLE_CHARACTERS  # keeps the shingles of two texts apart


def sketches(
    texts: Sequence[str], bands: Bands = NO_BANDS, *, simplify: bool = False
) -> list[bytes]:
    """Return the sketch of each original text, with the tail for ``bands``.

    It is empty for white space alone. This takes about 40 bytes of memory per character of all
    texts.
    """
    bare = bare_texts(texts, simplify=simplify)
    some = [text for text in bare if text]
    packed = iter(pack(bins_of(some).filled, bands))
    return [next(packed) if text else b"" for text in bare]


class Bins(NamedTuple):
    filled: NDArray[np.uint32]  # (texts, BINS), densified
    counts: NDArray[np.int64]  # bins with a shingle


def bare_texts(texts: Sequence[str], *, simplify: bool = False) -> list[str]:
    """Return texts normalised and without white space, ready for shingles."""
    normal = normalize_batch(texts, fold_case=False, simplify=simplify)
    return [text.replace(" ", "") for text in normal]


def bins_of(bare: Sequence[str]) -> Bins:
    """Return the bins of bare texts, which must not be empty."""
    lowest = _lowest_hashes(bare)
    return Bins(_densify(lowest), np.count_nonzero(lowest != _EMPTY, axis=1))


def pack(filled: NDArray[np.uint32], bands: Bands) -> list[bytes]:
    """Return the sketches of densified bins, (texts, BINS), with the tail for ``bands``."""
    if bands.bins == TRIPLES:
        tails = _drawn(filled[:, : bands.tail_bytes], KEPT_BITS, TAIL_BITS)
    else:
        tails = _keys_of_pairs(filled, bands.number)
    halves = _drawn(filled, 0, KEPT_BITS)
    packed = halves[:, 0::2] << np.uint8(KEPT_BITS) | halves[:, 1::2]
    return [row.tobytes() for row in np.concatenate([packed, tails], axis=1)]


def fifth_bits(filled: NDArray[np.uint32], bits: int) -> NDArray[np.uint8]:
    """Return one more bit of the last bins, independent of sketch and bands, (texts, bits)."""
    last = slice(BINS - bits, BINS)
    drawn: NDArray[np.uint8] = (
        (filled[:, last] * _DRAWS[last]) >> np.uint32(_HASH_BITS - KEPT_BITS - 1)
    ).astype(np.uint8) & np.uint8(1)
    return drawn


def similarity(a: bytes, b: bytes) -> float:
    """Return the estimated Jaccard similarity of two texts, 0 to 1; 0 without a sketch."""
    if not a or not b:
        return 0.0
    differing = _number(a) ^ _number(b)
    differing |= differing >> 1
    differing |= differing >> 2
    unequal = (differing & _FIRST_BITS).bit_count()
    return max(0.0, 1.0 - unequal / BINS / (1.0 - _CHANCE))


def similarities(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the ``similarity`` of each row of ``a`` and of ``b``, whose rows are ``words``."""
    differing = a ^ b
    shifted = differing >> np.uint64(1)
    differing |= shifted
    np.right_shift(differing, np.uint64(2), out=shifted)
    differing |= shifted
    differing &= _FIRST_BITS_OF_WORD
    # Bytes are added eight at a time: four words have at most 64 unequal bins in each of them.
    by_byte = np.bitwise_count(differing).view(np.uint64).sum(axis=-1)
    unequal = by_byte[:, None].view(np.uint8).sum(axis=-1, dtype=np.int64)
    estimated: NDArray[np.float64] = np.maximum(0.0, 1.0 - unequal / BINS / (1.0 - _CHANCE))
    return estimated


def words(sketches: BytesColumn, rows: NDArray[np.intp]) -> NDArray[np.uint64] | None:
    """Return the bins of some sketches, uint64 (rows, SKETCH_BYTES / 8); None if one is empty."""
    bounds = sketches.bounds.astype(np.intp)
    starts = bounds[rows]
    if (bounds[rows + 1] - starts < SKETCH_BYTES).any():
        return None
    as_bytes = np.frombuffer(sketches.joined, dtype=np.uint8)
    bins: NDArray[np.uint8] = as_bytes[starts[:, None] + np.arange(SKETCH_BYTES)]
    return bins.view(np.uint64)


def _lowest_hashes(texts: Sequence[str]) -> NDArray[np.uint32]:
    """Return the lowest hash by text and bin (its highest bits), ``_EMPTY`` if there is none."""
    joined = _BETWEEN.join(texts) + _BETWEEN
    hashes = _hash_runs(np.frombuffer(joined.encode("utf-32-le"), dtype="<u4"))
    bins = (hashes >> np.uint32(_HASH_BITS - _BIN_BITS)).astype(np.intp)
    lowest = np.full((len(texts), BINS), _EMPTY)
    start = 0
    for row, text in zip(lowest, texts, strict=True):
        # A text shorter than a shingle is one shingle, padded with zeros.
        stop = start + max(1, len(text) - SHINGLE_CHARACTERS + 1)
        np.minimum.at(row, bins[start:stop], hashes[start:stop])
        start += len(text) + len(_BETWEEN)
    return lowest


def _hash_runs(characters: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return a 32-bit hash of each run of ``SHINGLE_CHARACTERS``: a polynomial that is then mixed.

    It is mixed by the finisher of MurmurHash3 (Appleby 2011); the base is 2**32 over the golden
    ratio, made odd.
    """
    count = len(characters) - SHINGLE_CHARACTERS + 1
    hashes = characters[:count] + np.uint32(1)
    for step in range(1, SHINGLE_CHARACTERS):
        hashes *= np.uint32(0x9E3779B1)
        hashes += characters[step : step + count]
    hashes ^= hashes >> np.uint32(16)
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> np.uint32(13)
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> np.uint32(16)
    return hashes


def _numbers(first: int) -> NDArray[np.uint32]:
    return _hash_runs(np.arange(first, first + BINS + SHINGLE_CHARACTERS - 1, dtype=np.uint32))


_ORDER: Final = np.argsort(_numbers(0), kind="stable")
_STEPS: Final = _ORDER[_ORDER != 0]  # from an empty bin to all others, in a fixed order
_FEW_EMPTY: Final = 0.15
"""The share of empty bins up to which they are filled one by one."""
_STEPPED_TOGETHER: Final = 2048
_DRAWS: Final = _numbers(BINS) | np.uint32(1)  # odd factors by which bins draw bits from values


def _densify(lowest: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Fill empty bins, (texts, BINS); each text has at least one filled bin."""
    filled, steps = _with_first_steps(lowest)
    filled_bins, found = lowest.reshape(-1), filled.reshape(-1)
    left = np.flatnonzero(found == _EMPTY)
    while len(left):
        # A few bins may need many steps, so they take several at a time.
        together = max(1, _STEPPED_TOGETHER // len(left))
        some, steps = steps[:together], steps[together:]
        # BINS is a power of two, so the masks keep the step within the row of a text.
        neighbours = filled_bins.take(((left + some[:, None]) & _LAST_BIN) | (left & ~_LAST_BIN))
        values = neighbours[0]
        if len(some) > 1:
            values = neighbours[(neighbours != _EMPTY).argmax(axis=0), np.arange(len(left))]
        found[left] = values
        left = left[values == _EMPTY]
    return filled


def _with_first_steps(
    lowest: NDArray[np.uint32],
) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
    """Take steps for all bins at once while many are empty; return the bins and the other steps."""
    filled, twice = lowest.copy(), np.concatenate([lowest, lowest], axis=1)
    steps = _STEPS
    while np.count_nonzero(empty := filled == _EMPTY) > _FEW_EMPTY * filled.size:
        step, steps = steps[0], steps[1:]
        # All bits of ``_EMPTY`` are set, so it takes the bits of the neighbour; others keep theirs.
        kept = empty.astype(np.uint32) - np.uint32(1)
        filled &= kept | twice[:, step : step + BINS]
    return filled, steps


def _drawn(lowest: NDArray[np.uint32], first: int, bits: int) -> NDArray[np.uint8]:
    """Draw bits of the first bins, from the bit ``first`` on: (texts, bins)."""
    mixed = lowest * _DRAWS[: lowest.shape[1]]
    drawn: NDArray[np.uint8] = ((mixed << np.uint32(first)) >> np.uint32(_HASH_BITS - bits)).astype(
        np.uint8
    )
    return drawn


def _keys_of_pairs(lowest: NDArray[np.uint32], bands: int) -> NDArray[np.uint8]:
    """Return the key of each band of two bins, little-endian, (texts, 4 · bands); none is 0."""
    bins = lowest[:, : PAIRS * bands].astype(np.uint64)
    keys = (bins[:, 0::2] << np.uint64(_HASH_BITS)) | bins[:, 1::2]
    # This is the finisher of MurmurHash3 for 64 bits; the upper half is kept.
    keys ^= keys >> np.uint64(33)
    keys *= np.uint64(0xFF51AFD7ED558CCD)
    keys ^= keys >> np.uint64(33)
    keys *= np.uint64(0xC4CEB9FE1A85EC53)
    short = (keys >> np.uint64(_HASH_BITS)).astype("<u4")
    as_bytes: NDArray[np.uint8] = np.maximum(short, 1).astype("<u4").view(np.uint8)
    return as_bytes


def _number(sketch: bytes) -> int:
    """Return the bins as one integer, which is faster for two sketches than NumPy's arrays."""
    return int.from_bytes(sketch[:SKETCH_BYTES], "little")
