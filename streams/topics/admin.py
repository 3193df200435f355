"""Creates topics, describes them, finds their ids, and keeps raw topic and changelog in step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic

from streams.errors import BrokerRefusedError, BrokerUnavailableError
from streams.kafka.clients import AdminClient
from streams.kafka.errors import Retries, becomes_true, is_passing, retrying_on_loop
from streams.settings.settings import Settings
from streams.topics.plans import REPLICAS, TIMES_AHEAD, TopicPlan

logger = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 10.0
_BROKER_SESSION: Final = "broker.session.timeout.ms"
_AGAIN_SECONDS: Final = 0.2


class TopicsError(BrokerRefusedError):
    """Topics that cannot be created or used; the message names each, and the fix."""


class _OutOfServiceError(BrokerUnavailableError):
    """The cluster answers, but lists no broker."""


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
    return {name: len(partitions) for name, partitions in _known(admin, topics).items()}


def replicas_of(admin: AdminClient, topics: Iterable[str]) -> dict[str, int]:
    return {
        name: min((len(each.replicas) for each in partitions.values()), default=0)
        for name, partitions in _known(admin, topics).items()
    }


def _known(admin: AdminClient, topics: Iterable[str]) -> dict[str, Any]:
    """Return the partitions of existing topics by number."""
    known = _metadata(admin).topics
    there = (name for name in topics if name in known and known[name].error is None)
    return {name: known[name].partitions for name in there}


def broker_count(admin: AdminClient) -> int:
    return len(_metadata(admin).brokers)


def broker_session_ms(admin: AdminClient) -> int | None:
    """Return after how long the cluster gives up a broker that is silent (KRaft).

    None for a single broker, and where brokers do not say it to this user.
    """
    brokers = _metadata(admin).brokers
    if len(brokers) == 1:
        return None
    resource = ConfigResource(ConfigResource.Type.BROKER, str(min(brokers)))
    (future,) = admin.describe_configs([resource], request_timeout=_ANSWER_SECONDS).values()
    try:
        entry = future.result(_ANSWER_SECONDS + 1.0).get(_BROKER_SESSION)
    except (KafkaException, TimeoutError):
        return None
    return None if entry is None or entry.value is None else int(entry.value)


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
    _await_partitions(admin, dict.fromkeys(created, 1), timeout_seconds)
    return [
        Creation(plan, True, plan.config_for(replicas))
        if plan.name in created
        else Creation(plan, False, {})
        for plan in plans
    ]


def _created(
    admin: AdminClient, plans: Sequence[TopicPlan], replicas: int, timeout_seconds: float
) -> set[str]:
    # The result lacks topics that another process created in the meantime.
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
        # An older broker, which lacks this setting, accepts any time.
        created |= _created(admin, plainer, replicas, timeout_seconds)
    if failures:
        raise TopicsError("topics cannot be created: " + "; ".join(failures))
    return created


def _hint(reason: KafkaError) -> str:
    match reason.code():
        case KafkaError.INVALID_REPLICATION_FACTOR:
            return " (--replication-factor can be at most the number of brokers)"
        case KafkaError.TOPIC_AUTHORIZATION_FAILED | KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return " (the user needs the permission to create it: ACL operation Create)"
    return ""


def _await_partitions(admin: AdminClient, wanted: Mapping[str, int], seconds: float) -> None:
    """Wait until brokers list the wanted partitions of each topic; raise ``TopicsError``."""

    def listed() -> bool:
        known = partitions_of(admin, wanted)
        return all(known.get(topic, 0) >= number for topic, number in wanted.items())

    if not becomes_true(listed, seconds, _AGAIN_SECONDS):
        raise TopicsError(
            f"{', '.join(wanted)}: partitions were created, but brokers do not list them after "
            f"{seconds:g} s"
        )


def topic_configs(admin: AdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return settings by topic; raise ``TopicsError`` or ``BrokerUnavailableError``."""
    if not names:
        return {}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=_ANSWER_SECONDS)
    configs: dict[str, dict[str, str]] = {}
    for resource, future in futures.items():
        entries = _answered(future, _ANSWER_SECONDS, f"the settings of {resource.name}")
        configs[resource.name] = {name: entry.value for name, entry in entries.items()}
    return configs


