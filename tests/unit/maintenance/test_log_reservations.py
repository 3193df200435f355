"""Control records that a command appends to the log without decisions."""

from __future__ import annotations

import pytest

from simhash_core.log.records import NO_CONTROL, NO_OFFSET, Chain, Control
from simhash_core.log.replica import Replica
from streams.kafka.client_config import appender_config
from streams.kafka.producers import AcknowledgedProducer, ProducerRecord
from streams.maintenance.index_topics import log_of
from streams.maintenance.index_transaction import FILLER, IndexChangeError, LogReservations
from streams.settings.settings import Settings, TopicSettings
from streams.worker.log_codec import LogCodec
from tests.rigs.brokers.broker import Broker

IDENTITY = "firstseen-index/1 of a test"


def test_what_a_worker_sends_meanwhile_stays_undecided(broker: Broker) -> None:
    """Otherwise its documents would never have a verdict, and its shard would stand still."""
    name = broker.unique("reservations")
    broker.create_topics({name: 1})
    settings = Settings(brokers=broker.bootstrap_servers, topics=TopicSettings(log=name))
    heads = [(Chain("raw", "", 0), NO_OFFSET)]
    producer = AcknowledgedProducer(
        appender_config(settings), settings.send_timeout_seconds, changelog_topic=name
    )
    start = log_of(settings).ends()[1]
    with LogReservations(
        settings, IDENTITY, Replica(start, NO_CONTROL), heads, begins=True
    ) as reservations:
        taken = [reservations.take() for _ in range(3)]
        of_worker = producer.send([ProducerRecord(name, None, FILLER, 0)])[0] - 1
        with pytest.raises(IndexChangeError, match="a worker of this index has started"):
            reservations.take()
    producer.close()
    assert taken == [start, start + 1, start + 2]

    codec = LogCodec(IDENTITY)
    nexts = []
    for batch in log_of(settings).read(start, lambda _left: None):
        for value in batch.values:
            if value != FILLER:
                record = codec.decode(value, name)
                assert isinstance(record, Control)
                nexts.append(record.next)
    assert len(nexts) == len(taken) + 1
    assert max(nexts) <= of_worker, "a record says that the worker's is decided"
