"""A worker whose Faust loses records on their way from the consumer to the agents.

Of each topic it loses the third record and every fortieth after it, each once, and acknowledges
every second one of those, as Faust 0.15.3 does now and then while partitions move.

``python -m tests.integration.lossy_worker [OPTION…]`` takes the options of ``firstseen worker``; it
ends when its standard input does.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from faust.types import Message

from streams.cli.main import main
from streams.committed_transport import CommittedConsumer, CommittedTransport
from streams.demo.worker_launcher import _end_when_orphaned

logger = logging.getLogger(__name__)

FIRST = 3
EVERY = 40


class LossyConsumer(CommittedConsumer):
    """Hands most records over."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - handed on
        super().__init__(*args, **kwargs)
        self._hand_over: Callable[[Message], Awaitable[None]] = self.callback
        self._came: Counter[str] = Counter()
        self._lost: set[tuple[str, int, int]] = set()
        self.callback = self._hand_over_or_lose

    async def _hand_over_or_lose(self, message: Message) -> None:
        self._came[message.topic] += 1
        lost, left = divmod(self._came[message.topic] - FIRST, EVERY)
        where = message.topic, message.partition, message.offset
        if left or where in self._lost:
            await self._hand_over(message)
            return
        self._lost.add(where)
        logger.warning("lost on the way: %s@%d", message.topic, message.offset)
        if lost % 2:
            self.ack(message)


if __name__ == "__main__":
    CommittedTransport.Consumer = LossyConsumer
    threading.Thread(target=_end_when_orphaned, daemon=True).start()
    sys.exit(main(["worker", *sys.argv[1:]]))
