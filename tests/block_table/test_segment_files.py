"""Files of buckets: their bytes are those of the page, and none counts but the one listed."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from simhash_core.blocks import BlockScheme
from simhash_core.bucket_segment import BucketSegment, build_segment
from simhash_core.entries import Entry, Progress, PutEntry
from simhash_core.placement import Placement
from streams.segment_files import SegmentFileError, read_segment, segment_name, write_segment
from streams.segment_list import LEAST_DOCUMENTS, SEGMENT_DIRECTORY
from streams.state_codec import encode_entry, entry_key
from tests.architecture.source_tree import ROOT
from tests.block_table.samples import SCHEME, all_met, entry_of, fingerprint_of, open_store, put

PAGE: Final = (ROOT / "docs" / "formats.md").read_text("utf-8")
PRINTS: Final = ("0123456789abcdef", "0123456789ab0000", "fedcba9876543210")
LARGE: Final = LEAST_DOCUMENTS + 100


def example() -> BucketSegment:
    """The segment of the page."""
    words = np.frombuffer(bytes.fromhex("".join(PRINTS)), dtype=np.uint64).reshape(3, 1)
    orders = np.array([0, 2, 5], dtype=np.uint64)
    return build_segment(Placement(BlockScheme(64, 2, 1, 4), 1), 0, orders, words)


def entries(first: int, count: int) -> list[PutEntry]:
    """Entries that fill all buckets alike."""
    return [
        PutEntry(order, entry_of(order, fingerprint_of(order % 16, order // 16 % 16, 1, 2)))
        for order in range(first, first + count)
    ]


def bucket_files(path: Path) -> list[Path]:
    """The files of segments of a store."""
    return sorted((path / SEGMENT_DIRECTORY).iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store with so many entries that most are in a file of buckets."""
    path = tmp_path / "shard-0"
    with closing(open_store(path)) as table:
        changes = entries(0, LARGE)
        keys = [entry_key(each.order) for each in changes]
        table.load(keys, [encode_entry(each.entry) for each in changes], Progress(1))
        assert len(table.candidates(SCHEME.buckets(fingerprint_of(1))).orders)
        table.commit([put(LARGE, 15, 15, 15, 15)])
    return path


def test_the_example_is_what_is_written_and_read(tmp_path: Path) -> None:
    """Given the segment of the page, then its file has the bytes of the page, and reads back."""
    block = re.search(r"<!-- example: file of buckets -->\n```text\n(.+?)```", PAGE, re.DOTALL)
    assert block
    documented = "".join(re.sub(r"^#.*\n", "", block[1], flags=re.MULTILINE).split())

    record = write_segment(tmp_path, example(), sync=True)

    assert (tmp_path / segment_name(0, record)).read_bytes().hex() == documented
    assert (record.documents, record.last) == (3, 5)
    for written, read in zip(
        columns(example()), columns(read_segment(tmp_path, 0, record)), strict=True
    ):
        assert written.dtype == read.dtype
        assert written.tolist() == read.tolist()


def columns(segment: BucketSegment) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """All columns of a segment."""
    return [
        segment.orders,
        segment.fingerprints,
        segment.rows,
        segment.directory,
        segment.keys,
    ]


def test_a_file_that_changed_is_not_read(tmp_path: Path) -> None:
    """Given a file in which any one byte is another, or the last is gone, then it is refused."""
    record = write_segment(tmp_path, example(), sync=False)
    file = tmp_path / segment_name(0, record)
    whole = file.read_bytes()
    for at in range(0, len(whole), 7):
        file.write_bytes(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :])
        with pytest.raises(SegmentFileError, match="digest"):
            read_segment(tmp_path, 0, record)
    file.write_bytes(whole[:-1])
    with pytest.raises(SegmentFileError, match="digest"):
        read_segment(tmp_path, 0, record)
    file.unlink()
    with pytest.raises(SegmentFileError, match="No such file"):
        read_segment(tmp_path, 0, record)


def test_a_large_index_is_in_a_file_and_reopened_from_it(path: Path) -> None:
    """Given a store with many entries, when it is reopened, then its file of buckets is taken up
    as it is, and every entry is met, those behind the file as well.
    """
    (before,) = bucket_files(path)
    written = before.stat().st_mtime_ns
    with closing(open_store(path)) as table:
        found = table.candidates(SCHEME.buckets(fingerprint_of(15, 15, 15, 15))).orders
        assert int(found.max()) == LARGE
        assert sum(len(rows) for rows in all_met(table).values()) == 4 * (LARGE + 1)
    assert [(each, each.stat().st_mtime_ns) for each in bucket_files(path)] == [(before, written)]


