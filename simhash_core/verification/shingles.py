"""Sketches of character shingles: how much of two texts is the same, run by run.

A shingle is a run of 5 characters of the normalised text, white space left out and capitals kept.
The Jaccard similarity of two texts is the share of their distinct shingles that both have. It sees
what bags of words cannot: two texts of one genre have the words in common, and few runs.

A sketch estimates it from 256 bytes (``SKETCH_BYTES``), whatever the length of the text:

- *One permutation hashing* (Li, Owen & Zhang 2012): each shingle is hashed once, to one of 512 bins
  and a value; a bin keeps its least value. A bin of two texts holds the same shingle with a chance
  of their similarity.
- *Densification* (Shrivastava 2017): a bin that no shingle fell into takes what the first filled
  one on a fixed way through the bins has, so that short texts have whole sketches as well.
- *b-bit minwise hashing* (Li & König 2010): of each least value 4 bits are kept, drawn anew for
  each bin. Two different ones are equal once in 16 times, which the estimate takes off.

The standard error at a similarity of one half is 0.0235, by sqrt(p (1 - p) / 512) · 16/15 with
p = 1/16 + 15/16 · 1/2. Equal texts have equal sketches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.normal_forms import normalize_batch

SHINGLE_CHARACTERS: Final = 5
BINS: Final = 512
KEPT_BITS: Final = 4
SKETCH_BYTES: Final = BINS * KEPT_BITS // 8
IDENTITY: Final = f"shingles-1/{SHINGLE_CHARACTERS}x{BINS}x{KEPT_BITS}"

_BIN_BITS: Final = BINS.bit_length() - 1
_CHANCE: Final = 0.5**KEPT_BITS
# Odd numbers of 64 bits without pattern (from the fractions of the golden ratio, pi and e).
_BASE: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_EMPTY: Final = np.uint64(2**64 - 1)


def sketches(texts: Sequence[str]) -> list[bytes]:
    """Return the sketch of each text as it came, ``SKETCH_BYTES`` each; empty where all is space.

    Memory: about 100 bytes a character, of all texts together.
    """
    bare = [text.replace(" ", "") for text in normalize_batch(texts, fold_case=False)]
    some = [text for text in bare if text]
    made = iter(_pack(_densify(_least(some))) if some else ())
    return [next(made) if text else b"" for text in bare]


def similarity(a: bytes, b: bytes) -> float:
    """Return the estimated Jaccard similarity of two texts from their sketches, 0 to 1.

    Nothing is similar to a text without a sketch.
    """
    if not a or not b:
        return 0.0
    differing = np.frombuffer(a, dtype=np.uint8) ^ np.frombuffer(b, dtype=np.uint8)
    unequal = np.count_nonzero(differing & 0xF0) + np.count_nonzero(differing & 0x0F)
    return max(0.0, 1.0 - unequal / BINS / (1.0 - _CHANCE))


def _least(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Return the least hash by text and bin, uint64 (texts, BINS); ``_EMPTY`` where there is none.

    The bin is in the highest bits of a hash.
    """
    characters = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)
    # A text shorter than a shingle is one shingle. Zeros between texts make room for it; shingles
    # that reach over the end of a longer text are left out below.
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    counts = np.maximum(sizes - SHINGLE_CHARACTERS + 1, 1)
    padded = np.zeros(len(characters) + len(texts) * SHINGLE_CHARACTERS, dtype=np.uint64)
    text_of = np.repeat(np.arange(len(texts)), sizes)
    padded[np.arange(len(characters)) + text_of * SHINGLE_CHARACTERS] = characters
    hashes = _hash_runs(padded)
    starts = np.cumsum(sizes + SHINGLE_CHARACTERS) - sizes - SHINGLE_CHARACTERS
    owner = np.repeat(np.arange(len(texts)), counts)
    first = np.cumsum(counts) - counts
    hashes = hashes[np.arange(len(owner)) + (starts - first)[owner]]
    least = np.full(len(texts) * BINS, _EMPTY)
    bins = (hashes >> np.uint64(64 - _BIN_BITS)).astype(np.int64)
    np.minimum.at(least, owner * BINS + bins, hashes)
    return least.reshape(len(texts), BINS)


def _hash_runs(characters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each run of ``SHINGLE_CHARACTERS``: a polynomial, then mixed."""
    count = len(characters) - SHINGLE_CHARACTERS + 1
    hashes = characters[:count] + np.uint64(1)
    for step in range(1, SHINGLE_CHARACTERS):
        hashes *= _BASE
        hashes += characters[step : step + count]
    # The finisher of splitmix64 (Steele, Lea & Flood 2014).
    for shift, factor in zip((30, 27), _MIX, strict=True):
        hashes ^= hashes >> np.uint64(shift)
        hashes *= factor
    hashes ^= hashes >> np.uint64(31)
    return hashes


def _ways() -> NDArray[np.int64]:
    """Return the steps from an empty bin to the others, each once, in a fixed order."""
    order = _hash_runs(np.arange(BINS + SHINGLE_CHARACTERS - 1, dtype=np.uint64))
    steps: NDArray[np.int64] = np.argsort(order, kind="stable")
    return np.delete(steps, np.flatnonzero(steps == 0))


_STEPS: Final = _ways()
# An odd factor for each bin, by which it draws its bits from the value that it holds.
_DRAWS: Final = _hash_runs(np.arange(BINS, 2 * BINS + SHINGLE_CHARACTERS - 1, dtype=np.uint64)) | (
    np.uint64(1)
)


def _densify(least: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Fill empty bins, (texts, BINS); each text has a filled one."""
    empty = least == _EMPTY
    texts, bins = np.nonzero(empty)
    for step in _STEPS:
        if not len(texts):
            break
        source = (bins + step) % BINS
        found = ~empty[texts, source]
        least[texts[found], bins[found]] = least[texts[found], source[found]]
        texts, bins = texts[~found], bins[~found]
    return least


def _pack(least: NDArray[np.uint64]) -> list[bytes]:
    """Draw the bits of each bin, and put two bins into a byte."""
    drawn = ((least * _DRAWS) >> np.uint64(64 - KEPT_BITS)).astype(np.uint8)
    packed = (drawn[:, 0::2] << 4) | drawn[:, 1::2]
    return [row.tobytes() for row in packed]
