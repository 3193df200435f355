"""What one commit changes in a shard: the same for its store and for its changelog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streams.store.changelog_codec import (
    ChangelogRecord,
    encode_block,
    encode_deletions,
    encode_end,
)
from streams.store.entry_block import EntryBlock
from streams.store.entry_removal import Expiry, Removal


class StoreChange(NamedTuple):
    """What one commit changes beside the progress; ``records_of`` is the same for the changelog.

    ``expiry``: None where nothing expires. ``expired_before``: as of the store, afterwards.
    ``removed``: how many entries are deleted.
    """

    blocks: Sequence[EntryBlock]
    removal: Removal = Removal((), ())
    expiry: Expiry | None = None
    expired_before: int = 0
    removed: int = 0

    @property
    def expired(self) -> int:
        """How many entries expire."""
        return 0 if self.expiry is None else len(self.expiry.rows[0])


def kept_of(block: EntryBlock, removal: Removal, expired_before: int) -> EntryBlock:
    """Return those entries of a block that do not leave in the same change."""
    removed = [sequence for each in removal.deletions for sequence in each.sequences]
    expired = block.sequences < np.uint64(expired_before)
    if removed:
        expired |= np.isin(block.sequences, np.array(removed, dtype=np.uint64))
    return block.take(np.flatnonzero(~expired)) if expired.any() else block


def records_of(change: StoreChange) -> list[ChangelogRecord]:
    """Return the records of the changelog that say the same as a change."""
    records = [encode_block(block) for block in change.blocks if len(block)]
    records += map(encode_deletions, change.removal.deletions)
    ends = [*change.removal.ends, *(() if change.expiry is None else change.expiry.ends)]
    for end in ends:
        records += encode_end(end.first)
    return records
