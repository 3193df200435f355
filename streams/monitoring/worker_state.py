"""What a worker's pages, probes and watch may know of it, and ask of it.

The worker implements ``WorkerView``; everything beside the data path depends on nothing else of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from simhash_core.documents import Content
from simhash_core.errors import FirstseenError
from simhash_core.matches import Answer


class CheckUnavailableError(FirstseenError):
    """The worker cannot ask the index about a text now; the message says why and what to do."""


class ShardState(NamedTuple):
    """One shard of this worker.

    ``entries``: documents in its part of the index. ``waiting``: raw records read and not put out
    yet. ``next_offset``: the next raw offset to put out. ``log_position``: the lowest offset of the
    log that it needs after a restart. ``recovery_remaining``: changelog records still to be read;
    0 once it is open.
    """

    is_open: bool
    entries: int
    waiting: int
    next_offset: int
    log_position: int
    recovery_remaining: int


class WorkerView(Protocol):
    """A worker as seen from beside it. All but ``ask`` may be called from any thread."""

    @property
    def ready(self) -> bool:
        """Whether all assigned shards are open, the log is read, and raw records can be read."""
        ...

    @property
    def failure(self) -> FirstseenError | None:
        """What the worker failed of; None while it works."""
        ...

    @property
    def leads(self) -> bool:
        """Whether this worker is the leader."""
        ...

    @property
    def leader(self) -> str | None:
        """The name of the worker that leads; None where no leader is known."""
        ...

    @property
    def log_position(self) -> int | None:
        """The offset of the log that is read next; None before reading begins."""
        ...

    def why_not_ready(self) -> str | None:
        """Return what ``ready`` waits for; None where the worker is ready."""
        ...

    def shards(self) -> Mapping[int, ShardState]:
        """Return the state of each assigned shard, by raw partition."""
        ...

    async def ask(self, content: Content, limit: int, scope: str = "") -> Answer:
        """Return what the whole index says of a document; on the worker's event loop.

        ``limit``: of neighbours in the answer. Raises ``CheckUnavailableError`` where the
        worker is not ready, and where no leader has answered in time.
        """
        ...
