"""``deploy/kafka/CommitHungTransaction.java`` ends a transaction as committed, where Kafka's own
tool can only abort it.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest

from simhash_core.documents import TopicPartition
from streams.topics.open_transactions import OpenTransaction, open_transactions
from streams.topics.watermarks import BrokerWatermarks
from tests.repository.source_tree import ROOT
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import kafka_libs

PROGRAM = ROOT / "deploy" / "kafka" / "CommitHungTransaction.java"
SECONDS = 120.0


def run(broker: Broker, topic: str, offset: int) -> subprocess.CompletedProcess[str]:
    """Run the program for partition 0."""
    java = ["java", "-cp", f"{kafka_libs()}/*", str(PROGRAM)]
    place = ["--topic", topic, "--partition", "0", "--start-offset", str(offset)]
    return subprocess.run(
        [*java, "--bootstrap-server", broker.bootstrap_servers, *place],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK: a JRE runs no source")
def test_the_records_are_committed(kafka_broker: Broker) -> None:
    """Given a transaction without an end behind one that was committed, when the program is given
    another offset, then it does nothing and says so; given its offset, then committed readers get
    its records, and nothing is open.
    """
    topic = kafka_broker.new_topic("hung")
    producer = kafka_broker.transactional_producer(open_seconds=600)
    for value, is_ended in ((b"ended", True), (b"hung", False)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        if is_ended:
            producer.commit_transaction(30)
    assert producer.flush(30) == 0
    place = TopicPartition(topic, 0)
    address = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    watermarks = BrokerWatermarks(address, "no-group", 30.0)

    wrong = run(kafka_broker, topic, 1)

    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert f"no open transaction of {topic}-0 begins at offset 1" in wrong.stderr
    assert open_transactions(watermarks.of([place])) == {place: OpenTransaction(place, 2, 3)}

    right = run(kafka_broker, topic, 2)

    assert right.returncode == 0, right.stderr
    assert right.stdout.startswith(f"committed: {topic}-0 from offset 2")
    assert open_transactions(watermarks.of([place])) == {}
    read = kafka_broker.read_partition(topic, 2)
    assert [message.value() for message in read] == [b"ended", b"hung"]
