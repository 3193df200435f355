"""Compares topics with their plans.

A *difference* keeps workers from starting, because documents would be lost or never delivered. A
*note* tells an operator about settings that work, but may lose records or let the stream wait.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin._acl import AclOperation

from streams.errors import Problem, SettingsError
from streams.kafka.client_config import client_config
from streams.kafka.clients import AdminClient, Consumer, committed_offsets
from streams.settings.settings import Settings
from streams.topics.admin import (
    broker_count,
    broker_session_ms,
    can_administer,
    lost_shards,
    partitions_of,
    replicas_of,
    topic_configs,
)
from streams.topics.plans import (
    ANY_TIME_MS,
    FOR_EVER_MS,
    MIN_IN_SYNC,
    REPLICAS,
    TIMES_AHEAD,
    TIMES_PAST,
    TopicPlan,
)

# ---- Partitions with too few copies in sync: brokers refuse their records.

_SPARE_SECONDS: Final = 1.0


class TooFewCopies(NamedTuple):
    """``partitions`` have too few copies in sync; ``in_sync`` and ``replicas`` are of the worst."""

    topic: str
    partitions: tuple[int, ...]
    in_sync: int
    replicas: int
    min_in_sync: int

    def __str__(self) -> str:
        return (
            f"{self.topic} accepts no records: it has {self.in_sync} of {self.replicas} copies in "
            f"sync, and min.insync.replicas is {self.min_in_sync}"
        )


class SyncCopies:
    """Asks brokers for the copies in sync of topics; for one thread."""

    def __init__(
        self, config: Mapping[str, Any], min_in_sync: Mapping[str, int], timeout_seconds: float
    ) -> None:
        """Connect with the first request; ``min_in_sync`` is ``min.insync.replicas`` by topic."""
        self._config = {**config, "log_level": 0}
        self._min_in_sync = min_in_sync
        self._timeout_seconds = timeout_seconds
        self._admin: AdminClient | None = None

    def too_few(self) -> list[TooFewCopies] | None:
        """Return the topics that take no records; None where the brokers do not answer."""
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
            # A client that lost its brokers may wait for a controller for ever (librdkafka 2.16).
            self._admin = None
            return None
        return short

    def _of_topic(self, name: str, described: Any) -> Iterator[TooFewCopies]:  # noqa: ANN401 - typed in no release
        number = self._min_in_sync[name]
        short = [each for each in described.partitions if len(each.isr) < number]
        if short:
            worst = min(short, key=lambda each: len(each.isr))
            yield TooFewCopies(
                name, tuple(each.id for each in short), len(worst.isr), len(worst.replicas), number
            )


# ---- The user's permissions, checked before a worker starts.
#
# Without permissions a consumer waits without a message, and a producer fails at its first batch.
# Brokers do not report rights to transactional ids; the first transaction tests them. Alter on the
# changelog is not checked, because only a growing raw topic needs it (``streams.topics.admin``).

_ANSWER_SECONDS: Final = 10.0
_TRY_SECONDS: Final = 0.5
_READ: Final = frozenset({AclOperation.READ})
_WRITE: Final = frozenset({AclOperation.WRITE})
_DELETE: Final = frozenset({AclOperation.DELETE})


def refuse_missing_permissions(admin: AdminClient, settings: Settings) -> None:
    """Raise ``SettingsError`` with all permissions that brokers report as missing."""
    problems = [
        Problem("kafka", "", "settings", f"the Kafka user may not {what}: grant it (ACL)")
        for what in (*_missing_at_topics(admin, settings), *_missing_at_group(settings))
    ]
    if problems:
        raise SettingsError(problems)


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


def _missing_at_group(settings: Settings) -> Iterator[str]:
    # Only a user with some right to the group gets its offsets. Describe is enough for that, but
    # not for joining the group: then the worker is refused later.
    group = settings.application_id
    consumer = Consumer({**client_config(settings, group_id=group), "log_level": 0})
    raw = [TopicPartition(settings.topics.raw, 0)]
    deadline = time.monotonic() + _ANSWER_SECONDS
    with closing(consumer):
        while time.monotonic() < deadline:
            try:
                committed_offsets(consumer, raw, _TRY_SECONDS)
            except KafkaException as error:
                reason: KafkaError = error.args[0]
            else:
                return
            # A group without a coordinator for this user shows nothing about rights.
            message = consumer.poll(0)
            reported = reason if message is None else message.error() or reason
            if KafkaError.GROUP_AUTHORIZATION_FAILED in {reason.code(), reported.code()}:
                yield f"Read group {group}"
                return


_NEW_INDEX: Final = (
    ". This application_id has no index yet, and a new one reads all of {} from its first "
    "record. If an index should exist, correct application_id (or brokers) instead"
)
# For a heartbeat before the broker died, the election, and one after it.
_SESSION_AFTER_BROKER_SECONDS: Final = 4
_BATCH_HEADER_BYTES: Final = 61  # max.message.bytes is of a batch; brokers' default is 1 MiB + 12
_UNCLEAN: Final = "unclean.leader.election.enable"
_TIME_TYPE: Final = "message.timestamp.type"
_BY_BROKER: Final = "LogAppendTime"
_UNITS_MS: Final = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000}


class TopicDifference(NamedTuple):
    """``what`` is "missing" or the name of a Kafka setting."""

    topic: str
    what: str
    expected: str
    actual: str
    fix: str

    def __str__(self) -> str:
        if self.what == "missing":
            return f"{self.topic} is missing: {self.fix}"
        return f"{self.topic} has {self.what} {self.actual}, not {self.expected}: {self.fix}"


class TopicState(NamedTuple):
    """A topic as brokers describe it; None where they do not."""

    topic: str
    partitions: int
    replicas: int  # of the partition with the fewest
    min_in_sync: int | None
    retention_ms: int | None  # -1: for ever


class Checked(NamedTuple):
    states: list[TopicState]
    differences: list[TopicDifference]
    notes: list[str]


def check(admin: AdminClient, plans: Sequence[TopicPlan]) -> Checked:
    """Check topics, and their settings where brokers take admin requests; raise ``TopicsError``."""
    existing = partitions_of(admin, [plan.name for plan in plans])
    there = [plan for plan in plans if plan.name in existing]
    configs = topic_configs(admin, [plan.name for plan in there]) if can_administer(admin) else {}
    replicas = replicas_of(admin, existing)
    states = [
        TopicState(
            plan.name,
            existing[plan.name],
            replicas.get(plan.name, 0),
            int(configs[plan.name][MIN_IN_SYNC]) if plan.name in configs else None,
            _retention_ms(configs[plan.name]) if plan.name in configs else None,
        )
        for plan in there
    ]
    differences: list[TopicDifference] = []
    for plan in plans:
        if plan.name not in existing:
            create = "run 'firstseen topics create'"
            new = _NEW_INDEX.format(plan.shards_of) if plan.shards_of else ""
            differences.append(TopicDifference(plan.name, "missing", "", "", create + new))
            continue
        if plan.fixed_partitions and plan.partitions not in {None, existing[plan.name]}:
            differences.append(_partitions_differ(plan, existing[plan.name]))
        if plan.shards_of in existing:
            lost = lost_shards(admin, plan.name, existing[plan.shards_of], existing[plan.name])
            if lost:
                differences.append(_shards_lost(plan.shards_of, existing[plan.shards_of], lost))
        if plan.name in configs:
            differences += _config_differences(plan, configs[plan.name], replicas[plan.name])
            differences += _time_differences(plan, configs)
    brokers = broker_count(admin)
    notes = list(_growth_notes(plans, existing))
    for plan, state in zip(there, states, strict=True):
        if plan.is_durable and state.min_in_sync is not None:
            notes += copy_notes(state, brokers)
        if plan.name in configs:
            notes += _retention_notes(plan, configs[plan.name])
            notes += _compaction_notes(plan, configs[plan.name])
            notes += _age_notes(plan, configs[plan.name])
            notes += _clock_notes(plan, configs[plan.name])
            notes += _size_notes(plan, configs[plan.name])
    return Checked(states, differences, [*notes, *_election_notes(states, configs)])


def output_retentions(admin: AdminClient, plans: Sequence[TopicPlan]) -> dict[str, int]:
    """Return how long each output topic keeps records by their own time, in milliseconds.

    Topics that keep records for ever, or by the broker's time, are left out.
    """
    if not can_administer(admin):
        return {}
    names = [plan.name for plan in plans if plan.output_retention_ms is not None]
    configs = topic_configs(admin, list(partitions_of(admin, names)))
    return {
        name: _retention_ms(config)
        for name, config in configs.items()
        if _retention_ms(config) != FOR_EVER_MS and config.get(_TIME_TYPE) != _BY_BROKER
    }


def _retention_ms(config: Mapping[str, str]) -> int:
    deletes = "delete" in config["cleanup.policy"]
    return int(config["retention.ms"]) if deletes else FOR_EVER_MS


def _partitions_differ(plan: TopicPlan, actual: int) -> TopicDifference:
    return TopicDifference(
        plan.name,
        "partitions",
        str(plan.partitions),
        str(actual),
        "the order of its records is the order of the index. Delete the topic if it was never "
        "used, and run 'firstseen topics create'; or start a new index with another "
        "application_id",
    )


def _shards_lost(raw: str, actual: int, lost: Sequence[int]) -> TopicDifference:
    return TopicDifference(
        raw,
        "partitions",
        f"{max(lost) + 1} or more",
        str(actual),
        f"the index has the shards {', '.join(map(str, lost))} as well, so the topic was "
        "deleted and created again with fewer partitions. Give it at least as many as before "
        "(kafka-topics.sh --alter), or start a new index with another application_id",
    )


def _growth_notes(plans: Sequence[TopicPlan], existing: Mapping[str, int]) -> Iterator[str]:
    for plan in plans:
        shards, there = existing.get(plan.shards_of or ""), existing.get(plan.name)
        if shards is not None and there is not None and there < shards:
            yield (
                f"{plan.shards_of} has {shards} partitions, {plan.name} {there}: workers add the "
                "missing ones where they may (ACL operation Alter), 'firstseen topics create' too"
            )


def copy_notes(state: TopicState, brokers: int) -> Iterator[str]:
    replicas_wanted = min(REPLICAS, brokers)
    topic, _, replicas, min_in_sync, _ = state
    assert min_in_sync is not None
    if replicas < replicas_wanted:
        yield (
            f"{topic} has {_copies(replicas)}, the cluster can hold {replicas_wanted}: if a "
            "broker is lost, records may be lost with it (kafka-reassign-partitions.sh adds "
            "copies)"
        )
    if replicas >= REPLICAS and min_in_sync < REPLICAS - 1:
        yield (
            f"a write to {topic} is acknowledged once {min_in_sync} of {replicas} brokers has it: "
            f"if that one fails, the record is lost ({_change(topic, MIN_IN_SYNC, REPLICAS - 1)})"
        )
    if 1 < replicas == min_in_sync:
        yield (
            f"{topic} has {_copies(replicas)} and {MIN_IN_SYNC} {min_in_sync}: while one broker "
            f"is away, no output is written ({_change(topic, MIN_IN_SYNC, replicas - 1)})"
        )


def session_notes(admin: AdminClient, settings: Settings) -> list[str]:
    """Note a session of workers that does not outlive the death of a broker.

    While a dead broker counts as in sync, the group's coordinator commits no offsets, and since
    Kafka 4.0 its answers to heartbeats wait for them. A member whose session ends meanwhile joins
    the group again, and the group waits one more session for its former self.
    """
    broker_ms = broker_session_ms(admin) if can_administer(admin) else None
    if broker_ms is None:
        return []
    wanted = -(-broker_ms // 1000) + _SESSION_AFTER_BROKER_SECONDS
    if settings.session_timeout_seconds >= wanted:
        return []
    note = (
        f"session_timeout_seconds is {settings.session_timeout_seconds:g}, and the cluster gives "
        f"up a dead broker after {broker_ms / 1000:g} s (broker.session.timeout.ms): then all "
        "workers join the group again, and the stream waits a session longer. Set "
        f"session_timeout_seconds to {wanted} or more, or broker.session.timeout.ms to less"
    )
    return [note]


def _copies(number: int) -> str:
    return "1 copy" if number == 1 else f"{number} copies"


def _retention_notes(plan: TopicPlan, config: Mapping[str, str]) -> Iterator[str]:
    """Yield notes on output topics that delete records earlier than the settings say."""
    wanted, actual = plan.output_retention_ms, _retention_ms(config)
    if wanted is None or actual == FOR_EVER_MS or FOR_EVER_MS < wanted <= actual:
        return
    by_broker = config.get(_TIME_TYPE) == _BY_BROKER
    since = "they were written" if by_broker else "the time of their raw record"
    yield (
        f"{plan.name} deletes records {retention_text(actual)} after {since}, and "
        f"output_retention_ms is {retention_text(wanted)} "
        f"({_change(plan.name, 'retention.ms', wanted)}, or set output_retention_ms)"
    )


def _compaction_notes(plan: TopicPlan, config: Mapping[str, str]) -> Iterator[str]:
    """Yield a note on a compacted output topic, which needs a key in every record."""
    if plan.output_retention_ms is None or "compact" not in config["cleanup.policy"]:
        return
    yield (
        f"{plan.name} is compacted: it keeps the last record of each key only, and refuses a "
        "record without a key, where the shard then stands still. Send all raw records with a key "
        f"of their own ({_change(plan.name, 'cleanup.policy', 'delete')} ends the compaction)"
    )


def _age_notes(plan: TopicPlan, config: Mapping[str, str]) -> Iterator[str]:
    """Yield a note on an output topic that refuses old records.

    The raw topic may have the same limit, but outputs come later than their raw records.
    """
    limit_ms = int(config.get(TIMES_PAST, ANY_TIME_MS))
    if plan.times_of is None or limit_ms == ANY_TIME_MS or config.get(_TIME_TYPE) == _BY_BROKER:
        return
    yield (
        f"{plan.name} refuses records that are older than {retention_text(limit_ms)}, and outputs "
        "have the time of their raw record: workers that are behind for longer end at the first "
        f"one ({_change(plan.name, TIMES_PAST, ANY_TIME_MS)})"
    )


def _clock_notes(plan: TopicPlan, config: Mapping[str, str]) -> Iterator[str]:
    """Yield a note on an internal topic whose records have the times of workers' clocks."""
    if plan.config.get(_TIME_TYPE) != _BY_BROKER or config.get(_TIME_TYPE) == _BY_BROKER:
        return
    yield (
        f"records on {plan.name} have the time of the worker that sends them: one whose clock is "
        "ahead may be refused by the broker, and end, and moves the window with its clock "
        f"({_change(plan.name, _TIME_TYPE, _BY_BROKER)})"
    )


