"""Comparing topics with what they must be: what cannot be used, and what an operator should know.

A *difference* keeps workers from starting: with it documents would be lost, or never put out. A
*note* is about what works, and may lose what an operator did not mean to lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient

from streams.topics.admin import (
    broker_count,
    can_administer,
    partitions_of,
    replicas_of,
    topic_configs,
)
from streams.topics.plans import (
    FOR_EVER_MS,
    MIN_IN_SYNC,
    REPLICAS,
    TIMES_AHEAD,
    TIMES_PAST,
    TopicPlan,
)
from streams.topics.shard_topics import lost_shards

_TIME_TYPE: Final = "message.timestamp.type"
_BY_BROKER: Final = "LogAppendTime"
_UNITS_MS: Final = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000}


class TopicDifference(NamedTuple):
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


class TopicState(NamedTuple):
    """A topic as brokers have it.

    Attributes:
        topic: Its name.
        partitions: Their number.
        replicas: Copies of the partition with the fewest.
        min_in_sync: How many must have a record before a write counts; None where brokers do not
            say.
        retention_ms: How long records are kept, by their own time; -1: for ever; None as above.
    """

    topic: str
    partitions: int
    replicas: int
    min_in_sync: int | None
    retention_ms: int | None


class Checked(NamedTuple):
    """What was found: the topics that exist, what is wrong with topics, what to know of them."""

    states: list[TopicState]
    differences: list[TopicDifference]
    notes: list[str]


def check(admin: AdminClient, plans: Sequence[TopicPlan]) -> Checked:
    """Check the topics and their configuration.

    Settings of topics are left out where the broker takes no admin requests. Raises ``TopicsError``
    where they cannot be read.
    """
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
            differences.append(
                TopicDifference(plan.name, "missing", "", "", "run 'firstseen topics create'")
            )
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
    return Checked(states, differences, notes)


def output_retentions(admin: AdminClient, plans: Sequence[TopicPlan]) -> dict[str, int]:
    """Return by output topic how long it keeps a record by the record's own time, in milliseconds.

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
        "its records are in one order, which is that of the index. Delete the topic if it was "
        "never used, and run 'firstseen topics create'; or start a new index with another "
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
    """Yield what is about to change in the topics by itself."""
    for plan in plans:
        shards, there = existing.get(plan.shards_of or ""), existing.get(plan.name)
        if shards is not None and there is not None and there < shards:
            yield (
                f"{plan.shards_of} has {shards} partitions, {plan.name} {there}: workers add the "
                "missing ones where they may (ACL operation Alter), 'firstseen topics create' too"
            )


def copy_notes(state: TopicState, brokers: int) -> Iterator[str]:
    """Yield what the failure of one broker of so many would do to a topic."""
    replicas_wanted = min(REPLICAS, brokers)
    topic, _, replicas, min_in_sync, _ = state
    assert min_in_sync is not None
    if replicas < replicas_wanted:
        yield (
            f"{topic} has {_copies(replicas)}, the cluster can hold {replicas_wanted}: a broker "
            "that fails for good may take records with it (kafka-reassign-partitions.sh adds "
            "copies)"
        )
    if replicas >= REPLICAS and min_in_sync < REPLICAS - 1:
        yield (
            f"a write to {topic} counts once {min_in_sync} of {replicas} brokers has it: if that "
            f"one fails, the record is lost ({_change(topic, MIN_IN_SYNC, REPLICAS - 1)})"
        )
    if 1 < replicas == min_in_sync:
        yield (
            f"{topic} has {_copies(replicas)} and {MIN_IN_SYNC} {min_in_sync}: while one broker is "
            f"away, nothing is put out ({_change(topic, MIN_IN_SYNC, replicas - 1)})"
        )


def _copies(number: int) -> str:
    return "1 copy" if number == 1 else f"{number} copies"


def _retention_notes(plan: TopicPlan, config: Mapping[str, str]) -> Iterator[str]:
    """Yield that an output topic deletes records sooner than the settings say."""
    wanted, actual = plan.output_retention_ms, _retention_ms(config)
    if wanted is None or actual == FOR_EVER_MS or FOR_EVER_MS < wanted <= actual:
        return
    by_broker = config.get(_TIME_TYPE) == _BY_BROKER
    since = "they were put out" if by_broker else "the time of their raw record"
    yield (
        f"{plan.name} deletes records {retention_text(actual)} after {since}, and "
        f"output_retention_ms is {retention_text(wanted)} "
        f"({_change(plan.name, 'retention.ms', wanted)}, or set output_retention_ms)"
    )


def retention_text(milliseconds: int) -> str:
    """Return how long records are kept, for people: ``7 days``, ``1 hour``, ``for ever``."""
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
) -> list[TopicDifference]:
    def differs(name: str, expected: object, fix: str) -> TopicDifference:
        return _differs(plan.name, name, expected, config[name], fix)

    differences: list[TopicDifference] = []
    lower = "max_record_bytes" if plan.times_of else "batch.packets"
    if int(config["max.message.bytes"]) < plan.min_message_bytes:
        differences.append(
            differs("max.message.bytes", plan.min_message_bytes, f"raise it, or lower {lower}")
        )
    if int(config[MIN_IN_SYNC]) > replicas:
        fix = f"the topic has {_copies(replicas)}, so brokers refuse every record"
        differences.append(differs(MIN_IN_SYNC, replicas, fix))
    policy = {part.strip() for part in config["cleanup.policy"].split(",")}
    if plan.cleanup_policy is not None and policy != {plan.cleanup_policy}:
        differences.append(
            differs("cleanup.policy", plan.cleanup_policy, "documents would be lost")
        )
    if plan.min_retention_ms == FOR_EVER_MS:
        differences += [
            differs(name, FOR_EVER_MS, "undecided documents could be deleted")
            for name in ("retention.ms", "retention.bytes")
            if int(config[name]) != FOR_EVER_MS
        ]
    elif 0 <= int(config["retention.ms"]) < plan.min_retention_ms:
        fix = "records could be deleted before they are read"
        differences.append(differs("retention.ms", plan.min_retention_ms, fix))
    return differences


def _time_differences(
    plan: TopicPlan, configs: Mapping[str, Mapping[str, str]]
) -> list[TopicDifference]:
    """Say what keeps a topic from taking records at the times that those of another have."""
    input_config, output_config = configs.get(plan.times_of or "", {}), configs[plan.name]
    if _BY_BROKER in {input_config.get(_TIME_TYPE), output_config.get(_TIME_TYPE)}:
        return []
    differences: list[TopicDifference] = []
    for name in (TIMES_AHEAD, TIMES_PAST):
        if (
            name in input_config
            and name in output_config
            and int(output_config[name]) < int(input_config[name])
        ):
            fix = f"a record of {plan.times_of} with such a time could not be put out"
            differences.append(
                _differs(plan.name, name, input_config[name], output_config[name], fix)
            )
    return differences
