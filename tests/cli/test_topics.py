"""`firstseen topics`: what is made, what is found wrong, and what happens without a broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from streams.exit_codes import ExitCode
from streams.settings import Settings
from streams.topic_plans import STANDSTILL_MS, TIMES_AHEAD, TIMES_PAST, topic_plans
from streams.topic_settings import TopicSettings
from streams.topics import check, create
from tests.brokers.broker import Broker
from tests.cli.running import firstseen


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

    code, first = run(settings, "create", "--partitions", "3", "--raw-partitions", "2")
    again, second = run(settings, "create", "--partitions", "3")

    assert (code, again) == (ExitCode.OK, ExitCode.OK)
    assert {row["topic"]: row["partitions"] for row in first["topics"]} == {
        topics.raw: 2,
        topics.unique: 3,
        topics.duplicates: 3,
        topics.dead_letters: 1,
        topics.probes: 3,
        topics.changelog: 3,
    }
    assert all(row["created"] for row in first["topics"])
    assert not any(row["created"] for row in second["topics"])
    assert run(settings, "check") == (ExitCode.OK, {"fit": True, "differences": []})


def test_what_differs_is_told(kafka_broker: Broker) -> None:
    """Given topics with changed settings and another number of shards asked for, when checked, then
    each difference is told with what is, what must be and what to do; what is the user's own choice
    is not.
    """
    settings = settings_for(kafka_broker)
    run(settings, "create", "--partitions", "2")
    alter(settings, settings.topics.changelog, {"cleanup.policy": "compact,delete"})
    alter(settings, settings.topics.probes, {"retention.ms": "60000"})
    alter(settings, settings.topics.unique, {"max.message.bytes": "1000", "retention.ms": "1"})

    code, found = run(settings, "check", "--partitions", "4")

    assert code == ExitCode.RUNTIME
    assert not found["fit"]
    told = {(d["topic"], d["what"]): (d["expected"], d["actual"]) for d in found["differences"]}
    assert told == {
        (settings.topics.unique, "max.message.bytes"): ("1376256", "1000"),
        (settings.topics.probes, "partitions"): ("4", "2"),
        (settings.topics.probes, "retention.ms"): (str(STANDSTILL_MS), "60000"),
        (settings.topics.changelog, "partitions"): ("4", "2"),
        (settings.topics.changelog, "cleanup.policy"): ("compact", "compact,delete"),
    }
    assert all(difference["fix"] for difference in found["differences"])


def test_a_topic_that_is_kept_for_ever_fits(kafka_broker: Broker) -> None:
    """Given probes without a limit of age, then that is no difference."""
    settings = settings_for(kafka_broker)
    run(settings, "create", "--partitions", "1")
    alter(settings, settings.topics.probes, {"retention.ms": "-1"})

    assert run(settings, "check")[0] == ExitCode.OK


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
    assert check(admin, topic_plans(settings)) == []


def test_creating_beside_topics_that_do_not_fit(kafka_broker: Broker) -> None:
    """Given a probes topic with other partitions, when topics are created, then the rest is made,
    and the difference ends the command with 1: partitions of probes cannot change in place.
    """
    settings = settings_for(kafka_broker)
    kafka_broker.create_topics({settings.topics.probes: 2})

    code, found = run(settings, "create", "--partitions", "3")

    assert code == ExitCode.RUNTIME
    made = {row["topic"]: row["created"] for row in found["topics"]}
    assert not made.pop(settings.topics.probes)
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
    assert missing.stderr.startswith("firstseen: topics do not fit:\n")
    assert missing.stderr.count("is missing: run 'firstseen topics create'") == 6
    assert created.stdout.count("created") == 6
    assert fits.stdout == "All topics fit: 2 shards.\n"
    assert fits.stderr == ""


def test_a_broker_without_admin_requests(embedded_broker: Broker) -> None:
    """Given the embedded broker, which makes no topics on request, then create says so; when the
    topics are there, create and check find them, and check says what it could not look at.
    """
    settings = settings_for(embedded_broker)

    refused = firstseen("topics", "create", "--partitions", "4", *options(settings))
    embedded_broker.create_topics(dict.fromkeys(msgspec.structs.astuple(settings.topics), 4))
    created = firstseen("topics", "create", "--partitions", "4", *options(settings))
    checked = firstseen("topics", "check", *options(settings))

    assert refused.returncode == ExitCode.RUNTIME
    assert "makes no topics on request" in refused.stderr
    assert (created.returncode, created.stdout.count("exists")) == (ExitCode.OK, 6)
    assert (checked.returncode, checked.stdout) == (ExitCode.OK, "All topics fit: 4 shards.\n")
    assert "settings of topics" in checked.stderr


def test_asking_makes_no_topics(broker: Broker) -> None:
    """Given a broker of either kind, when missing topics are checked twice, then they are missing
    twice.
    """
    settings = settings_for(broker)
    admin = AdminClient({"bootstrap.servers": settings.brokers})

    for _ in range(2):
        differences = check(admin, topic_plans(settings))
        assert [difference.what for difference in differences] == ["missing"] * 6


def test_no_broker() -> None:
    """Given no broker, then each command ends with 69 in the time it was given, and the message
    names the address and the reason.
    """
    for arguments in (["create", "--partitions", "1"], ["check"]):
        result = firstseen("topics", *arguments, "--broker", "127.0.0.1:1", "--timeout", "0.5")

        assert result.returncode == ExitCode.BROKER_UNAVAILABLE
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith("firstseen: no Kafka broker at 127.0.0.1:1 answered within 0.5 s: ")
        assert "refused" in line
