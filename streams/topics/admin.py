"""Creates the topics of ``streams.topics.plans``, and describes existing ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from streams.errors import BrokerRefusedError, BrokerUnavailableError
from streams.kafka.clients import AdminClient
from streams.kafka.errors import becomes_true, retrying
from streams.topics.plans import REPLICAS, TIMES_AHEAD, TopicPlan

_ANSWER_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 0.2


class TopicsError(BrokerRefusedError):
    """Topics that cannot be created or used; the message names each, and the fix."""


class _OutOfServiceError(BrokerUnavailableError):
    """The cluster answers, and lists no broker."""


class Creation(NamedTuple):
    """A topic after ``create``; without ``config`` where it existed before."""

    plan: TopicPlan
    created: bool
    config: Mapping[str, str]


def can_administer(admin: AdminClient) -> bool:
    """Return whether the broker takes admin requests; librdkafka's mock broker takes none."""
    metadata = _metadata(admin)
    return metadata.controller_id in metadata.brokers


def partitions_of(admin: AdminClient, topics: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of existing topics; asking creates none."""
    known = _metadata(admin).topics
    return {
        name: len(known[name].partitions)
        for name in topics
        if name in known and known[name].error is None
    }


def replicas_of(admin: AdminClient, topics: Iterable[str]) -> dict[str, int]:
    known = _metadata(admin).topics
    return {
        name: min((len(each.replicas) for each in known[name].partitions.values()), default=0)
        for name in topics
        if name in known and known[name].error is None
    }


def broker_count(admin: AdminClient) -> int:
    return len(_metadata(admin).brokers)


def create(
    admin: AdminClient,
    plans: Sequence[TopicPlan],
    *,
    replication_factor: int | None = None,
    timeout_seconds: float = 30.0,
) -> list[Creation]:
    """Create the missing topics, and wait until all can be used.

    Existing topics are left as they are (see ``streams.topics.checking``). The default
    ``replication_factor`` is three, or the number of brokers if lower; with three, two copies must
    have a record of a durable topic before its write counts. ``timeout_seconds`` bounds each wait.
    Raises ``TopicsError`` for topics that could not be created, after all others.
    """
    existing = partitions_of(admin, [plan.name for plan in plans])
    missing = [plan for plan in plans if plan.name not in existing]
    if missing and not can_administer(admin):
        raise TopicsError(
            f"this broker cannot create topics on request, and {missing[0].name} is missing. "
            "(librdkafka's in-process broker creates a topic when it is first used)"
        )
    replicas = replication_factor or min(REPLICAS, broker_count(admin))
    created = _created(admin, missing, replicas, timeout_seconds) if missing else set()
    _await_visible(admin, created, timeout_seconds)
    return [
        Creation(plan, True, plan.config_for(replicas))
        if plan.name in created
        else Creation(plan, False, {})
        for plan in plans
    ]


def _created(
    admin: AdminClient, plans: Sequence[TopicPlan], replicas: int, timeout_seconds: float
) -> set[str]:
    # The result lacks topics that somebody else created meanwhile.
    wanted: dict[str, NewTopic] = {}
    for plan in plans:
        name, partitions = plan.name, plan.partitions
        if partitions is None:
            raise TopicsError(f"{name} is missing: give the number of its partitions, --partitions")
        wanted[name] = NewTopic(name, partitions, replicas, config=plan.config_for(replicas))
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
        # A broker from before this setting takes any time without it.
        created |= _created(admin, plainer, replicas, timeout_seconds)
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
    if not becomes_true(
        lambda: names <= partitions_of(admin, names).keys(), timeout_seconds, _AGAIN_SECONDS
    ):
        raise TopicsError(
            f"topics were created, but brokers do not list them after {timeout_seconds:g} s"
        )


def topic_configs(admin: AdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
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
    """Return the cluster's metadata, once it lists a broker.

    After a pause of some seconds its controller may fence a broker for a moment.
    """
    again = retrying(
        _ANSWER_SECONDS, _AGAIN_SECONDS, lambda error: isinstance(error, _OutOfServiceError)
    )
    return again(_listed, admin)


def _listed(admin: AdminClient) -> Any:  # noqa: ANN401 - as above
    try:
        metadata = admin.list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException as error:
        raise BrokerUnavailableError(
            f"the Kafka broker does not answer: {error.args[0].str()}"
        ) from error
    if not metadata.brokers:
        raise _OutOfServiceError("the Kafka cluster lists no running broker: see the brokers' logs")
    return metadata
