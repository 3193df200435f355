"""Random documents, equal for equal arguments, and changelogs of them.

No document is near another. Ids have 20 characters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.log.records import NO_CONTROL, Chain, Packet, Progress, Sender
from simhash_core.log.shard_stream import NewEntries
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named
from streams.settings.settings import Settings
from streams.store.changelog_codec import (
    ChangelogRecord,
    LoggedProgress,
    encode_block,
    encode_progress,
)
from streams.store.row_codec import entry_block
from streams.worker.index_on_kafka import reading_rules

IDENTITY: Final = "firstseen-index/1 benchmark"
CHAIN: Final = Chain("raw-documents", "wVzq5XKbQnOXq3kcTtQx2g", 0)
PACKET: Final = 250
SKETCH_BYTES: Final = 256
"""Bytes of a sketch, without the tail for its bands."""
HOT_SHARE: Final = 0.05
"""The share of skewed documents that are in one bucket."""

_BATCH: Final = 40
"""The number of packets in a transaction, which are loaded together."""
_SEED: Final = 20_141_201
_START_MS: Final = 1_700_000_000_000
_SPREAD_MS: Final = 60_000
_HOT_KEY: Final = 7


def columns_of(
    random: np.random.Generator,
    first: int,
    times_ms: NDArray[np.int64],
    fingerprints: NDArray[np.uint64],
    sketches: NDArray[np.uint8],
) -> DocumentColumns:
    """Return documents with offsets from ``first`` on; each row of ``sketches`` is a sketch."""
    count, size = sketches.shape
    numbers = range(first, first + count)
    bounds = np.arange(count + 1, dtype=np.uint32) * np.uint32(size)
    return DocumentColumns(
        offsets=np.arange(first, first + count, dtype=np.int64),
        times_ms=times_ms,
        ids=BytesColumn.of([b"document-%011d" % number for number in numbers]),
        digests=random.integers(0, 256, (count, 16), dtype=np.uint8),
        fingerprints=fingerprints,
        undecidable=np.zeros(count, dtype=np.uint8),
        sketches=BytesColumn(sketches.tobytes(), bounds),
    )


def random_columns(
    profile: str, first: int, count: int, *, skewed: bool = False
) -> DocumentColumns:
    """Return ``count`` documents of a profile, from the number ``first`` on.

    With ``skewed``, the share ``HOT_SHARE`` is in one bucket.
    """
    scheme = profile_named(profile).scheme()
    random = np.random.default_rng([_SEED, first])
    fingerprints = random.integers(0, 2**64, (count, scheme.bits // 64), dtype=np.uint64)
    size = SKETCH_BYTES + scheme.sketch_bands.tail_bytes if scheme.bands else 0
    sketches = random.integers(0, 256, (count, size), dtype=np.uint8)
    if skewed:
        hot = random.random(count) < HOT_SHARE
        if scheme.blocks:
            fingerprints[hot, 0] &= ~np.uint64(0xFFFF)  # the first two bytes: the first block
        if scheme.bands:
            # The bytes of the first band's bins, in the sketch and in its tail.
            bins = scheme.sketch_bands.members[0]
            at = np.concatenate([bins // 2, SKETCH_BYTES + bins])
            sketches[np.ix_(hot, at)] = _HOT_KEY
    times = _START_MS + first + random.integers(0, _SPREAD_MS, count)
    return columns_of(random, first, times, fingerprints, sketches)


def packet_of(columns: DocumentColumns, chain: Chain = CHAIN) -> Packet:
    first, last = int(columns.offsets[0]), int(columns.offsets[-1])
    return Packet(chain, Sender("benchmark-1", first), first - 1, last, columns)


def packets_of(profile: str, documents: int, chain: Chain = CHAIN) -> Iterator[Packet]:
    for first in range(0, documents, PACKET):
        columns = random_columns(profile, first, min(PACKET, documents - first))
        yield packet_of(columns, chain)


def entries_record(packet: Packet, offset: int) -> ChangelogRecord:
    """Return the changelog record of a packet at ``offset``; all its documents are new."""
    return encode_block(entry_block(NewEntries(offset, packet, np.arange(len(packet)))))


def changelog_of(
    settings: Settings, chain: Chain, documents: int, first: int = 0, position: int = 0
) -> Iterator[ChangelogRecord]:
    """Yield the changelog of a shard that has ``documents``, with its progress at the end.

    The documents are in the log from the offset ``first`` on; the shard has read it up to
    ``position``.
    """
    packets = enumerate(packets_of(settings.profile, documents, chain), first)
    yield from (entries_record(packet, offset) for offset, packet in packets)
    progress = Progress(chain, 0, position, NO_CONTROL)
    identity = Fingerprinter(settings.index_profile()).identity
    yield encode_progress(LoggedProgress(progress, identity, reading_rules(settings)))


def records_of(
    profile: str, documents: int, identity: str = IDENTITY
) -> Iterator[list[ChangelogRecord]]:
    """Yield the changelog of a shard with ``documents`` entries, transaction by transaction."""
    records = []
    packets = -(-documents // PACKET)
    for number, packet in enumerate(packets_of(profile, documents)):
        records.append(entries_record(packet, number))
        if len(records) == _BATCH or number == packets - 1:
            position = number + 1
            progress = Progress(CHAIN, packet.last + 1, position, position - len(records))
            yield [*records, encode_progress(LoggedProgress(progress, identity, ""))]
            records = []
