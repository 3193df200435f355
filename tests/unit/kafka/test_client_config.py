"""Each client gets the properties that are its kind's, and none can undo what is guaranteed."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from streams.kafka.client_config import (
    admin_config,
    appender_config,
    log_reader_config,
    output_config,
    raw_consumer_config,
)
from streams.settings.settings import Settings

OF_BOTH = {
    "fetch.wait.max.ms": "7",
    "linger.ms": "50",
    "compression.type": "zstd",
    "socket.keepalive.enable": "true",
    "isolation.level": "read_uncommitted",
}


def settings(**changes: Any) -> Settings:  # noqa: ANN401 - of several types
    """Settings with properties of all kinds."""
    return Settings(application_id="app", brokers="127.0.0.1:1", kafka=OF_BOTH, **changes)


def test_consumers_get_no_property_of_producers() -> None:
    """Given properties of both kinds, then a consumer has its own and the common ones, and what
    is guaranteed whatever was passed on.
    """
    for config in (raw_consumer_config(settings(), "w"), log_reader_config(settings())):
        assert "linger.ms" not in config
        assert "compression.type" not in config
        assert config["fetch.wait.max.ms"] == "7"
        assert config["socket.keepalive.enable"] == "true"
        assert config["isolation.level"] == "read_committed"
        assert config["enable.auto.commit"] is False


def test_producers_get_no_property_of_consumers() -> None:
    """Given properties of both kinds, then a producer has its own and the common ones; packets are
    never held back to fill a batch, outputs are if the user says so.
    """
    for config, linger in ((appender_config(settings()), 0), (output_config(settings()), "50")):
        assert "fetch.wait.max.ms" not in config
        assert "isolation.level" not in config
        assert config["linger.ms"] == linger
        assert config["compression.type"] == "zstd"
        assert config["acks"] == "all"
    assert output_config(settings())["partitioner"] == "murmur2_random"


def test_a_second_name_of_a_property_counts_as_the_first() -> None:
    """Given librdkafka's older name, when the property is also set here, then one of both is left:
    librdkafka would take the last.
    """
    older = Settings(brokers="b:1", kafka={"queue.buffering.max.ms": "9"})
    assert output_config(older)["linger.ms"] == "9"
    assert "queue.buffering.max.ms" not in output_config(older)
    assert appender_config(older)["linger.ms"] == 0


def test_a_member_has_its_session_and_its_name() -> None:
    """Given a session of six seconds and an instance id, then heartbeats are a fraction of it, and
    membership is static; without an id it is not.
    """
    config = raw_consumer_config(
        settings(session_timeout_seconds=6, group_instance_id="one"), "worker-1"
    )
    assert config["group.id"] == "app"
    assert config["client.id"] == "worker-1"
    assert config["group.instance.id"] == "one"
    assert config["session.timeout.ms"] == 6000
    assert config["heartbeat.interval.ms"] == 500
    short = raw_consumer_config(settings(session_timeout_seconds=1), "w")
    assert short["heartbeat.interval.ms"] == 333
    assert "group.instance.id" not in short


def test_librdkafka_accepts_every_configuration_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Given each configuration, when a client is made of it, then it says nothing of a property."""
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
    admin = AdminClient(admin_config(plain))
    admin.poll(0.05)
    assert "Connection refused" in caplog.text
    assert "CONFWARN" not in caplog.text