def _answered(future: Future[Any], seconds: float, what: str) -> Any:  # noqa: ANN401 - of any request
    """Return what a broker answers; raise ``TopicsError`` or ``BrokerUnavailableError``."""
    try:
        return future.result(seconds + 1.0)
    except (KafkaException, TimeoutError) as error:
        # If brokers have just failed, the client may wait for a controller that does not answer.
        passes = isinstance(error, TimeoutError) or is_passing(error)
        reason = error.args[0].str() if isinstance(error, KafkaException) else "timed out"
        kind = BrokerUnavailableError if passes else TopicsError
        raise kind(f"{what} cannot be read: {reason}") from error


def _metadata(admin: AdminClient) -> Any:  # noqa: ANN401 - ClusterMetadata is typed in no release
    """Return the cluster's metadata, once it lists a broker.

    After a pause of some seconds its controller may fence a broker for a moment.
    """
    again = Retries(
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


# ---- Ids of topics, which distinguish a topic from an earlier one of the same name.

_ID_SECONDS: Final = 5.0
_ID_AGAIN_SECONDS: Final = 0.5


def topic_id(admin: AdminClient, topic: str) -> str:
    """Return a topic's id, or ""; raise ``TopicsError`` or ``BrokerUnavailableError``."""
    return TopicIdResolver(lambda: admin, has_ids=False)(topic)


class TopicIdResolver:
    """Finds ids as ``topic_id`` does, with a new client after each unanswered request.

    After a short outage a client (librdkafka 2.16) may wait for the controller for ever; a new one
    does not.
    """

    def __init__(self, connect: Callable[[], AdminClient], *, has_ids: bool) -> None:
        """``has_ids`` says that the broker is known to take admin requests.

        Otherwise each call checks until the broker says so, because a broker that is starting can
        look like one that takes no admin requests.
        """
        self._connect = connect
        self._admin: AdminClient | None = None
        self._has_ids = has_ids

    def __call__(self, topic: str) -> str:
        if self._admin is None:  # not "or": a client is false while its queue is empty
            self._admin = self._connect()
        admin = self._admin
        try:
            self._has_ids = self._has_ids or can_administer(admin)
            return _described_id(admin, topic) if self._has_ids else ""
        except BrokerUnavailableError:
            self._admin = None
            raise


def _described_id(admin: AdminClient, topic: str) -> str:
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=_ID_SECONDS)
    return str(_answered(described[topic], _ID_SECONDS, f"the id of {topic}").topic_id)


class TopicIds:
    """Finds ids on the event loop, and tries again while a broker is away."""

    def __init__(self, ask: Callable[[str], str], wait_seconds: float) -> None:
        """``ask`` blocks, and raises as ``topic_id`` does; it is retried for ``wait_seconds``."""
        self._ask = ask
        self._wait_seconds = wait_seconds

    async def of(self, topic: str) -> str:
        """Raise ``BrokerUnavailableError`` or ``TopicsError`` when no broker answers in time."""
        again = retrying_on_loop(self._wait_seconds, _ID_AGAIN_SECONDS, _may_pass)
        return await again(asyncio.to_thread, self._ask, topic)

    def of_now(self, topic: str) -> str:
        return Retries(self._wait_seconds, _ID_AGAIN_SECONDS, _may_pass)(self._ask, topic)


def _may_pass(error: BaseException) -> bool:
    """Return whether to retry: a broker that has just come back may not know its topics yet."""
    if not isinstance(error, BrokerUnavailableError | TopicsError):
        return False
    logger.warning("asking for the id of a topic again: %s", error)
    return True


