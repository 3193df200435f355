"""The index of a command that needs no broker: one shard, in memory or on disk."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import Final

from simhash_core.block_table import BlockTable
from simhash_core.memory_table import MemoryBlockTable
from simhash_core.placement import Placement
from simhash_core.shard import owned_buckets
from streams.rocksdb_options import block_cache
from streams.settings import Settings
from streams.shard_directory import open_block_table
from streams.state_codec import StoreIdentity

LOCAL_APPLICATION: Final = "local"
"""The application that a state without a broker belongs to, so that no worker takes it for its own.

It does not depend on the settings: a state is known by its directory alone.
"""
_PARTITION: Final = 0


def open_local_index(
    settings: Settings, identity: str, placement: Placement, state: Path | None
) -> AbstractContextManager[BlockTable]:
    """Open the index in the directory ``state``, made where there is none, or one in memory.

    It is closed at the end of the block. Raises ``IndexMismatchError`` for a state of another
    index, and ``StoreError`` for one that is in use, damaged, or not to be reached.
    """
    if state is None:
        return closing(MemoryBlockTable(partial(owned_buckets, placement, _PARTITION)))
    owner = StoreIdentity(
        index_identity=identity,
        application_id=LOCAL_APPLICATION,
        partition=_PARTITION,
        partitions=placement.partitions,
    )
    return closing(
        open_block_table(state, owner, placement, block_cache(settings.block_cache_bytes))
    )
