"""Errors of librdkafka that pass: a connection is lost, or another broker leads or coordinates.

The client gets over them by itself, or does when it is asked again; who waits for it sets the
limit. Each rolling restart of a cluster brings some.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

PASSING_ERRORS: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._RESOLVE,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._TIMED_OUT,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._TRANSPORT,  # noqa: SLF001 - a public code of librdkafka
        # A partition that is led by none is not known to librdkafka for that time.
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - a public code of librdkafka
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
