"""The topics that Firstseen needs: what each must be, making them, and checking those there are.

=============  ==========  =================================================================
topic          partitions  settings
=============  ==========  =================================================================
raw            any         as you wish: it is yours
unique         any         room for a raw record and Firstseen's headers
duplicates     any         the same, since a duplicate may carry its body
dead letters   any         the same
probes         P, fixed    deleted by age, and kept for long enough to survive a stand-still
changelog      P, fixed    compacted; its tombstones kept for as long
=============  ==========  =================================================================

P is the number of shards. The bucket of a document is found by it, so it is fixed for the life of
an index.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from streams.errors import BrokerRefusedError, BrokerUnavailableError
from streams.settings import KIB, Settings

BROKER_CHOOSES: Final = -1
"""The replication factor that is left to the broker (its ``default.replication.factor``)."""

STANDSTILL_MS: Final = 7 * 24 * 60 * 60 * 1000
"""How long all workers may stand still, or one be away from its state, without loss."""

_FRAMING_BYTES: Final = 64 * KIB
"""What Kafka adds to a message; its limit is of the batch around it."""

_ANSWER_SECONDS: Final = 10.0


class TopicsError(BrokerRefusedError):
    """Topics that cannot be made, or cannot be used; the message names each, and the fix."""


class TopicPlan(NamedTuple):
    """What a topic must be. ``partitions`` None: any number.

    ``config`` are Kafka's names and values for the making of it; ``least_bytes`` and
    ``least_retention_ms`` are the limits below which it cannot be used.
    """

    name: str
    partitions: int | None
    config: Mapping[str, str]
    fixed_partitions: bool = False
    cleanup_policy: str | None = None
    least_bytes: int = 0
    least_retention_ms: int = 0


class Made(NamedTuple):
    """A topic after ``create``: ``created`` False where it was there already."""

    plan: TopicPlan
    created: bool


class Difference(NamedTuple):
    """Something that a topic must be and is not. ``what``: "missing", or a Kafka setting's name."""

    topic: str
    what: str
    expected: str
    actual: str
    fix: str

    def __str__(self) -> str:
        """One line for people."""
        if self.what == "missing":
            return f"{self.topic} is missing: {self.fix}"
        return f"{self.topic} has {self.what} {self.actual}, not {self.expected}: {self.fix}"


def topic_plans(
    settings: Settings, partitions: int | None = None, raw_partitions: int | None = None
) -> list[TopicPlan]:
    """Return what each topic must be.

    ``partitions``: of the internal topics, and of outputs that are made; ``raw_partitions``: of the
    raw topic, the same unless given. None: whatever there is will do.
    """
    topics = settings.topics
    largest = settings.largest_message_bytes + _FRAMING_BYTES
    size = {"max.message.bytes": str(largest)}
    nothing: Mapping[str, str] = MappingProxyType({})
    standstill = str(STANDSTILL_MS)
    return [
        TopicPlan(topics.raw, raw_partitions or partitions, nothing),
        TopicPlan(topics.unique, partitions, size, least_bytes=largest),
        TopicPlan(topics.duplicates, partitions, size, least_bytes=largest),
        TopicPlan(topics.dead_letters, partitions and 1, size, least_bytes=largest),
        TopicPlan(
            topics.probes,
            partitions,
            {**size, "cleanup.policy": "delete", "retention.ms": standstill},
            fixed_partitions=True,
            cleanup_policy="delete",
            least_bytes=largest,
            least_retention_ms=STANDSTILL_MS,
        ),
        TopicPlan(
            topics.changelog,
            partitions,
            {**size, "cleanup.policy": "compact", "delete.retention.ms": standstill},
            fixed_partitions=True,
            cleanup_policy="compact",
            least_bytes=largest,
        ),
    ]


def can_administer(admin: AdminClient) -> bool:
    """Whether the broker takes admin requests; librdkafka's in-process broker has no controller."""
    metadata = _metadata(admin)
    return metadata.controller_id in metadata.brokers


