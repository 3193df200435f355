"""Which partitions have too few copies in sync, so that brokers refuse their records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

_SPARE_SECONDS: Final = 1.0


class TooFewCopies(NamedTuple):
    """A topic that takes no records for the time being.

    Attributes:
        topic: Its name.
        partitions: Those with too few copies in sync.
        in_sync: Copies in sync of the partition with the worst.
        replicas: Copies that it should have.
        min_in_sync: How many must be in sync for a write, ``min.insync.replicas``.
    """

    topic: str
    partitions: tuple[int, ...]
    in_sync: int
    replicas: int
    min_in_sync: int

    def __str__(self) -> str:
        """What is waited for, for people."""
        return (
            f"{self.topic} takes no records: it has {self.in_sync} of {self.replicas} copies in "
            f"sync, and min.insync.replicas is {self.min_in_sync}"
        )


class SyncCopies:
    """Asks the brokers for the copies in sync of some topics; for one thread."""

    def __init__(
        self, config: Mapping[str, Any], min_in_sync: Mapping[str, int], timeout_seconds: float
    ) -> None:
        """Connect with the first request.

        Args:
            config: Properties of librdkafka.
            min_in_sync: ``min.insync.replicas`` by topic.
            timeout_seconds: The longest wait for an answer.
        """
        self._config = {**config, "log_level": 0}
        self._min_in_sync = min_in_sync
        self._timeout_seconds = timeout_seconds
        self._admin: AdminClient | None = None

    def too_few(self) -> list[TooFewCopies] | None:
        """Return the topics that take no records; None where the brokers do not tell."""
        names = [name for name, number in self._min_in_sync.items() if number > 1]
        if not names:
            return []
        if self._admin is None:
            self._admin = AdminClient(self._config)
        futures = self._admin.describe_topics(
            TopicCollection(names), request_timeout=self._timeout_seconds
        )
        short: list[TooFewCopies] = []
        try:
            for name, future in futures.items():
                described = future.result(self._timeout_seconds + _SPARE_SECONDS)
                short += self._of_topic(name, described)
        except (KafkaException, TimeoutError):
            # A client that lost brokers may wait for a controller for good (librdkafka 2.16).
            self._admin = None
            return None
        return short

    def _of_topic(self, name: str, described: Any) -> Iterator[TooFewCopies]:  # noqa: ANN401 - typed in no release
        number = self._min_in_sync[name]
        short = [each for each in described.partitions if len(each.isr) < number]
        if short:
            worst = min(short, key=lambda each: len(each.isr))
            yield TooFewCopies(
                name,
                tuple(each.id for each in short),
                len(worst.isr),
                len(worst.replicas),
                number,
            )
