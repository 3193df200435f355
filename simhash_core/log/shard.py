"""A shard on the worker that owns it: its stream, and its entries in the worker's index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic

from simhash_core.entries import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.log.outputs import Ready, Record
from simhash_core.log.records import Progress
from simhash_core.log.shard_copy import EntryStore, ShardCopy
from simhash_core.log.shard_stream import ShardStream


class Shard(ShardCopy, Generic[Record]):
    """A shard that this worker owns.

    Until the session begins that reads the log from its position, the shard takes in nothing and is
    not reported on.
    """

    def __init__(
        self,
        stream: ShardStream[Record],
        slot: int,
        store: EntryStore,
        index: DocumentIndex,
    ) -> None:
        """``slot``: of the committed entries in ``index``."""
        super().__init__(stream.committed, slot, store, index)
        self.stream = stream

    def put_out(self, ready: Ready[Record], progress: Progress) -> None:
        """Learn that what was ready is committed, and everything before ``progress`` with it."""
        self.committed(progress, ready.removed)
        self.stream.advance(progress, ready.removed)


class ShardEntries:
    """The entries of all shards of a worker whose session has begun."""

    def __init__(self, *shards: Mapping[int, ShardCopy]) -> None:
        """``shards``: the worker's own, by partition, which come and go."""
        self._shards = shards

    def entries(self, slot: int, sequences: Sequence[int]) -> list[Entry]:
        """Return entries of the shard with this slot."""
        shard = next(each for each in self._in_session() if each.slot == slot)
        return [shard.entry(sequence) for sequence in sequences]

    def by_content(self, digest: bytes) -> list[tuple[int, Entry]]:
        """Return the undecidable documents of a content, the earliest first."""
        found = [
            (sequence, shard)
            for shard in self._in_session()
            for sequence in shard.by_content(digest)
        ]
        found.sort(key=lambda each: each[0])
        return [(sequence, shard.entry(sequence)) for sequence, shard in found]

    def with_ids(self, ids: Sequence[bytes]) -> list[list[tuple[int, int]]]:
        """Return partition and sequence number of the entries of each id."""
        found: list[list[tuple[int, int]]] = [[] for _ in ids]
        for shard in self._in_session():
            for known, sequences in zip(found, shard.with_ids(ids), strict=True):
                known += [(shard.partition, sequence) for sequence in sequences]
        return found

    def _in_session(self) -> Iterator[ShardCopy]:
        return (each for held in self._shards for each in held.values() if each.in_session)
