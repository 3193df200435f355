"""Random documents, made by the ten thousand, the same for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.prints import BAND_KEY_BYTES
from simhash_core.log.records import Chain, sequence_numbers
from simhash_core.text.profiles import profile_named
from streams.store.row_codec import EntryBlock

BLOCK: Final = 65_536
"""Documents made at one time: those of one offset of the log."""

HOT_SHARE: Final = 0.05
"""Of skewed documents, how many are in one bucket."""

CHAIN: Final = Chain("raw-documents", "wVzq5XKbQnOXq3kcTtQx2g", 0)
PROBES: Final = 1 << 30
"""The number of the first block of documents that are looked up."""

_SEED: Final = 20_141_201
_SKETCH_BYTES: Final = 256
_HOT_KEY: Final = 7


def columns_of(profile: str, number: int, documents: int, *, skewed: bool) -> DocumentColumns:
    """Return the block of documents with this number; equal for equal arguments.

    Ids have 20 characters.
    """
    scheme = profile_named(profile).scheme()
    random = np.random.default_rng([_SEED, number])
    first = number * BLOCK
    fingerprints = random.integers(0, 2**64, (documents, scheme.bits // 64), dtype=np.uint64)
    sketches = _sketches(scheme, documents, random)
    if skewed:
        hot = random.random(documents) < HOT_SHARE
        if scheme.blocks:
            fingerprints[hot, 0] &= ~np.uint64(0xFFFF)  # the first two bytes: the first block
        if scheme.bands:
            sketches[hot, _SKETCH_BYTES:][:, :BAND_KEY_BYTES] = _HOT_KEY
    ids = b"".join([b"document-%011d" % at for at in range(first, first + documents)])
    return DocumentColumns(
        offsets=np.arange(first, first + documents, dtype=np.int64),
        times_ms=1_700_000_000_000 + np.arange(first, first + documents, dtype=np.int64),
        ids=BytesColumn(ids, np.arange(documents + 1, dtype=np.uint32) * np.uint32(20)),
        digests=random.integers(0, 256, (documents, 16), dtype=np.uint8),
        fingerprints=fingerprints,
        undecidable=np.zeros(documents, dtype=np.uint8),
        sketches=BytesColumn(
            sketches.tobytes(),
            np.arange(documents + 1, dtype=np.uint32) * np.uint32(sketches.shape[1]),
        ),
    )


def blocks_of(profile: str, documents: int, *, skewed: bool = False) -> Iterator[EntryBlock]:
    """Yield so many documents as entries, ``BLOCK`` at a time."""
    for number in range(-(-documents // BLOCK)):
        count = min(BLOCK, documents - number * BLOCK)
        columns = columns_of(profile, number, count, skewed=skewed)
        yield EntryBlock(CHAIN, sequence_numbers(number, count), columns)


def _sketches(
    scheme: BlockScheme, documents: int, random: np.random.Generator
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    size = _SKETCH_BYTES + scheme.bands * BAND_KEY_BYTES if scheme.bands else 0
    return random.integers(0, 256, (documents, size), dtype=np.uint8)
