"""The state that survives workers: raw partitions, the log, reports, changelogs, and ownership.

This module causes no failures: the world decides what reaches the broker, and when.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import BytesColumn
from simhash_core.documents import Entry
from simhash_core.fingerprints.bands import Bands
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.key_filter import Column, id_key
from simhash_core.index.prints import Prints, band_keys
from simhash_core.log.participant import ShardReady
from simhash_core.log.records import Chain, LogRecord, Progress, Report, entry_of
from simhash_core.log.shard_stream import RawBatch, Ready, Record
from tests.simulation.documents import START_MS, SimulatedDocument, columns_of

TOPIC = "raw"


class RawRecord(NamedTuple):
    """A raw record; ``document`` is None if it is no document."""

    offset: int
    document: SimulatedDocument | None


class RawPartition:
    """A partition of the raw topic, with the records produced until now."""

    def __init__(
        self, chain: Chain, documents: Sequence[SimulatedDocument | None], rng: random.Random
    ) -> None:
        """Some offsets have no record, as at the end of a transaction.

        The last records are produced only after all workers were restarted.
        """
        self.chain = chain
        self.records: list[RawRecord] = []
        self.available = 0
        gaps = rng.random() < 0.2
        offset = 0
        for document in documents:
            offset += gaps and rng.random() < 0.3
            self.records.append(RawRecord(offset, document))
            offset += 1
        self.limit = max(0, len(self.records) - rng.randint(0, 2))

    def produce(self, count: int) -> None:
        self.available = min(self.limit, self.available + count)

    def batch(
        self, after: int, count: int, scheme: BlockScheme, *, to_next: bool
    ) -> RawBatch[RawRecord] | None:
        """Return at most ``count`` records after an offset; None if there are none.

        ``to_next``: the batch covers all offsets before the next record.
        """
        following = [each for each in self.records[: self.available] if each.offset > after]
        taken = following[:count]
        if not taken:
            return None
        last = taken[-1].offset
        if to_next and len(following) > count:
            last = following[count].offset - 1
        documents = [(each.offset, each.document) for each in taken if each.document is not None]
        columns = columns_of(scheme, documents)
        return RawBatch(taken, [each.offset for each in taken], columns, last, len(taken))


@dataclass(slots=True)
class Changelog:
    """One partition of the changelog: committed entries by sequence number, and progress.

    ``commits`` has all commits, for readers that follow it.
    """

    entries: dict[int, Entry] = field(default_factory=dict)
    progress: Progress | None = None
    commits: list[ShardReady[RawRecord]] = field(default_factory=list)


def change(entries: dict[int, Entry], ready: Ready[Record]) -> None:
    for new in ready.entries:
        for sequence, row in zip(new.sequences.tolist(), new.rows.tolist(), strict=True):
            entries[sequence] = entry_of(new.packet, row)
    for sequence in ready.removed:
        entries.pop(sequence, None)
    for sequence in [each for each in entries if each < ready.expired_before]:
        del entries[sequence]


class StoredEntries:
    """The stored entries of a shard: loaded from its changelog, then written on each commit.

    ``commits``: the number of commits in it.
    """

    def __init__(self, entries: dict[int, Entry], commits: int = 0) -> None:
        self._entries: dict[int, Entry] = {}
        self._entries |= entries
        self.commits = commits
        self._column: Column | None = None

    ids_ready = True

    def filter_by(self, column: Column) -> None:
        self._column = column
        self._note()
        column.complete()

    def _note(self) -> None:
        if self._column is not None:
            for each in self._entries.values():
                self._column.note([each.content_digest, id_key(each.document_id.encode())])

    def write(self, ready: Ready[Record]) -> None:
        change(self._entries, ready)
        self.commits += 1
        self._note()

    def entries(self, sequences: Sequence[int]) -> list[Entry]:
        return [self._entries[sequence] for sequence in sequences]

    def by_content(self, digest: bytes) -> list[int]:
        """Return the sequence numbers, rising, of the undecidable documents with a content."""
        found = (s for s, e in self._entries.items() if not e.fingerprint)
        return sorted(s for s in found if self._entries[s].content_digest == digest)

    def by_ids(self, ids: Sequence[bytes]) -> list[list[int]]:
        """Return the sequence numbers of the entries with each of these ids, rising."""
        names = [name.decode() for name in ids]
        return [sorted(s for s, e in self._entries.items() if e.document_id == n) for n in names]

    def prints(self, bands: Bands) -> Iterator[tuple[NDArray[np.uint64], Prints]]:
        decidable = [(s, e) for s, e in self._entries.items() if e.fingerprint]
        for first in range(0, len(decidable), 5):
            part = decidable[first : first + 5]
            words = np.frombuffer(b"".join(e.fingerprint for _, e in part), dtype=np.uint64)
            prints = Prints(
                words.reshape(len(part), -1),
                band_keys(BytesColumn.of([e.sketch for _, e in part]), bands),
                np.array([e.event_time_ms for _, e in part], dtype=np.int64),
            )
            yield np.array([sequence for sequence, _ in part], dtype=np.uint64), prints


class Broker:
    def __init__(self, raw: list[RawPartition], born: list[bool]) -> None:
        """``born``: which raw partitions exist at the beginning."""
        self.raw = raw
        self.born = born
        self.log: list[LogRecord] = []
        self.versions: list[int] = []  # the versions of the log's records
        self.log_start = 0
        self.reports: list[Report] = []
        self.changelogs = [Changelog() for _ in raw]
        self.epochs = [0] * len(raw)
        self.owners: list[str | None] = [None] * len(raw)
        self.standbys: dict[int, str] = {}

    @property
    def log_end(self) -> int:
        return len(self.log)

    def appended_ms(self, offset: int) -> int:
        """Return the time at which a record was appended; these times rise, but not always."""
        return START_MS + 8 * offset + offset * 7919 % 61

    def partitions(self) -> list[int]:
        return [partition for partition, born in enumerate(self.born) if born]

    def assign(self, partition: int, member: str) -> None:
        """Assign a partition to a member of the group; commits of its former owner are refused."""
        self.epochs[partition] += 1
        self.owners[partition] = member

    def assigned(self, member: str) -> dict[int, int]:
        return {p: self.epochs[p] for p in self.partitions() if self.owners[p] == member}

    def stands_by(self, member: str) -> set[int]:
        """Return the partitions of other members of which a member should have a copy."""
        wanted = {p for p, name in self.standbys.items() if name == member}
        return {p for p in wanted if self.owners[p] != member}
