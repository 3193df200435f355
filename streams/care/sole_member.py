"""A command that changes an index joins its group, and owns all partitions while it does.

So it has what a worker has: the coordinator refuses its transaction as soon as another member has
joined. It joins only a group that has no members, and leaves when it is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from simhash_core.errors import FirstseenError
from streams.errors import BrokerUnavailableError
from streams.kafka.client_config import raw_consumer_config
from streams.kafka.partition_offsets import committed_offsets
from streams.kafka.retries import becomes_true, is_of_client, retrying
from streams.ordering.index_on_kafka import group_members
from streams.settings.settings import Settings

_POLL_SECONDS: Final = 0.2
_JOIN_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 30.0
_STABLE_SECONDS: Final = 60.0
"""More than what a killed worker left open lasts."""


class WorkersRunError(FirstseenError):
    """The index has workers that run, and the command needs it for itself."""


def refuse_running_workers(admin: AdminClient, settings: Settings) -> None:
    """Raise ``WorkersRunError`` where the group of an application has members. Blocking."""
    group = settings.application_id
    members = group_members(admin, group)
    if members:
        raise WorkersRunError(
            f"the group {group} has {len(members)} member(s), such as {min(members)}: stop the "
            "workers of this index first. (One that was killed stays a member for "
            "session_timeout_seconds.)"
        )


class SoleMember:
    """The only member of a group, as far as ``metadata`` has not said otherwise."""

    def __init__(self, settings: Settings, partitions: int, name: str) -> None:
        """``partitions``: of the raw topic. ``name``: of this command in the group."""
        self._topic = settings.topics.raw
        self._wanted = frozenset(range(partitions))
        self._owned: set[int] = set()
        self._was_disturbed = False
        config = {**raw_consumer_config(settings, name), "max.poll.interval.ms": 600_000}
        config.pop("group.instance.id", None)
        self._consumer = Consumer(config)

    def __enter__(self) -> Self:
        """Join the group. Raises ``WorkersRunError`` where somebody else is in it as well."""
        self._consumer.subscribe(
            [self._topic],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )
        if not becomes_true(
            lambda: self._owned == self._wanted,
            _JOIN_SECONDS,
            _POLL_SECONDS,
            pause=self._consumer.poll,
        ):
            self.close()
            raise self._disturbed()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the group."""
        self.close()

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def keep(self) -> None:
        """Show that this member lives; call it every few minutes at least."""
        self._consumer.poll(0)

    def metadata(self) -> bytes:
        """Return what goes along with offsets in a transaction, if this is the only member still.

        Raises ``WorkersRunError`` where it is not.
        """
        metadata: bytes = self._consumer.consumer_group_metadata()
        self.keep()
        if self._was_disturbed or self._owned != self._wanted:
            raise self._disturbed()
        return metadata

    def committed(self) -> dict[int, int]:
        """Return the group's offsets by partition, of those that have one.

        A transaction that is open is waited for. Raises ``BrokerUnavailableError``.
        """
        wanted = [TopicPartition(self._topic, each) for each in sorted(self._wanted)]
        ask = retrying(_STABLE_SECONDS, _POLL_SECONDS, is_of_client)
        try:
            committed = ask(committed_offsets, self._consumer, wanted, _ANSWER_SECONDS)
        except KafkaException as error:
            raise BrokerUnavailableError(
                f"the broker does not return the group's offsets: {error.args[0].str()}"
            ) from error
        return {each.partition: each.offset for each in committed if each.offset >= 0}

    def _assigned(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        assigned = list(partitions)
        consumer.incremental_assign(assigned)
        consumer.pause(assigned)
        self._owned |= {partition.partition for partition in assigned}

    def _revoked(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        del consumer
        self._owned -= {partition.partition for partition in partitions}
        self._was_disturbed = True

    def _disturbed(self) -> WorkersRunError:
        return WorkersRunError(
            f"this command does not own all {len(self._wanted)} partitions of {self._topic}: a "
            f"worker of this index was started meanwhile. Nothing was changed. Stop the worker "
            f"and repeat the command"
        )
