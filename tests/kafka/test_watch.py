"""Operators see health, metrics, pages and log of real workers as docs/operations.md says."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streams.errors import ExitCode
from streams.topics.consumer_group import GroupReader
from tests.kafka.stream_changes import admin_of, send_and_settle
from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.faulty_worker import BLOCK, STALL
from tests.rigs.workers.short_documents import WORDS
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Raw
from tests.rigs.workers.worker_metrics import await_shared, await_that, lags, value
from tests.unit.ops_page.live_worker import ask

SECONDS = 120.0
MARKER = "Rübezahl-4711"
FAUST_PAGES = ("/table/", "/tables/", "/graph/", "/router/", "/stats/", "/docs/")


def test_lag_comes_to_rest_at_zero(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started()
        send_and_settle(stream, generated(seed=71, count=60))
        places = {(stream.settings.topics.raw, n) for n in range(2)}

        await_that("no lag", lambda: lags(worker) == dict.fromkeys(places, 0), worker)
        # That may be of a check before the documents came; in the log they are several records.
        ends = partial(value, worker, "firstseen_log_end_offset")
        position = partial(value, worker, "firstseen_log_position_offset")
        await_that("the log is read", lambda: position() == ends() > 2, worker)
        rest = {
            "broker_up": 1,
            "assigned_shards": 2,
            "opening_shards": 0,
            "leader": 1,
            "undecided_documents": 0,
            "undecided_oldest_seconds": 0,
            "in_flight_documents": 0,
        }
        await_that(
            "all is at rest",
            lambda: {name: value(worker, f"firstseen_{name}") for name in rest} == rest,
            worker,
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
def test_a_stalled_worker_fails_its_health_check_and_says_why(
    embedded_broker: Broker, tmp_path: Path, fault: bytes
) -> None:
    with Stream(embedded_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.worker("stall_seconds=3")
        worker.start("stalling")
        worker.await_ready()
        send_and_settle(stream, generated(seed=72, count=10))
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


def test_a_worker_ends_when_the_clock_is_set_back(embedded_broker: Broker, tmp_path: Path) -> None:
    offset = tmp_path / "offset"
    offset.write_text("7200")
    with Stream(embedded_broker, tmp_path) as stream:
        worker = stream.worker()
        worker.start(f"system_clock={offset}")
        worker.await_ready()
        send_and_settle(stream, generated(seed=75, count=10))
        offset.write_text("0")
        assert worker.await_end() == ExitCode.RUNTIME
        assert "was set back by 7200 s" in worker.log_text()
        worker.start()
        worker.await_ready()


def test_a_worker_that_waits_for_the_shard_of_another_is_healthy(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        first = stream.started()
        send_and_settle(stream, generated(seed=78, count=40))
        first.stop()
        # If it took a shard from a running worker, that would answer for the shard.
        closed = stream.worker("stall_seconds=4", state="closed")
        closed.start("closed")
        closed.await_log("assigned by the group: 0 1")
        well = stream.started("stall_seconds=4")
        assigned = "firstseen_assigned_shards"
        await_that("a shard moves", lambda: value(well, assigned) == 1, well)
        stream.send(generated(seed=79, count=40))

        def seconds_waited() -> int:
            status, body = well._get("/healthz")
            assert status == HTTPStatus.OK, body
            found = re.match(
                r"ok: documents have waited (\d+) s for "
                r"(the reports of shard 1 \(owner unknown\)|a leader: the owner of shard 0 )",
                body,
            )
            return int(found[1]) if found else 0

        await_that("it has waited for long", lambda: seconds_waited() > 8, well)
        assert well._get("/readyz")[0] == HTTPStatus.OK
        assert well._get("/readyz")[1].startswith("ready: documents have waited ")
        assert value(well, "firstseen_stalled_partitions") == 0
        assert well.log_text().count("this worker is healthy, but documents wait for ") == 1
        assert closed._get("/healthz")[0] == HTTPStatus.OK
        assert closed._get("/readyz")[0] == HTTPStatus.SERVICE_UNAVAILABLE

        closed.kill()
        stream.judge_all()
        await_that("it waits no more", lambda: well._get("/healthz")[1] == "ok\n", well)


# ---- the pages show the whole group


def group_when(worker: Worker, holds: Callable[[Any], bool]) -> Any:  # noqa: ANN401 - JSON
    """Wait until the group on a worker's page satisfies ``holds``; return the group."""
    deadline = time.monotonic() + SECONDS
    while True:
        group = json.loads(ask(worker, "GET", "/api/status").body)["group"]
        if group is not None and holds(group):
            return group
        assert time.monotonic() < deadline, group
        time.sleep(0.3)


