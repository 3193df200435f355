"""A process that writes to a store until it is killed: ``python -m … PATH write|load|hold``.

``write`` prints the number of each commit after it returned. A commit is what one batch of a shard
is: entries, a pending entry that moves on, a parked visit, and progress that counts the commits.
``load`` writes the same as records of a changelog, as recovery does, into an index of buckets whose
segments are so small that files of them are written, merged and deleted all the time.
``hold`` opens the store, says so, and waits for its standard input to end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from simhash_core import bucket_index
from simhash_core.documents import SourcePosition
from simhash_core.entries import Change, Progress, PutEntry, PutParked, PutPending
from streams import segment_list
from streams.changelog_codec import encode_change
from streams.rocksdb_options import MIB, StoreSettings
from streams.rocksdb_table import RocksBlockTable
from tests.block_table.samples import ALL_BUCKETS, entry_of, fingerprint_of, open_store, parked

ENTRIES_PER_COMMIT: Final = 40
SETTINGS: Final = StoreSettings(write_buffer_bytes=MIB)  # so that files are written often


def source_of(commit: int) -> SourcePosition:
    """The document that is pending, and behind which one waits, after this commit."""
    return SourcePosition("raw-documents", 1, commit)


def entries_of(commit: int) -> list[PutEntry]:
    """The entries of one commit."""
    first = commit * ENTRIES_PER_COMMIT
    return [
        PutEntry(order, entry_of(order, fingerprint_of(order % 16, order // 16 % 16, commit % 16)))
        for order in range(first, first + ENTRIES_PER_COMMIT)
    ]


def changes_of(commit: int) -> list[Change]:
    """All changes of one commit, numbered from 0."""
    before = max(commit - 1, 0)
    return [
        *entries_of(commit),
        PutPending(source_of(before), None),
        PutPending(source_of(commit), entry_of(commit, fingerprint_of(1))),
        PutParked(before, source_of(before), None),
        parked(commit, source_of(commit), bytes(2000)),
        Progress(offset=commit + 1, next_order=(commit + 1) * ENTRIES_PER_COMMIT),
    ]


def with_small_segments(set_attribute: Callable[[object, str, object], None]) -> None:
    """Have a segment made of each commit, and a file of each segment, until they are merged."""
    set_attribute(bucket_index, "TAIL_DOCUMENTS", ENTRIES_PER_COMMIT)
    set_attribute(segment_list, "LEAST_DOCUMENTS", ENTRIES_PER_COMMIT)


def load(table: RocksBlockTable, commit: int) -> None:
    """Load a commit as recovery does; a look-up before it has the index take up the one before."""
    table.candidates(ALL_BUCKETS[:1])
    *changes, progress = changes_of(commit)
    assert isinstance(progress, Progress)
    records = [encode_change(change) for change in changes]
    table.load([key for key, _ in records], [value for _, value in records], progress)


def main() -> None:
    """Do what the command line says, for ever."""
    path, what = Path(sys.argv[1]), sys.argv[2]
    table = open_store(path, settings=SETTINGS)
    if what == "hold":
        _say("open")
        sys.stdin.read()
        return
    commit = table.in_flight().progress.offset
    if what == "load":
        with_small_segments(setattr)
    while True:
        if what == "load":
            load(table, commit)
        else:
            for change in entries_of(commit):
                table.stage(change)
            table.commit(changes_of(commit))
        _say(str(commit))
        commit += 1


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
