"""`firstseen topics`: the created topics, and the differences that it finds."""

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
from streams.topics.admin import (
    TopicsError,
    create,
    grow_changelog,
    partitions_of,
    raw_topic,
    refuse_lost_shards,
    topic_configs,
)
from streams.topics.checking import TopicState, check, copy_notes, output_retentions, retention_text
from streams.topics.plans import (
    MIN_IN_SYNC,
    REPORTS_KEPT_MIN_MS,
    TIMES_AHEAD,
    TIMES_PAST,
    topic_plans,
)
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that
from tests.unit.cli.running import Run, run_here

DAY_MS = 86_400_000
CREATE = ("create", "--partitions", "1")


def settings_for(broker: Broker) -> Settings:
    application = broker.unique("app")
    names = ("raw", "unique", "duplicates", "dead_letters")
    topics = TopicSettings(**{name: f"{application}.{name}" for name in names})
    return Settings(application_id=application, brokers=broker.bootstrap_servers, topics=topics)


@pytest.fixture
def settings(kafka_broker: Broker) -> Settings:
    return settings_for(kafka_broker)


@pytest.fixture
def admin(kafka_broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})


def shown(settings: Settings, *arguments: str) -> Run:
    topics = msgspec.structs.asdict(settings.topics)
    sets = [part for name, topic in topics.items() for part in ("--set", f"topics.{name}={topic}")]
    named = ("--broker", settings.brokers, "--application-id", settings.application_id)
    return run_here("topics", *arguments, *named, *sets)


def run(settings: Settings, *arguments: str) -> tuple[int, dict[str, Any]]:
    result = shown(settings, *arguments, "--json")
    found: dict[str, Any] = json.loads(result.stdout)
    return result.returncode, found


def checked(settings: Settings) -> dict[str, Any]:
    """Return the output of `check` for topics that must fit."""
    code, found = run(settings, "check")
    assert (code, found["fit"], found["differences"]) == (ExitCode.OK, True, [])
    return found


