"""A process that commits until there is no room: ``python -m … PATH limit|disk``.

With ``limit`` no file may grow beyond half a megabyte, with ``disk`` the disk is full in the end.
The process then checks what the failure left, makes room, opens the store again, and prints the
number of commits and the error.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streams.store.row_store import StoreFullError
from streams.store.shard_store import ShardStore
from tests.unit.store.crashing_writer import ENTRIES_PER_COMMIT, SETTINGS, progress_of, write
from tests.unit.store.samples import open_store

# Enough for a store that is opened again: it writes its log out into new files.
BALLAST_BYTES: Final = 4 * 1024 * 1024
FILE_BYTES_MAX: Final = 512 * 1024


@contextmanager
def ballast(path: Path) -> Iterator[None]:
    file = path.with_name("ballast")
    file.write_bytes(b"\xff" * BALLAST_BYTES)
    yield
    file.unlink()


@contextmanager
def short_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(store: ShardStore) -> tuple[int, StoreFullError]:
    commits = 0
    while True:
        try:
            write(store, commits)
        except StoreFullError as error:
            return commits, error
        commits += 1


def main() -> None:
    path = Path(sys.argv[1])
    with short_files() if sys.argv[2] == "limit" else ballast(path):
        store = open_store(path, settings=SETTINGS)
        commits, error = fill(store)
        assert store.progress() == progress_of(commits - 1)
        assert len(store) == commits * ENTRIES_PER_COMMIT
        store.close()
    store = open_store(path, settings=SETTINGS, must_exist=True)
    assert len(store) == commits * ENTRIES_PER_COMMIT
    assert store.progress() == progress_of(commits - 1)
    store.close()
    sys.stdout.write(f"{commits} {error}")


if __name__ == "__main__":
    main()
