"""The id of a topic is told when a broker comes back, and not waited for without end."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from streams.errors import BrokerUnavailableError
from streams.kafka.clients import AdminClient
from streams.topics.shard_topics import TopicIdResolver, TopicIds, topic_id
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.loopback_ports import free_port

AWAY_SECONDS = 2.0
WAIT_SECONDS = 120.0


@pytest.mark.slow
def test_a_broker_that_is_away_is_waited_for(own_kafka_broker: Broker) -> None:
    """Given a broker that was killed, when the id of a topic is asked for, then it is told once the
    broker is back, the event loop runs on meanwhile, and the id is the one from before.
    """
    server = own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    own_kafka_broker.create_topics({"raw": 1})
    ask = partial(topic_id, AdminClient({"bootstrap.servers": own_kafka_broker.bootstrap_servers}))
    before = ask("raw")
    server.kill()

    async def ask_while_it_comes_back() -> tuple[str, int]:
        asked = asyncio.create_task(TopicIds(ask, WAIT_SECONDS).of("raw"))
        await asyncio.sleep(AWAY_SECONDS)
        started = asyncio.create_task(asyncio.to_thread(server.start))
        turns = 0
        while not asked.done():
            await asyncio.sleep(0.05)
            turns += 1
        await started
        return asked.result(), turns

    after, turns = asyncio.run(ask_while_it_comes_back())
    assert after == before
    assert turns > AWAY_SECONDS / 0.05, "the event loop stood still"


def test_the_wait_has_an_end() -> None:
    """Given no broker at all, when the id of a topic is asked for, then it is an error in time."""

    def ask(_topic: str) -> str:
        raise BrokerUnavailableError("the Kafka broker does not answer")

    with pytest.raises(BrokerUnavailableError):
        asyncio.run(asyncio.wait_for(TopicIds(ask, wait_seconds=0.2).of("raw"), timeout=10.0))


def test_a_broker_that_once_had_ids_is_not_taken_for_one_without(broker: Broker) -> None:
    """Given a topic, when its id is asked for, then Kafka tells the same one each time, and the
    embedded broker none; a broker that is known to have ids and is away tells none either.
    """
    topic = broker.unique("raw")
    broker.create_topics({topic: 1})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    ask = TopicIdResolver(lambda: admin, has_ids=False)
    assert ask(topic) == ask(topic)
    assert bool(ask(topic)) == broker.supports_transactions

    with pytest.raises(BrokerUnavailableError):
        TopicIdResolver(nobody, has_ids=True)(topic)


def test_a_client_that_gets_no_answer_is_not_asked_again(kafka_broker: Broker) -> None:
    """Given a client that reaches nobody, as one that waits for a controller that was there once;
    when an id is asked for, then it comes from a second client, which serves from then on.
    """
    topic = kafka_broker.unique("raw")
    kafka_broker.create_topics({topic: 1})
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    clients = [nobody(), admin]
    ask = TopicIdResolver(lambda: clients.pop(0), has_ids=True)

    told = [asyncio.run(TopicIds(ask, WAIT_SECONDS).of(topic)) for _ in range(2)]

    assert told == [topic_id(admin, topic)] * 2
    assert not clients


def nobody() -> AdminClient:
    """A client of a broker that is not there."""
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0})
