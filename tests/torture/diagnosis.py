"""What to look at when the cluster stands still: how far each partition has come, and to where."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

from simhash_core.errors import FirstseenError
from streams.kafka_config import librdkafka_config
from streams.settings import Settings
from tests.torture.aftermath import aftermath

ANSWER_SECONDS = 10.0


def lag(settings: Settings, raw_partitions: int, shards: int) -> str:
    """A line for each partition of the raw topic and of the probes, or why there is none."""
    try:
        state = aftermath(settings, shards)
        left = f"{state.left_pending} pending entries, {state.left_parked} parked documents"
        lines = [f"not settled: {left}"]
        for topic, partitions in (
            (settings.topics.raw, raw_partitions),
            (settings.topics.probes, shards),
        ):
            for partition, (committed, end) in _offsets(settings, topic, partitions).items():
                line = f"{topic}/{partition}: the group is at {committed}, the end is {end}"
                if topic == settings.topics.probes:
                    line += f", its shard has committed {state.reached.get(partition, 0)}"
                lines.append(line)
    except (FirstseenError, KafkaException, AssertionError) as error:
        return f"the broker does not tell how far the partitions are: {error}"
    return "\n".join(lines)


def _offsets(settings: Settings, topic: str, partitions: int) -> dict[int, tuple[int, int]]:
    """The committed offset and the end of each partition."""
    consumer = Consumer(
        librdkafka_config(settings, group_id=settings.application_id, enable_auto_commit=False)
    )
    try:
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        committed = consumer.committed(places, timeout=ANSWER_SECONDS)
        found = {}
        for place in committed:
            _, end = consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
            found[place.partition] = (place.offset, end)
        return found
    finally:
        consumer.close()
