"""What the consumer of raw records says to its owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from simhash_core.errors import ErrorReason, FirstseenError

if TYPE_CHECKING:
    from confluent_kafka import Message


class RawRecords(NamedTuple):
    """Consecutive records of one partition, offsets rising.

    ``start``: the number that ``RawConsumer.start`` returned. ``size``: bytes of their values.
    """

    partition: int
    start: int
    messages: list[Message]
    size: int

    def parts(self, records_limit: int, bytes_limit: int) -> list[RawRecords]:
        """Divide them into parts within the limits; a single record may exceed the bytes."""
        if len(self.messages) <= records_limit and self.size <= bytes_limit:
            return [self]
        parts: list[RawRecords] = []
        first = size = 0
        for index, message in enumerate(self.messages):
            length = len(message)
            full = size + length > bytes_limit or index - first == records_limit
            if index > first and full:
                parts.append(self._replace(messages=self.messages[first:index], size=size))
                first, size = index, 0
            size += length
        return [*parts, self._replace(messages=self.messages[first:], size=size)]


class RawEvents(Protocol):
    """The owner of a ``RawConsumer``; everything is called on the event loop."""

    async def records(self, batch: Sequence[RawRecords]) -> None:
        """Take the next batch. One at a time, in order: to wait here is the back-pressure.

        No partition in it has been revoked, lost or started again since it was read.
        """
        ...

    def assigned(self, partitions: frozenset[int]) -> None:
        """Note that partitions are owned now. None is read before ``RawConsumer.start``."""
        ...

    async def revoked(self, partitions: frozenset[int]) -> None:
        """Commit what is under way for partitions, and then return: they go to other members."""
        ...

    def lost(self, partitions: frozenset[int]) -> None:
        """Drop partitions at once: others may own them already, so nothing can be committed."""
        ...

    def generation_changed(self) -> None:
        """Note that the group has rebalanced; ``RawConsumer.metadata`` is that of the new one."""
        ...

    def failed(self, error: FirstseenError) -> None:
        """Note that the consumer has ended; called once."""
        ...


class TopicRecreatedError(FirstseenError):
    """A partition ends before the offset that was to be read."""

    reason = ErrorReason.BROKER

    def __init__(self, topic: str, partition: int, wanted: int, current: int) -> None:
        """``wanted``: the offset to read; ``current``: of the record that came instead."""
        super().__init__(
            f"{topic}/{partition} was to be read from offset {wanted}, but offset {current} came: "
            "the topic was deleted and created again, or an unclean leader election lost its "
            "last records"
        )
