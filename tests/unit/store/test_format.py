"""docs/formats.md, "State on disk": its bytes are those that a store writes, and that it reads."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np

from streams.store import row_codec as codec
from streams.store.rocksdb_store import MIB, block_cache
from streams.store.shard_directory import open_shard_store
from streams.store.shard_store import ShardStore
from tests.unit.formats.internal_samples import (
    DIGESTS,
    ENTRIES,
    OWNER,
    PAGE,
    STORED,
    columns,
    example,
)
from tests.unit.store.raw_store import read_raw, write_raw
from tests.unit.store.samples import expected

SECTION: Final = PAGE.partition("\n## State on disk\n")[2].partition("\n## ")[0]


def documented() -> dict[bytes, bytes]:
    """The keys and values of the page."""
    pairs = [line.partition("=") for line in example("state on disk")]
    return {bytes.fromhex(key): bytes.fromhex(value) for key, _, value in pairs}


def opened(path: Path) -> ShardStore:
    """The store at ``path``."""
    return open_shard_store(path, OWNER, 64, block_cache(MIB))


def test_store_writes_the_bytes_of_the_page(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "s")) as store:
        store.commit([ENTRIES], STORED)
    written = read_raw(tmp_path / "s")
    assert {k.hex(): v.hex() for k, v in written.items()} == {
        k.hex(): v.hex() for k, v in documented().items()
    }


def test_store_reads_the_bytes_of_the_page(tmp_path: Path) -> None:
    write_raw(tmp_path / "s", documented())
    with closing(opened(tmp_path / "s")) as store:
        assert dict(store.all_entries()) == expected([ENTRIES])
        assert len(store) == 2
        assert store.progress() == STORED
        assert store.by_content(DIGESTS[1]) == [17 << 16 | 1]
        ((sequences, prints),) = store.prints()
        assert sequences.tolist() == [17 << 16]
        assert np.array_equal(prints.fingerprints, columns().fingerprints[:1])


def test_the_table_of_keys_is_complete() -> None:
    rows = re.findall(r"^\| `(.)` \|", SECTION, re.MULTILINE)
    tags = {
        value.decode()
        for name, value in vars(codec).items()
        if name.endswith(("_TAG", "_KEY")) and isinstance(value, bytes)
    }
    assert sorted(rows) == sorted(tags)
    assert f"format version {codec.FORMAT_VERSION}" in SECTION
