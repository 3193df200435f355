"""A process that writes to a store; tests start it by ``python -m … PATH MODE``.

``hold`` opens the store, reports it, and waits for the end of standard input. With ``limit`` no
file may grow over half a megabyte; with ``disk`` the disk becomes full. After the failure the
process checks the store, makes room, opens the store again, and prints the number of commits and
the error.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from streams.store.row_store import StoreFullError
from streams.store.shard_store import ShardStore
from tests.unit.store.samples import ENTRIES_PER_COMMIT, open_store, progress_of, write

# Enough to open a store again, which writes its log to new files.
BALLAST_BYTES: Final = 4 * 1024 * 1024
FILE_BYTES_MAX: Final = 512 * 1024


def hold(path: Path) -> None:
    with closing(open_store(path)):
        sys.stdout.write("open\n")
        sys.stdout.flush()
        sys.stdin.read()


@contextmanager
def ballast(path: Path) -> Iterator[None]:
    """Fill the disk of ``path`` until the end of the block."""
    file = path.with_name("ballast")
    file.write_bytes(b"\xff" * BALLAST_BYTES)
    yield
    file.unlink()


@contextmanager
def short_files() -> Iterator[None]:
    """Limit the size of this process's files until the end of the block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def check(store: ShardStore, commits: int) -> None:
    assert len(store) == commits * ENTRIES_PER_COMMIT
    assert store.progress() == progress_of(commits - 1)


def write_until_full(path: Path, what: str) -> None:
    commits, message = 0, ""
    with short_files() if what == "limit" else ballast(path), closing(open_store(path)) as store:
        while not message:
            try:
                write(store, commits)
                commits += 1
            except StoreFullError as error:
                message = str(error)
        check(store, commits)
    with closing(open_store(path, must_exist=True)) as store:
        check(store, commits)
    sys.stdout.write(f"{commits} {message}")


def main() -> None:
    path, what = Path(sys.argv[1]), sys.argv[2]
    if what == "hold":
        hold(path)
    else:
        write_until_full(path, what)


if __name__ == "__main__":
    main()
