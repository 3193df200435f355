"""What an operator sees of a worker in trouble: its health, its metrics, its log, as documented
(docs/operations.md). The workers are real, and so is the trouble.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from http import HTTPStatus
from pathlib import Path
from random import Random

import pytest

from streams.demo.worker_process import WorkerProcessError
from streams.errors import ExitCode
from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.workers.faulty_worker import BLOCK, STALL, faulty
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Raw
from tests.rigs.workers.worker_metrics import await_that, lags, value

SECONDS = 120.0


def test_lag_comes_to_rest_at_zero(broker: Broker, tmp_path: Path) -> None:
    """Given a worker, when it has decided what was sent, then the lag of every raw partition that
    it has is 0, it has read the log to its end, and nothing is undecided or in flight.
    """
    with Stream(broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started()
        stream.send(generated(seed=71, count=60))
        stream.settle()
        places = {(stream.settings.topics.raw, n) for n in range(2)}

        await_that("no lag", lambda: lags(worker) == dict.fromkeys(places, 0), worker)
        assert value(worker, "firstseen_broker_up") == 1
        assert value(worker, "firstseen_assigned_shards") == 2
        assert value(worker, "firstseen_opening_shards") == 0
        assert value(worker, "firstseen_leader") == 1
        for name in ("undecided_documents", "undecided_oldest_seconds", "in_flight_documents"):
            assert value(worker, f"firstseen_{name}") == 0, name
        assert value(worker, "firstseen_log_position_offset") == value(
            worker, "firstseen_log_end_offset"
        )
        assert value(worker, "firstseen_recovery_duration_seconds_count") > 0
        assert value(worker, "firstseen_state_disk_free_bytes") > 0
        await_that(
            "the stores are measured",
            lambda: value(worker, "firstseen_rocksdb_memtable_bytes") > 0,
            worker,
        )
        assert value(worker, "firstseen_bucket_documents_count") > 0


@pytest.mark.parametrize("fault", [STALL, BLOCK])
def test_a_stalled_consumer(embedded_broker: Broker, tmp_path: Path, fault: bytes) -> None:
    """Given a worker that puts nothing out any more though its heartbeats go on, or whose event
    loop stands still, when records come, then lag rises with them; after ``stall_seconds`` /healthz
    fails with the reason, the metric counts the partition, and one line of the log names it.
    """
    with Stream(embedded_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.worker("stall_seconds=3")
        worker.start_as(faulty("stalling"))
        worker.await_ready()
        stream.send(generated(seed=72, count=10))
        stream.settle()
        raw = stream.settings.topics.raw
        await_that("no lag", lambda: lags(worker).get((raw, 0)) == 0, worker)
        assert worker._get("/healthz") == (HTTPStatus.OK, "ok\n")

        stream.send([Raw(None, fault)])
        stream.send(generated(seed=73, count=4))
        await_that("lag of 5", lambda: lags(worker)[raw, 0] == 5, worker)
        stream.send(generated(seed=74, count=7))
        await_that("lag of 12", lambda: lags(worker)[raw, 0] == 12, worker)
        stalled = "firstseen_stalled_partitions"
        await_that("stalled", lambda: value(worker, stalled) == 1, worker)

        stands = f"stalled: {raw}/0: no progress for "
        reason = stands if fault == STALL else "the event loop has not run for "
        await_that(reason, lambda: worker._get("/healthz")[1].startswith(reason), worker)
        status, why = worker._get("/healthz")
        assert status == HTTPStatus.SERVICE_UNAVAILABLE
        assert fault != STALL or why.endswith("at offset 10, with 12 records to process\n")
        assert worker._get("/readyz")[0] == HTTPStatus.OK
        assert worker.log_text().count("no progress, so /healthz fails from now on") == 1
        assert "(stall_seconds=3)" in worker.log_text()


def test_a_worker_that_waits_for_anothers_shard(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given two workers, of which one is at opening its shard for longer than the other's
    ``stall_seconds``, then nothing is decided, and yet both are healthy, for no restart would help;
    the one that waits says for whom. When the other is killed, then all is put out.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        well = stream.started("stall_seconds=4")
        stream.send(generated(seed=78, count=40))
        stream.settle()
        closed = stream.worker("stall_seconds=4", state="closed")
        closed.start_as(faulty("closed"))
        assigned = "firstseen_assigned_shards"
        await_that("a shard moves", lambda: value(well, assigned) == 1, well)
        stream.send(generated(seed=79, count=40))

        def seconds_waited() -> int:
            status, body = well._get("/healthz")
            assert status == HTTPStatus.OK, body
            found = re.match(
                r"ok: documents have waited (\d+) s for "
                r"(shard 1 \(no worker known\) to report|a leader: the owner of shard 0 )",
                body,
            )
            return int(found[1]) if found else 0

        await_that("it has waited for long", lambda: seconds_waited() > 8, well)
        assert well._get("/readyz")[0] == HTTPStatus.OK
        assert well._get("/readyz")[1].startswith("ready: documents have waited ")
        assert value(well, "firstseen_stalled_partitions") == 0
        assert well.log_text().count("this worker is well, but documents wait for ") == 1
        assert closed._get("/healthz")[0] == HTTPStatus.OK
        assert closed._get("/readyz")[0] == HTTPStatus.SERVICE_UNAVAILABLE

        closed.kill()
        stream.judge_all()
        await_that("it waits no more", lambda: well._get("/healthz")[1] == "ok\n", well)


@pytest.mark.slow
def test_a_stopped_broker(own_kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a worker at rest, when its broker is killed, then it stays alive and ready for longer
    than ``stall_seconds``, the metrics say that the broker is away, and one line of the log; when
    the broker is back, then another one, and the worker goes on.
    """
    server = own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    with Stream(own_kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started("stall_seconds=5")
        stream.send(generated(seed=75, count=10))
        stream.settle()
        await_that("broker up", lambda: value(worker, "firstseen_broker_up") == 1, worker)
        server.kill()
        await_that("broker away", lambda: value(worker, "firstseen_broker_up") == 0, worker)
        time.sleep(6)
        assert worker._get("/healthz") == (HTTPStatus.OK, "ok\n")
        assert worker._get("/readyz")[0] == HTTPStatus.OK
        assert value(worker, "firstseen_errors_total", stage="watch", reason="broker") > 0
        log = worker.log_text()
        assert log.count("the broker does not answer (") == 1
        assert log.count("Unable to update metadata") < 4, "the same, again and again"

        server.start()
        await_that("broker back", lambda: value(worker, "firstseen_broker_up") == 1, worker)
        assert "the broker answers again" in worker.log_text()
        stream.send(generated(seed=76, count=10))
        stream.settle()
        assert worker._get("/healthz") == (HTTPStatus.OK, "ok\n")


def unlike(count: int) -> list[Raw]:
    """Documents of which no two have much in common, so that each is kept."""
    rng = Random(77)
    texts = (" ".join(f"w{rng.randrange(10**6)}" for _ in range(20)) for _ in range(count))
    return [Raw(None, f'{{"text": "{text}"}}'.encode()) for text in texts]


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of its own: Linux")
def test_a_full_disk(embedded_broker: Broker, tmp_path: Path) -> None:
    """Given a state directory on a disk with little room, when it is full, then until the worker
    ends /healthz says what to do and the error is counted; it ends with 1, the same in its log.
    """
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace for this user")
    disk = tmp_path / "state"
    disk.mkdir()
    with Stream(embedded_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.worker()
        mount = f"mount -t tmpfs -o size=1m tmpfs {disk} && head -c 700000 /dev/zero > {disk}/used"
        launch = f"{mount} && exec {shlex.join(faulty('lingering'))} "
        worker.start_as(["unshare", "-rm", "bash", "-c", launch + '"$@"', "launch"])
        worker.await_ready()
        await_that(
            "little room",
            lambda: 0 < value(worker, "firstseen_state_disk_free_bytes") < 350_000,
            worker,
        )
        stream.send(unlike(4_000))
        failed, counted = "", 0.0
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                status, why = worker._get("/healthz")
                if status != HTTPStatus.OK:
                    failed = why
                    counted = value(
                        worker, "firstseen_errors_total", stage="store", reason="storage"
                    )
            except (OSError, WorkerProcessError):
                # It may be no more than late with an answer.
                if worker._process is None or worker._process.poll() is not None:
                    break
            time.sleep(0.05)

        assert "Make room on the disk" in failed
        assert counted == 1
        assert worker.await_end() == ExitCode.RUNTIME
        assert "Make room on the disk" in worker.log_text().splitlines()[-1]
