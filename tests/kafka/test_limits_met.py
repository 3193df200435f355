"""A running worker reaches a limit of time, size, disk, or retention of topics.

It continues, or it ends and says what to do, and later continues where it was. Nothing is skipped.
"""

from __future__ import annotations

import random
import resource
import time
from pathlib import Path

from streams.errors import ExitCode
from tests.kafka.stream_changes import admin_of, send_and_settle, set_topic_config
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Raw
from tests.rigs.workers.worker_metrics import await_that, value

TRANSACTION_SECONDS = 4
SLOW_SECONDS = 7.0
KIB = 1024
LARGE_CHARACTERS = 200_000
DAY_MS = 86_400_000
EXPIRED = "firstseen_expired_outputs_total"


def large_documents(seed: int, count: int) -> list[Raw]:
    """Return documents of 200 KB that do not compress well; no two are near."""
    rng = random.Random(seed)
    texts = (" ".join(f"w{rng.randrange(10**8)}" for _ in range(20_500)) for _ in range(count))
    return [Raw(None, b'{"text": "%s"}' % text[:LARGE_CHARACTERS].encode()) for text in texts]


def test_a_transaction_that_takes_too_long_is_done_again(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    options = [f"send_timeout_seconds={TRANSACTION_SECONDS}"]
    with Stream(kafka_broker, tmp_path, raw_partitions=1, options=options) as stream:
        worker = stream.worker()
        worker.start(f"slow_commit={SLOW_SECONDS}")
        worker.await_ready()
        stream.send(keyed_documents(2, 60))
        stream.judge_all()

        said = worker.log_text()
        assert said.count("sleeping in a transaction") == 1
        assert f"took longer than {TRANSACTION_SECONDS} s" in said
        assert 'firstseen_transactions_total{outcome="unanswered"} 0.0' not in worker.metrics()
        worker.stop_gently()


def test_a_batch_larger_than_a_request_is_sent_in_several(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """Topics and clients accept less than a megabyte in a request, and the batch has two."""
    options = [f"max_record_bytes={LARGE_CHARACTERS + KIB}"]
    with Stream(kafka_broker, tmp_path, raw_partitions=1, options=options) as stream:
        stream.send(large_documents(3, 12))
        worker = stream.started()
        stream.judge_all()
        worker.stop_gently()


def test_a_document_larger_than_a_topic_takes_ends_the_worker_which_names_it(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        name, admin = stream.settings.topics.unique, admin_of(kafka_broker)
        worker = stream.started()
        send_and_settle(stream, keyed_documents(4, 20))
        set_topic_config(admin, name, "max.message.bytes", 20 * KIB)
        (large,) = stream.send(large_documents(5, 1))
        stream.send(keyed_documents(6, 20))

        assert worker.await_end() == ExitCode.RUNTIME
        said = worker.log_text().splitlines()[-1]
        for part in (f"{name} refuses a record of 2", str(large), "max.message.bytes"):
            assert part in said
        set_topic_config(admin, name, "max.message.bytes", 4 * KIB * KIB)
        worker = stream.started()
        stream.judge_all()
        worker.stop_gently()


def test_a_worker_that_may_write_no_larger_file_ends_and_the_next_one_goes_on(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.worker()
        worker.start("lingering")
        worker.await_ready()
        assert worker._process is not None
        resource.prlimit(worker._process.pid, resource.RLIMIT_FSIZE, (64 * KIB, 64 * KIB))
        stream.send(keyed_documents(9, 1_200))
        await_that("unhealthy", lambda: "Make room" in worker._get("/healthz")[1], worker)
        assert value(worker, "firstseen_errors_total", stage="store", reason="storage") == 1
        assert worker.await_end() == ExitCode.RUNTIME
        said = worker.log_text().splitlines()[-1]
        for part in (str(stream.directory / "state"), "Make room on the disk", "nothing is lost"):
            assert part in said
        assert stream.open > 0, "nothing was left to do: no test"
        worker = stream.started()
        stream.judge_all()
        worker.stop_gently()


def document(text: str, time_ms: int) -> Raw:
    return Raw(None, b'{"text": "%s"}' % text.encode(), timestamp_ms=time_ms)


def test_documents_older_than_their_topic_keeps_them_are_counted_and_the_first_is_logged(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        unique = stream.settings.topics.unique
        set_topic_config(admin_of(kafka_broker), unique, "retention.ms", 7 * DAY_MS)
        now_ms = round(time.time() * 1000)
        year_ago_ms = now_ms - 365 * DAY_MS
        worker = stream.started()
        old = "an old story about the bridge over the river and its builders"
        stream.send(
            [
                document(old, year_ago_ms),
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