def partitions_of(admin: AdminClient, topics: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of those of ``topics`` that exist; none is made by asking."""
    known = _metadata(admin).topics
    return {
        name: len(known[name].partitions)
        for name in topics
        if name in known and known[name].error is None
    }


def topic_id(admin: AdminClient, topic: str) -> str:
    """Return the id that tells a topic from an earlier one of the same name.

    "" where the broker takes no admin requests. Raises ``TopicsError`` where it does not tell.
    """
    if not can_administer(admin):
        return ""
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=_ANSWER_SECONDS)
    try:
        return str(described[topic].result(_ANSWER_SECONDS + 1.0).topic_id)
    except KafkaException as error:
        raise TopicsError(f"the id of {topic} cannot be read: {error.args[0].str()}") from error


def create(
    admin: AdminClient,
    plans: Sequence[TopicPlan],
    *,
    replication_factor: int = BROKER_CHOOSES,
    timeout_seconds: float = 30.0,
) -> list[Made]:
    """Make the topics that are not there, and return when all can be used.

    Those that are there are left as they are: ``check`` says whether they fit. Raises
    ``TopicsError`` for topics that could not be made, after all others have been.
    """
    existing = partitions_of(admin, [plan.name for plan in plans])
    missing = [plan for plan in plans if plan.name not in existing]
    if missing and not can_administer(admin):
        raise TopicsError(
            f"this broker makes no topics on request, and {missing[0].name} is missing. "
            "(librdkafka's in-process broker is such a one: it makes a topic when it is first used)"
        )
    created = _created(admin, missing, replication_factor, timeout_seconds) if missing else set()
    _await_visible(admin, created, timeout_seconds)
    return [Made(plan, plan.name in created) for plan in plans]


def _created(
    admin: AdminClient, plans: Sequence[TopicPlan], replication_factor: int, timeout_seconds: float
) -> set[str]:
    """Make topics, and return the names of those that nobody else made meanwhile."""
    wanted: list[NewTopic] = []
    for name, partitions, config, *_ in plans:
        if partitions is None:
            raise TopicsError(f"{name} is missing, and nobody has said with how many partitions")
        wanted.append(NewTopic(name, partitions, replication_factor, config=dict(config)))
    futures = admin.create_topics(
        wanted, operation_timeout=timeout_seconds, request_timeout=timeout_seconds
    )
    created: set[str] = set()
    failures: list[str] = []
    for name, future in futures.items():
        try:
            future.result(timeout_seconds + 1.0)
            created.add(name)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                failures.append(f"{name}: {reason.str()}{_hint(reason)}")
    if failures:
        raise TopicsError("topics cannot be created: " + "; ".join(failures))
    return created


def _hint(reason: KafkaError) -> str:
    match reason.code():
        case KafkaError.INVALID_REPLICATION_FACTOR:
            return " (--replication-factor can be as many as there are brokers)"
        case KafkaError.TOPIC_AUTHORIZATION_FAILED | KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return " (the user needs the right to create it: ACL operation Create)"
    return ""


def _await_visible(admin: AdminClient, names: set[str], timeout_seconds: float) -> None:
    """Wait until brokers tell of the new topics, which can be after they have been made."""
    deadline = time.monotonic() + timeout_seconds
    while names - partitions_of(admin, names).keys():
        if time.monotonic() > deadline:
            raise TopicsError(
                f"topics were created, but brokers do not tell of them after {timeout_seconds:g} s"
            )
        time.sleep(0.1)


def check(admin: AdminClient, plans: Sequence[TopicPlan]) -> list[Difference]:
    """Return how the topics differ from what they must be; [] when all fit.

    Settings of topics are left out where the broker takes no admin requests. Raises ``TopicsError``
    where they cannot be read.
    """
    existing = partitions_of(admin, [plan.name for plan in plans])
    there = [plan for plan in plans if plan.name in existing]
    configs = _configs(admin, [plan.name for plan in there]) if can_administer(admin) else {}
    differences: list[Difference] = []
    for plan in plans:
        if plan.name not in existing:
            differences.append(
                Difference(plan.name, "missing", "", "", "run 'firstseen topics create'")
            )
            continue
        if plan.fixed_partitions and plan.partitions not in {None, existing[plan.name]}:
            differences.append(_partitions_differ(plan, existing[plan.name]))
        if plan.name in configs:
            differences += _config_differences(plan, configs[plan.name])
    return differences


def _partitions_differ(plan: TopicPlan, actual: int) -> Difference:
    return Difference(
        plan.name,
        "partitions",
        str(plan.partitions),
        str(actual),
        "the number is fixed for the life of an index. Use the number that there is, delete a "
        "topic that was never used, or begin a new index with another application_id",
    )


def _config_differences(plan: TopicPlan, config: Mapping[str, str]) -> list[Difference]:
    def differs(name: str, expected: object, fix: str) -> Difference:
        change = f"kafka-configs.sh --alter --topic {plan.name} --add-config {name}={expected}"
        return Difference(plan.name, name, str(expected), config[name], f"{fix} ({change})")

    found: list[Difference] = []
    if int(config["max.message.bytes"]) < plan.least_bytes:
        found.append(
            differs("max.message.bytes", plan.least_bytes, "raise it, or lower max_record_bytes")
        )
    policy = {part.strip() for part in config["cleanup.policy"].split(",")}
    if plan.cleanup_policy is not None and policy != {plan.cleanup_policy}:
        found.append(differs("cleanup.policy", plan.cleanup_policy, "documents would be lost"))
    if 0 <= int(config["retention.ms"]) < plan.least_retention_ms:
        found.append(
            differs(
                "retention.ms", plan.least_retention_ms, "a stand-still could outlast documents"
            )
        )
    return found


def _configs(admin: AdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the settings of topics by name."""
    if not names:
        return {}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=_ANSWER_SECONDS)
    configs: dict[str, dict[str, str]] = {}
    for resource, future in futures.items():
        try:
            entries = future.result(_ANSWER_SECONDS + 1.0)
        except KafkaException as error:
            raise TopicsError(
                f"the settings of {resource.name} cannot be read: {error.args[0].str()}"
            ) from error
        configs[resource.name] = {name: entry.value for name, entry in entries.items()}
    return configs


def _metadata(admin: AdminClient) -> Any:  # noqa: ANN401 - ClusterMetadata is typed in no release
    try:
        return admin.list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException as error:
        raise BrokerUnavailableError(
            f"the Kafka broker does not answer: {error.args[0].str()}"
        ) from error