def differences(settings: Settings) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the differences that `check` finds, by topic and setting: wanted and actual value."""
    code, found = run(settings, "check")
    assert (code, found["fit"]) == (ExitCode.RUNTIME, False)
    assert all(difference["fix"] for difference in found["differences"])
    return {(d["topic"], d["what"]): (d["expected"], d["actual"]) for d in found["differences"]}


def column(found: dict[str, Any], name: str) -> dict[str, Any]:
    return {row["topic"]: row[name] for row in found["topics"]}


def add_partitions(admin: AdminClient, topic: str, total: int) -> None:
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)
    await_that(lambda: partitions_of(admin, [topic]).get(topic) == total)


def alter(settings: Settings, topic: str, changes: Mapping[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": settings.brokers})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in changes.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)
    await_that(lambda: changes.items() <= topic_configs(admin, [topic])[topic].items())


def test_topics_are_made_once(settings: Settings) -> None:
    topics = settings.topics

    missing = shown(settings, "check")
    code, first = run(settings, "create", "--partitions", "3")
    again, second = run(settings, "create", "--partitions", "4")

    assert missing.returncode == ExitCode.RUNTIME
    assert missing.stderr.count("firstseen topics create") == 7
    assert (code, again) == (ExitCode.OK, ExitCode.OK)
    partitions = dict.fromkeys(msgspec.structs.astuple(topics), 3)
    del partitions[topics.tagged]
    single = dict.fromkeys((topics.dead_letters, topics.log, topics.reports), 1)
    assert column(first, "partitions") == partitions | single
    assert all(column(first, "created").values())
    assert not any(row["created"] or row["added"] for row in second["topics"])
    found = checked(settings)
    assert found["notes"] == []
    kept = {topics.reports: 3_600_000}  # the raw topic has the broker's own: for ever
    assert column(found, "retention_ms") == dict.fromkeys(partitions, -1) | kept
    text = shown(settings, "check")
    assert text.stdout.splitlines()[-1].endswith(" 3 shards.")
    assert (len(text.stdout.splitlines()), text.stderr) == (1 + 7 + 1, "")
    rows = [line.split() for line in text.stdout.splitlines()[1:-1]]
    assert {tuple(row[2:4]) for row in rows} == {("1", "1")}, "copies, and those needed"
    assert "for ever" in text.stdout


def test_outputs_that_delete_too_soon_are_notes(settings: Settings, admin: AdminClient) -> None:
    topics = settings.topics
    run(settings, *CREATE)
    alter(settings, topics.unique, {"retention.ms": str(7 * DAY_MS)})
    alter(settings, topics.duplicates, {"retention.ms": str(DAY_MS)})

    for_ever = check(admin, topic_plans(settings))
    three_days = msgspec.structs.replace(settings, output_retention_ms=3 * DAY_MS)
    (note,) = check(admin, topic_plans(three_days)).notes

    assert for_ever.differences == []
    assert [note.split()[0] for note in for_ever.notes] == [topics.unique, topics.duplicates]
    for part in (topics.duplicates, "1 day", "output_retention_ms", "3 days"):
        assert part in note
    assert f"--topic {topics.duplicates} --add-config retention.ms={3 * DAY_MS}" in note
    kept = {topics.unique: 7 * DAY_MS, topics.duplicates: DAY_MS}
    assert output_retentions(admin, topic_plans(settings)) == kept

    alter(settings, topics.unique, {"message.timestamp.type": "LogAppendTime"})
    alter(settings, topics.duplicates, {"cleanup.policy": "compact"})

    assert output_retentions(admin, topic_plans(settings)) == {}
    compacted = check(admin, topic_plans(settings)).notes[-1]
    assert f"{topics.duplicates} is compacted: " in compacted
    assert "refuses a record without a key" in compacted


def test_sizes_of_records_fit_from_raw_topic_to_dead_letters(
    settings: Settings, admin: AdminClient
) -> None:
    raw = settings.topics.raw
    run(settings, *CREATE)
    alter(settings, raw, {"max.message.bytes": "2000000"})
    (note,) = checked(settings)["notes"]
    for part in (
        f"{raw} admits records of 2000000",
        "max_record_bytes is 1048576",
        "too_large",
        f"--topic {raw} --add-config max.message.bytes=1048576",
    ):
        assert part in note
    larger = msgspec.structs.replace(settings, max_record_bytes=2_000_000)
    assert check(admin, topic_plans(larger)[:1]).notes == []

    whole = msgspec.structs.replace(settings, dead_letter_bytes=5_000_000)
    (difference,) = check(admin, topic_plans(whole)).differences
    assert difference.topic == settings.topics.dead_letters
    assert int(difference.expected) > 5_000_000
    assert "lower dead_letter_bytes" in difference.fix
    assert whole.largest_message_bytes > 5_000_000


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
def test_a_note_where_one_broker_that_fails_could_lose_records_or_stop_all(
    replicas: int, min_in_sync: int, brokers: int, parts: list[str]
) -> None:
    notes = list(copy_notes(TopicState("app.log", 1, replicas, min_in_sync, -1), brokers))
    assert len(notes) == bool(parts)
    assert all(part in notes[0] for part in parts)


@pytest.mark.parametrize(("replicas", "needed"), [(1, None), (2, None), (3, "2"), (5, "2")])
def test_durable_topics_need_two_copies_of_three(replicas: int, needed: str | None) -> None:
    """The raw topic belongs to the user, and a loss of reports does no harm."""
    topics = Settings().topics
    made = {
        plan.name: plan.config_for(replicas).get(MIN_IN_SYNC) for plan in topic_plans(Settings(), 1)
    }
    durable = {topics.unique, topics.duplicates, topics.dead_letters, topics.log, topics.changelog}
    assert made == {name: needed if name in durable else None for name in made}


@pytest.mark.parametrize(("given", "outputs"), [((), 5), (("--partitions", "2"), 2)])
def test_the_changelog_has_the_partitions_of_a_raw_topic_that_is_there(
    settings: Settings, kafka_broker: Broker, given: tuple[str, ...], outputs: int
) -> None:
    kafka_broker.create_topics({settings.topics.raw: 5})
    code, made = run(settings, "create", *given)
    assert code == ExitCode.OK
    partitions = column(made, "partitions")
    assert partitions[settings.topics.unique] == outputs
    assert partitions[settings.topics.changelog] == 5


@pytest.mark.parametrize(
    ("given", "topic", "option"),
    [
        ((), "raw", "--partitions"),
        (("--partitions", "1", "--replication-factor", "2"), "changelog", "--replication-factor"),
    ],
)
def test_what_cannot_be_created_is_named_with_the_option(
    settings: Settings, given: tuple[str, ...], topic: str, option: str
) -> None:
    result = shown(settings, "create", *given)
    assert result.returncode == ExitCode.RUNTIME
    assert getattr(settings.topics, topic) in result.stderr
    assert option in result.stderr


def test_other_topics_are_made_and_each_difference_is_told_but_the_users_own_choices(
    settings: Settings, kafka_broker: Broker
) -> None:
    topics = settings.topics
    kafka_broker.create_topics({topics.log: 2})

    code, found = run(settings, "create", "--partitions", "2")

    assert code == ExitCode.RUNTIME
    made = column(found, "created")
    assert [topic for topic in made if not made[topic]] == [topics.log]
    assert {d["what"] for d in found["differences"]} >= {"partitions", "max.message.bytes"}

    alter(settings, topics.changelog, {"cleanup.policy": "compact,delete"})
    of_log = {"retention.ms": "60000", "max.message.bytes": "30000000", MIN_IN_SYNC: "2"}
    alter(settings, topics.log, of_log)
    alter(settings, topics.reports, {"retention.ms": "1000", "max.message.bytes": "1000"})
    alter(settings, topics.unique, {"max.message.bytes": "1000", "retention.ms": "1"})

    internal_bytes = str(settings.largest_internal_bytes + 64 * KIB)
    assert differences(settings) == {
        (topics.unique, "max.message.bytes"): ("1376256", "1000"),
        (topics.log, "partitions"): ("1", "2"),
        (topics.log, "retention.ms"): ("-1", "60000"),
        (topics.log, MIN_IN_SYNC): ("1", "2"),  # brokers would refuse every record
        (topics.reports, "retention.ms"): (str(REPORTS_KEPT_MIN_MS), "1000"),
        (topics.reports, "max.message.bytes"): (internal_bytes, "1000"),
        (topics.changelog, "cleanup.policy"): ("compact", "compact,delete"),
    }


def test_the_changelog_grows_with_the_raw_topic_even_if_four_workers_grow_it_at_once(
    settings: Settings,
) -> None:
    topics = settings.topics
    admin, *_ = admins = [AdminClient({"bootstrap.servers": settings.brokers}) for _ in range(4)]
    run(settings, "create", "--partitions", "2")
    add_partitions(admin, topics.raw, 5)

    (note,) = checked(settings)["notes"]
    assert f"{topics.raw} has 5 partitions, {topics.changelog} 2" in note
    with ThreadPoolExecutor(len(admins)) as pool:
        added = set(pool.map(lambda each: grow_changelog(each, settings), admins))
    assert {3} <= added <= {0, 3}
    assert grow_changelog(admin, settings) == 0
    assert partitions_of(admin, [topics.changelog]) == {topics.changelog: 5}
    assert checked(settings)["notes"] == []

    add_partitions(admin, topics.raw, 6)
    created = shown(settings, "create")

    assert created.returncode == ExitCode.OK
    assert f"grown   {topics.changelog}" in created.stdout
    assert partitions_of(admin, [topics.changelog]) == {topics.changelog: 6}


def test_a_raw_topic_with_fewer_partitions_than_the_index_has_documents_of(
    settings: Settings, kafka_broker: Broker, admin: AdminClient
) -> None:
    raw, changelog = settings.topics.raw, settings.topics.changelog
    kafka_broker.create_topics({raw: 2})
    run(settings, "create")
    before = raw_topic(admin, settings)
    add_partitions(admin, changelog, 4)

    checked(settings)  # the additional partitions are empty
    refuse_lost_shards(admin, settings)

    producer = Producer({"bootstrap.servers": settings.brokers})
    producer.produce(changelog, b"entry", b"key", partition=2)
    producer.flush(30)

    assert differences(settings) == {(raw, "partitions"): ("3 or more", "2")}
    with pytest.raises(TopicsError, match=rf"{raw} has 2 partitions.*--partitions 3"):
        refuse_lost_shards(admin, settings)

    admin.delete_topics([raw])[raw].result(30)
    await_that(lambda: not partitions_of(admin, [raw]))
    kafka_broker.create_topics({raw: 3})
    await_that(lambda: partitions_of(admin, [raw]) == {raw: 3})
    after = raw_topic(admin, settings)

    refuse_lost_shards(admin, settings)
    assert (after.partitions, after.identifier != before.identifier) == (3, True)


def test_outputs_take_the_times_that_raw_records_bear(settings: Settings) -> None:
    """If an output topic refused the time of a record, the record could never be output."""
    topics = settings.topics
    run(settings, *CREATE)
    limits = {TIMES_AHEAD: "9000000000", TIMES_PAST: "9000000000"}
    alter(settings, topics.raw, limits)
    assert not checked(settings)["notes"]
    alter(settings, topics.unique, dict.fromkeys(limits, "8000000000"))
    alter(settings, topics.duplicates, {TIMES_AHEAD: "3600000"})
    assert differences(settings) == {
        (topics.unique, TIMES_AHEAD): ("9000000000", "8000000000"),
        (topics.unique, TIMES_PAST): ("9000000000", "8000000000"),
        (topics.duplicates, TIMES_AHEAD): ("9000000000", "3600000"),
    }
    alter(settings, topics.raw, {"message.timestamp.type": "LogAppendTime"})
    (note,) = checked(settings)["notes"]  # then the broker sets all times, but outputs come later
    assert f"{topics.unique} refuses records that are older than 8000000 seconds" in note
    assert f"--topic {topics.unique} --add-config {TIMES_PAST}={2**63 - 1}" in note
    alter(settings, topics.unique, {"message.timestamp.type": "LogAppendTime"})
    assert not checked(settings)["notes"]


def test_internal_topics_have_the_time_of_the_broker(settings: Settings) -> None:
    topics = settings.topics
    run(settings, *CREATE)
    for topic in (topics.log, topics.reports, topics.changelog):
        assert not checked(settings)["notes"]
        alter(settings, topic, {"message.timestamp.type": "CreateTime"})
        (note,) = checked(settings)["notes"]
        assert f"records on {topic} have the time of the worker that sends them" in note
        assert f"--topic {topic} --add-config message.timestamp.type=LogAppendTime" in note
        alter(settings, topic, {"message.timestamp.type": "LogAppendTime"})


def test_limits_of_time_that_a_broker_does_not_know(settings: Settings, admin: AdminClient) -> None:
    """Brokers before Kafka 3.6 refuse the name; this broker refuses the value."""
    plans = [
        plan._replace(config={**plan.config, TIMES_AHEAD: "unknown"}) if plan.times_of else plan
        for plan in topic_plans(settings, 1)
    ]
    assert all(made.created for made in create(admin, plans))
    assert check(admin, topic_plans(settings)).differences == []


def test_transactions_that_stay_open_are_named(settings: Settings, kafka_broker: Broker) -> None:
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

    found = checked(settings)["open_transactions"]
    text = shown(settings, "check")

    assert text.returncode == ExitCode.OK
    opened = {(each["topic"], each["partition"]): each for each in found}
    assert opened.keys() == {(topics.unique, 1), (topics.changelog, 0)}
    assert opened[topics.unique, 1]["offset"] == 2, "behind the record and the marker of the first"
    assert opened[topics.unique, 1]["end"] == 3
    assert f"{topics.unique}/1: a transaction is open since offset 2" in text.stderr
    assert "HungTransaction" in text.stderr

    producer.abort_transaction(30)
    await_that(lambda: checked(settings)["open_transactions"] == [])


def test_on_the_embedded_broker_topics_are_found_but_not_created(embedded_broker: Broker) -> None:
    settings = settings_for(embedded_broker)
    admin = AdminClient({"bootstrap.servers": settings.brokers})
    for _ in range(2):  # a check does not create them
        found = check(admin, topic_plans(settings)).differences
        assert [difference.what for difference in found] == ["missing"] * 7
    refused = shown(settings, "create", "--partitions", "4")
    single = {settings.topics.log: 1, settings.topics.reports: 1}
    names = msgspec.structs.astuple(settings.topics)
    embedded_broker.create_topics(dict.fromkeys(names, 4) | single)
    created = shown(settings, "create", "--partitions", "4")
    fits = shown(settings, "check")
    assert refused.returncode == ExitCode.RUNTIME
    assert (created.returncode, created.stdout.count("exists")) == (ExitCode.OK, 7)
    assert fits.returncode == ExitCode.OK
    assert fits.stdout.splitlines()[-1].endswith(" 4 shards.")
    assert "settings of topics" in fits.stderr


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
def test_a_retention_is_shown_in_the_longest_whole_unit(milliseconds: int, text: str) -> None:
    assert retention_text(milliseconds) == text