def _remove(file: Path) -> None:
    file.unlink()


def _damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


def _half_written(file: Path) -> None:
    file.rename(file.with_suffix(".unfinished"))


@pytest.mark.parametrize("happens", [_remove, _damage, _half_written])
def test_an_index_that_is_lost_is_made_again(path: Path, happens: Callable[[Path], None]) -> None:
    """Given a file of buckets that is gone, damaged or half written, when the store is opened,
    then look-ups meet what they met before, and a new file is there.
    """
    with closing(open_store(path)) as table:
        before = all_met(table)
    happens(bucket_files(path)[0])

    with closing(open_store(path)) as table:
        assert all_met(table) == before
        table.commit(entries(LARGE + 1, 1))
    assert [each.suffix for each in bucket_files(path)] == [".buckets"]


def test_a_file_that_is_not_listed_is_deleted(path: Path) -> None:
    """Given files that a crash left before the list named them, or after it did no more, when the
    store is opened, then they are gone, and what is not a file of buckets stays.
    """
    (listed,) = bucket_files(path)
    for name in ("0000000000000000-0000000000000000.buckets", "0000000000000007.unfinished"):
        (path / SEGMENT_DIRECTORY / name).write_bytes(listed.read_bytes())
    other = path / SEGMENT_DIRECTORY / "README"
    other.write_text("not ours")

    open_store(path).close()

    assert bucket_files(path) == [listed, other]


def test_a_store_copied_without_its_files(path: Path) -> None:
    """Given the database alone, as a backup may have it, then the index is made from it."""
    with closing(open_store(path)) as table:
        before = all_met(table)
    for file in bucket_files(path):
        file.unlink()
    (path / SEGMENT_DIRECTORY).rmdir()
    with closing(open_store(path)) as table:
        assert all_met(table) == before


def test_an_order_below_those_in_a_file(path: Path) -> None:
    """Given an entry whose order is lower than those of a listed file, as no shard makes it, then
    it is met all the same, also after reopening.
    """
    late = Entry(put(0, 1).entry.source, "late", 0, fingerprint_of(15, 14, 13, 12), b"\x07" * 16)
    with closing(open_store(path.with_name("other"))) as table:
        changes = entries(1, LARGE)
        keys = [entry_key(each.order) for each in changes]
        table.load(keys, [encode_entry(each.entry) for each in changes], Progress(1))
        table.candidates(SCHEME.buckets(fingerprint_of(1)))
        table.commit([])
        assert bucket_files(path.with_name("other"))
        table.commit([PutEntry(0, late)])
        before = all_met(table)
        assert (0, late.fingerprint) in before[SCHEME.buckets(late.fingerprint)[1]]
    with closing(open_store(path.with_name("other"))) as table:
        assert all_met(table) == before


def test_no_room_for_a_file(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Given that no file of buckets can be written, then the table works from memory, says so,
    and is whole when it is opened again.
    """
    blocked = path.with_name("blocked")
    with closing(open_store(blocked)) as table:
        (blocked / SEGMENT_DIRECTORY).write_text("a file in place of the directory")
        changes = entries(0, LARGE)
        keys = [entry_key(each.order) for each in changes]
        table.load(keys, [encode_entry(each.entry) for each in changes], Progress(1))
        met = all_met(table)
        table.commit([])
        assert "buckets stay in memory" in caplog.text
        assert all_met(table) == met
    (blocked / SEGMENT_DIRECTORY).unlink()
    with closing(open_store(blocked)) as table:
        assert all_met(table) == met


def test_a_bulk_behind_documents_that_came_one_by_one(tmp_path: Path) -> None:
    """Given a few entries that were staged, when many are loaded behind them, then all are in one
    file, since none that is listed may lie behind one that is not.
    """
    path = tmp_path / "shard-0"
    with closing(open_store(path)) as table:
        staged = entries(0, 10)
        for change in staged:
            table.stage(change)
        table.commit(staged)
        changes = entries(10, LARGE)
        keys = [entry_key(each.order) for each in changes]
        table.load(keys, [encode_entry(each.entry) for each in changes], Progress(1))
        before = all_met(table)
        table.commit([])
        assert len(bucket_files(path)) == 1
    with closing(open_store(path)) as table:
        assert all_met(table) == before
