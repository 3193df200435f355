"""A flood: near-identical documents in a row, looked up and decided as a worker without a log does.

All are near the first, which is the only one that the index keeps. The last must cost what the
first do.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from benchmarks.index.documents import CHAIN, columns_of
from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.index.look_up import Nearness
from simhash_core.index.prints import BAND_KEY_BYTES
from simhash_core.log.local_decider import LocalDecider, MemoryEntries
from simhash_core.log.records import Packet, Sender
from simhash_core.text.profiles import profile_named

FLOOD_DOCUMENTS: Final = 100_000

_PACKET: Final = 250
_TENTH: Final = 10
_FLIPPED_SKETCH_BYTES: Final = 5
_BANDS_LOST: Final = 3


def flood(profile: str, documents: int) -> dict[str, float]:
    """Return CPU µs a document, of all and of the first and last tenth, and how many were unique.

    ``documents``: a multiple of ten packets.
    """
    entries = MemoryEntries()
    decider = LocalDecider(Nearness.of(profile_named(profile)), entries)
    spent = []
    sender = Sender("benchmark-1", 0)
    for number in range(documents // _PACKET):
        columns = _copies(profile, number)
        packet = Packet(
            CHAIN, sender, int(columns.offsets[0]) - 1, int(columns.offsets[-1]), columns
        )
        begun = time.process_time()
        decision = decider.decide(number, packet)
        entries.add(decision.new)
        spent.append((time.process_time() - begun) / _PACKET * 1e6)
    tenth = max(len(spent) // _TENTH, 1)
    # The median: what else the machine does falls on single packets.
    begin, end = (float(np.median(part)) for part in (spent[:tenth], spent[-tenth:]))
    return {
        "flood_cpu_us": float(np.mean(spent)),
        "flood_first_cpu_us": begin,
        "flood_last_cpu_us": end,
        "flood_uniques": len(entries),
    }


def _copies(profile: str, number: int) -> DocumentColumns:
    """Return near-identical documents: a bit, some of the sketch and some bands differ."""
    one = columns_of(profile, 0, 1, skewed=False)
    random = np.random.default_rng([number, _PACKET])
    first = number * _PACKET
    fingerprints = np.repeat(one.fingerprints, _PACKET, axis=0)
    bits = random.integers(0, fingerprints.shape[1] * 64, _PACKET)
    rows = np.arange(_PACKET)
    fingerprints[rows, bits // 64] ^= np.uint64(1) << (bits % 64).astype(np.uint64)
    size = len(one.sketches.joined)
    sketches = np.tile(np.frombuffer(one.sketches.joined, dtype=np.uint8), (_PACKET, 1))
    bands = profile_named(profile).bands
    if bands:
        in_sketch = size - bands * BAND_KEY_BYTES
        at = random.integers(0, in_sketch, (_PACKET, _FLIPPED_SKETCH_BYTES))
        sketches[rows[:, None], at] ^= 1
        keys = in_sketch + BAND_KEY_BYTES * random.integers(0, bands, (_PACKET, _BANDS_LOST))
        sketches[rows[:, None], keys] = random.integers(0, 256, keys.shape)
    ids = [b"document-%011d" % at for at in range(first, first + _PACKET)]
    return DocumentColumns(
        offsets=np.arange(first, first + _PACKET, dtype=np.int64),
        times_ms=np.arange(first, first + _PACKET, dtype=np.int64),
        ids=BytesColumn.of(ids),
        digests=random.integers(0, 256, (_PACKET, 16), dtype=np.uint8),
        fingerprints=fingerprints,
        undecidable=np.zeros(_PACKET, dtype=np.uint8),
        sketches=BytesColumn(
            sketches.tobytes(), np.arange(_PACKET + 1, dtype=np.uint32) * np.uint32(size)
        ),
    )
