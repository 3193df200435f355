"""A transaction that the broker left open is found, so that a run explains itself."""

from __future__ import annotations

from collections import Counter

from simhash_core.documents import TopicPartition
from streams.kafka.clients import AdminClient
from streams.settings.settings import Settings, TopicSettings
from streams.topics.admin import create
from streams.topics.plans import topic_plans
from tests.rigs.brokers.broker import Broker
from tests.torture.hung_transactions import hung_transactions
from tests.torture.judge import Findings
from tests.torture.run import Order, Report


def test_what_is_left_open_is_found(kafka_broker: Broker) -> None:
    """Given a transaction on a changelog that nobody ends, then it is found, with the offset where
    it begins; when it is aborted meanwhile, then nothing is.
    """
    application = kafka_broker.unique("torture")
    names = ("raw", "unique", "duplicates", "dead_letters")
    topics = TopicSettings(**{name: f"{application}.{name}" for name in names})
    settings = Settings(
        application_id=application, brokers=kafka_broker.bootstrap_servers, topics=topics
    )
    create(AdminClient({"bootstrap.servers": settings.brokers}), topic_plans(settings, 2))
    producer = kafka_broker.transactional_producer(open_seconds=600)
    producer.begin_transaction()
    producer.produce(settings.topics.changelog, b"value", b"key", partition=1)
    assert producer.flush(30) == 0

    (found,) = hung_transactions(settings, 0.5)

    assert found.partition == TopicPartition(settings.topics.changelog, 1)
    assert (found.offset, found.end) == (0, 1)

    producer.abort_transaction(30)

    assert hung_transactions(settings) == []


def test_a_run_with_one_does_not_hold() -> None:
    """Given a run in which nothing is wrong but a transaction without an end, then it does not
    hold, and its report has the number under a key of its own, and the partition as an example.
    """
    findings = Findings()
    findings.hung_transactions = findings.note("hung transactions", ["changelog/1: …"])

    report = report_of(findings)

    assert report_of(Findings()).holds
    assert not report.holds
    assert report.as_json()["hung_transactions"] == 1
    assert report.as_json()["examples"] == ["hung transactions: changelog/1: …"]


def report_of(findings: Findings) -> Report:
    """The report of a run in which nothing else is wrong."""
    order, none = Order(1.0, 10, 1, 7), Counter[str]()
    return Report(order, none, none, findings, {"left_undecided": 0}, 0.0, none, [], 60.0)