# ---- Shards: changelog partition p belongs to raw partition p.
#
# If the raw topic gets more partitions, there are new, empty shards (``grow_changelog``). If it is
# deleted and created again, its id changes and its chains begin again; entries stay. If it has
# fewer partitions than before, nobody owns the last shards, and look-ups would miss their entries
# (``refuse_lost_shards``).

_PARTITIONS_SECONDS: Final = 30.0


class RawTopic(NamedTuple):
    """``identifier`` is "" where the broker knows none."""

    name: str
    identifier: str
    partitions: int


def raw_topic(admin: AdminClient, settings: Settings) -> RawTopic:
    """Describe the raw topic. Blocking. Raises ``TopicsError`` or ``BrokerUnavailableError``."""
    name = settings.topics.raw
    partitions = _present(partitions_of(admin, [name]), name)
    return RawTopic(name, topic_id(admin, name), partitions)


def _present(partitions: Mapping[str, int], topic: str) -> int:
    if topic not in partitions:
        raise TopicsError(f"{topic} is missing: run 'firstseen topics create'")
    return partitions[topic]


def lost_shards(admin: AdminClient, changelog: str, raw: int, partitions: int) -> list[int]:
    """Return the changelog partitions from ``raw`` to ``partitions`` that have records."""
    if partitions <= raw:
        return []
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # of the library
    wanted = {TopicPartition(changelog, each): latest for each in range(raw, partitions)}
    ends = admin.list_offsets(wanted, request_timeout=_PARTITIONS_SECONDS)
    lost: list[int] = []
    for each, future in ends.items():
        what = f"the end of {changelog}, partition {each.partition},"
        if _answered(future, _PARTITIONS_SECONDS, what).offset > 0:
            lost.append(each.partition)
    return sorted(lost)


def refuse_lost_shards(admin: AdminClient, settings: Settings) -> None:
    raw, changelog = settings.topics.raw, settings.topics.changelog
    there = partitions_of(admin, [raw, changelog])
    lost = lost_shards(admin, changelog, there.get(raw, 0), there.get(changelog, 0))
    if lost:
        raise TopicsError(
            f"{raw} has {there.get(raw, 0)} partitions, and the index has {max(lost) + 1} shards: "
            "the topic was created again with fewer. Give it at least as many as before "
            f"(kafka-topics.sh --alter --topic {raw} --partitions {max(lost) + 1}), or start a "
            f"new index with another application_id"
        )


def grow_changelog(admin: AdminClient, settings: Settings) -> int:
    """Give the changelog the raw topic's partitions; return how many are new. Blocking."""
    raw, changelog = settings.topics.raw, settings.topics.changelog
    there = partitions_of(admin, [raw, changelog])
    wanted, before = (_present(there, name) for name in (raw, changelog))
    if before >= wanted:
        return 0
    if not can_administer(admin):
        raise TopicsError(
            f"{raw} has {wanted} partitions, {changelog} {before}, and this broker cannot add "
            "any: create both with the same number"
        )
    created = _create_partitions(admin, changelog, wanted)
    _await_partitions(admin, {changelog: wanted}, _PARTITIONS_SECONDS)
    return wanted - before if created else 0


def _create_partitions(admin: AdminClient, topic: str, wanted: int) -> bool:
    """Raise the number of partitions; return False where somebody else did."""
    futures = admin.create_partitions(
        [NewPartitions(topic, wanted)],
        operation_timeout=_PARTITIONS_SECONDS,
        request_timeout=_PARTITIONS_SECONDS,
    )
    try:
        futures[topic].result(_PARTITIONS_SECONDS + 1.0)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.INVALID_PARTITIONS:
            return False  # it has as many, or more: the wait that follows checks it
        by_hand = f"kafka-topics.sh --alter --topic {topic} --partitions {wanted}"
        raise TopicsError(
            f"{topic} needs {wanted} partitions, and they cannot be created: {reason.str()}. "
            "Grant the Kafka user the ACL operation Alter on it, or create them as a user who "
            f"may, with 'firstseen topics create' or {by_hand}"
        ) from error
    return True
