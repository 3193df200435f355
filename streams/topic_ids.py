"""Ids of raw topics: asked of the broker beside the event loop, and again while it is away.

They are asked for when partitions are assigned, which is also when brokers come and go.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from streams.errors import BrokerUnavailableError
from streams.topics import TopicsError

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.5


class TopicIds:
    """Asks for the id that tells a topic from an earlier one of the same name."""

    def __init__(self, ask: Callable[[str], str], wait_seconds: float) -> None:
        """``ask`` blocks, and raises as ``topics.topic_id`` does; it is tried for so long."""
        self._ask = ask
        self._wait_seconds = wait_seconds

    async def of(self, topic: str) -> str:
        """Return the id of a topic.

        Raises ``BrokerUnavailableError`` or ``TopicsError`` when no broker has told it in time.
        """
        deadline = time.monotonic() + self._wait_seconds
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await loop.run_in_executor(None, self._ask, topic)
            except (BrokerUnavailableError, TopicsError) as error:
                # A broker that has just come back may not know its topics yet: either can pass.
                if time.monotonic() > deadline:
                    raise
                logger.warning("asking for the id of %s again: %s", topic, error)
            await asyncio.sleep(_RETRY_SECONDS)
