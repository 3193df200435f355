"""The client that asks for watermarks is made once, and anew after it had no answer."""

from __future__ import annotations

import pytest

from streams.broker_watermarks import BrokerWatermarks, Watermarks
from streams.errors import BrokerUnavailableError
from tests.brokers.broker import Broker
from tests.brokers.loopback_ports import free_port


def test_one_client_asks_again_and_again(embedded_broker: Broker) -> None:
    """Given a broker that answers, then the next question has the same client."""
    topic = embedded_broker.unique("watched")
    embedded_broker.create_topics({topic: 1})
    watermarks = BrokerWatermarks(
        {"bootstrap.servers": embedded_broker.bootstrap_servers}, "no-group", 30.0
    )
    assert watermarks.of([(topic, 0)]) == {(topic, 0): Watermarks(0, 0, 0)}
    client = watermarks._admin
    assert client is not None

    watermarks.of([(topic, 0)])

    assert watermarks._admin is client


def test_a_client_without_an_answer_is_dropped() -> None:
    """Given no broker, then the next question has a new client."""
    watermarks = BrokerWatermarks(
        {"bootstrap.servers": f"127.0.0.1:{free_port()}"}, "no-group", 0.2
    )
    with pytest.raises(BrokerUnavailableError):
        watermarks.of([("raw", 0)])

    assert watermarks._admin is None
