"""Who owns which shards: asked of the broker, beside the workers' own consumers."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from streams.errors import BrokerUnavailableError
from streams.kafka.client_config import admin_config, consumer_config
from streams.kafka.partition_offsets import committed_offsets
from streams.monitoring.worker_notes import decode_note
from streams.settings.settings import Delivery, Settings
from streams.topics.admin import partitions_of

_ANSWER_SECONDS: Final = 5.0
_SPARE_SECONDS: Final = 1.0

Owned = Mapping[str, frozenset[int]]
"""The shards of each worker of the group, by the worker's name."""


class GroupOwners:
    """Asks who owns what; blocking, for one thread at a time."""

    def __init__(self, settings: Settings, writer: str) -> None:
        """Connect nothing yet. ``writer``: this worker's name in the group."""
        self._settings = settings
        self._writer = writer
        self._describes = settings.delivery is Delivery.EXACTLY_ONCE
        self._admin: AdminClient | None = None

    def read(self) -> Owned | None:
        """Return who owns what now; None while partitions move.

        Raises ``BrokerUnavailableError``.
        """
        # After an outage a client of librdkafka's (2.16) may wait for ever: ask with a new one.
        admin, self._admin = self._admin, None
        if admin is None:
            admin = AdminClient({**admin_config(self._settings), "log_level": 0})
        try:
            found = self._described(admin) if self._describes else self._noted(admin)
        except (KafkaException, FutureTimeoutError) as error:
            raise BrokerUnavailableError(
                f"it is not known who else works in the group: {error}"
            ) from error
        self._admin = admin
        return found

    def _described(self, admin: AdminClient) -> Owned | None:
        group = self._settings.application_id
        asked = admin.describe_consumer_groups([group], request_timeout=_ANSWER_SECONDS)
        described = asked[group].result(_ANSWER_SECONDS + _SPARE_SECONDS)
        if described.state is not ConsumerGroupState.STABLE:
            return None
        raw = self._settings.topics.raw
        return {
            member.client_id: frozenset(
                place.partition
                for place in (member.assignment.topic_partitions if member.assignment else [])
                if place.topic == raw
            )
            for member in described.members
        }

    def _noted(self, admin: AdminClient) -> Owned:
        """Return who committed last, as a broker says that describes no groups.

        Workers that own nothing are not known there, but for this one.
        """
        raw = self._settings.topics.raw
        config = consumer_config(self._settings, group_id=self._settings.application_id)
        consumer = Consumer({**config, "log_level": 0})
        try:
            places = [TopicPartition(raw, each) for each in range(partitions_of(admin, [raw])[raw])]
            found = committed_offsets(consumer, places, _ANSWER_SECONDS)
        except KeyError:
            return {}
        finally:
            consumer.close()
        owned: dict[str, set[int]] = {self._writer: set()}
        for each in found:
            note = decode_note(each.metadata)
            if note is not None:
                owned.setdefault(note.worker, set()).add(each.partition)
        return {name: frozenset(partitions) for name, partitions in owned.items()}
