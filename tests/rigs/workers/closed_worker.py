"""A worker whose shards are never open: it stays at opening them, while its heartbeats go on.

So does one that reads a large changelog. ``python -m tests.rigs.workers.closed_worker [OPTION…]``
takes the options of ``firstseen worker``; it ends when its standard input does.
"""

from __future__ import annotations

import sys
import threading

from streams.cli.main import main
from streams.cli.worker_launcher import end_when_orphaned
from streams.store.recovery import ShardStores
from streams.store.shard_store import ShardStore

LONG_SECONDS = 600.0


def _never(
    self: ShardStores, partition: int, committed_next: int, interrupted: threading.Event
) -> ShardStore:
    del self, committed_next
    interrupted.wait(LONG_SECONDS)
    raise InterruptedError(f"shard {partition} is not opened")


if __name__ == "__main__":
    ShardStores.open = _never  # type: ignore[method-assign]
    threading.Thread(target=end_when_orphaned, daemon=True).start()
    sys.exit(main(["worker", *sys.argv[1:]]))