def test_reading_the_group_does_not_create_a_missing_raw_topic(kafka_broker: Broker) -> None:
    name = kafka_broker.unique("gone")
    config = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    state = GroupReader(config, name, name, SECONDS).read()
    assert (state.members, state.partitions, state.notes, state.lag) == ([], 0, {}, 0)
    assert name not in admin_of(kafka_broker).list_topics(timeout=SECONDS).topics


def test_each_page_has_all_workers(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        first = stream.started(state="first")
        second = stream.started(state="second")
        await_shared([first, second], 2)
        send_and_settle(stream, generated(seed=3, count=80))
        total = len(stream.sent)

        for worker in (first, second):
            group = group_when(
                worker,
                lambda group: (
                    sum(group["documents"].values()) == total
                    and sum(each["leads"] for each in group["workers"]) == 1
                ),
            )
            assert group["described"] is True
            assert (group["partitions"], group["lag"]) == (2, 0)
            assert {each["page"] for each in group["workers"]} == {first.url, second.url}
            assert all(each["host"] for each in group["workers"])
            owned = sorted(part for each in group["workers"] for part in each["partitions"])
            assert owned == [0, 1]
            (this,) = [each for each in group["workers"] if each["is_this"]]
            assert this["page"] == worker.url

        second.stop_gently()
        (this,) = group_when(first, lambda group: len(group["workers"]) == 1)["workers"]
        assert this["partitions"] == [0, 1]
        assert this["is_this"] is True


# ---- the log as JSON


def lines_of(worker: Worker) -> list[dict[str, Any]]:
    """Return the lines of a log, each of which must be one JSON object."""
    return [json.loads(line) for line in worker.log_text().splitlines()]


def assert_logged(worker: Worker, *texts: str) -> None:
    """Check that the log has lines with these texts, in this order."""
    told = [f"{line['level']} {line['message']}" for line in lines_of(worker)]
    rest = iter(told)
    for text in texts:
        assert any(text in line for line in rest), f"no {text!r} in its place in {told}"


def marked(count: int) -> Iterator[Raw]:
    """Return documents, a copy of each, and records that are no JSON; all contain the marker."""
    rng = Random(3)
    for number in range(count):
        text = f"{MARKER} {' '.join(rng.choices(WORDS, k=40))}"
        for name in ("first", "copy"):
            content = {"id": f"{name}-{number}", "text": text, "title": MARKER}
            yield Raw(None, json.dumps(content, ensure_ascii=False).encode())
        yield Raw(None, f'{{"text": "{MARKER}'.encode())


def listening_sockets(worker: Worker) -> set[str]:
    """Return the addresses on which a worker listens, from /proc; the state 0A is listening."""
    assert worker._process is not None
    process = Path("/proc") / str(worker._process.pid)
    held = {str(each.readlink()) for each in (process / "fd").iterdir() if each.is_symlink()}
    table = (process / "net" / "tcp").read_text("ascii").splitlines()[1:]
    rows = [row.split() for row in table]
    return {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held}


def test_the_log_tells_each_change_of_state_and_no_texts(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=["log.format=json"]) as stream:
        first = stream.started(state="first")
        send_and_settle(stream, marked(5))
        assert [address[:8] for address in listening_sockets(first)] == ["0100007F"]
        for page in FAUST_PAGES:
            assert first._get(page)[0] == HTTPStatus.NOT_FOUND, page
        second = stream.started(state="second")
        second.stop_gently()
        await_shared([first], 2)
        first.stop_gently()
        refused = stream.worker("index.distance=9", state="first")
        refused.start()
        assert refused.await_end() == ExitCode.CONFIGURATION

        assert_logged(
            first,
            "info assigned by the group: 0 1",
            "info shards opening: 0 1",
            "info shard 0 open: 0 documents, next raw offset 0",
            "info this worker leads",
            "info revoked by the group: ",
            " closed: ",
            "info assigned by the group: ",
            " documents, next raw offset ",
            "info stopping: SIGTERM",
            "info stopped: exit code 0",
        )
        assert_logged(second, "caught up with", " open: ", "info stopped: exit code 0")
        assert_logged(refused, "critical stopped: ")
        ends = [line for line in lines_of(refused) if line["level"] in {"error", "critical"}]
        assert len(ends) == 1, ends
        distance = stream.settings.index_profile().distance
        assert f"index.distance: there {distance}, here 9" in ends[0]["message"]
        for worker in (first, second, refused):
            assert MARKER not in worker.log_text()
            assert MARKER.encode("unicode_escape").decode() not in worker.log_text()
            assert "traceback" not in worker.log_text()
