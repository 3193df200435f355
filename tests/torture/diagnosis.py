"""What to look at when the cluster stands still: how far each shard has come, and to where."""

from __future__ import annotations

from confluent_kafka import KafkaException, TopicPartition

from simhash_core.errors import FirstseenError
from streams.kafka.client_config import consumer_config
from streams.kafka.clients import Consumer
from streams.settings.settings import Settings
from tests.torture.aftermath import aftermath
from tests.torture.history import History

ANSWER_SECONDS = 10.0


def lag(settings: Settings, shards: int, history: History) -> str:
    """A line for the log and for each shard, or why there is none."""
    try:
        progress = aftermath(settings, shards).progress
        undecided = sorted(history.undecided)
        lines = [f"log: {len(undecided)} packets are not decided: {undecided[:10]}"]
        for partition, (committed, end) in _offsets(settings, shards).items():
            lines.append(
                f"raw partition {partition}: the group is at {committed}, the end is {end}, "
                f"its shard has committed {progress.get(partition)}"
            )
    except (FirstseenError, KafkaException, AssertionError) as error:
        return f"the broker does not tell how far the shards are: {error}"
    return "\n".join(lines)


def _offsets(settings: Settings, partitions: int) -> dict[int, tuple[int, int]]:
    """The committed offset and the end of each raw partition."""
    consumer = Consumer(
        consumer_config(settings, group_id=settings.application_id, enable_auto_commit=False)
    )
    try:
        places = [TopicPartition(settings.topics.raw, number) for number in range(partitions)]
        committed = consumer.committed(places, timeout=ANSWER_SECONDS)
        found = {}
        for place in committed:
            _, end = consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
            found[place.partition] = (place.offset, end)
        return found
    finally:
        consumer.close()
