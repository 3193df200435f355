"""A minute of torture and its report; ``make torture`` takes fifteen minutes."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from simhash_core.documents import TopicPartition
from streams.kafka.clients import AdminClient
from streams.settings.settings import Settings, TopicSettings
from streams.topics.admin import create
from streams.topics.plans import topic_plans
from tests.rigs.brokers.broker import Broker
from tests.torture.inspection import hung_transactions
from tests.torture.judge import Findings
from tests.torture.run import Order, Report, torture

MINUTES = 1.0
DOCUMENTS = 6_000
FAULTS, FAULTS_MIN = 6, 3
SEED = 20_262_492
SECONDS_MAX = 600

logger = logging.getLogger(__name__)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX)
def test_faults_lose_repeat_and_spoil_nothing(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path: Path,
) -> None:
    order = Order(MINUTES, DOCUMENTS, FAULTS, SEED, archive=True)
    report = torture(order, tmp_path, logger.info)
    assert report.holds, report.as_json()
    # A fault that finds no victim is skipped, and on a slow machine workers take long to be back.
    assert len(report.faults) >= FAULTS_MIN, (report.faults, report.skipped)
    assert report.findings.duplicates > DOCUMENTS / 10
    assert report.log["reigns"] > 1, "the leader never changed: the run was too easy"


def test_open_transaction_is_hung_until_it_is_aborted(kafka_broker: Broker) -> None:
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


def test_run_with_a_hung_transaction_does_not_hold() -> None:
    findings = Findings()
    findings.hung_transactions = findings.note("hung transactions", ["changelog/1: …"])
    report = report_of(findings)
    assert report_of(Findings()).holds
    assert not report.holds
    assert report.as_json()["hung_transactions"] == 1
    assert report.as_json()["examples"] == ["hung transactions: changelog/1: …"]


def report_of(findings: Findings) -> Report:
    none = Counter[str]()
    return Report(
        order=Order(1.0, 10, 1, 7),
        faults=none,
        skipped=none,
        findings=findings,
        log={"left_undecided": 0},
        longest_stall_seconds=0.0,
        longest_counted_stall_seconds=0.0,
        stalls_by_kind={},
        phases={},
        quiet_share=1.0,
        expected_exits=none,
        unexpected_exits=[],
        seconds=60.0,
    )
