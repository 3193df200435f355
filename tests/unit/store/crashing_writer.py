"""A process that writes to a store until it is killed: ``python -m … PATH write|load|hold``.

``write`` prints the number of each commit after it returned. A commit is what one batch of a shard
is: the entries of two packets, and progress that counts the commits. ``load`` writes the same as
recovery does. ``hold`` opens the store, says so, and waits for its standard input to end.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from simhash_core.log.shard_stream import NewEntries
from streams.store.rocksdb_store import MIB, StoreSettings
from streams.store.row_codec import ProgressRow, StoredProgress, entry_block
from streams.store.shard_store import ShardStore
from tests.unit.store.samples import new_entries, open_store, progress_at, sample

ENTRIES_PER_COMMIT: Final = 40
SETTINGS: Final = StoreSettings(write_buffer_bytes=MIB)  # so that files are written often
_SKETCH: Final = bytes(range(256))


def entries_of(commit: int) -> list[NewEntries]:
    first = commit * ENTRIES_PER_COMMIT
    samples = [
        sample(n, undecidable=n % 7 == 0, sketch=_SKETCH)
        for n in range(first, first + ENTRIES_PER_COMMIT)
    ]
    return [new_entries(2 * commit, samples[:15]), new_entries(2 * commit + 1, samples[15:])]


def progress_of(commit: int) -> StoredProgress:
    return progress_at((commit + 1) * ENTRIES_PER_COMMIT, commit + 1)


def commits_in(store: ShardStore) -> int:
    return store.changelog_offset


def write(store: ShardStore, commit: int) -> None:
    store.commit(entries_of(commit), progress_of(commit))


def load(store: ShardStore, commit: int) -> None:
    stored = progress_of(commit)
    row = ProgressRow(*(getattr(stored, name) for name in stored.__struct_fields__))
    store.load([entry_block(each) for each in entries_of(commit)], row)


def main() -> None:
    path, what = Path(sys.argv[1]), sys.argv[2]
    store = open_store(path, settings=SETTINGS)
    if what == "hold":
        _say("open")
        sys.stdin.read()
        return
    commit = commits_in(store)
    while True:
        (load if what == "load" else write)(store, commit)
        _say(str(commit))
        commit += 1


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
