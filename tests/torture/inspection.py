"""Queries to the broker: the log's start and end, progress of shards, hanging transactions.

A transaction that stays open at the end is a fault of the broker (docs/kafka.md): readers of
committed records cannot read beyond it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress

from confluent_kafka import KafkaException, TopicPartition

from simhash_core.errors import FirstseenError
from streams.kafka.client_config import client_config
from streams.kafka.clients import AdminClient, Consumer
from streams.settings.settings import Settings
from streams.topics.plans import topic_plans
from streams.topics.watermarks import (
    BrokerWatermarks,
    OpenTransaction,
    open_transactions,
    partitions_to_check,
)
from tests.torture.aftermath import aftermath
from tests.torture.history import History

LOG_SECONDS = 5.0
APPEND_SECONDS = 20.0
ANSWER_SECONDS = 30.0
ENDED_SECONDS = 60.0
"""After this time a broker has aborted transactions that killed workers left open: every 10 seconds
it looks for transactions older than their time-out (the workers' session)."""
POLL_SECONDS = 0.5


class LogEnds:
    """The start and end offsets of the log; the last known ones while the broker is away."""

    def __init__(self, settings: Settings) -> None:
        self._place = TopicPartition(settings.topics.log, 0)
        self._consumer = Consumer(client_config(settings, group_id="torture.ends"))
        self._ends = (0, 0)

    def start(self) -> int:
        return self._ask()[0]

    def end(self) -> int:
        return self._ask()[1]

    def at_an_append(self, strike: Callable[[], None]) -> bool:
        """Call ``strike`` right after the next append; return False if none happens."""
        end, deadline = self.end(), time.monotonic() + APPEND_SECONDS
        while time.monotonic() < deadline:
            if self.end() > end:
                strike()
                return True
        return False

    def close(self) -> None:
        self._consumer.close()

    def _ask(self) -> tuple[int, int]:
        with suppress(KafkaException):
            self._ends = self._consumer.get_watermark_offsets(self._place, timeout=LOG_SECONDS)
        return self._ends


def lag(settings: Settings, shards: int, history: History) -> str:
    """Return a line for the log and for each shard, or the reason why there is none."""
    config = client_config(settings, group_id=settings.application_id, enable_auto_commit=False)
    places = [TopicPartition(settings.topics.raw, number) for number in range(shards)]
    try:
        progress = aftermath(settings, shards).progress
        undecided = sorted(history.undecided)
        lines = [f"log: {len(undecided)} bundles are not decided: {undecided[:10]}"]
        with closing(Consumer(config)) as consumer:
            for place in consumer.committed(places, timeout=ANSWER_SECONDS):
                _, end = consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
                lines.append(
                    f"raw partition {place.partition}: the group is at {place.offset}, the end is "
                    f"{end}, its shard has committed {progress.get(place.partition)}"
                )
    except (FirstseenError, KafkaException, AssertionError) as error:
        return f"the broker does not tell how far the shards are: {error}"
    return "\n".join(lines)


def hung_transactions(
    settings: Settings, ended_seconds: float = ENDED_SECONDS
) -> list[OpenTransaction]:
    """Return transactions that are still open after this time; no worker may run.

    Returns at once if none is open.
    """
    group_id = settings.application_id
    admin = AdminClient(client_config(settings))
    names = [plan.name for plan in topic_plans(settings)]
    partitions = partitions_to_check(admin, names, group_id)
    broker = BrokerWatermarks(client_config(settings), group_id, ANSWER_SECONDS)
    deadline = time.monotonic() + ended_seconds
    while True:
        is_open = open_transactions(broker.of(partitions))
        if not is_open or time.monotonic() > deadline:
            return list(is_open.values())
        time.sleep(POLL_SECONDS)
