"""How far a consumer group has got in a topic, by what it has committed."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

_ANSWER_SECONDS_MAX = 10.0


class CommittedOffsets:
    """Asks the broker for the committed offsets of a group, which it does not join.

    Args:
        client_settings: How to reach the broker, in librdkafka's names.
        group_id: The group whose commits are asked for.
        topic: The topic; its partitions are looked up once, here.

    Raises:
        KafkaException: The broker did not answer within 10 seconds, or has no such topic.
    """

    def __init__(self, client_settings: Mapping[str, Any], group_id: str, topic: str) -> None:
        self._consumer = Consumer(
            {**client_settings, "group.id": group_id, "enable.auto.commit": False}
        )
        metadata = self._consumer.list_topics(topic, timeout=_ANSWER_SECONDS_MAX).topics[topic]
        if metadata.error is not None:
            self._consumer.close()
            raise KafkaException(metadata.error)
        self._partitions = [TopicPartition(topic, number) for number in metadata.partitions]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __call__(self) -> dict[int, int]:
        """For each partition that has a commit, the offset that the group reads next.

        Raises:
            KafkaException: The broker did not answer within 10 seconds, or refused.
        """
        answer = {}
        for committed in self._consumer.committed(self._partitions, timeout=_ANSWER_SECONDS_MAX):
            if committed.error is not None:
                raise KafkaException(committed.error)
            # Negative stands for "nothing committed".
            if committed.offset >= 0:
                answer[committed.partition] = committed.offset
        return answer

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()
