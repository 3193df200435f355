"""Each client gets the properties of its kind, and no property can break a guarantee."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from confluent_kafka import ThrottleEvent

from streams.kafka.client_config import (
    appender_config,
    client_config,
    log_reader_config,
    output_config,
    raw_consumer_config,
)
from streams.kafka.clients import AdminClient, Consumer, Producer
from streams.settings.settings import GroupProtocol, Settings

OF_BOTH = {
    "fetch.wait.max.ms": "7",
    "linger.ms": "50",
    "compression.type": "zstd",
    "socket.keepalive.enable": "true",
    "isolation.level": "read_uncommitted",
}


def settings(**changes: Any) -> Settings:  # noqa: ANN401 - of several types
    return Settings(application_id="app", brokers="127.0.0.1:1", kafka=OF_BOTH, **changes)


def test_clients_keep_what_is_guaranteed_and_get_the_rest() -> None:
    for config in (raw_consumer_config(settings(), "w"), log_reader_config(settings())):
        assert config["fetch.wait.max.ms"] == "7"
        assert config["socket.keepalive.enable"] == "true"
        assert config["isolation.level"] == "read_committed"
        assert config["enable.auto.commit"] is False
    for config, linger in ((appender_config(settings()), 0), (output_config(settings()), "50")):
        assert config["linger.ms"] == linger
        assert config["compression.type"] == "zstd"
        assert config["acks"] == "all"
    assert output_config(settings())["partitioner"] == "murmur2_random"


def test_a_second_name_of_a_property_counts_as_the_first() -> None:
    """Librdkafka would use the last one."""
    older = Settings(brokers="b:1", kafka={"queue.buffering.max.ms": "9"})
    assert output_config(older)["linger.ms"] == "9"
    assert "queue.buffering.max.ms" not in output_config(older)
    assert appender_config(older)["linger.ms"] == 0


def test_a_member_has_its_session_and_its_name() -> None:
    config = raw_consumer_config(
        settings(session_timeout_seconds=6, group_instance_id="one"), "worker-1"
    )
    assert config["group.id"] == "app"
    assert config["client.id"] == "worker-1"
    assert config["group.instance.id"] == "one"
    assert config["session.timeout.ms"] == 6000
    assert config["heartbeat.interval.ms"] == 250
    shortest = raw_consumer_config(settings(session_timeout_seconds=1), "w")
    assert shortest["heartbeat.interval.ms"] < 1000 / 3
    assert "group.instance.id" not in shortest
    of_brokers = raw_consumer_config(settings(group_protocol=GroupProtocol.CONSUMER), "w")
    assert of_brokers["group.protocol"] == "consumer"
    # librdkafka refuses these for this protocol.
    refused = {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"}
    assert not refused & of_brokers.keys()


@pytest.mark.parametrize(
    ("session_seconds", "setup_ms", "request_ms"),
    [(9, 4500, 6000), (6, 3000, 4000), (1, 1000, 2000)],
)
def test_a_silent_broker_is_given_up_before_the_session_ends(
    session_seconds: float, setup_ms: int, request_ms: int
) -> None:
    """Otherwise a member could not try another broker in time."""
    of = settings(session_timeout_seconds=session_seconds)
    patient = Settings(kafka={"socket.timeout.ms": "50000"})
    for config_of in (partial(raw_consumer_config, worker="w"), appender_config):
        config = config_of(of)
        assert config["socket.connection.setup.timeout.ms"] == setup_ms
        assert config["socket.timeout.ms"] == request_ms
        assert config_of(patient)["socket.timeout.ms"] == "50000"
    # Requests of these clients may take the whole time; the library limits those of transactions.
    for config in (log_reader_config(of), output_config(of)):
        assert "socket.timeout.ms" not in config


EVERY_CLIENT = [
    client_config,
    appender_config,
    log_reader_config,
    output_config,
    partial(client_config, group_id="g"),
    partial(raw_consumer_config, worker="w"),
]


@pytest.mark.parametrize("config_of", EVERY_CLIENT)
@pytest.mark.parametrize(
    ("session_seconds", "passed_on", "longest_ms"),
    [
        (6, {}, 500),
        (1, {}, 166),
        (300, {}, 500),
        (6, {"reconnect.backoff.max.ms": "7000"}, "7000"),
        (6, {"reconnect.backoff.ms": "50"}, 500),
        (6, {"reconnect.backoff.ms": "3000"}, 3000),
    ],
)
def test_every_client_is_back_before_a_session_ends(
    config_of: Callable[[Settings], dict[str, Any]],
    session_seconds: float,
    passed_on: dict[str, str],
    longest_ms: object,
) -> None:
    chosen = Settings(
        brokers="127.0.0.1:1", kafka=passed_on, session_timeout_seconds=session_seconds
    )
    config = config_of(chosen)
    assert config["reconnect.backoff.max.ms"] == longest_ms
    AdminClient(
        {**client_config(chosen), "log_level": 0}
    ).close()  # raises if it contradicts itself


def test_librdkafka_accepts_every_configuration_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    plain = Settings(brokers="127.0.0.1:1", kafka=OF_BOTH)
    clients: list[Consumer | Producer] = [
        Consumer(raw_consumer_config(plain, "w")),
        Consumer(log_reader_config(plain)),
        Producer(appender_config(plain)),
        Producer(output_config(plain)),
    ]
    for client in clients:
        client.poll(0.05)
        client.close()
    admin = AdminClient(client_config(plain))
    admin.poll(0.05)
    assert "Connection refused" in caplog.text
    warnings = [each for each in caplog.messages if "CONFWARN" in each]
    # librdkafka 2.16 may warn of this although it has just tried to connect to that broker.
    assert [each for each in warnings if "No `bootstrap.servers`" not in each] == []


def test_a_quota_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    note = client_config(settings())["throttle_cb"]
    for seconds in (0.0, 7.5, 2.0):
        note(ThrottleEvent("kafka-2:9092", 2, seconds))
    (record,) = caplog.records
    assert "kafka-2:9092 delays this client's requests by 7.5 s for a quota" in record.getMessage()
