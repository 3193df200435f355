"""Making the topics of ``streams.topics.plans``, and checking those there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from streams.errors import BrokerRefusedError, BrokerUnavailableError
from streams.kafka.retries import becomes_true, retrying
from streams.topics.plans import FOR_EVER_MS, TIMES_AHEAD, TIMES_PAST, TopicPlan

BROKER_CHOOSES: Final = -1
"""The replication factor that is left to the broker (its ``default.replication.factor``)."""

_ANSWER_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 0.2
_TIME_TYPE: Final = "message.timestamp.type"
_BY_BROKER: Final = "LogAppendTime"


class TopicsError(BrokerRefusedError):
    """Topics that cannot be made, or cannot be used; the message names each, and the fix."""


class _OutOfServiceError(BrokerUnavailableError):
    """The cluster answers, and lists no broker."""


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
    wanted: dict[str, NewTopic] = {}
    for name, partitions, config, *_ in plans:
        if partitions is None:
            raise TopicsError(f"{name} is missing: give the number of its partitions, --partitions")
        wanted[name] = NewTopic(name, partitions, replication_factor, config=dict(config))
    futures = admin.create_topics(
        list(wanted.values()), operation_timeout=timeout_seconds, request_timeout=timeout_seconds
    )
    created: set[str] = set()
    failures: list[str] = []
    plainer: list[TopicPlan] = []
    for plan in plans:
        try:
            futures[plan.name].result(timeout_seconds + 1.0)
            created.add(plan.name)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() == KafkaError.INVALID_CONFIG and TIMES_AHEAD in plan.config:
                plainer.append(plan.without(TIMES_AHEAD))
            elif reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                failures.append(f"{plan.name}: {reason.str()}{_hint(reason)}")
    if plainer:
        # A broker from before the setting, which takes any time without it.
        created |= _created(admin, plainer, replication_factor, timeout_seconds)
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
    if not becomes_true(
        lambda: names <= partitions_of(admin, names).keys(), timeout_seconds, _AGAIN_SECONDS
    ):
        raise TopicsError(
            f"topics were created, but brokers do not list them after {timeout_seconds:g} s"
        )


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
        if plan.shards_of in existing:
            lost = lost_shards(admin, plan.name, existing[plan.shards_of], existing[plan.name])
            if lost:
                differences.append(_shards_lost(plan.shards_of, existing[plan.shards_of], lost))
        if plan.name in configs:
            differences += _config_differences(plan, configs[plan.name])
            differences += _time_differences(plan, configs)
    return differences


def _partitions_differ(plan: TopicPlan, actual: int) -> Difference:
    return Difference(
        plan.name,
        "partitions",
        str(plan.partitions),
        str(actual),
        "its records are in one order, which is that of the index. Delete the topic if it was "
        "never used, and run 'firstseen topics create'; or begin a new index with another "
        "application_id",
    )


def _shards_lost(raw: str, actual: int, lost: Sequence[int]) -> Difference:
    return Difference(
        raw,
        "partitions",
        f"{max(lost) + 1} or more",
        str(actual),
        f"the index has the shards {', '.join(map(str, lost))} as well, so the topic was "
        "deleted and created again with fewer partitions. Give it at least as many as before "
        "(kafka-topics.sh --alter), or begin a new index with another application_id",
    )


def notes(admin: AdminClient, plans: Sequence[TopicPlan]) -> list[str]:
    """Return what is about to change in the topics by itself, and is no difference."""
    existing = partitions_of(admin, [plan.name for plan in plans])
    found: list[str] = []
    for plan in plans:
        shards, there = existing.get(plan.shards_of or ""), existing.get(plan.name)
        if shards is not None and there is not None and there < shards:
            found.append(
                f"{plan.shards_of} has {shards} partitions, {plan.name} {there}: workers add the "
                "missing ones where they may (ACL operation Alter), 'firstseen topics create' too"
            )
    return found


def lost_shards(admin: AdminClient, changelog: str, raw: int, partitions: int) -> list[int]:
    """Return the partitions of the changelog with records in them that no raw partition belongs to.

    ``raw`` and ``partitions``: how many the raw topic and the changelog have.
    """
    if partitions <= raw:
        return []
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # of the library
    wanted = {TopicPartition(changelog, each): latest for each in range(raw, partitions)}
    found: list[int] = []
    for place, future in admin.list_offsets(wanted, request_timeout=_ANSWER_SECONDS).items():
        try:
            if future.result(_ANSWER_SECONDS + 1.0).offset > 0:
                found.append(place.partition)
        except KafkaException as error:
            raise TopicsError(
                f"the end of {changelog}, partition {place.partition}, cannot be read: "
                f"{error.args[0].str()}"
            ) from error
    return sorted(found)


def _differs(topic: str, name: str, expected: object, actual: str, fix: str) -> Difference:
    change = f"kafka-configs.sh --alter --topic {topic} --add-config {name}={expected}"
    return Difference(topic, name, str(expected), actual, f"{fix} ({change})")


def _config_differences(plan: TopicPlan, config: Mapping[str, str]) -> list[Difference]:
    def differs(name: str, expected: object, fix: str) -> Difference:
        return _differs(plan.name, name, expected, config[name], fix)

    found: list[Difference] = []
    lower = "max_record_bytes" if plan.times_of else "batch.packets"
    if int(config["max.message.bytes"]) < plan.least_bytes:
        found.append(differs("max.message.bytes", plan.least_bytes, f"raise it, or lower {lower}"))
    policy = {part.strip() for part in config["cleanup.policy"].split(",")}
    if plan.cleanup_policy is not None and policy != {plan.cleanup_policy}:
        found.append(differs("cleanup.policy", plan.cleanup_policy, "documents would be lost"))
    if plan.least_retention_ms == FOR_EVER_MS:
        found += [
            differs(name, FOR_EVER_MS, "undecided documents could be deleted")
            for name in ("retention.ms", "retention.bytes")
            if int(config[name]) != FOR_EVER_MS
        ]
    elif 0 <= int(config["retention.ms"]) < plan.least_retention_ms:
        fix = "records could be deleted before they are read"
        found.append(differs("retention.ms", plan.least_retention_ms, fix))
    return found


def _time_differences(
    plan: TopicPlan, configs: Mapping[str, Mapping[str, str]]
) -> list[Difference]:
    """Say what keeps a topic from taking records at the times that those of another bear."""
    given, taken = configs.get(plan.times_of or "", {}), configs[plan.name]
    if _BY_BROKER in {given.get(_TIME_TYPE), taken.get(_TIME_TYPE)}:
        return []
    found: list[Difference] = []
    for name in (TIMES_AHEAD, TIMES_PAST):
        if name in given and name in taken and int(taken[name]) < int(given[name]):
            fix = f"a record of {plan.times_of} with such a time could not be put out"
            found.append(_differs(plan.name, name, given[name], taken[name], fix))
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
    """Return what the cluster says of itself, once it lists a broker.

    One that stood still for some seconds may be fenced, for a moment, by its own controller.
    """
    return retrying(_ANSWER_SECONDS, _AGAIN_SECONDS, _is_out_of_service)(_listed, admin)


def _listed(admin: AdminClient) -> Any:  # noqa: ANN401 - as above
    try:
        metadata = admin.list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException as error:
        raise BrokerUnavailableError(
            f"the Kafka broker does not answer: {error.args[0].str()}"
        ) from error
    if not metadata.brokers:
        raise _OutOfServiceError(
            "the Kafka cluster lists no broker that is in service: look at its brokers' logs"
        )
    return metadata


def _is_out_of_service(error: BaseException) -> bool:
    return isinstance(error, _OutOfServiceError)
