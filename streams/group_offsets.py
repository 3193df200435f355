"""What the consumer group has committed, asked without joining it."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from simhash_core.errors import FirstseenError
from streams.kafka_config import librdkafka_config
from streams.passing_errors import PASSING_ERRORS
from streams.settings import Settings

_AGAIN_SECONDS: Final = 0.2


class StateElsewhereError(FirstseenError):
    """The state of a shard is not on this machine, and there is no changelog to take it from."""


def refuse_without_state(settings: Settings, partition: int, next_offset: int) -> None:
    """Raise ``StateElsewhereError`` when the group is further than the table of a shard.

    ``next_offset``: the offset of the probes partition up to which the table has decided. Without
    a changelog, a table that is behind what was acknowledged is not the one that decided it.
    """
    committed = committed_offset(settings, settings.topics.probes, partition)
    if committed > next_offset:
        raise StateElsewhereError(
            f"shard {partition}: the group {settings.application_id} has processed the probes up "
            f"to offset {committed}, the block table here only up to {next_offset}. With "
            "delivery=at_least_once the state is on one machine's disk alone: start the worker "
            "that has it, or use delivery=exactly_once, which keeps it in the changelog"
        )


def committed_offset(settings: Settings, topic: str, partition: int) -> int:
    """Return the offset that the group has committed for a partition; 0 where it has none."""
    consumer = Consumer(
        librdkafka_config(settings, group_id=settings.application_id, enable_auto_commit=False)
    )
    place = TopicPartition(topic, partition)
    deadline = time.monotonic() + settings.send_timeout_seconds
    try:
        while True:
            try:
                found = consumer.committed([place], max(1.0, deadline - time.monotonic()))
            except KafkaException as error:
                reason = error.args[0]
                if reason.code() not in PASSING_ERRORS or time.monotonic() > deadline:
                    raise StateElsewhereError(
                        f"shard {partition}: the broker does not tell how far the group "
                        f"{settings.application_id} is: {reason.str()}"
                    ) from error
                time.sleep(_AGAIN_SECONDS)
            else:
                return max(0, found[0].offset)
    finally:
        consumer.close()
