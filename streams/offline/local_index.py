"""The index of a command that needs no broker: one shard, in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from simhash_core.index.prints import Prints
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.outputs import NewEntries
from simhash_core.log.shard_copy import EntryStore
from streams.settings.settings import Settings
from streams.store.rocksdb_options import block_cache
from streams.store.shard_directory import open_shard_store
from streams.store.state_codec import StoredProgress, StoreIdentity

LOCAL_APPLICATION: Final = "local"
"""The application that a state without a broker belongs to, so that no worker takes it for its own.

It does not depend on the settings: a state is known by its directory alone.
"""
_PARTITION: Final = 0


class LocalStore(EntryStore, Protocol):
    """The entries and progress of the only shard; ``streams.store.shard_store`` is one on disk."""

    def __len__(self) -> int:
        """Return the number of entries."""
        ...

    def prints(self, bands: int = 0) -> Iterator[tuple[NDArray[np.uint64], Prints]]:
        """Yield sequence numbers (n,) and prints of decidable entries; ``bands``: of a sketch."""
        ...

    def progress(self) -> StoredProgress | None:
        """Return the progress that was committed last; None: there is none yet."""
        ...

    def commit(
        self,
        entries: Sequence[NewEntries],
        progress: StoredProgress,
        removed: Sequence[int] = (),
        expired_before: int = 0,
    ) -> None:
        """Take in entries and progress, all or nothing, and let go of others.

        ``removed``: sequence numbers. ``expired_before``: all below this one has expired.
        """
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class MemoryStore(MemoryEntries):
    """A store that lasts as long as the process."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self._progress: StoredProgress | None = None

    def prints(self, bands: int = 0) -> Iterator[tuple[NDArray[np.uint64], Prints]]:
        """Yield nothing: a store that was just made has no entries."""
        del bands
        return iter(())

    def progress(self) -> StoredProgress | None:
        """Return the progress that was committed last."""
        return self._progress

    def commit(
        self,
        entries: Sequence[NewEntries],
        progress: StoredProgress,
        removed: Sequence[int] = (),
        expired_before: int = 0,
    ) -> None:
        """Take in entries and progress, and let go of what is removed and has expired."""
        for new in entries:
            self.add(new)
        self.remove(removed)
        self.drop_before(expired_before)
        self._progress = progress

    def close(self) -> None:
        """Do nothing."""


def open_local_index(
    settings: Settings, identity: str, bits: int, state: Path | None
) -> AbstractContextManager[LocalStore]:
    """Open the index in the directory ``state``, made where there is none, or one in memory.

    ``bits``: of a fingerprint. It is closed at the end of the block. Raises ``IndexMismatchError``
    for a state of another index, and ``StoreError`` for one that is in use, damaged, of another
    format, or not to be reached.
    """
    if state is None:
        return closing(MemoryStore())
    owner = StoreIdentity(identity, LOCAL_APPLICATION, _PARTITION)
    return closing(open_shard_store(state, owner, bits, block_cache(settings.block_cache_bytes)))
