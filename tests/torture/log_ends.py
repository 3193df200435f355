"""Where the log begins and ends now."""

from __future__ import annotations

from confluent_kafka import KafkaException, TopicPartition

from streams.kafka.client_config import consumer_config
from streams.kafka.clients import Consumer
from streams.settings.settings import Settings

ANSWER_SECONDS = 5.0


class LogEnds:
    """The first offset of the log and the next; a broker that is away tells what it told before."""

    def __init__(self, settings: Settings) -> None:
        self._place = TopicPartition(settings.topics.log, 0)
        self._consumer = Consumer(consumer_config(settings, group_id="torture.ends"))
        self._told = (0, 0)

    def start(self) -> int:
        return self._ask()[0]

    def end(self) -> int:
        return self._ask()[1]

    def close(self) -> None:
        self._consumer.close()

    def _ask(self) -> tuple[int, int]:
        try:
            self._told = self._consumer.get_watermark_offsets(self._place, timeout=ANSWER_SECONDS)
        except KafkaException:
            return self._told
        return self._told
