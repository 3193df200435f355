"""docs/formats.md, "State on disk": its bytes are those that a table writes, and that it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from rocksdict import WriteBatch

from simhash_core.blocks import BlockScheme
from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.entries import Change, Entry, InFlight, Progress, PutEntry, PutParked, PutPending
from simhash_core.placement import Placement
from simhash_core.probes import Probe, Visit
from streams import state_codec as codec
from streams.rocksdb_options import MIB, StoreSettings, block_cache, store_options, write_options
from streams.rocksdb_store import RocksStore
from streams.rocksdb_table import RocksBlockTable
from streams.state_codec import StoreIdentity
from tests.architecture.source_tree import ROOT
from tests.block_table.samples import open_store

PAGE: Final = (ROOT / "docs" / "formats.md").read_text("utf-8")
SECTION: Final = PAGE.partition("\n## State on disk\n")[2].partition("\n## ")[0]

PLACEMENT: Final = Placement(BlockScheme(64, 4, 3, 16), 1)
IDENTITY: Final = StoreIdentity("the index identity", "news", 0, 1)
DIGEST: Final = bytes(range(16))


def source(offset: int) -> SourcePosition:
    """A raw record of the example."""
    return SourcePosition("raw", 2, offset)


def changes() -> list[Change]:
    """What the example commits: two entries, a pending one, a document behind it, and progress."""
    near = Entry(source(7), "a", 1_714_536_000_000, bytes.fromhex("0123456789abcdef"), DIGEST)
    short = Entry(source(8), "b", 1_714_536_000_000, b"", b"\xff" * 16)
    pending = Entry(source(9), "c", 1_714_536_000_000, b"\x80" * 8, DIGEST)
    record = RawRecord(None, b"{}", 1_714_536_000_000, (("trace", b"7f"),))
    probe = Probe(source(10), "d", 1_714_536_000_000, b"\x81" * 8, DIGEST, None, record)
    return [
        PutEntry(0, near),
        PutEntry(1, short),
        PutPending(source(9), pending),
        PutParked(0, source(9), Visit(probe, ())),
        Progress(42, {"raw/raw/2": 10}, {}, 2, 1, 57),
    ]


@contextmanager
def raw_store(path: Path) -> Iterator[RocksStore]:
    """The database at ``path``, behind the table's back."""
    path.mkdir(parents=True, exist_ok=True)
    options = store_options(StoreSettings(), block_cache(MIB), create=True)
    with closing(RocksStore(path, options, write_options(StoreSettings()))) as store:
        yield store


def documented() -> dict[bytes, bytes]:
    """The keys and values of the page: ``key = value``, in lines that indented ones continue."""
    block = re.search(r"<!-- example: state on disk -->\n```text\n(.+?)```", SECTION, re.DOTALL)
    assert block
    text = re.sub(r"^#.*\n", "", block[1], flags=re.MULTILINE)
    pairs = re.sub(r"\n +", " ", text).splitlines()
    split = [pair.partition("=") for pair in pairs if pair]
    return {bytes.fromhex(key): bytes.fromhex(value) for key, _, value in split}


def opened(path: Path) -> RocksBlockTable:
    """The table at ``path``."""
    return open_store(path, identity=IDENTITY, placement=PLACEMENT)


def test_the_example_is_what_is_written(tmp_path: Path) -> None:
    """Given a table to which the example is committed, then the database holds the bytes of the
    page, each key and value of them and no other.
    """
    with closing(opened(tmp_path / "s")) as table:
        table.commit(changes())

    with raw_store(tmp_path / "s") as store:
        end = codec.after(codec.ENTRY_TAG)
        ranges = [(b"\x00", codec.ENTRY_TAG), (codec.ENTRY_TAG, end), (end, b"\xff")]
        found = [store.rows_between(*each) for each in ranges]
    written = {key: value for rows in found for key, value in zip(*rows, strict=True)}
    assert {k.hex(): v.hex() for k, v in written.items()} == {
        k.hex(): v.hex() for k, v in documented().items()
    }


def test_the_example_is_read(tmp_path: Path) -> None:
    """Given a database that holds the bytes of the page, as one of today will in ten years, then
    the table reads what the page says that they mean.
    """
    with raw_store(tmp_path / "s") as store:
        batch = WriteBatch(raw_mode=True)
        for key, value in documented().items():
            store.put(batch, key, value)
        store.write(batch)

    expected = [change.entry for change in changes() if isinstance(change, PutEntry)]
    with closing(opened(tmp_path / "s")) as table:
        assert [table.entry(order) for order in range(len(table))] == expected
        assert table.candidates(PLACEMENT.scheme.buckets(expected[0].fingerprint)).orders.tolist()
        state = table.in_flight()
    _, _, pending, parked, progress = changes()
    assert isinstance(pending, PutPending)
    assert isinstance(parked, PutParked)
    assert isinstance(progress, Progress)
    assert pending.entry is not None
    assert state == InFlight(progress, {pending.source: pending.entry}, {0: parked})


def test_the_table_of_keys_is_complete() -> None:
    """Given the tags of the code, then the page has a row for each, and no other."""
    rows = re.findall(r"^\| `(.)` \|", SECTION, re.MULTILINE)
    tags = {
        value.decode()
        for name, value in vars(codec).items()
        if name.endswith(("_TAG", "_KEY")) and isinstance(value, bytes)
    }

    assert sorted(rows) == sorted(tags)
    assert f"format version {codec.FORMAT_VERSION}" in SECTION
