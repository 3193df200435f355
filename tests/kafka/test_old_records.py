"""A worker and records that are older than its output topics keep them."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from streams.kafka.clients import AdminClient
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Raw
from tests.rigs.workers.worker_metrics import await_that, value

ANSWER_SECONDS = 60.0
DAY_MS = 86_400_000
EXPIRED = "firstseen_expired_outputs_total"


def keep_for_a_week(stream: Stream, topic: str) -> None:
    """Set the retention of a topic, as a broker does for topics that nobody configured."""
    admin = AdminClient({"bootstrap.servers": stream.broker.bootstrap_servers})
    entry = ConfigEntry(
        "retention.ms", str(7 * DAY_MS), incremental_operation=AlterConfigOpType.SET
    )
    changed = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([changed])[changed].result(ANSWER_SECONDS)


def document(text: str, time_ms: int) -> Raw:
    """A document of that time."""
    return Raw(None, b'{"text": "%s"}' % text.encode(), timestamp_ms=time_ms)


def test_an_archive_on_topics_that_keep_a_week(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a topic of unique documents that keeps a week, when a worker starts, then its log says
    so, with the fix; when it puts out two documents of last year and one of now, then it counts the
    two, and logs the first with its age. Documents on the other outputs, which keep all, are fine.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        unique = stream.settings.topics.unique
        keep_for_a_week(stream, unique)
        now_ms = round(time.time() * 1000)
        year_ago_ms = now_ms - 365 * DAY_MS
        worker = stream.started()

        stream.send(
            [
                document(
                    "an old story about the bridge over the river and its builders", year_ago_ms
                ),
                document("prices of rice rose again in the markets of the capital", year_ago_ms),
                document("tonight the final of the cup is played under new lights", now_ms),
                Raw(None, b"{", timestamp_ms=year_ago_ms),
            ]
        )
        await_that(
            "the dead letter is counted",
            lambda: value(worker, "firstseen_documents_total", verdict="dead_letter") == 1,
            worker,
        )

        assert value(worker, EXPIRED, output="unique") == 2
        assert value(worker, EXPIRED, output="dead_letter") == 0
        lines = worker.log_text().splitlines()
        assert sum(f"{unique} deletes records 7 days after" in line for line in lines) == 1
        assert sum(f"{unique} deletes records that are older than" in line for line in lines) == 1
