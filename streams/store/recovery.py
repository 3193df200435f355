"""Recovery: a shard's store is brought up to the end of its changelog.

The store is a view of the changelog. It is never ahead of it, only behind, because it is written
after the commit; so the tail, from the offset that the store holds, is all that is missing. An
empty store is the same case with the whole changelog for a tail. A store that was away for longer
than the changelog keeps tombstones may have entries that were deleted since: it begins empty
(``streams.store.shard_stores``).
"""

from __future__ import annotations

from typing import NamedTuple

from simhash_core.errors import IndexMismatchError
from streams.store.changelog_codec import LoggedProgress
from streams.store.changelog_reader import Changelog, LoggedBatch, Report
from streams.store.entry_removal import Removal
from streams.store.shard_store import ShardStore
from streams.store.state_codec import ProgressRow


class Recovery(NamedTuple):
    """Changelog records that a shard has yet to read, of how many."""

    remaining: int
    total: int


def catch_up(
    store: ShardStore, log: Changelog, identity: str, committed_next: int, report: Report
) -> int:
    """Take the tail of a changelog into the shard's store; return the number of records read.

    ``committed_next``: the next raw offset that the group has committed (stable: no transaction on
    it is open), 0 for none; the store's progress will be as far at least. ``identity``: the
    index's. Blocking. Raises what ``Changelog.read`` raises, ``ChangelogFormatError`` for a record
    that cannot be read, and ``IndexMismatchError`` for a changelog of another index.
    """

    def is_enough() -> bool:
        stored = store.progress()
        return (0 if stored is None else stored.progress.next) >= committed_next

    read = 0
    for batch in log.read(store.changelog_offset, report, is_enough):
        load_batch(store, batch, identity)
        read += len(batch.keys)
    return read


def load_batch(store: ShardStore, batch: LoggedBatch, identity: str) -> Removal:
    """Take records of the changelog into the store; return what they remove.

    Raises ``ChangelogFormatError`` and ``IndexMismatchError`` as ``catch_up`` does.
    """
    decoded = batch.decoded()
    logged = decoded.progress
    removal = Removal(decoded.deletions, decoded.ends)
    if logged is None:
        stored = store.progress()
        if stored is not None:
            logged = LoggedProgress(stored.progress, stored.identity, stored.reading)
    if logged is None:
        row = ProgressRow(None, batch.next_offset, batch.time_ms)
        store.load(decoded.blocks, row, removal)
        return removal
    if logged.identity != identity:
        raise IndexMismatchError(f"the changelog {batch.log}", logged.identity, identity)
    row = ProgressRow(
        logged.progress,
        batch.next_offset,
        batch.time_ms,
        logged.identity,
        logged.reading,
        expired_before=logged.expired_before,
    )
    store.load(decoded.blocks, row, removal)
    return removal
