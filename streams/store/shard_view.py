"""A view of a shard's store as it is on disk, whoever has it open.

RocksDB calls it a secondary instance: it takes no lock, writes nothing to the directory, and shows
what was written until it was opened. So commands can look at the store of a worker that runs.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from streams.store.rocksdb_options import (
    CACHE_BYTES_MIN,
    StoreSettings,
    block_cache,
    store_options,
    write_options,
)
from streams.store.rocksdb_store import RocksStore
from streams.store.shard_directory import holds_a_store
from streams.store.shard_store import ShardStore
from streams.store.state_codec import (
    FORMAT_VERSION,
    IDENTITY_KEY,
    StateDecodeError,
    StoreIdentity,
    decode_identity,
    format_version,
)
from streams.store.store_errors import StoreCorruptError, StoreMissingError, StoreVersionError

_BITS: Final = re.compile(r"\bbits=(\d+)")
_CACHE_BYTES: Final = 8 * CACHE_BYTES_MIN
_TRIES: Final = 3


class ShardView(NamedTuple):
    """A store to look at: whose it is, its entries, and its bare rows."""

    owner: StoreIdentity
    store: ShardStore
    rows: RocksStore


@contextmanager
def shard_view(path: Path) -> Iterator[ShardView]:
    """Open the store in the directory ``path`` to look at it; it is closed at the end of the block.

    Raises ``StoreMissingError`` where there is none, and what else its tree of errors has: among
    them ``StoreCorruptError`` for one that was marked as damaged.
    """
    if not holds_a_store(path):
        raise StoreMissingError(path, "there is no store here")
    with tempfile.TemporaryDirectory(prefix="firstseen-view-") as directory:
        rows = _opened(path, Path(directory))
        with closing(rows):
            owner = _owner(rows)
            bits = _BITS.search(owner.index_identity)
            if bits is None:
                raise StoreCorruptError(path, f"its identity has no width: {owner.index_identity}")
            yield ShardView(owner, ShardStore(rows, int(bits[1])), rows)


def _opened(path: Path, directory: Path) -> RocksStore:
    """Open the view; again where the owner took a file away while that was under way."""
    settings = StoreSettings()
    options = store_options(settings, block_cache(_CACHE_BYTES), create=False)
    for last in (False,) * (_TRIES - 1) + (True,):
        try:
            return RocksStore(path, options, write_options(settings), directory)
        except StoreCorruptError as error:
            if last or "No such file" not in str(error):
                raise
    raise AssertionError


def _owner(rows: RocksStore) -> StoreIdentity:
    value = rows.get(IDENTITY_KEY)
    if value is None:
        raise StoreCorruptError(rows.path, "it does not name its index")
    try:
        version = format_version(value)
        if version != FORMAT_VERSION:
            raise StoreVersionError(
                rows.path, f"it has format {version}, this version reads {FORMAT_VERSION}"
            )
        return decode_identity(value)
    except StateDecodeError as error:
        raise StoreCorruptError(rows.path, str(error)) from error
