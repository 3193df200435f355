"""The ends of the logs, as the broker tells them: asked apart from the consumer, which may stall.

A consumer knows the end of a log from its last fetch, so while it stands still its own figure does
too. The questions here go out on connections of their own, each with a time limit.

After a question that was not answered whole, the next one is asked by new clients: librdkafka's
admin client remembers that a partition had no leader, and never looks again (2.16).
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from streams.errors import BrokerUnavailableError
from streams.read_order import Place

_SPARE_SECONDS: Final = 1.0
_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Watermarks(NamedTuple):
    """Where a log begins, up to where it can be read, and where it ends.

    It can be read up to the first open transaction. The last two are offsets behind a record.
    """

    start: int
    readable_end: int
    end: int


class BrokerWatermarks:
    """Asks for watermarks; for one thread. ``config`` is librdkafka's, ``group_id`` the worker's.

    Each question takes ``timeout_seconds`` at most, and raises ``BrokerUnavailableError`` then.
    """

    def __init__(self, config: Mapping[str, Any], group_id: str, timeout_seconds: float) -> None:
        """Connect with the first question."""
        # The library would log each attempt to reach a broker that is away; the watch says it once.
        self._config = {**config, "log_level": 0}
        self._group_id = group_id
        self._timeout_seconds = timeout_seconds
        self._admin: AdminClient | None = None

    def of(self, places: Collection[Place]) -> dict[Place, Watermarks]:
        """Return the watermarks of those partitions of which the broker tells any."""
        # Not ``or``: a client is false while nothing waits in it.
        admin = AdminClient(self._config) if self._admin is None else self._admin
        self._admin = None
        found = self._ask(admin, places)
        if found.keys() == set(places):
            self._admin = admin
        return found

    def _ask(self, admin: AdminClient, places: Collection[Place]) -> dict[Place, Watermarks]:
        if not places:
            try:
                admin.list_topics(timeout=self._timeout_seconds)
            except KafkaException as error:
                raise BrokerUnavailableError(error.args[0].str()) from error
            return {}
        starts = self._offsets(admin, places, _EARLIEST, IsolationLevel.READ_UNCOMMITTED)
        readable = self._offsets(admin, places, _LATEST, IsolationLevel.READ_COMMITTED)
        ends = self._offsets(admin, places, _LATEST, IsolationLevel.READ_UNCOMMITTED)
        told = starts.keys() & readable.keys() & ends.keys()
        return {place: Watermarks(starts[place], readable[place], ends[place]) for place in told}

    def committed(self, places: Collection[Place]) -> dict[Place, int]:
        """Return the offsets that the group has committed, where it has."""
        if not places:
            return {}
        group = Consumer({**self._config, "group.id": self._group_id, "enable.auto.commit": False})
        try:
            found = group.committed(
                [TopicPartition(*place) for place in places], timeout=self._timeout_seconds
            )
        except KafkaException as error:
            raise BrokerUnavailableError(error.args[0].str()) from error
        finally:
            group.close()
        return {
            (each.topic, each.partition): each.offset
            for each in found
            if each.error is None and each.offset >= 0
        }

    def _offsets(
        self,
        admin: AdminClient,
        places: Collection[Place],
        spec: OffsetSpec,
        isolation: IsolationLevel,
    ) -> dict[Place, int]:
        asked = admin.list_offsets(
            {TopicPartition(*place): spec for place in places},
            isolation_level=isolation,
            request_timeout=self._timeout_seconds,
        )
        deadline = time.monotonic() + self._timeout_seconds + _SPARE_SECONDS
        found: dict[Place, int] = {}
        reason = "no answer"
        for place, answer in asked.items():
            try:
                offset = answer.result(max(0.0, deadline - time.monotonic())).offset
            except KafkaException as error:
                reason = error.args[0].str()
            except concurrent.futures.TimeoutError:
                continue
            else:
                found[place.topic, place.partition] = offset
        if not found:
            raise BrokerUnavailableError(reason)
        return found
