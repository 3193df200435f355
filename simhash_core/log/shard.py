"""A shard on the worker that owns it: its stream, and its entries in the worker's index."""

from __future__ import annotations

from typing import Generic

from simhash_core.log.outputs import Ready, Record
from simhash_core.log.packets import Packet
from simhash_core.log.records import Progress
from simhash_core.log.replica import Decided
from simhash_core.log.shard_copy import ShardCopy
from simhash_core.log.shard_stream import ShardStream


class Shard(Generic[Record]):
    """A shard that this worker owns.

    Until the session begins that reads the log from its position, it takes in nothing. ``copy`` may
    take part before, where this worker had the shard as a standby.
    """

    def __init__(self, stream: ShardStream[Record], copy: ShardCopy) -> None:
        """``copy``: the entries."""
        self.stream = stream
        self.copy = copy
        self.in_session = False

    @property
    def partition(self) -> int:
        """The raw partition."""
        return self.stream.chain.partition

    @property
    def slot(self) -> int:
        """The slot of its entries in the index."""
        return self.copy.slot

    def begin(self, log_end: int) -> None:
        """Take part from now on; ``log_end``: of the log."""
        self.stream.restart()
        self.in_session = True
        self.copy.begin(log_end)

    def decided(self, decided: Decided) -> None:
        """Take in what the log says of a packet of this raw partition."""
        assert isinstance(decided.item, Packet)
        if self.copy.in_session:
            self.copy.apply(decided)
        if self.in_session and decided.item.chain == self.stream.chain:
            self.stream.decided(decided)

    def remove(self, sequences: list[int]) -> None:
        """Take entries out."""
        if self.copy.in_session:
            self.copy.remove(sequences, may_come=self.in_session)
        if self.in_session:
            self.stream.remove(sequences)

    def put_out(self, ready: Ready[Record], progress: Progress) -> None:
        """Note that what was ready is committed, and everything before ``progress`` with it."""
        self.copy.committed(progress, ready.removed)
        self.stream.advance(progress, ready.removed)
