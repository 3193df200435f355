"""A look at the raw topic at times: was it created again, and does it still have all partitions?"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from simhash_core.errors import FirstseenError
from simhash_core.log.participant import Participant
from streams.errors import BrokerUnavailableError, StateMismatchError
from streams.intake.raw_batches import RawArrival
from streams.ordering.index_on_kafka import IndexOnKafka
from streams.topics.admin import TopicsError

_LOOK_SECONDS: Final = 5.0


class RawTopicLook:
    """Looks every few seconds while the worker has shards."""

    def __init__(
        self,
        topic: str,
        participant: Participant[RawArrival],
        index: IndexOnKafka,
        reopen: Callable[[FirstseenError], Awaitable[None]],
    ) -> None:
        """``reopen`` opens all shards again, as those of the topic that is there now."""
        self.partitions = 0
        """As of the last look; 0 before the first."""
        self._topic = topic
        self._participant = participant
        self._index = index
        self._reopen = reopen
        self._looked_at = time.monotonic()

    async def look(self) -> None:
        """Look if it is time to. Raises ``StateMismatchError`` where partitions are gone."""
        shards = self._participant.shards
        if not shards or time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        try:
            partitions = self.partitions = await self._index.partitions()
            topic_id = await self._index.topic_id()
        except (BrokerUnavailableError, TopicsError):
            return  # the watch says so, and this is called again
        if {shard.stream.chain.topic_id for shard in shards.values()} - {topic_id}:
            await self._reopen(FirstseenError(f"{self._topic} was deleted and created again"))
            return
        decider = self._participant.decider
        missing = [] if decider is None else [s for s in sorted(decider.shards) if s >= partitions]
        if missing and partitions:
            raise StateMismatchError(
                f"{self._topic} has {partitions} partitions, but the index has documents of "
                f"partition {' '.join(map(str, missing))}: the topic was created again with fewer. "
                "Create it with as many as before, or start a new index with another application_id"
            )
