"""Checks the segment files of a shard: each column against the checksum in the file's head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from streams.care.findings import Finding
from streams.store.segment_file import (
    SegmentDamagedError,
    SegmentOwner,
    check_columns,
    read_head,
)
from streams.store.shard_segments import segment_paths

Report = Callable[[str, int, int], None]

_MADE_AGAIN: Final = (
    "Stop the worker and start it again: it makes the file again from the rows of the store"
)


def check_segments(store: Path, owner: SegmentOwner, report: Report) -> Iterator[Finding]:
    """Yield what is wrong with the segment files beside a store, in the directory ``store``.

    Safe beside a worker, which may delete a file while it is looked at. Blocking.
    """
    paths = segment_paths(store)
    for number, path in enumerate(paths):
        report(f"shard {owner.partition}: segment files", number, len(paths))
        try:
            head = read_head(path)
            check_columns(path, head)
        except FileNotFoundError:
            continue  # its worker has merged it with others
        except (SegmentDamagedError, OSError) as error:
            yield Finding("disk", owner.partition, str(error), _MADE_AGAIN)
            continue
        if head.owner != owner:
            what = f"{path}: it is of another shard or another index"
            yield Finding("disk", owner.partition, what, _MADE_AGAIN)
