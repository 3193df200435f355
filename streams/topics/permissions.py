"""What the user may do at the broker, checked before a worker starts.

A consumer that may not join its group would wait without a message, and a producer that may not
write would fail at its first batch. Brokers do not report the rights to transactional ids: the
worker's first transaction shows them. Only a raw topic that grows needs Alter on the changelog
(``streams.topics.shard_topics``); it is not checked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation

from streams.errors import Problem, SettingsError
from streams.settings.settings import Settings

_ANSWER_SECONDS: Final = 10.0
_READ: Final = frozenset({AclOperation.READ})
_WRITE: Final = frozenset({AclOperation.WRITE})
_DELETE: Final = frozenset({AclOperation.DELETE})


def refuse_missing_permissions(admin: AdminClient, settings: Settings) -> None:
    """Raise ``SettingsError`` with all that a worker needs and its user may not do.

    What the broker does not report counts as allowed.
    """
    missing = [*_missing_at_topics(admin, settings), *_missing_at_group(admin, settings)]
    if missing:
        raise SettingsError(
            [
                Problem("kafka", "", "settings", f"the Kafka user may not {what}: grant it (ACL)")
                for what in missing
            ]
        )


def _missing_at_topics(admin: AdminClient, settings: Settings) -> Iterator[str]:
    topics = settings.topics
    needed: Mapping[str, frozenset[AclOperation]] = {
        topics.raw: _READ,
        **dict.fromkeys(settings.output_topics, _WRITE),
        # Any worker may become the leader, which trims the log.
        topics.log: _READ | _WRITE | _DELETE,
        topics.reports: _READ | _WRITE,
        topics.changelog: _READ | _WRITE,
    }
    described = admin.describe_topics(
        TopicCollection(list(needed)),
        include_authorized_operations=True,
        request_timeout=_ANSWER_SECONDS,
    )
    for name, future in described.items():
        try:
            allowed = future.result(_ANSWER_SECONDS + 1.0).authorized_operations
        except (KafkaException, TimeoutError):
            continue
        for operation in sorted(needed[name] - set(allowed or needed[name]), key=str):
            yield f"{operation.name.capitalize()} topic {name}"


def _missing_at_group(admin: AdminClient, settings: Settings) -> Iterator[str]:
    group = settings.application_id
    described = admin.describe_consumer_groups(
        [group], include_authorized_operations=True, request_timeout=_ANSWER_SECONDS
    )
    try:
        allowed = described[group].result(_ANSWER_SECONDS + 1.0).authorized_operations
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            yield f"Read group {group}"
    except TimeoutError:
        pass
    else:
        if allowed and AclOperation.READ not in allowed:
            yield f"Read group {group}"
