"""Offsets of the log that a command reserves: control records that decide nothing, and fillers.

They are appended outside of the command's transaction: a reader of the log knows that it has read
all of it by the offset of its end, which the mark of a transaction would move past the last record.
What such a record says is true whatever becomes of the transaction: all shards are to be heard, and
nothing is decided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Self
from uuid import uuid4

from simhash_core.log.packets import Chain
from simhash_core.log.records import Control
from simhash_core.log.replica import Replica
from streams.kafka.acknowledged_sends import AcknowledgedProducer
from streams.kafka.client_config import appender_config
from streams.kafka.producer_record import ProducerRecord
from streams.ordering.log_codec import LogCodec
from streams.settings.settings import Settings

_FILLERS_AT_ONCE: Final = 20_000

FILLER: Final = b"\x00"
"""A record that is in the log for its offset alone. Whoever reads it passes over it."""


class LogReservations:
    """Appends to the log, as the reader that ``replica`` is at its end knows it.

    Its methods raise ``UnansweredError`` and ``DeliveryError``.
    """

    def __init__(
        self,
        settings: Settings,
        identity: str,
        replica: Replica,
        heads: list[tuple[Chain, int]],
        *,
        begins: bool,
    ) -> None:
        """``heads``: of all chains, in each control record.

        ``begins``: the records begin a chain of their own, before which nothing is undecided.
        """
        self._topic = settings.topics.log
        self._codec = LogCodec(identity)
        self._name = f"care.{uuid4().hex[:12]}"
        self._heads = heads
        self._next = replica.decided_before
        self._previous = replica.control
        self._begins = begins
        self._producer = AcknowledgedProducer(
            appender_config(settings), settings.send_timeout_seconds, changelog_topic=self._topic
        )

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the client."""
        self._producer.close()

    def take(self) -> int:
        """Append a control record that decides nothing; return its offset."""
        while True:
            offset = self._append()
            # A reader that begins at a record must know from it all that is before it.
            known = not self._begins or self._next >= offset
            if self._begins:
                self._next = offset + 1
            if known:
                return offset

    def _append(self) -> int:
        control = Control(self._previous, self._name, True, [], self._heads, self._next)
        value = self._codec.encode(control)
        self._previous = self._producer.send([ProducerRecord(self._topic, None, value, 0)])[0] - 1
        return self._previous

    def begin_at(self, offset: int) -> None:
        """Let the chain begin at an offset or behind it: fillers are before it."""
        self._next = offset

    def fill(self, records: int, report: Callable[[int], None]) -> None:
        """Append so many records that say nothing; ``report`` is called with how many are there."""
        filler = ProducerRecord(self._topic, None, FILLER, 0)
        for done in range(0, records, _FILLERS_AT_ONCE):
            self._producer.send([filler] * min(_FILLERS_AT_ONCE, records - done))
            report(done)