def _size_notes(plan: TopicPlan, config: Mapping[str, str]) -> Iterator[str]:
    """Yield a note where the topic admits records that are too large to be read."""
    admitted = int(config["max.message.bytes"])
    if plan.read_bytes is None or admitted - _BATCH_HEADER_BYTES <= plan.read_bytes:
        return
    yield (
        f"{plan.name} admits records of {admitted} bytes, and max_record_bytes is "
        f"{plan.read_bytes}: a larger record becomes a dead letter (too_large) that may have only "
        f"a part of it. Set max_record_bytes to {admitted}, or lower the limit of the topic "
        f"({_change(plan.name, 'max.message.bytes', plan.read_bytes)})"
    )


def _election_notes(
    states: Sequence[TopicState], configs: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Yield a note on topics of which a new leader may lack acknowledged records."""
    names = [
        state.topic
        for state in states
        if state.replicas > 1 and configs.get(state.topic, {}).get(_UNCLEAN) == "true"
    ]
    if names:
        yield (
            f"{_UNCLEAN} is true for {', '.join(names)}: brokers may elect a leader that lacks "
            "acknowledged records. A log or changelog that lacks records stops the workers "
            f"({_change('TOPIC', _UNCLEAN, 'false')})"
        )


def retention_text(milliseconds: int) -> str:
    if milliseconds == FOR_EVER_MS:
        return "for ever"
    unit, size = next(
        (each for each in _UNITS_MS.items() if milliseconds % each[1] == 0), ("ms", 1)
    )
    number = milliseconds // size
    return f"{number} {unit}" + ("s" if number != 1 and size > 1 else "")


def _change(topic: str, name: str, value: object) -> str:
    return f"kafka-configs.sh --alter --topic {topic} --add-config {name}={value}"


def _differs(topic: str, name: str, expected: object, actual: str, fix: str) -> TopicDifference:
    change = _change(topic, name, expected)
    return TopicDifference(topic, name, str(expected), actual, f"{fix} ({change})")


def _config_differences(
    plan: TopicPlan, config: Mapping[str, str], replicas: int
) -> Iterator[TopicDifference]:
    def differs(name: str, expected: object, fix: str) -> TopicDifference:
        return _differs(plan.name, name, expected, config[name], fix)

    wanted = plan.config
    bytes_wanted = int(wanted.get("max.message.bytes", 0))
    if int(config["max.message.bytes"]) < bytes_wanted:
        yield differs("max.message.bytes", bytes_wanted, f"raise it, or lower {plan.sized_by}")
    if int(config[MIN_IN_SYNC]) > replicas:
        fix = f"the topic has {_copies(replicas)}, so brokers refuse every record"
        yield differs(MIN_IN_SYNC, replicas, fix)
    policy = {part.strip() for part in config["cleanup.policy"].split(",")}
    if "cleanup.policy" in wanted and policy != {wanted["cleanup.policy"]}:
        yield differs("cleanup.policy", wanted["cleanup.policy"], "documents would be lost")
    if plan.min_retention_ms == FOR_EVER_MS:
        for name in ("retention.ms", "retention.bytes"):
            if int(config[name]) != FOR_EVER_MS:
                yield differs(name, FOR_EVER_MS, "undecided documents could be deleted")
    elif 0 <= int(config["retention.ms"]) < plan.min_retention_ms:
        fix = "records could be deleted before they are read"
        yield differs("retention.ms", plan.min_retention_ms, fix)


def _time_differences(
    plan: TopicPlan, configs: Mapping[str, Mapping[str, str]]
) -> Iterator[TopicDifference]:
    """Yield why a topic may refuse the times of another topic's records."""
    theirs, own = configs.get(plan.times_of or "", {}), configs[plan.name]
    if _BY_BROKER in {theirs.get(_TIME_TYPE), own.get(_TIME_TYPE)}:
        return
    for name in (TIMES_AHEAD, TIMES_PAST):
        if name in theirs and name in own and int(own[name]) < int(theirs[name]):
            fix = f"a record of {plan.times_of} with such a time could not be output"
            yield _differs(plan.name, name, theirs[name], own[name], fix)
