"""The limit on what is in flight: the raw consumer is held while too much waits to be put out."""

from __future__ import annotations

from simhash_core.log.participant import Participant
from streams.intake.raw_batches import RawArrival
from streams.intake.raw_consumer import RawConsumer
from streams.monitoring.metrics import Metrics
from streams.settings.flow import InFlightSettings


class InFlight:
    """Holds a raw consumer at the limits, and lets it go when half of them is free."""

    def __init__(
        self,
        limits: InFlightSettings,
        participant: Participant[RawArrival],
        consumer: RawConsumer,
        metrics: Metrics,
    ) -> None:
        """Begin with a consumer that is not held."""
        self._limits = limits
        self._participant = participant
        self._consumer = consumer
        self._metrics = metrics
        self._held = False

    def check(self) -> None:
        """Hold the consumer, or let it go; to be called when something came or went."""
        limits = self._limits
        streams = [shard.stream for shard in self._participant.shards.values()]
        documents = sum(stream.waiting for stream in streams)
        size = sum(stream.waiting_bytes for stream in streams)
        self._metrics.in_flight(documents, size)
        if documents >= limits.documents or size >= limits.bytes:
            self._hold(paused=True)
        elif documents <= limits.documents // 2 and size <= limits.bytes // 2:
            self._hold(paused=False)

    def _hold(self, *, paused: bool) -> None:
        if paused != self._held:
            self._held = paused
            self._consumer.hold(paused)
