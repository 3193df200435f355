"""`firstseen topics`: what is made, what is found wrong, and what happens without a broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions

from streams.errors import ExitCode
from streams.kafka.clients import AdminClient, Producer
from streams.settings.settings import KIB, Settings, TopicSettings
from streams.topics.admin import TopicsError, create, partitions_of
from streams.topics.checking import (
    TopicState,
    check,
    copy_notes,
    output_retentions,
    retention_text,
)
from streams.topics.plans import (
    MIN_IN_SYNC,
    REPORTS_KEPT_MIN_MS,
    TIMES_AHEAD,
    TIMES_PAST,
    topic_plans,
)
from streams.topics.shard_topics import grow_changelog, raw_topic, refuse_lost_shards
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that
from tests.unit.cli.running import firstseen


def settings_for(broker: Broker) -> Settings:
    """Settings with topics that no other test has."""
    application = broker.unique("app")
    names = ("raw", "unique", "duplicates", "dead_letters")
    topics = TopicSettings(**{name: f"{application}.{name}" for name in names})
    return Settings(application_id=application, brokers=broker.bootstrap_servers, topics=topics)


def options(settings: Settings) -> list[str]:
    """The command-line options that give these settings."""
    topics = msgspec.structs.asdict(settings.topics)
    sets = [part for name, topic in topics.items() for part in ("--set", f"topics.{name}={topic}")]
    return ["--broker", settings.brokers, "--application-id", settings.application_id, *sets]


def run(settings: Settings, *arguments: str) -> tuple[int, Any]:
    """Run `firstseen topics …  --json`; return its code and what it wrote."""
    result = firstseen("topics", *arguments, *options(settings), "--json")
    return result.returncode, json.loads(result.stdout)


def add_partitions(admin: AdminClient, topic: str, total: int) -> None:
    """Give a topic more partitions, as an operator would."""
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)
    await_that(lambda: partitions_of(admin, [topic]).get(topic) == total)


def alter(settings: Settings, topic: str, changes: Mapping[str, str]) -> None:
    """Change the settings of a topic, as an operator would."""
    admin = AdminClient({"bootstrap.servers": settings.brokers})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in changes.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


def test_topics_are_made_once(kafka_broker: Broker) -> None:
    """Given a broker without the topics, when they are created twice, then the first time makes
    all, with the partitions and settings that they need, and the second time changes nothing.
    """
    settings = settings_for(kafka_broker)
    topics = settings.topics

    code, first = run(settings, "create", "--partitions", "3")
    again, second = run(settings, "create", "--partitions", "4")

    assert (code, again) == (ExitCode.OK, ExitCode.OK)
    assert {row["topic"]: row["partitions"] for row in first["topics"]} == {
        topics.raw: 3,
        topics.unique: 3,
        topics.duplicates: 3,
        topics.dead_letters: 1,
        topics.log: 1,
        topics.reports: 1,
        topics.changelog: 3,
    }
    assert all(row["created"] for row in first["topics"])
    assert not any(row["created"] or row["added"] for row in second["topics"])
    code, checked = run(settings, "check")
    assert (code, checked["fit"]) == (ExitCode.OK, True)
    assert (checked["differences"], checked["notes"]) == ([], [])
    assert {row["topic"]: row["retention_ms"] for row in checked["topics"]} == {
        topics.raw: 604_800_000,
        topics.unique: -1,
        topics.duplicates: -1,
        topics.dead_letters: -1,
        topics.log: -1,
        topics.reports: 3_600_000,
        topics.changelog: -1,
    }


def test_outputs_that_delete_sooner_than_the_settings_say(kafka_broker: Broker) -> None:
    """Given outputs that keep records for a week, for a day and for ever, when they should for ever
    or for three days, then topics fit, and each that keeps them for less is a note with both times
    and the fix; workers learn what each keeps, unless the broker's time counts.
    """
    settings = settings_for(kafka_broker)
    topics = settings.topics
    run(settings, "create", "--partitions", "1")
    day = 86_400_000
    alter(settings, topics.unique, {"retention.ms": str(7 * day)})
    alter(settings, topics.duplicates, {"retention.ms": str(day)})
    admin = AdminClient({"bootstrap.servers": settings.brokers})

    for_ever = check(admin, topic_plans(settings))
    three_days = msgspec.structs.replace(settings, output_retention_ms=3 * day)
    (note,) = check(admin, topic_plans(three_days)).notes

    assert for_ever.differences == []
    assert [note.split()[0] for note in for_ever.notes] == [topics.unique, topics.duplicates]
    for part in (topics.duplicates, "1 day", "output_retention_ms", "3 days"):
        assert part in note
    assert f"--topic {topics.duplicates} --add-config retention.ms={3 * day}" in note
    assert output_retentions(admin, topic_plans(settings)) == {
        topics.unique: 7 * day,
        topics.duplicates: day,
    }

    alter(settings, topics.unique, {"message.timestamp.type": "LogAppendTime"})
    alter(settings, topics.duplicates, {"cleanup.policy": "compact"})

    assert output_retentions(admin, topic_plans(settings)) == {}


def test_more_copies_in_sync_than_there_are(kafka_broker: Broker) -> None:
    """Given a log with one copy of which two must be in sync, then topics do not fit: brokers would
    refuse every record.
    """
    settings = settings_for(kafka_broker)
    run(settings, "create", "--partitions", "1")
    alter(settings, settings.topics.log, {MIN_IN_SYNC: "2"})

    code, found = run(settings, "check")

    assert code == ExitCode.RUNTIME
    (difference,) = found["differences"]
    assert (difference["topic"], difference["what"]) == (settings.topics.log, MIN_IN_SYNC)
    assert (difference["expected"], difference["actual"]) == ("1", "2")


@pytest.mark.parametrize(
    ("replicas", "min_in_sync", "brokers", "parts"),
    [
        (1, 1, 1, []),
        (3, 2, 3, []),
        (3, 2, 5, []),
        (2, 1, 2, []),
        (1, 1, 3, ["1 copy", "3"]),
        (2, 1, 3, ["2 copies", "3"]),
        (3, 1, 3, ["min.insync.replicas=2"]),
        (3, 3, 3, ["min.insync.replicas=2"]),
        (2, 2, 2, ["min.insync.replicas=1"]),
    ],
)
def test_what_the_failure_of_a_broker_would_do(
    replicas: int, min_in_sync: int, brokers: int, parts: list[str]
) -> None:
    """Given copies of a topic, and how many of them must have a record, then there is a note where
    one broker that fails could lose records, or stop all.
    """
    state = TopicState("app.log", 1, replicas, min_in_sync, -1)

    notes = list(copy_notes(state, brokers))

    assert len(notes) == bool(parts)
    assert all(part in notes[0] for part in parts)


@pytest.mark.parametrize(("replicas", "needed"), [(1, None), (2, None), (3, "2"), (5, "2")])
def test_durable_topics_are_made_so(replicas: int, needed: str | None) -> None:
    """Given copies, when topics are made, then outputs, log and changelog need two of three before
    a write counts; with fewer copies, what the broker says; raw is the user's, reports can be lost.
    """
    settings = Settings()
    topics = settings.topics

    made = {
        plan.name: plan.config_for(replicas).get(MIN_IN_SYNC) for plan in topic_plans(settings, 1)
    }

    durable = {topics.unique, topics.duplicates, topics.dead_letters, topics.log, topics.changelog}
    assert made == {name: needed if name in durable else None for name in made}


def test_a_raw_topic_that_is_there(kafka_broker: Broker) -> None:
    """Given a raw topic of five partitions, when the others are created without a number, then they
    have as many; with a number, the outputs have that and the changelog has five.
    """
    for options_given, outputs in (((), 5), (("--partitions", "2"), 2)):
        settings = settings_for(kafka_broker)
        kafka_broker.create_topics({settings.topics.raw: 5})

        code, made = run(settings, "create", *options_given)

        assert code == ExitCode.OK
        partitions = {row["topic"]: row["partitions"] for row in made["topics"]}
        assert partitions[settings.topics.unique] == outputs
        assert partitions[settings.topics.changelog] == 5


def test_no_raw_topic_and_no_number(kafka_broker: Broker) -> None:
    """Given no raw topic, when topics are created without a number, then the error asks for it."""
    settings = settings_for(kafka_broker)

    result = firstseen("topics", "create", *options(settings))

    assert result.returncode == ExitCode.RUNTIME
    assert f"{settings.topics.raw} is missing" in result.stderr
    assert "--partitions" in result.stderr


def test_what_differs_is_told(kafka_broker: Broker) -> None:
    """Given topics with changed settings, when checked, then each difference is told with what is,
    what must be and what to do; what is the user's own choice is not.
    """
    settings = settings_for(kafka_broker)
    topics = settings.topics
    kafka_broker.create_topics({topics.log: 2})
    run(settings, "create", "--partitions", "2")
    alter(settings, topics.changelog, {"cleanup.policy": "compact,delete"})
    alter(settings, topics.log, {"retention.ms": "60000", "max.message.bytes": "30000000"})
    alter(settings, topics.reports, {"retention.ms": "1000", "max.message.bytes": "1000"})
    alter(settings, topics.unique, {"max.message.bytes": "1000", "retention.ms": "1"})

    code, found = run(settings, "check")

    assert code == ExitCode.RUNTIME
    assert not found["fit"]
    told = {(d["topic"], d["what"]): (d["expected"], d["actual"]) for d in found["differences"]}
    internal_bytes = str(settings.largest_internal_bytes + 64 * KIB)
    assert told == {
        (topics.unique, "max.message.bytes"): ("1376256", "1000"),
        (topics.log, "partitions"): ("1", "2"),
        (topics.log, "retention.ms"): ("-1", "60000"),
        (topics.reports, "retention.ms"): (str(REPORTS_KEPT_MIN_MS), "1000"),
        (topics.reports, "max.message.bytes"): (internal_bytes, "1000"),
        (topics.changelog, "cleanup.policy"): ("compact", "compact,delete"),
    }
    assert all(difference["fix"] for difference in found["differences"])


def test_a_raw_topic_that_grew(kafka_broker: Broker) -> None:
    """Given a raw topic that was given more partitions, when checked, then topics fit, with a note;
    when workers or an operator add what is missing, then the changelog has as many, once.
    """
    settings = settings_for(kafka_broker)
    topics = settings.topics
    run(settings, "create", "--partitions", "2")
    admin = AdminClient({"bootstrap.servers": settings.brokers})
    add_partitions(admin, topics.raw, 5)

    code, found = run(settings, "check")

    assert (code, found["fit"]) == (ExitCode.OK, True)
    (note,) = found["notes"]
    assert f"{topics.raw} has 5 partitions, {topics.changelog} 2" in note

    assert grow_changelog(admin, settings) == 3
    assert grow_changelog(admin, settings) == 0
    assert partitions_of(admin, [topics.changelog]) == {topics.changelog: 5}
    assert run(settings, "check")[1]["notes"] == []

    add_partitions(admin, topics.raw, 6)
    created = firstseen("topics", "create", *options(settings))

    assert created.returncode == ExitCode.OK
    assert f"grown   {topics.changelog}" in created.stdout
    assert partitions_of(admin, [topics.changelog]) == {topics.changelog: 6}


def test_workers_that_grow_the_changelog_at_once(kafka_broker: Broker) -> None:
    """Given a raw topic that grew, when four workers add what is missing at the same time, then
    none fails, and the changelog has as many partitions as the raw topic.
    """
    settings = settings_for(kafka_broker)
    run(settings, "create", "--partitions", "1")
    admins = [AdminClient({"bootstrap.servers": settings.brokers}) for _ in range(4)]
    add_partitions(admins[0], settings.topics.raw, 4)

    with ThreadPoolExecutor(len(admins)) as pool:
        created = list(pool.map(lambda admin: grow_changelog(admin, settings), admins))

    assert set(created) <= {0, 3}
    assert 3 in created
    assert partitions_of(admins[0], [settings.topics.changelog])[settings.topics.changelog] == 4


def test_a_raw_topic_with_fewer_partitions(kafka_broker: Broker) -> None:
    """Given an index with documents of three partitions, when the raw topic is created again with
    two, then that is told as what it is; a changelog whose further partitions are empty fits.
    """
    settings = settings_for(kafka_broker)
    raw, changelog = settings.topics.raw, settings.topics.changelog
    kafka_broker.create_topics({raw: 2})
    run(settings, "create")
    admin = AdminClient({"bootstrap.servers": settings.brokers})
    before = raw_topic(admin, settings)
    add_partitions(admin, changelog, 4)

    assert run(settings, "check")[0] == ExitCode.OK
    refuse_lost_shards(admin, settings)

    producer = Producer({"bootstrap.servers": settings.brokers})
    producer.produce(changelog, b"entry", b"key", partition=2)
    producer.flush(30)
    code, found = run(settings, "check")

    assert code == ExitCode.RUNTIME
    (difference,) = found["differences"]
    assert (difference["topic"], difference["expected"]) == (raw, "3 or more")
    with pytest.raises(TopicsError, match=rf"{raw} has 2 partitions.*--partitions 3"):
        refuse_lost_shards(admin, settings)

    admin.delete_topics([raw])[raw].result(30)
    await_that(lambda: not partitions_of(admin, [raw]))
    kafka_broker.create_topics({raw: 3})
    await_that(lambda: partitions_of(admin, [raw]) == {raw: 3})
    after = raw_topic(admin, settings)

    refuse_lost_shards(admin, settings)
    assert (after.partitions, after.identifier != before.identifier) == (3, True)


def test_outputs_take_the_times_that_raw_records_bear(kafka_broker: Broker) -> None:
    """Given topics made here, then any time of a raw record fits; given outputs that refuse times
    which the raw topic takes, ahead of the clock or long past, then each is told: a record with
    such a time could never be put out.
    """
    settings = settings_for(kafka_broker)
    run(settings, "create", "--partitions", "1")
    limits = {TIMES_AHEAD: "9000000000", TIMES_PAST: "9000000000"}
    alter(settings, settings.topics.raw, limits)

    assert run(settings, "check")[0] == ExitCode.OK

    alter(settings, settings.topics.unique, dict.fromkeys(limits, "8000000000"))
    alter(settings, settings.topics.duplicates, {TIMES_AHEAD: "3600000"})
    code, found = run(settings, "check")

    assert code == ExitCode.RUNTIME
    told = {(d["topic"], d["what"]): (d["expected"], d["actual"]) for d in found["differences"]}
    assert told == {
        (settings.topics.unique, TIMES_AHEAD): ("9000000000", "8000000000"),
        (settings.topics.unique, TIMES_PAST): ("9000000000", "8000000000"),
        (settings.topics.duplicates, TIMES_AHEAD): ("9000000000", "3600000"),
    }

    alter(settings, settings.topics.raw, {"message.timestamp.type": "LogAppendTime"})

    assert run(settings, "check")[0] == ExitCode.OK, "then all times are the broker's"


def test_a_broker_that_does_not_know_the_limits_of_time(kafka_broker: Broker) -> None:
    """Given a setting of time that the broker refuses, as those before Kafka 3.6 refuse its name,
    when topics are created, then they are made without it.
    """
    settings = settings_for(kafka_broker)
    plans = [
        plan._replace(config={**plan.config, TIMES_AHEAD: "unknown"}) if plan.times_of else plan
        for plan in topic_plans(settings, 1)
    ]
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})

    assert all(made.created for made in create(admin, plans))
    assert check(admin, topic_plans(settings)).differences == []


def test_a_transaction_that_stays_open(kafka_broker: Broker) -> None:
    """Given a producer that writes to two outputs in a transaction and does not end it, when topics
    are checked, then they fit, and both partitions are named with the offset where it begins, the
    reason and the remedy; when it has ended, then none is.
    """
    settings = settings_for(kafka_broker)
    topics = settings.topics
    run(settings, "create", "--partitions", "2")
    producer = kafka_broker.transactional_producer(open_seconds=600)
    producer.begin_transaction()
    producer.produce(topics.unique, b"ended", partition=1)
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topics.unique, b"open", partition=1)
    producer.produce(topics.changelog, b"open", b"key", partition=0)
    assert producer.flush(30) == 0

    code, found = run(settings, "check")
    text = firstseen("topics", "check", *options(settings))

    assert (code, found["fit"], text.returncode) == (ExitCode.OK, True, ExitCode.OK)
    opened = {(each["topic"], each["partition"]): each for each in found["open_transactions"]}
    assert opened.keys() == {(topics.unique, 1), (topics.changelog, 0)}
    assert opened[topics.unique, 1]["offset"] == 2, "behind the record and the marker of the first"
    assert opened[topics.unique, 1]["end"] == 3
    said = f"Note: {topics.unique}/1: a transaction is open since offset 2"
    assert said in text.stderr
    assert "HungTransaction" in text.stderr

    producer.abort_transaction(30)

    assert run(settings, "check")[1]["open_transactions"] == []


def test_creating_beside_topics_that_do_not_fit(kafka_broker: Broker) -> None:
    """Given a log with two partitions, when topics are created, then the rest is made, and the
    difference ends the command with 1: there is one order, so one partition.
    """
    settings = settings_for(kafka_broker)
    kafka_broker.create_topics({settings.topics.log: 2})

    code, found = run(settings, "create", "--partitions", "3")

    assert code == ExitCode.RUNTIME
    made = {row["topic"]: row["created"] for row in found["topics"]}
    assert not made.pop(settings.topics.log)
    assert all(made.values())
    assert {d["what"] for d in found["differences"]} >= {"partitions", "max.message.bytes"}


def test_more_copies_than_brokers(kafka_broker: Broker) -> None:
    """Given one broker, when two copies are asked for, then the error names the topics and the
    option.
    """
    settings = settings_for(kafka_broker)

    result = firstseen(
        *("topics", "create", "--partitions", "1", "--replication-factor", "2"), *options(settings)
    )

    assert result.returncode == ExitCode.RUNTIME
    assert settings.topics.changelog in result.stderr
    assert "--replication-factor" in result.stderr


def test_the_table_for_people(kafka_broker: Broker) -> None:
    """Given no --json, then each topic has a line, and differences are a message."""
    settings = settings_for(kafka_broker)

    missing = firstseen("topics", "check", *options(settings))
    created = firstseen("topics", "create", "--partitions", "2", *options(settings))
    fits = firstseen("topics", "check", *options(settings))

    assert missing.returncode == ExitCode.RUNTIME
    assert missing.stderr.count("firstseen topics create") == 7
    assert created.stdout.count("created") == 7
    assert fits.stdout.splitlines()[-1].endswith(" 2 shards.")
    assert len(fits.stdout.splitlines()) == 1 + 7 + 1
    assert "for ever" in fits.stdout
    assert fits.stderr == ""


def test_a_broker_without_admin_requests(embedded_broker: Broker) -> None:
    """Given the embedded broker, which creates no topics on request, then create says so; when the
    topics are there, create and check find them, and check says what it could not look at.
    """
    settings = settings_for(embedded_broker)

    refused = firstseen("topics", "create", "--partitions", "4", *options(settings))
    single = {settings.topics.log: 1, settings.topics.reports: 1}
    names = msgspec.structs.astuple(settings.topics)
    embedded_broker.create_topics(dict.fromkeys(names, 4) | single)
    created = firstseen("topics", "create", "--partitions", "4", *options(settings))
    checked = firstseen("topics", "check", *options(settings))

    assert refused.returncode == ExitCode.RUNTIME
    assert (created.returncode, created.stdout.count("exists")) == (ExitCode.OK, 7)
    assert checked.returncode == ExitCode.OK
    assert checked.stdout.splitlines()[-1].endswith(" 4 shards.")
    assert "settings of topics" in checked.stderr


def test_asking_makes_no_topics(broker: Broker) -> None:
    """Given a broker of either kind, when missing topics are checked twice, then they are missing
    twice.
    """
    settings = settings_for(broker)
    admin = AdminClient({"bootstrap.servers": settings.brokers})

    for _ in range(2):
        differences = check(admin, topic_plans(settings)).differences
        assert [difference.what for difference in differences] == ["missing"] * 7


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-1, "for ever"),
        (604_800_000, "7 days"),
        (86_400_000, "1 day"),
        (3_600_000, "1 hour"),
        (5_400_000, "90 minutes"),
        (1_000, "1 second"),
        (1_500, "1500 ms"),
    ],
)
def test_how_long_a_topic_keeps_records(milliseconds: int, text: str) -> None:
    """Given a retention, then it is shown in the longest unit of which it is a whole number."""
    assert retention_text(milliseconds) == text
