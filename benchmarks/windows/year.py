"""One year of documents through an index of one shard: what it takes, day by day.

``python -m benchmarks.windows.year --window 30d`` prints a line of JSON a day. A process of its own
for each index, as its memory is measured. Documents are fingerprints of ``classic`` made at random,
one in five a copy of one of the last days; they come in the order of their times, some of them
hours late. Nothing waits for a clock: a year passes in a minute.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.index.look_up import Nearness
from simhash_core.log.local_decider import LocalDecider
from simhash_core.log.records import NO_CONTROL, Chain, Packet, Progress, Sender, sequence_number
from simhash_core.text.profiles import Profile, profile_named
from simhash_core.window import UNITS_MS, parse_duration
from streams.store.entry_batch import records_of
from streams.store.rocksdb_store import MIB, block_cache
from streams.store.row_codec import StoredProgress, StoreIdentity
from streams.store.shard_directory import open_shard_store
from streams.store.shard_store import ShardStore

START_MS: Final = 1_704_067_200_000
DAY_MS: Final = UNITS_MS["d"]
LATE_MS: Final = 6 * UNITS_MS["h"]
LATE: Final = 0.05
COPIES: Final = 0.2
COPIED_DAYS: Final = 5
PACKET: Final = 250
CHAIN: Final = Chain("raw-documents", "", 0)
IDENTITY: Final = "a year of documents"
SEED: Final = 20_240_101


class Day(msgspec.Struct):
    """At the end of a day. ``documents``: all so far; ``entries``: in the index.

    ``changelog_bytes``: of the records that compaction leaves. ``memory_bytes``: resident, less
    what the process had before the first document.
    """

    day: int
    documents: int
    entries: int
    disk_bytes: int
    changelog_bytes: int
    memory_bytes: int


class Documents:
    """Makes the packets of one day after the other."""

    def __init__(self, words: int, a_day: int) -> None:
        """``words``: of 64 bits, in a fingerprint."""
        self._rng = np.random.default_rng(SEED)
        self._words = words
        self._a_day = a_day
        self._count = 0
        self._recent = np.empty((0, words), dtype=np.uint64)

    def of_day(self, day: int) -> Iterator[Packet]:
        """Yield the packets of a day."""
        rng = self._rng
        for first in range(0, self._a_day, PACKET):
            count = min(PACKET, self._a_day - first)
            prints = rng.integers(0, 1 << 64, (count, self._words), dtype=np.uint64)
            if len(self._recent):
                copies = np.flatnonzero(rng.random(count) < COPIES)
                prints[copies] = self._recent[rng.integers(0, len(self._recent), len(copies))]
            self._recent = np.concatenate([self._recent, prints])[-COPIED_DAYS * self._a_day :]
            yield self._packet(day, first, prints)

    def _packet(self, day: int, first: int, prints: np.ndarray) -> Packet:
        count = len(prints)
        rng, begun = self._rng, self._count
        self._count += count
        times = START_MS + day * DAY_MS + (first + np.arange(count)) * DAY_MS // self._a_day
        late = rng.random(count) < LATE
        times -= np.where(late, rng.integers(0, LATE_MS, count), 0)
        offsets = np.arange(begun, begun + count, dtype=np.int64)
        columns = DocumentColumns(
            offsets,
            times.astype(np.int64),
            BytesColumn.of([b"document-%011d" % offset for offset in offsets.tolist()]),
            rng.integers(0, 256, (count, 16), dtype=np.uint8),
            prints,
            np.zeros(count, dtype=np.uint8),
            BytesColumn.of([b""] * count),
        )
        sender = Sender("year", begun // PACKET)
        return Packet(CHAIN, sender, begun - 1, begun + count - 1, columns)


class Year:
    """The index of one shard: decider, store, and what its changelog would hold."""

    def __init__(self, profile: Profile, store: ShardStore) -> None:
        """Begin with an empty store."""
        self._store = store
        self._decider = LocalDecider(Nearness.of(profile), store)
        self._changelog: dict[bytes, int] = {}
        self._packets = 0
        self._memory = _resident_bytes()

    def take(self, packet: Packet) -> None:
        """Decide a packet, and commit what is new."""
        number = self._packets
        self._packets += 1
        decision = self._decider.decide(number, packet)
        clock = self._decider.clock_before(number + 1)
        before = 0 if clock is None else sequence_number(clock.horizon, 0)
        change = self._store.change([decision.new], decision.removed, before)
        progress = Progress(CHAIN, packet.last + 1, number + 1, NO_CONTROL, clock)
        self._store.write(change, StoredProgress(progress))
        for record in records_of(change):
            self._changelog.pop(record.key, None)
            if record.value is not None:
                self._changelog[record.key] = record.size

    def measured(self, day: int, documents: int) -> Day:
        """Return what it takes now."""
        files = (each for each in self._store.path.rglob("*") if each.is_file())
        return Day(
            day + 1,
            documents,
            len(self._store),
            sum(each.stat().st_size for each in files),
            sum(self._changelog.values()),
            _resident_bytes() - self._memory,
        )


def run(window: str | None, days: int, a_day: int) -> Iterator[Day]:
    """Yield the days of one year."""
    profile = profile_named("classic")
    if window is not None:
        profile = msgspec.structs.replace(profile, window=parse_duration(window))
    directory = Path(tempfile.mkdtemp(prefix="firstseen-year-"))
    try:
        owner = StoreIdentity(IDENTITY, "year", 0)
        store = open_shard_store(directory / "shard-0", owner, profile.bits, block_cache(8 * MIB))
        with closing(store):
            year = Year(profile, store)
            documents = Documents(profile.bits // 64, a_day)
            for day in range(days):
                for packet in documents.of_day(day):
                    year.take(packet)
                yield year.measured(day, (day + 1) * a_day)
    finally:
        shutil.rmtree(directory)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def main() -> None:
    """Print a line a day."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--window", help="of the index, such as 30d; none unless given")
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--documents", type=int, default=4_000, help="a day")
    chosen = parser.parse_args()
    for day in run(chosen.window, chosen.days, chosen.documents):
        sys.stdout.buffer.write(msgspec.json.encode(day) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
