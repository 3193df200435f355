"""Which worker made which commits of a shard, to detect that brokers have lost some of them.

A broker that loses power may lose acknowledged records that it had not written to disk. The store
of a worker may have read these records. Then the store is ahead of the changelog, or other records
have taken their offsets. So each progress record counts the commits of its shard, and names the
workers that made the latest commits. A store is rebuilt if its last commit is not in the changelog.
"""

from __future__ import annotations

from typing import Final

import msgspec
import xxhash

WRITERS_MAX: Final = 16  # a store that more than this many owners have followed is rebuilt


class Lineage(msgspec.Struct, frozen=True, array_like=True):
    """``commit`` is the number of the last commit; 0: unknown, from a release that did not count.

    ``writers`` has the first commit and the number of each writer, the oldest writer first.
    """

    commit: int = 0
    writers: tuple[tuple[int, int], ...] = ()

    def next(self, writer: str) -> Lineage:
        """Return the lineage of the next commit, made by a writer of this name."""
        commit, number = self.commit + 1, xxhash.xxh32_intdigest(writer.encode())
        if self.writers and self.writers[-1][1] == number:
            return Lineage(commit, self.writers)
        return Lineage(commit, (*self.writers, (commit, number))[-WRITERS_MAX:])

    def is_of(self, writer: str) -> bool:
        """Return whether a writer of this name made the last commit."""
        return self.writers[-1:] == self.next(writer).writers[-1:]

    def continues(self, earlier: Lineage) -> bool:
        """Return whether the last commit of ``earlier`` is among these; true if one is unknown."""
        if not self.commit or not earlier.commit:
            return True
        writers = [number for first, number in self.writers if first <= earlier.commit]
        return earlier.commit <= self.commit and writers[-1:] == [earlier.writers[-1][1]]


UNKNOWN: Final = Lineage()
