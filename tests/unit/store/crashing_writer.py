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
from tests.unit.store.samples import check_holds, open_store, write

# Enough to open a store again, which writes its log to new files.
BALLAST_BYTES: Final = 4 * 1024 * 1024
FILE_BYTES_MAX: Final = 512 * 1024


def hold(path: Path) -> None:
    with closing(open_store(path)):
        sys.stdout.write("open\n")
        sys.stdout.flush()
        sys.stdin.read()


@contextmanager
def little_room(path: Path, mode: str) -> Iterator[None]:
    """Fill the disk of ``path``, or limit this process's files, until the end of the block."""
    ballast = path.with_name("ballast")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if mode == "disk":
        ballast.write_bytes(b"\xff" * BALLAST_BYTES)
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, limits[1]))
    yield
    ballast.unlink(missing_ok=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def write_until_full(path: Path, mode: str) -> None:
    commits, message = 0, ""
    with little_room(path, mode), closing(open_store(path)) as store:
        while not message:
            try:
                write(store, commits)
                commits += 1
            except StoreFullError as error:
                message = str(error)
        check_holds(store, commits)
    with closing(open_store(path, must_exist=True)) as store:
        check_holds(store, commits)
    sys.stdout.write(f"{commits} {message}")


if __name__ == "__main__":
    directory, how = Path(sys.argv[1]), sys.argv[2]
    if how == "hold":
        hold(directory)
    else:
        write_until_full(directory, how)
